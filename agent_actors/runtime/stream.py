"""RunStream: the events of one run, for a single reader.

Entering the stream starts the run. Leaving the stream cancels the run if it is still running, and
waits for it to end. The stream opens no nursery and no cancel scope, so it may be entered and left
anywhere.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Final, Generic, Self, cast

import attrs
import trio

from agent_actors.actors.run_tree import current_call, slots_lent
from agent_actors.domain.events import Event, RunEvent
from agent_actors.domain.run import CancelReason, OutputT_co, Partial, RunResult
from agent_actors.errors import ProviderError, RuntimeShutdown
from agent_actors.kernel.interrupts import finish
from agent_actors.kernel.request import Request, RequestCancelled
from agent_actors.runs.context import RunContext
from agent_actors.runs.output.event_mailbox import EventMailbox
from agent_actors.runs.output.partial_outputs import PartialOutputs
from agent_actors.runs.output.tracebacks import without_own_frames

_NOT_ENTERED: Final = "the stream is not entered; use `async with runtime.stream(...) as events:`"


@attrs.frozen(eq=False)
class StartedRun:
    """A run that was started.

    Attributes:
        request: The outcome of the run.
        context: The state of the run.
    """

    request: Request[RunResult]
    context: RunContext


async def wait_for_result(request: Request[RunResult]) -> RunResult:
    """Wait for a run to end, and return its result.

    Raises:
        RuntimeShutdown: The runtime closed before the run had begun.
        Exception: The run failed with this error.

    Cancellation: ends the run cleanly, and returns only once all of its tasks have ended.
    """
    try:
        return await request.wait()
    except RequestCancelled:
        raise RuntimeShutdown from None
    except ProviderError as error:
        raise without_own_frames(error)  # noqa: B904 - the same error


class EventBatches:
    """An iterator over the batches of a stream's events; see `RunStream.batches`.

    Args:
        take: Returns the next batch, or raises `StopAsyncIteration`.
    """

    def __init__(self, take: Callable[[], Awaitable[tuple[RunEvent, ...]]]) -> None:
        self._take = take

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[RunEvent, ...]:
        """Return the next batch.

        Raises:
            AgentError: The run failed with this error; raised after its `error` event.

        Cancellation: safe; no event is lost.
        """
        return await self._take()


class RunStream(Generic[OutputT_co]):
    """The events of one run, in order; the last event is a `result` or an `error`.

    Iteration ends without an error only after the `result` event. After an `error` event, or if the
    runtime fails, iterating raises the error of the run. Leaving the block early cancels the run
    and waits for it to end; `result` then holds its result.

    Args:
        start: Starts the run; passed by `Runtime.stream`.
        mailbox: Receives the events of the run.
    """

    __slots__ = (
        "_batch",
        "_context",
        "_lending",
        "_mailbox",
        "_partials",
        "_raised",
        "_request",
        "_start",
    )

    def __init__(
        self,
        start: Callable[[EventMailbox], Awaitable[StartedRun]],
        mailbox: EventMailbox,
    ) -> None:
        self._start = start
        self._mailbox = mailbox
        self._request: Request[RunResult] | None = None
        self._context: RunContext | None = None
        self._batch: list[RunEvent] = []
        self._partials: PartialOutputs[object] | None = None
        self._raised = False
        self._lending = slots_lent(current_call.get())

    @property
    def result(self) -> RunResult[OutputT_co]:
        """The result of the run, once it has ended.

        Raises:
            AgentError: The run failed with this error.
            RuntimeError: The run has not ended, or it was cancelled before it began.
        """
        if self._request is None or not self._request.done:
            raise RuntimeError(
                "the run has not ended; first read its events to the end, or leave the block"
            )
        self._raised = True
        try:
            # The options define the output type, and the run has validated the output.
            return cast("RunResult[OutputT_co]", self._request.result())
        except RequestCancelled:
            raise RuntimeError("the run was cancelled before it began, and has no result") from None

    @property
    def partial(self) -> Partial[OutputT_co] | None:
        """The output that the events read so far contain, which grows with each `OutputDelta`.

        None before the output begins, if the response is not JSON, or if the agent has no
        `output_type`.
        """
        if self._partials is None:
            return None
        return cast("Partial[OutputT_co] | None", self._partials.latest)

    async def __aenter__(self) -> Self:
        """Start the run.

        Raises:
            SessionBusy: Another run holds the session, and the policy is `reject`.
            RuntimeClosed: The runtime accepts no more runs.
        """
        if self._request is not None:
            raise RuntimeError("a RunStream can be entered only once")
        try:
            started = await self._start(self._mailbox)
        except BaseException:
            self._mailbox.abandon()
            raise
        self._request, self._context = started.request, started.context
        output = started.context.options.output
        if output is not None:
            self._partials = PartialOutputs(output, started.context.services.ids.new)
        await self._lending.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._request is not None
        self._mailbox.abandon()
        try:
            if not self._request.done:
                await self._join(self._request, exc)  # noqa: ASYNC102 - shielded there
        finally:
            await self._lending.__aexit__(exc_type, exc, traceback)  # noqa: ASYNC102 - see there
        error = self._error(cancelled=exc is not None)
        if error is None or error is exc:
            return
        if exc is None:
            if not self._raised:
                raise error
        else:
            exc.add_note(f"and the run failed: {type(error).__name__}: {error}")

    @property
    def was_withdrawn(self) -> bool:
        """True if the caller cancelled the run, so that it has no result."""
        return self._request is not None and self._request.withdrawn

    @property
    def context(self) -> RunContext | None:
        """The state of the run, for `Client`; None before the run has started."""
        return self._context

    @property
    def unfinished(self) -> bool:
        """True if the run has started and some of its tasks have not ended."""
        return self._request is not None and not self._request.done

    async def interrupt(self) -> None:
        """End the run cleanly and wait for it, from any task. Its events can still be read.

        Do nothing if the run has ended or never began.

        Cancellation: the run still ends.
        """
        request = self._request
        if request is None or request.done:
            return
        while request.queued:  # noqa: ASYNC110 - a tick, as in `_join`
            await trio.lowlevel.checkpoint()
        request.cancel(CancelReason.INTERRUPT)
        await request.wait_done()

    def drop(self) -> None:
        """Stop reading, and cancel the run without waiting for it; the runtime cleans it up."""
        self._mailbox.abandon()
        if self._request is not None:
            self._request.cancel(CancelReason.READER_LEFT)

    async def _join(self, request: Request[RunResult], exc: BaseException | None) -> None:
        async def join() -> None:
            # Cancelling a run that has not begun would withdraw it, so a reader that left without
            # an error would get no result. A new run begins at once, so this loop takes one
            # scheduler tick.
            while exc is None and request.queued:  # noqa: ASYNC110 - a tick, see above
                await trio.lowlevel.checkpoint()
            request.cancel(CancelReason.READER_LEFT if exc is None else CancelReason.CALLER)
            await request.wait_done()

        # Shielded, and protected from Ctrl-C: an incomplete join would leave a live run behind.
        with trio.CancelScope(shield=True):
            await finish(join)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RunEvent:
        """Return the next event.

        Raises:
            AgentError: The run failed with this error; raised after its `error` event.

        Cancellation: safe; no event is lost.
        """
        if self._request is None:
            raise RuntimeError(_NOT_ENTERED)
        batch = self._batch
        # The mailbox is read here and not in a coroutine in between, because each reader waits
        # here most of the time.
        try:
            while not batch:
                batch.extend(reversed(self._completed(await self._mailbox.get())))
        except trio.EndOfChannel:
            await self._end()  # noqa: ASYNC120 - `EndOfChannel` may be lost
            raise StopAsyncIteration from None
        return batch.pop()

    def batches(self) -> AsyncIterator[tuple[RunEvent, ...]]:
        """Iterate over the events in batches, each of which arrived at the same time.

        The deltas of one network read are one batch, and so are the records of one commit. Use this
        method if you process several events at a lower cost than one by one, for example to write
        them to a socket. The iteration ends like that over single events; both continue where the
        other one stopped.

        Returns:
            An iterator over tuples of at least one event. Its `__anext__` raises the same errors,
            and has the same behavior under cancellation, as that of the stream.
        """
        return EventBatches(self._take_batch)

    async def _take_batch(self) -> tuple[RunEvent, ...]:
        """Return the unread rest of the current batch, or the next batch."""
        if self._request is None:
            raise RuntimeError(_NOT_ENTERED)
        if self._batch:
            rest = tuple(reversed(self._batch))
            self._batch.clear()
            return rest
        try:
            return self._completed(await self._mailbox.get())
        except trio.EndOfChannel:
            await self._end()  # noqa: ASYNC120 - `EndOfChannel` may be lost
            raise StopAsyncIteration from None

    def _completed(self, batch: tuple[Event, ...]) -> tuple[RunEvent, ...]:
        if self._partials is not None:
            batch = self._partials.added_to(batch)
        # Runs only emit events of this union, but the mailbox has a wider type.
        return cast("tuple[RunEvent, ...]", batch)

    async def _end(self) -> None:
        """Raise the error of the run, if there is one, because no more events follow."""
        assert self._request is not None
        self._raised = True
        await wait_for_result(self._request)

    def _error(self, *, cancelled: bool) -> Exception | None:
        assert self._request is not None
        try:
            self._request.result()
        except RequestCancelled:
            # If the body did not cancel the run, the runtime closed before the run had begun.
            return None if cancelled else RuntimeShutdown()
        except Exception as error:  # noqa: BLE001 - an AgentError, or what a provider raised
            return without_own_frames(error)
        return None
