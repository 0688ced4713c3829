"""Call agents from an asyncio program: trio as a guest in the same thread.

Tools and hooks may then use objects of the event loop: connections, pools and locks.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from functools import partial
from typing import Self, TypeVar

import trio
from outcome import Outcome

from agent_actors import AgentOptions, RunResult, open_runtime, tool
from agent_actors.events import AssistantDelta, Event

T = TypeVar("T")


class GuestAgents:
    """A runtime for asyncio tasks: `async with GuestAgents() as agents:`, once in a program.

    Cancelling a task ends its run. The asyncio task continues only after all tasks of the run
    have ended. The event loop must run until the block is left.
    """

    EVENTS_AHEAD = 64
    """The number of events that are buffered before the run waits for its reader."""

    async def run(
        self, prompt: str, options: AgentOptions, *, session_id: str | None = None
    ) -> RunResult:
        """Run an agent, like `Runtime.run`."""
        return await self._call(lambda: self._runtime.run(prompt, options, session_id=session_id))

    @contextlib.asynccontextmanager
    async def stream(
        self, prompt: str, options: AgentOptions, *, session_id: str | None = None
    ) -> AsyncGenerator[AsyncIterator[Event]]:
        """Stream a run, like `Runtime.stream`. Leaving the block early ends the run."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        room = trio.Semaphore(self.EVENTS_AHEAD)

        async def pump() -> None:
            try:
                async with self._runtime.stream(prompt, options, session_id=session_id) as events:
                    async for event in events:
                        await room.acquire()
                        queue.put_nowait(event)
            finally:
                queue.put_nowait(None)

        async def read() -> AsyncIterator[Event]:
            while (event := await queue.get()) is not None:
                self._soon(room.release)
                yield event
            await asyncio.wait([pumping])

        pumping = asyncio.create_task(self._call(pump))
        try:
            yield read()
        finally:
            pumping.cancel()
            await through_cancels(pumping)  # noqa: ASYNC102 - has the time limit of an ending run
            if not pumping.cancelled():
                pumping.result()  # raises the error of the run

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        trio.lowlevel.start_guest_run(
            self._serve,
            run_sync_soon_threadsafe=self._loop.call_soon_threadsafe,
            run_sync_soon_not_threadsafe=self._loop.call_soon,
            done_callback=self._done,
            host_uses_signal_set_wakeup_fd=True,
        )
        await through_cancels(self._ready)
        self._ready.result()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._soon(self._stop.set)
        await through_cancels(self._ended)  # noqa: ASYNC102 - has the time limit of a closing runtime
        self._ended.result()

    async def _call(self, work: Callable[[], Awaitable[T]]) -> T:
        outcome: asyncio.Future[T] = self._loop.create_future()
        scope = trio.CancelScope()
        self._token.run_sync_soon(self._start, partial(self._carry_out, work, scope, outcome))
        try:
            await asyncio.wait([outcome])
        except asyncio.CancelledError:
            self._soon(scope.cancel)
            await through_cancels(outcome)  # noqa: ASYNC102 - has the time limit of an ending run
            if not outcome.cancelled():
                outcome.exception()  # retrieved, so that asyncio does not report it
            raise
        return outcome.result()

    def _soon(self, function: Callable[[], object]) -> None:
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(function)

    # The following methods run in trio, which the event loop calls.

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._stop = trio.Event()
        async with open_runtime() as self._runtime, trio.open_nursery() as self._nursery:
            self._ready.set_result(None)
            await self._stop.wait()
            self._nursery.cancel_scope.cancel()

    def _done(self, outcome: Outcome[None]) -> None:
        try:
            outcome.unwrap()
        except BaseException as error:  # noqa: ASYNC103, BLE001 - raised in the waiting task
            (self._ended if self._ready.done() else self._ready).set_exception(error)
        else:
            self._ended.set_result(None)

    def _start(self, work: Callable[[], Awaitable[None]]) -> None:
        if self._stop.is_set():  # too late: the waiting task was cancelled
            self._nursery.cancel_scope.cancel()
        self._nursery.start_soon(work)

    async def _carry_out(
        self,
        work: Callable[[], Awaitable[T]],
        scope: trio.CancelScope,
        outcome: "asyncio.Future[T]",
    ) -> None:
        closed = RuntimeError("the agents were closed")
        tell: Callable[[], object] = partial(outcome.set_exception, closed)
        try:
            with scope:
                result = await work()
                tell = partial(outcome.set_result, result)
            if scope.cancelled_caught:
                tell = outcome.cancel
        except Exception as error:  # noqa: BLE001 - raised in the waiting task
            tell = partial(outcome.set_exception, error)
        finally:
            tell()


async def in_loop(work: Coroutine[object, object, T]) -> T:
    """Run a coroutine in the event loop, from a tool or a hook; cancellation is passed on to it."""
    token, done = trio.lowlevel.current_trio_token(), trio.Event()
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda _: token.run_sync_soon(done.set))
    try:
        await done.wait()
    finally:
        task.cancel()
        with trio.CancelScope(shield=True):
            await done.wait()
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not report it
    if task.cancelled():
        raise RuntimeError("the event loop cancelled it")
    return task.result()


async def through_cancels(future: "asyncio.Future[T]") -> None:
    """Wait until the future is done, and raise a pending cancellation only then."""
    cancelled = False
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:  # noqa: ASYNC103 - raised below
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError


async def look_up(city: str) -> str:
    """Do what only the event loop can do, for example query a database with an asyncio driver."""
    await asyncio.sleep(0.001)
    return f"18 degrees and sunny in {city}"


@tool
async def get_weather(city: str) -> str:
    """Current weather of a city."""
    return await in_loop(look_up(city))


options = AgentOptions(
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
    tools=[get_weather],
)


async def main() -> None:
    async with GuestAgents() as agents:
        results = await asyncio.gather(*(agents.run(f"Weather {n}?", options) for n in range(10)))
        print(len(results), "answers;", results[0].tool_calls[0].content)

        async with agents.stream("Tell me more.", options, session_id="s") as events:
            async for event in events:
                if isinstance(event, AssistantDelta):
                    print(event.text, end="", flush=True)
        print()


if __name__ == "__main__":
    asyncio.run(main())
