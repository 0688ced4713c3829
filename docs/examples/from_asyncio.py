"""Call agents from an asyncio program: a runtime in a separate thread, and a bridge."""

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Self, TypeVar

import trio

from agent_actors import AgentOptions, RunResult, open_runtime
from agent_actors.events import AssistantDelta, Event

T = TypeVar("T")


class Agents:
    """A runtime for asyncio tasks: `async with Agents() as agents:`, once in a program.

    Cancelling a task ends its run. The asyncio task continues only after all tasks of the run
    have ended. Tools and hooks run in trio, in the runtime's thread.
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
                        self._tell(queue.put_nowait, event)
            finally:
                self._tell(queue.put_nowait, None)

        async def read() -> AsyncIterator[Event]:
            while (event := await queue.get()) is not None:
                with contextlib.suppress(trio.RunFinishedError):
                    self._token.run_sync_soon(room.release)
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
        self._beside = threading.Thread(target=self._thread, name="agents")
        self._beside.start()
        await through_cancels(self._ready)
        self._ready.result()
        return self

    async def __aexit__(self, *exc: object) -> None:
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._stop.set)
        await through_cancels(self._ended)  # noqa: ASYNC102 - has the time limit of a closing runtime
        self._beside.join()  # the thread has reported its end
        self._ended.result()

    async def _call(self, work: Callable[[], Awaitable[T]]) -> T:
        outcome: asyncio.Future[T] = self._loop.create_future()
        scope = trio.CancelScope()
        self._token.run_sync_soon(self._start, partial(self._carry_out, work, scope, outcome))
        try:
            await asyncio.wait([outcome])
        except asyncio.CancelledError:
            with contextlib.suppress(trio.RunFinishedError):
                self._token.run_sync_soon(scope.cancel)
            await through_cancels(outcome)  # noqa: ASYNC102 - has the time limit of an ending run
            if not outcome.cancelled():
                outcome.exception()  # retrieved, so that asyncio does not report it
            raise
        return outcome.result()

    # The following methods run in the thread.

    def _thread(self) -> None:
        try:
            trio.run(self._serve)
        except BaseException as error:  # noqa: ASYNC103, BLE001 - raised in the waiting task
            for future in (self._ready, self._ended):
                self._tell(settle, future, error)
        else:
            self._tell(settle, self._ended, None)

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._stop = trio.Event()
        async with open_runtime() as self._runtime, trio.open_nursery() as self._nursery:
            self._tell(settle, self._ready, None)
            await self._stop.wait()
            self._nursery.cancel_scope.cancel()

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
            self._tell(tell)

    def _tell(self, function: Callable[..., object], *args: object) -> None:
        self._loop.call_soon_threadsafe(function, *args)


def settle(future: "asyncio.Future[None]", error: BaseException | None) -> None:
    if not future.done():
        future.set_result(None) if error is None else future.set_exception(error)


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


options = AgentOptions(
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
)


async def main() -> None:
    async with Agents() as agents:
        results = await asyncio.gather(*(agents.run(f"Hello {n}", options) for n in range(10)))
        print(len(results), "answers")

        async with agents.stream("Tell me more.", options, session_id="s") as events:
            async for event in events:
                if isinstance(event, AssistantDelta):
                    print(event.text, end="", flush=True)
        print()

        try:
            async with asyncio.timeout(0.005):
                await agents.run("And more.", options, session_id="s")
        except TimeoutError:
            print("too slow; the run has ended")


if __name__ == "__main__":
    asyncio.run(main())
