"""RunStream: the events of one run, read by one task.

A class-based async context manager and iterator with no nursery and no cancel scope of its own:
entering starts the driver, leaving cancels it if it is unfinished, and joins it. So it may be
entered and left anywhere, and nothing of the run is alive afterwards.
"""

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Generic, Self, cast

import attrs
import trio

from agent_actors.actors.run_tree import current_call, lending
from agent_actors.domain.events import RunEvent
from agent_actors.domain.run import CancelReason, OutputT_co, RunResult
from agent_actors.errors import RuntimeShutdown
from agent_actors.kernel.request import Request, RequestCancelled
from agent_actors.run.context import RunContext
from agent_actors.run.output.event_mailbox import EventMailbox

_NOT_ENTERED: Final = "enter it first: `async with runtime.stream(...) as events:`"


@attrs.frozen(eq=False)
class StartedRun:
    """A run that was started.

    Attributes:
        request: Its outcome.
        context: Its state.
    """

    request: Request[RunResult]
    context: RunContext


async def outcome_of(request: Request[RunResult]) -> RunResult:
    """What a run came to.

    Raises:
        RuntimeShutdown: The runtime closed before the run had begun.
        Whatever the run failed with.

    Cancellation: ends the run in order and returns only when nothing of it is alive.
    """
    try:
        return await request.wait()
    except RequestCancelled:
        raise RuntimeShutdown from None


class RunStream(Generic[OutputT_co]):
    """The events of one run, in order; the last is a `result` or an `error`.

    Iterating ends cleanly only after the `result` event; after an `error` event, or if the
    runtime fails, the run's error is raised. Leaving the block early cancels the run and joins
    it; what it came to is then in `result`.

    Args:
        start: Starts the run; for `Runtime.stream`.
        mailbox: Where its events come.
    """

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
        self._raised = False
        self._lending = lending(current_call.get())

    @property
    def result(self) -> RunResult[OutputT_co]:
        """What the run came to; once it has ended.

        Raises:
            AgentError: What it failed with.
            RuntimeError: It has not ended.
        """
        if self._request is None or not self._request.done:
            raise RuntimeError("the run has not ended; read its events first, or leave the block")
        self._raised = True
        try:
            # Its options named the type, and the run checked it.
            return cast("RunResult[OutputT_co]", self._request.result())
        except RequestCancelled:
            raise RuntimeError("the run was cancelled, and has no result") from None

    async def __aenter__(self) -> Self:
        """Start the run.

        Raises:
            SessionBusy: The session is held, and the policy is `reject`.
            RuntimeClosed: The runtime takes no more runs.
        """
        if self._request is not None:
            raise RuntimeError("a stream is one run, and this one was entered before")
        started = await self._start(self._mailbox)
        self._request, self._context = started.request, started.context
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
        if not self._request.done:
            await self._join(self._request, exc)  # noqa: ASYNC102 - shielded there
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
    def context(self) -> RunContext | None:
        """The state of the run, for `Client`; None before its start."""
        return self._context

    @property
    def unfinished(self) -> bool:
        """True from its start until nothing of the run is alive."""
        return self._request is not None and not self._request.done

    async def interrupt(self) -> None:
        """End the run in order, from any task, and wait for that; its events can still be read.

        Nothing happens if it has ended, or never began.

        Cancellation: the run ends all the same.
        """
        request = self._request
        if request is None or request.done:
            return
        while request.queued:  # noqa: ASYNC110 - a tick, as in `_join`
            await trio.lowlevel.checkpoint()
        request.cancel(CancelReason.INTERRUPT)
        await request.settled()

    def drop(self) -> None:
        """Nobody reads any more: cancel the run, and leave its end to the runtime."""
        self._mailbox.abandon()
        if self._request is not None:
            self._request.cancel(CancelReason.READER_LEFT)

    async def _join(self, request: Request[RunResult], exc: BaseException | None) -> None:
        # The join may not be left half done, and the body's exception is on its way already.
        with trio.CancelScope(shield=True):
            # A run that nobody has taken yet would be withdrawn, and leave no outcome to a reader
            # that left of itself. Taking never waits: this is a tick.
            while exc is None and request.queued:  # noqa: ASYNC110 - a tick, see above
                await trio.lowlevel.checkpoint()
            request.cancel(CancelReason.READER_LEFT if exc is None else CancelReason.CALLER)
            await request.settled()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RunEvent:
        """The next event.

        Raises:
            AgentError: What the run failed with, after its `error` event.

        Cancellation: safe; no event is lost.
        """
        if self._request is None:
            raise RuntimeError(_NOT_ENTERED)
        while not self._batch:
            try:
                batch = await self._mailbox.get()
            except trio.EndOfChannel:
                self._raised = True
                # Raises what the run failed with.
                await outcome_of(self._request)  # noqa: ASYNC120 - the end of a channel is no news
                raise StopAsyncIteration from None
            # Once a batch: what a run makes is one of these, which no checker can follow this far.
            self._batch.extend(reversed(cast("tuple[RunEvent, ...]", batch)))
        return self._batch.pop()

    def _error(self, *, cancelled: bool) -> Exception | None:
        assert self._request is not None
        try:
            self._request.result()
        except RequestCancelled:
            # Not by the body: the runtime closed before the run had begun.
            return None if cancelled else RuntimeShutdown()
        except Exception as error:  # noqa: BLE001 - an AgentError, or what a provider raised
            return error
        return None
