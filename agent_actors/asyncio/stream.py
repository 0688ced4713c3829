"""AsyncioRunStream: the events of one run, for one asyncio task.

A task in the trio thread reads the run and sends each batch of events to the loop. It may send a
limited number of batches that the reader has not taken yet. The reader returns credits for many
batches at once. A slow reader thus slows down its own run only, and credits cost few wake-ups.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from functools import partial
from types import TracebackType
from typing import Final, Generic, Self

import attrs
import trio

from agent_actors.asyncio.bridge import Bridge
from agent_actors.asyncio.calls import TrioCall
from agent_actors.asyncio.ports import LoopPort
from agent_actors.domain.events import RunEvent
from agent_actors.domain.run import OutputT_co, Partial, RunResult
from agent_actors.runtime.stream import EventBatches, RunStream

# The maximum number of batches that the reader has not taken. The mailbox of the run holds more.
CREDITS: Final = 32

_NOT_ENTERED: Final = "the stream is not entered; use `async with runtime.stream(...) as events:`"


class _ReaderFailed(Exception):
    """The body of the `async with` block raised, or its task was cancelled."""


@attrs.frozen(eq=False)
class _Batch(Generic[OutputT_co]):
    """Events that arrived at the same time, and the output after them."""

    events: tuple[RunEvent, ...]
    partial: Partial[OutputT_co] | None


@attrs.define(eq=False)
class _Pump(Generic[OutputT_co]):
    """Reads a run in the trio thread, and sends its batches to a loop.

    Args:
        port: The loop.
        open_stream: Returns the stream of the run.
        on_entered: Called in the loop when the run has begun.
        on_batch: Called in the loop with each batch and its number.
    """

    _port: LoopPort
    _open_stream: Callable[[], RunStream[OutputT_co]]
    _on_entered: Callable[[], None]
    _on_batch: Callable[[int, _Batch[OutputT_co]], None]
    _reading: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _failed: bool = attrs.field(default=False, init=False)
    _credits: int = attrs.field(default=CREDITS, init=False)
    _credit: trio.Event | None = attrs.field(default=None, init=False)
    stream: RunStream[OutputT_co] | None = attrs.field(default=None, init=False)

    async def run(self) -> RunResult[OutputT_co] | None:
        """Read the run until it ends or the reader leaves, and return its result.

        Returns:
            The result; None if the reader failed, which cancelled the run.

        Raises:
            AgentError: The run failed with this error.
        """
        stream = self._open_stream()
        try:
            async with stream:
                self.stream = stream
                self._port.post(self._on_entered)
                with self._reading:
                    await self._read(stream)
                if self._failed:
                    raise _ReaderFailed
        except _ReaderFailed:
            pass
        return None if stream.was_withdrawn else stream.result

    async def _read(self, stream: RunStream[OutputT_co]) -> None:
        number = 0
        async for batch in stream.batches():
            arrived = _Batch(batch, stream.partial)
            self._port.post(partial(self._on_batch, number, arrived))
            number += 1
            self._credits -= 1
            while not self._credits:
                self._credit = trio.Event()
                await self._credit.wait()

    def grant(self, batches: int) -> None:
        """Allow more batches, because the reader has taken some."""
        self._credits += batches
        if self._credit is not None:
            self._credit.set()

    def leave(self, *, failed: bool) -> None:
        """Stop reading, because the reader has left; cancels the run if it has not ended."""
        self._failed = failed
        self._reading.cancel("the reader has left")

    async def interrupt(self) -> None:
        """End the run cleanly; its events can still be read."""
        if self.stream is not None:
            await self.stream.interrupt()


class AsyncioRunStream(Generic[OutputT_co]):
    """The events of one run, in order; the last event is a `result` or an `error`.

    Iteration ends without an error only after the `result` event. After an `error` event, or if the
    runtime fails, iterating raises the error of the run. Leaving the block early cancels the run
    and waits for it to end; `result` then holds its result. If the event loop is closed, the run is
    cancelled as if the reader had left.

    Args:
        bridge: The bridge; passed by `AsyncioRuntime.stream`.
        open_stream: Returns the stream of the run; called in the trio thread.
    """

    def __init__(self, bridge: Bridge, open_stream: Callable[[], RunStream[OutputT_co]]) -> None:
        self._bridge = bridge
        self._open_stream = open_stream
        self._pump: _Pump[OutputT_co] | None = None
        self._call: TrioCall[RunResult[OutputT_co] | None] | None = None
        self._entered = False
        # The unread events of the current batch, last one first.
        self._batch: list[RunEvent] = []
        self._batches: deque[_Batch[OutputT_co]] = deque()
        self._partial: Partial[OutputT_co] | None = None
        self._arrived = self._taken = 0
        self._waiter: asyncio.Future[None] | None = None
        self._raised = False

    @property
    def result(self) -> RunResult[OutputT_co]:
        """The result of the run, once it has ended.

        Raises:
            AgentError: The run failed with this error.
            RuntimeError: The run has not ended, or its reader failed, which cancelled it.
        """
        if self._call is None or not self._call.ended:
            raise RuntimeError(
                "the run has not ended; first read its events to the end, or leave the block"
            )
        self._raised = True
        result = self._call.result()
        if result is None:
            raise RuntimeError("the run was cancelled, and has no result")
        return result

    @property
    def partial(self) -> Partial[OutputT_co] | None:
        """The output that the events read so far contain, which grows with each `OutputDelta`.

        None before the output begins, if the response is not JSON, or if the agent has no
        `output_type`.
        """
        return self._partial

    async def __aenter__(self) -> Self:
        """Start the run.

        Raises:
            ConfigError: An argument of `stream` is not valid.
            SessionBusy: Another run holds the session, and the policy is `reject`.
            RuntimeClosed: The runtime accepts no more runs.

        Cancellation: cancels the run, and waits until it has ended.
        """
        if self._call is not None:
            raise RuntimeError("a stream can be entered only once")
        port = self._bridge.port()
        pump = self._pump = _Pump(port, self._open_stream, self._on_entered, self._on_batch)
        call = self._call = TrioCall(
            port,
            pump.run,
            self._bridge.context(port),
            cancel=partial(pump.leave, failed=True),
            on_end=self._wake,
        )
        self._bridge.start(call)
        try:
            while not (self._entered or call.ended):
                await self._wait()
        except asyncio.CancelledError:
            self._bridge.post(call.cancel)
            await call.join()  # noqa: ASYNC102 - the end of a run has a time limit
            raise
        except BaseException:  # the coroutine was closed, or Ctrl-C was pressed twice
            self._bridge.post(call.cancel)
            raise
        if not self._entered:
            call.result()  # raises the error
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._call is not None
        assert self._pump is not None
        self._batches.clear()
        cancelled = None
        if not self._call.ended:
            self._bridge.post(partial(self._pump.leave, failed=exc is not None))
            if isinstance(exc, GeneratorExit):
                return  # the coroutine is being closed, and cannot wait
            # The run has a time limit for its end.
            cancelled = await self._call.join()  # noqa: ASYNC102
        if cancelled is not None and not isinstance(exc, asyncio.CancelledError):
            raise cancelled
        error = self._call.error
        if error is None or error is exc:
            return
        if exc is not None:
            exc.add_note(f"and the run failed: {type(error).__name__}: {error}")
        elif not self._raised:
            raise error

    async def interrupt(self) -> None:
        """End the run cleanly and wait for it, from any task. Its events can still be read.

        Do nothing if the run has ended or never began.

        Cancellation: the run still ends.
        """
        if self._pump is not None and self._call is not None and not self._call.ended:
            await self._bridge.call(self._pump.interrupt)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RunEvent:
        """Return the next event.

        Raises:
            AgentError: The run failed with this error; raised after its `error` event.

        Cancellation: safe; no event is lost.
        """
        while not self._batch:
            self._batch.extend(reversed(await self._receive()))
        return self._batch.pop()

    def batches(self) -> AsyncIterator[tuple[RunEvent, ...]]:
        """Iterate over the events in batches, each of which arrived at the same time.

        The deltas of one network read are one batch, and so are the records of one commit. The
        iteration ends like that over single events; both continue where the other one stopped.

        Returns:
            An iterator over tuples of at least one event.
        """
        return EventBatches(self._take_batch)

    async def _take_batch(self) -> tuple[RunEvent, ...]:
        if self._batch:
            rest = tuple(reversed(self._batch))
            self._batch.clear()
            return rest
        return await self._receive()

    async def _receive(self) -> tuple[RunEvent, ...]:
        call, pump = self._call, self._pump
        if call is None or pump is None:
            raise RuntimeError(_NOT_ENTERED)
        while not self._batches:
            if call.ended:
                self._raised = True
                call.result()  # raises the error of the run, if there is one
                raise StopAsyncIteration
            await self._wait()
        self._taken += 1
        if self._taken == CREDITS // 2:
            self._taken = 0
            self._bridge.post(partial(pump.grant, CREDITS // 2))
        batch = self._batches.popleft()
        self._partial = batch.partial
        return batch.events

    async def _wait(self) -> None:
        if self._waiter is not None:
            raise RuntimeError("another task is already reading this stream")
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    # Called in the loop by the pump; see `ports.py` for why a call may be repeated.

    def _on_entered(self) -> None:
        self._entered = True
        self._wake()

    def _on_batch(self, number: int, batch: _Batch[OutputT_co]) -> None:
        if number == self._arrived:
            self._batches.append(batch)
            self._arrived += 1
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
