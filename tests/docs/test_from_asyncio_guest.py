"""With trio as a guest of asyncio, tools use the event loop in the same thread, and can be
cancelled.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import AbstractAsyncContextManager
from types import ModuleType
from typing import Protocol, Self, cast

import pytest
import trio

from agent_actors import AgentOptions, RunResult, Tool, tool
from agent_actors.events import AssistantDelta, Event, ResultEvent
from agent_actors.testing import ScriptedEndpoint, ScriptedModel, call, demo_script
from tests.docs.example_helpers import example


class Agents(Protocol):
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc: object) -> None: ...
    def run(self, prompt: str, options: AgentOptions) -> Awaitable[RunResult]: ...
    def stream(
        self, prompt: str, options: AgentOptions, *, session_id: str
    ) -> AbstractAsyncContextManager[AsyncIterator[Event]]: ...


InLoop = Callable[[Coroutine[object, object, str]], Awaitable[str]]


@pytest.fixture
def guest() -> Iterator[ModuleType]:
    with example("from_asyncio_guest") as module:
        yield module


def agents_of(guest: ModuleType) -> Agents:
    return cast("Callable[[], Agents]", guest.GuestAgents)()


def asking(work: Callable[[], Coroutine[object, object, str]], guest: ModuleType) -> AgentOptions:
    """Return an agent with one tool, which runs this coroutine function in the event loop."""
    in_loop = cast("InLoop", guest.in_loop)

    @tool
    async def ask() -> str:
        """Ask the event loop."""
        return await in_loop(work())

    return calling(ask)


def calling(one: Tool) -> AgentOptions:
    model = ScriptedModel([call(one.name, {}), "ok"])
    return AgentOptions(model="scripted", provider=model, tools=[one])


def test_tool_uses_objects_of_event_loop(guest: ModuleType) -> None:
    async def main() -> None:
        lock = asyncio.Lock()
        ours = threading.get_ident()

        async def work() -> str:
            async with lock:
                return "ours" if threading.get_ident() == ours else "another's"

        async with agents_of(guest) as agents:
            await lock.acquire()
            running = asyncio.ensure_future(agents.run("a", asking(work, guest)))
            await asyncio.sleep(0.01)
            assert not running.done(), "the tool waits for a lock of the loop"
            lock.release()
            assert (await running).tool_calls[0].content == "ours"

    asyncio.run(main())


def test_event_loop_exception_becomes_tool_error(guest: ModuleType) -> None:
    async def fails() -> str:
        raise ValueError("no luck")

    async def is_cancelled() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)
        return "never"

    async def main() -> None:
        async with agents_of(guest) as agents:
            lines = [
                (await agents.run("a", asking(work, guest))).tool_calls[0].content
                for work in (fails, is_cancelled)
            ]
        assert lines == [
            "tool 'ask' raised ValueError: no luck",
            "tool 'ask' raised RuntimeError: the event loop cancelled it",
        ]

    asyncio.run(main())


def test_cancel_waits_for_event_loop_work(guest: ModuleType) -> None:
    async def main() -> None:
        steps: list[str] = []
        began = asyncio.Event()

        async def work() -> str:
            began.set()
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0.01)  # noqa: ASYNC102 - a few ms, in asyncio
                steps.append("the work has ended")
            return "never"

        async with agents_of(guest) as agents:
            running = asyncio.ensure_future(agents.run("a", asking(work, guest)))
            await began.wait()
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
            steps.append("the run has ended")
        assert steps == ["the work has ended", "the run has ended"]

    asyncio.run(main())


def test_100_sessions_share_the_event_loop(
    guest: ModuleType,
) -> None:
    async def main(base_url: str) -> None:
        options = AgentOptions(model="scripted", base_url=base_url)
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                await asyncio.sleep(0.001)
                beats += 1

        async def read(session: int) -> tuple[int, str]:
            deltas, last = 0, ""
            async with agents.stream("Hi", options, session_id=f"s{session}") as events:
                async for event in events:
                    deltas += isinstance(event, AssistantDelta)
                    last = event.text if isinstance(event, ResultEvent) else last
            return deltas, last

        async with agents_of(guest) as agents:
            beating = asyncio.ensure_future(beat())
            found = await asyncio.gather(*map(read, range(100)))
            beating.cancel()
        assert beats > 0
        assert len({text for _, text in found}) == 1
        assert min(deltas for deltas, _ in found) > 1

    with served() as url:
        asyncio.run(main(url))


@contextlib.contextmanager
def served() -> Generator[str]:
    """Run a scripted endpoint in its own thread."""
    ready: list[tuple[str, trio.lowlevel.TrioToken, trio.Event]] = []
    is_ready = threading.Event()

    async def serve() -> None:
        async with ScriptedEndpoint(demo_script(0, deltas=20, every=0.001)) as endpoint:
            stop = trio.Event()
            ready.append((endpoint.base_url, trio.lowlevel.current_trio_token(), stop))
            is_ready.set()
            await stop.wait()

    thread = threading.Thread(target=trio.run, args=(serve,))
    thread.start()
    is_ready.wait()
    (url, token, stop) = ready[0]
    try:
        yield url
    finally:
        token.run_sync_soon(stop.set)
        thread.join()
