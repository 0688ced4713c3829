"""The web service example streams, answers, and handles disconnects over loopback."""

import importlib.util
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from types import ModuleType
from typing import TypeAlias, cast

import httpx
import pytest
import trio

from agent_actors import AgentOptions, tool
from agent_actors.testing import ScriptedModel, call, hang, say
from agent_actors.testing.script import Turn, wait
from tests.docs.example_helpers import example

if importlib.util.find_spec("starlette") is None:
    pytest.skip("needs the extra `server`", allow_module_level=True)

from hypercorn.config import Config
from hypercorn.trio import serve  # pyright: ignore[reportUnknownVariableType]

Line: TypeAlias = dict[str, object]


@pytest.fixture
def service() -> Iterator[ModuleType]:
    with example("web_service") as module:
        yield module


@tool
async def send_mail(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


def scripted(*turns: Turn) -> tuple[ScriptedModel, AgentOptions]:
    model = ScriptedModel(turns)
    return model, AgentOptions(
        model="scripted", provider=model, tools=[send_mail], permissions="default"
    )


@asynccontextmanager
async def served(service: ModuleType, options: AgentOptions) -> AsyncGenerator[httpx.AsyncClient]:
    config = Config()
    config.bind = ["127.0.0.1:0"]
    config.errorlog = None
    config.graceful_timeout = 0.1
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        app = service.make_app(options)
        start = cast("Callable[..., Awaitable[None]]", partial(serve, app, config))
        urls = await nursery.start(partial(start, shutdown_trigger=stop.wait))
        async with httpx.AsyncClient(base_url=urls[0], trust_env=False, timeout=20) as client:
            yield client
        stop.set()


class Reader:
    """A client that reads a run over a raw socket; `text` is the response received so far."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self.text = ""

    async def event(self, kind: str) -> Line:
        """Read up to the first event of this kind and return it."""
        while (found := re.search(rf"event: {kind}\ndata: (.*)\n\n", self.text)) is None:
            piece = await self._stream.receive_some()
            assert piece, f"there was no {kind}: {self.text}"
            self.text += piece.decode()
        return cast("Line", json.loads(found[1]))


@asynccontextmanager
async def saying(client: httpx.AsyncClient, path: str, prompt: str) -> AsyncGenerator[Reader]:
    url = client.base_url
    async with await trio.open_tcp_stream(url.host, url.port or 80) as stream:
        head = f"POST {path} HTTP/1.1\r\nhost: {url.host}\r\ncontent-length: {len(prompt)}\r\n\r\n"
        await stream.send_all((head + prompt).encode())
        yield Reader(stream)


async def test_sessions_stream_side_by_side(service: ModuleType) -> None:
    go = trio.Event()
    _, options = scripted([wait(go), say("a")], [say("b")])
    async with (
        served(service, options) as client,
        saying(client, "/sessions/1", "Hello") as first,
    ):
        await first.event("user.message")
        second = await client.post("/sessions/2", content="Hello")
        assert second.headers["content-type"].startswith("text/event-stream")
        assert second.headers["cache-control"] == "no-store"
        assert '"text":"b"' in second.text
        assert second.text.rstrip().rpartition("\n")[0].endswith("event: result")
        go.set()
        assert (await first.event("result"))["text"] == "a"


async def test_question_is_answered_within_its_session(service: ModuleType) -> None:
    _, options = scripted([call("send_mail", {"to": "Ann"})], [say("Done.")])
    async with (
        served(service, options) as client,
        saying(client, "/sessions/1", "Write to Ann") as reader,
    ):
        asked = (await reader.event("user.question"))["question_id"]
        for other in (f"/sessions/2/questions/{asked}", "/sessions/1/questions/none"):
            assert (await client.post(other, content="yes")).status_code == 404
        url = f"/sessions/1/questions/{asked}"
        assert (await client.post(url, content="yes")).status_code == 204
        assert (await reader.event("tool.result"))["content"] == "sent to Ann"
        assert (await client.post(url, content="no")).status_code == 404
        assert (await reader.event("result"))["text"] == "Done."


async def test_disconnecting_browser_ends_its_run(service: ModuleType) -> None:
    model, options = scripted([say("x"), hang()], [say("y")])
    async with served(service, options) as client:
        again = partial(client.post, "/sessions/1", content="Again")
        async with saying(client, "/sessions/1", "Hello") as reader:
            await reader.event("assistant.delta")
            assert (await client.post("/sessions/1", content="Me too")).status_code == 409
            assert model.live == 1
        while model.live:  # noqa: ASYNC110 - the model has no event to wait for
            await trio.sleep(0.005)
        # The session is released shortly after the model's request has ended.
        while (answer := await again()).status_code == 409:  # noqa: ASYNC110
            await trio.sleep(0.005)
        assert '"text":"y"' in answer.text


async def test_empty_prompt_is_refused(
    service: ModuleType,
) -> None:
    _, options = scripted()
    async with served(service, options) as client:
        assert (await client.post("/sessions/1", content=" ")).status_code == 400
        assert "<form>" in (await client.get("/")).text


async def test_failed_run_sends_error_event(service: ModuleType) -> None:
    options = AgentOptions(model="m", base_url="http://127.0.0.1:1/v1", max_retries=0)
    async with served(service, options) as client:
        text = (await client.post("/sessions/1", content="Hello")).text
        assert "event: error" in text
        assert "127.0.0.1:1" in text
