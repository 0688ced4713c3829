"""The FastAPI example streams, queues and handles disconnects over sockets."""

import asyncio
import importlib.util
import json
import re
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from types import ModuleType

import pytest

from agent_actors import AgentOptions
from agent_actors.testing import ScriptedModel, hang, say
from agent_actors.testing.script import Turn
from tests.docs.example_helpers import example

if importlib.util.find_spec("fastapi") is None:
    pytest.skip("needs FastAPI", allow_module_level=True)

import uvicorn

# Seconds; a test takes far less, so that only a hang fails.
PATIENCE = 20


@pytest.fixture
def service() -> Iterator[ModuleType]:
    with example("web_service_asyncio") as module:
        yield module


def scripted(*turns: Turn) -> tuple[ScriptedModel, AgentOptions]:
    model = ScriptedModel(turns)
    return model, AgentOptions(model="scripted", provider=model)


class Answer:
    """A request over a raw socket; `text` is the response received so far."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.text = ""

    async def until(self, kind: str) -> dict[str, object]:
        """Read up to the first event of this kind and return it."""
        while (found := re.search(rf"event: {kind}\ndata: (.*)\n\n", self.text)) is None:
            piece = await self._reader.read(65536)
            assert piece, f"there was no {kind}: {self.text}"
            self.text += piece.decode()
        event: dict[str, object] = json.loads(found[1])
        return event

    async def rest(self) -> str:
        """Read until the server closes the connection; return the complete response."""
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
    """Run the service on its own port; yield a function that sends a prompt to a session.

    If `leaves` is true, the clients disconnect before the server stops.
    """
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
            # The timeout in `run` also limits these awaits.
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
            while model.live:  # noqa: ASYNC110 - the model has no event to wait for
                await asyncio.sleep(0.005)
            # The session is released shortly after the model's request has ended.
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


def test_failed_run_sends_error_event(service: ModuleType) -> None:
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


def test_200_sessions_share_one_runtime(service: ModuleType) -> None:
    async def main() -> None:
        _, options = scripted(*[[say("Hello", " there.")]] * 200)
        async with served(service, options) as speak:
            answers = await asyncio.gather(*(speak(str(n), "Hello") for n in range(200)))
            texts = await asyncio.gather(*(answer.rest() for answer in answers))
        assert sum("event: result" in text for text in texts) == 200

    run(main)
