"""One request to an actor, and the reply that cannot fail.

A `Request` owns the meeting of two tasks: the asker, parked until there is an outcome, and the
worker that makes it. Structured across the mailbox means: an asker that is cancelled withdraws a
request that nobody has taken; else it cancels the worker and goes on only when the worker has
ended. Resolving is synchronous and cannot fail: an asker that has gone is simply not there. A
value that was reached is given even to an asker that was cancelled meanwhile (its `Cancelled`
comes at its next checkpoint), so that no lease and no side effect's output is lost.

Change together with `_owner.py`, which takes requests out of mailboxes and runs them.
"""

import contextvars
import math
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class RequestCancelled(Exception):
    """The work was withdrawn or cancelled before it had a value; never leaves the package."""


class _Stage(Enum):
    QUEUED = auto()
    TAKEN = auto()
    DONE = auto()


class Request(Generic[T]):
    """Work asked of an actor.

    The worker runs in a copy of the context in which the request was made, so that tracing and
    tenant ids survive the mailbox.

    Args:
        work: Called in the worker task; None for an actor that resolves its requests itself.
        on_cancel: Told the reason instead of the worker's own cancel scope being cancelled, for
            work that ends itself (a run has to close its session first).
    """

    __slots__ = (
        "_callbacks",
        "_cancel_reason",
        "_deadline",
        "_error",
        "_leave",
        "_missed",
        "_on_cancel",
        "_scope",
        "_stage",
        "_value",
        "_waiters",
        "_work",
        "context",
    )

    def __init__(
        self,
        work: Callable[[], Awaitable[T]] | None = None,
        *,
        on_cancel: Callable[[str], None] | None = None,
    ) -> None:
        self.context: contextvars.Context = contextvars.copy_context()
        self._work = work
        self._on_cancel = on_cancel
        self._stage = _Stage.QUEUED
        self._scope: trio.CancelScope | None = None
        self._cancel_reason: str | None = None
        self._deadline = math.inf
        self._missed: Callable[[], T] | None = None
        self._leave: Callable[[Request[T]], None] | None = None
        self._error: Exception | None = None
        self._value: list[T] = []  # empty or one: None may be a value
        self._waiters: set[trio.lowlevel.Task] = set()
        self._callbacks: list[Callable[[], None]] = []

    # The asker's side.

    @property
    def done(self) -> bool:
        """True when there is an outcome, or the request was withdrawn."""
        return self._stage is _Stage.DONE

    @property
    def queued(self) -> bool:
        """True while no worker has taken the request."""
        return self._stage is _Stage.QUEUED

    @property
    def has_value(self) -> bool:
        """True when the outcome is a value."""
        return self.done and self._error is None

    def on_done(self, callback: Callable[[], None]) -> None:
        """Call this, synchronously, when there is an outcome; at once if there is one."""
        if self.done:
            callback()
        else:
            self._callbacks.append(callback)

    async def wait(self) -> T:
        """The outcome.

        Raises:
            Whatever the work raised.

        Cancellation: withdraws the request, or cancels its worker and returns only when that
        has ended; a value that was reached is returned even then.
        """
        raise_cancel: trio.lowlevel.RaiseCancelT | None = None
        task = trio.lowlevel.current_task()

        def abort(raiser: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            nonlocal raise_cancel
            raise_cancel = raiser
            if self._stage is _Stage.QUEUED:
                self._waiters.discard(task)
                self.cancel("caller")
                return trio.lowlevel.Abort.SUCCEEDED
            self.cancel("caller")
            return trio.lowlevel.Abort.FAILED

        if not self.done:
            self._waiters.add(task)
            await trio.lowlevel.wait_task_rescheduled(abort)
        try:
            return self.result()
        except RequestCancelled:
            if raise_cancel is not None:
                raise_cancel()
            raise

    async def settled(self) -> None:
        """Return when there is an outcome, whatever it is.

        Cancellation: safe; the work goes on.
        """
        if self.done:
            return
        task = trio.lowlevel.current_task()

        def abort(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            self._waiters.discard(task)
            return trio.lowlevel.Abort.SUCCEEDED

        self._waiters.add(task)
        await trio.lowlevel.wait_task_rescheduled(abort)

    def result(self) -> T:
        """The value, or raise what the work raised. Only when `done`."""
        assert self.done
        if self._error is not None:
            raise self._error
        return self._value[0]

    def cancel(self, reason: str) -> None:
        """Withdraw the request, or tell its worker to stop. Nothing happens if it is done."""
        if self._stage is _Stage.QUEUED:
            self.fail(RequestCancelled(reason))
        elif self._stage is _Stage.TAKEN:
            self._cancel_reason = self._cancel_reason or reason
            if self._on_cancel is not None:
                self._on_cancel(reason)
            elif self._scope is not None:
                self._scope.cancel(reason)

    # The worker's side.

    def expire_at(self, deadline: float, missed: Callable[[], T]) -> None:
        """Stop this work at a time of trio's clock; then its value is what `missed` makes.

        It stands on the request's own scope: another inside that would cost a tenth of a call.
        To say it before the work begins is cheaper still.
        """
        self._missed = missed
        self._deadline = deadline
        if self._scope is not None:
            self._scope.deadline = deadline

    # The actor's side.

    def belong(self, leave: "Callable[[Request[T]], None]") -> None:
        """Call this with the request itself at its outcome; for the one actor that answers for it.

        A callback would do, and costs a closure and a list of every request.
        """
        self._leave = leave

    def take(self) -> bool:
        """Claim the request for a worker; False if it was withdrawn."""
        if self._stage is not _Stage.QUEUED:
            return False
        self._stage = _Stage.TAKEN
        return True

    async def perform(self, lost: Callable[[], Exception]) -> None:
        """Run the work and resolve; the body of a worker task.

        Args:
            lost: Makes the error to resolve with if the worker itself is torn down.
        """
        error: Exception = RequestCancelled("cancelled")
        work = self._work
        if work is None:
            return  # its actor has answered for it meanwhile
        try:
            if self._on_cancel is not None:  # it ends itself, so nobody cancels a scope of its own
                await trio.lowlevel.checkpoint_if_cancelled()
                self._value.append(await work())
                return
            with trio.CancelScope(deadline=self._deadline) as scope:
                self._scope = scope
                if self._cancel_reason is not None:
                    scope.cancel(self._cancel_reason)
                # Cancelled between being taken and now: the work does not begin at all.
                await trio.lowlevel.checkpoint_if_cancelled()
                self._value.append(await work())
            if scope.cancelled_caught and self._missed is not None and self._cancel_reason is None:
                self._value.append(self._missed())
        except Exception as raised:  # noqa: BLE001 - it belongs to the asker, whatever it is
            error = raised
        except BaseException:
            # Not this request's own cancel: its actor is going down, and takes the worker along.
            error = lost()
            raise
        finally:
            self._scope = None
            self._settle(None if self._value else error)

    def resolve(self, value: T) -> None:
        """Set the value and wake whoever waits. Only the first outcome counts."""
        if not self.done:
            self._value.append(value)
            self._settle(None)

    def fail(self, error: Exception) -> None:
        """Set an error as the outcome and wake whoever waits. Only the first outcome counts."""
        if not self.done:
            self._settle(error)

    def _settle(self, error: Exception | None) -> None:
        if self._stage is _Stage.DONE:
            return
        self._stage = _Stage.DONE
        self._error = error
        self._work = self._missed = None  # what they hold may hold this request
        if self._leave is not None:
            self._leave(self)
        for task in self._waiters:
            trio.lowlevel.reschedule(task)
        self._waiters.clear()
        for callback in self._callbacks:
            callback()
        self._callbacks.clear()
