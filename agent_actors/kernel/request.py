"""One request to an actor and its outcome.

A `Request` connects two tasks: the caller, which is suspended until there is an outcome, and the
worker that produces the outcome. Cancellation is structured across the mailbox. A cancelled caller
withdraws its request if no worker has taken it. Otherwise the caller cancels the worker, and
continues only once the worker has ended. Resolving a request is synchronous and cannot fail, even
if the caller has left. If the worker still produced a value, the value is returned even if the
caller was cancelled in the meantime (its `Cancelled` is raised at its next checkpoint), so that no
lease and no result of a side effect is lost.

This module must be changed together with `actor_loop.py`, which takes requests out of mailboxes and
performs them.
"""

import contextvars
import math
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Generic, TypeVar

import trio

from agent_actors.kernel.exceptions import foreign_cancellation, is_cancellation

T = TypeVar("T")


class RequestCancelled(Exception):
    """The work was withdrawn or cancelled before it produced a value; internal to the package."""


class _Stage(Enum):
    QUEUED = auto()
    TAKEN = auto()
    DONE = auto()


class Request(Generic[T]):
    """Work requested from an actor.

    The worker runs in a copy of the context in which the request was made, so that context
    variables such as trace and tenant ids pass through the mailbox.

    Args:
        work: Called in the worker task; None if the actor itself resolves the request.
        on_cancel: Called with the reason of a cancellation, instead of cancelling the worker's
            scope. Needed for work that ends itself: for example, a run must first close its
            session.
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
        self._value: tuple[T, ...] = ()  # empty or one item, because None may be a value
        # Tuples, because most requests have one waiter and one callback, or none.
        self._waiters: tuple[trio.lowlevel.Task, ...] = ()
        self._callbacks: tuple[Callable[[], None], ...] = ()

    # Methods for the caller.

    @property
    def done(self) -> bool:
        """True if there is an outcome or the request was withdrawn."""
        return self._stage is _Stage.DONE

    @property
    def queued(self) -> bool:
        """True while no worker has taken the request."""
        return self._stage is _Stage.QUEUED

    @property
    def has_value(self) -> bool:
        """True if the outcome is a value."""
        return self.done and self._error is None

    @property
    def withdrawn(self) -> bool:
        """True if the request was cancelled before its work had an outcome."""
        return isinstance(self._error, RequestCancelled)

    def on_done(self, callback: Callable[[], None]) -> None:
        """Call a function synchronously on the outcome, or immediately if there already is one."""
        if self.done:
            callback()
        else:
            self._callbacks += (callback,)

    async def wait(self) -> T:
        """Wait for the outcome and return its value.

        Raises:
            Exception: The exception that the work raised.

        Cancellation: a queued request is withdrawn. A running worker is cancelled, and the call
        returns only once the worker has ended. If the worker still produced a value, the value is
        returned.
        """
        raise_cancel: trio.lowlevel.RaiseCancelT | None = None
        task = trio.lowlevel.current_task()

        def abort(raiser: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            nonlocal raise_cancel
            raise_cancel = raiser
            if self._stage is _Stage.QUEUED:
                self._waiters = tuple(one for one in self._waiters if one is not task)
                self.cancel("caller")
                return trio.lowlevel.Abort.SUCCEEDED
            self.cancel("caller")
            return trio.lowlevel.Abort.FAILED

        if not self.done:
            self._waiters += (task,)
            await trio.lowlevel.wait_task_rescheduled(abort)
        try:
            return self.result()
        except RequestCancelled:
            if raise_cancel is not None:
                raise_cancel()
            raise

    async def wait_done(self) -> None:
        """Wait until there is an outcome of any kind.

        Cancellation: safe; the work continues.
        """
        if self.done:
            return
        task = trio.lowlevel.current_task()

        def abort(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            self._waiters = tuple(one for one in self._waiters if one is not task)
            return trio.lowlevel.Abort.SUCCEEDED

        self._waiters += (task,)
        await trio.lowlevel.wait_task_rescheduled(abort)

    def result(self) -> T:
        """Return the value, or raise the exception of the work; only call this if `done`."""
        assert self.done
        if self._error is not None:
            raise self._error
        return self._value[0]

    def cancel(self, reason: str) -> None:
        """Withdraw the request, or ask its worker to stop. Does nothing if the request is done."""
        if self._stage is _Stage.QUEUED:
            self.fail(RequestCancelled(reason))
        elif self._stage is _Stage.TAKEN:
            self._cancel_reason = self._cancel_reason or reason
            if self._on_cancel is not None:
                self._on_cancel(reason)
            elif self._scope is not None:
                self._scope.cancel(reason)

    # Methods for the worker.

    def expire_at(self, deadline: float, missed: Callable[[], T]) -> None:
        """Stop the work at a time by trio's clock; the value is then the result of `missed`.

        The deadline is set on the request's own scope, because a nested scope would add a tenth to
        the cost of a call. Setting the deadline before the work begins is even cheaper.
        """
        self._missed = missed
        self._deadline = deadline
        if self._scope is not None:
            self._scope.deadline = deadline

    # Methods for the actor.

    def set_on_settled(self, leave: "Callable[[Request[T]], None]") -> None:
        """Set the function to call with this request when it is resolved or withdrawn.

        For the actor that owns the request. `on_done` would also work, but costs a closure and a
        list per request.
        """
        self._leave = leave

    def take(self) -> bool:
        """Claim the request for a worker; return False if it was withdrawn."""
        if self._stage is not _Stage.QUEUED:
            return False
        self._stage = _Stage.TAKEN
        return True

    async def perform(self, lost: Callable[[], Exception]) -> None:
        """Run the work and resolve the request; the body of a worker task.

        Args:
            lost: Returns the error for the request if the worker itself is torn down.
        """
        error: Exception | None = None
        work = self._work
        if work is None:
            return  # the actor has resolved the request in the meantime
        try:
            if self._on_cancel is not None:  # the work ends itself, so its scope is never cancelled
                await trio.lowlevel.checkpoint_if_cancelled()
                self._value = (await work(),)
                return
            with trio.CancelScope(deadline=self._deadline) as scope:
                self._scope = scope
                if self._cancel_reason is not None:
                    scope.cancel(self._cancel_reason)
                # If the request was cancelled after it was taken, the work does not begin at all.
                await trio.lowlevel.checkpoint_if_cancelled()
                self._value = (await work(),)
            if scope.cancelled_caught and self._missed is not None and self._cancel_reason is None:
                self._value = (self._missed(),)
        except Exception as raised:  # noqa: BLE001 - every error goes to the caller
            error = raised
        except BaseException as raised:  # noqa: ASYNC103
            # This cancellation is not the request's own: the actor is ending and cancels its
            # workers.
            if isinstance(raised, trio.Cancelled) and not is_cancellation(raised):
                error = foreign_cancellation()
            else:
                error = lost()
                raise
        finally:
            self._scope = None
            self._settle(None if self._value else error or RequestCancelled("cancelled"))

    def resolve(self, value: T) -> None:
        """Set the value and wake all waiters. Only the first outcome counts."""
        if not self.done:
            self._value = (value,)
            self._settle(None)

    def fail(self, error: Exception) -> None:
        """Set an error as the outcome and wake all waiters. Only the first outcome counts."""
        if not self.done:
            self._settle(error)

    def _settle(self, error: Exception | None) -> None:
        if self._stage is _Stage.DONE:
            return
        self._stage = _Stage.DONE
        self._error = error
        self._work = self._missed = None  # they may hold a reference to this request
        if self._leave is not None:
            self._leave(self)
        waiters, self._waiters = self._waiters, ()
        for task in waiters:
            trio.lowlevel.reschedule(task)
        callbacks, self._callbacks = self._callbacks, ()
        for callback in callbacks:
            callback()
