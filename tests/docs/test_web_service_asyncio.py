"""The example of a web service on asyncio, over sockets: who streams, who waits, and who goes."""

import asyncio
import importlib.util
import json
import re
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import cast

import pytest

from agent_actors import AgentOptions
from agent_actors.testing import ScriptedModel, hang, say
from agent_actors.testing.script import Turn
from tests.docs.example_helpers import example

if importlib.util.find_spec("starlette") is None:
    pytest.skip("needs the extra `server`", allow_module_level=True)

import uvicorn

# Seconds, far above what one of them takes, so that a hang is a failure.
PATIENCE = 20


BRIDGES = [("from_asyncio", "Agents"), ("from_asyncio_guest", "GuestAgents")]


@pytest.fixture(params=BRIDGES, ids=["thread", "guest"])
def service(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ModuleType]:
    """The example, over either bridge."""
    name, agents = cast("tuple[str, str]", request.param)
    with example(name) as bridge:
        beside = ModuleType("from_asyncio")
        beside.__dict__["Agents"] = getattr(bridge, agents)
        monkeypatch.setitem(sys.modules, "from_asyncio", beside)
        with example("web_service_asyncio") as module:
            yield module


def scripted(*turns: Turn) -> tuple[ScriptedModel, AgentOptions]:
    model = ScriptedModel(turns)
    return model, AgentOptions(model="scripted", provider=model)


class Answer:
    """One request, by hand: what was read of its answer so far is the raw text."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.text = ""

    async def until(self, kind: str) -> dict[str, object]:
        """The first event of a kind."""
        while (found := re.search(rf"event: {kind}\ndata: (.*)\n\n", self.text)) is None:
            piece = await self._reader.read(65536)
            assert piece, f"there was no {kind}: {self.text}"
            self.text += piece.decode()
        event: dict[str, object] = json.loads(found[1])
        return event

    async def rest(self) -> str:
        """All of it, when the server has closed it."""
        while piece := await self._reader.read(65536):
            self.text += piece.decode()
        return self.text

    async def leave(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


Say = Callable[[str, str], Awaitable[Answer]]


@asynccontextmanager
async def served(
    service: ModuleType, options: AgentOptions, *, leaves: bool = True
) -> AsyncGenerator[Say]:
    """The service on a port of its own; speaks to a session. Who `leaves` does before it stops."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        config = uvicorn.Config(
            service.make_app(options), ws="none", log_config=None, timeout_graceful_shutdown=0
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        answers: list[Answer] = []

        async def speak(session: str, prompt: str) -> Answer:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            head = (
                f"POST /sessions/{session} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
                f"content-length: {len(prompt)}\r\n\r\n"
            )
            writer.write((head + prompt).encode())
            answers.append(Answer(reader, writer))
            return answers[-1]

        try:
            yield speak
        finally:
            # The awaits here are bounded by the patience of `run`.
            for answer in answers if leaves else ():
                await answer.leave()  # noqa: ASYNC102
            server.should_exit = True
            await serving  # noqa: ASYNC102
            for answer in answers:
                await answer.leave()  # noqa: ASYNC102


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await main()

    asyncio.run(bounded())


def test_sessions_stream_in_parallel(service: ModuleType) -> None:
    async def main() -> None:
        _, options = scripted([say("One."), hang()], [say("Two.")])
        async with served(service, options) as speak:
            first = await speak("1", "Hello")
            assert (await first.until("assistant.delta"))["text"] == "One."
            assert "content-type: text/event-stream" in first.text
            second = await speak("2", "Hello")
            assert (await second.until("result"))["text"] == "Two."
            assert (await second.rest()).rstrip().endswith("0"), "the last chunk of the body"

    run(main)


def test_disconnecting_reader_frees_its_session(service: ModuleType) -> None:
    async def main() -> None:
        model, options = scripted([say("One."), hang()], [say("Two.")])
        async with served(service, options) as speak:
            gone = await speak("1", "Hello")
            await gone.until("assistant.delta")
            assert model.live == 1
            await gone.leave()
            while model.live:  # noqa: ASYNC110 - the model tells nobody
                await asyncio.sleep(0.005)
            # The session is free a moment after the model is.
            while "409 Conflict" in (text := await (await speak("1", "Again")).rest()):
                pass
            assert '"text":"Two."' in text

    run(main)


def test_start_failure_sets_the_status(service: ModuleType) -> None:
    async def main() -> None:
        _, options = scripted([say("One."), hang()])
        async with served(service, options) as speak:
            first = await speak("1", "Hello")
            await first.until("assistant.delta")
            assert "409 Conflict" in await (await speak("1", "Me too")).rest()
            assert "400 Bad Request" in await (await speak("2", " ")).rest()

    run(main)


def test_a_run_that_fails_tells_its_reader(service: ModuleType) -> None:
    async def main() -> None:
        options = AgentOptions(model="m", base_url="http://127.0.0.1:1/v1", max_retries=0)
        async with served(service, options) as speak:
            text = await (await speak("1", "Hello")).rest()
            assert "200 OK" in text
            assert "event: error" in text

    run(main)


def test_service_shutdown_ends_live_runs(service: ModuleType) -> None:
    async def main() -> None:
        model, options = scripted([hang()])
        async with served(service, options, leaves=False) as speak:
            await (await speak("1", "Hello")).until("user.message")
        assert model.live == 0

    run(main)
