"""The queue of requests to one endpoint, which admits them as fast as the endpoint accepts them.

The queue owns the waiting tasks and the endpoint's `RateController`. While the endpoint refuses no
request, no task waits, and entering the queue costs only two additions. Requests that the endpoint
has already refused go ahead of new requests. Otherwise, requests are admitted first come, first
served, whatever their session. Admission is synchronous: no other task can run between the
admission of a request and the `try` statement that follows.
"""

import math
from collections import deque
from collections.abc import Awaitable, Callable

import trio

from agent_actors.protocol.rate_control import RateController, RateStatistics, Ticket


class EndpointRefusing(Exception):
    """The endpoint has refused every request for longer than the caller is willing to wait."""


class AdmissionQueue:
    """The admission queue for one endpoint.

    Args:
        start: Starts a background task in the actor, which sleeps until a pause has ended.
    """

    def __init__(self, start: Callable[[Callable[[], Awaitable[None]]], None]) -> None:
        self._start = start
        self._pace = RateController()
        self._live = 0
        self._refused: deque[trio.lowlevel.Task] = deque()
        self._others: deque[trio.lowlevel.Task] = deque()
        self._tickets: dict[trio.lowlevel.Task, Ticket] = {}
        # Each waiting task, with the number of seconds of uninterrupted refusals after which it
        # gives up.
        self._patience: dict[trio.lowlevel.Task, float] = {}
        # The scope of the sleep during a pause; None while no task needs it.
        self._pause: trio.CancelScope | None = None

    @property
    def answers(self) -> int:
        """The number of responses that have begun so far."""
        return self._pace.answers

    @property
    def is_open(self) -> bool:
        """True if a request that enters now would not wait."""
        return self._pace.is_open and not self._refused and not self._others

    @property
    def waiting(self) -> int:
        """The number of tasks in the queue."""
        return len(self._refused) + len(self._others)

    async def enter(self, *, first: bool = False, patience: float = math.inf) -> Ticket:
        """Wait for permission to send a request, without a checkpoint if no requests are held back.

        Args:
            first: True to go ahead of requests that have not been refused.
            patience: Give up after this many seconds in which the endpoint has refused every
                request.

        Raises:
            EndpointRefusing: The endpoint refused another request after that time.

        Cancellation: safe; a cancelled call holds nothing.
        """
        if self.is_open:
            return self.enter_nowait()
        task = trio.lowlevel.current_task()
        queue = self._refused if first else self._others
        queue.append(task)
        self._admit()
        ticket = self._tickets.pop(task, None)
        if ticket is not None:
            return ticket

        def abort(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            self._leave(task)
            return trio.lowlevel.Abort.SUCCEEDED

        self._patience[task] = patience
        await trio.lowlevel.wait_task_rescheduled(abort)
        ticket = self._tickets.pop(task, None)
        if ticket is None:
            raise EndpointRefusing
        return ticket

    def enter_nowait(self) -> Ticket:
        """Return the permission to send a request; only call this if `is_open`."""
        return self._begin()

    def answered(self, ticket: Ticket) -> None:
        """Record that the first part of a response has arrived."""
        self._pace.answered(ticket)
        self._admit()

    def leave(self, ticket: Ticket) -> None:
        """Record the end of a request."""
        self._live -= 1
        self._pace.ended(ticket)
        self._admit()

    def refused(self, ticket: Ticket, pause: float) -> None:
        """Record that the endpoint refused a request; the caller must call `leave` next.

        Args:
            ticket: The request.
            pause: Seconds for which the endpoint asked clients to wait; 0 if it named no time.
        """
        now = trio.current_time()
        self._pace.refused(ticket, now, pause=pause, live=self._live - 1)
        refusing = now - self._pace.refusing_since
        for task in [one for one, patience in self._patience.items() if patience <= refusing]:
            self._leave(task)
            trio.lowlevel.reschedule(task)

    def statistics(self) -> RateStatistics:
        """Return what was learned about the endpoint's limits."""
        return self._pace.statistics()

    def _leave(self, task: trio.lowlevel.Task) -> None:
        """Remove a task from the queue without admitting it."""
        del self._patience[task]
        queue = self._refused if task in self._refused else self._others
        queue.remove(task)
        if self._pause is not None and not self.waiting:
            self._pause.cancel("no run is waiting")

    def _begin(self) -> Ticket:
        self._live += 1
        return self._pace.begin(trio.current_time())

    def _admit(self) -> None:
        """Admit all tasks that may send now."""
        while self._refused or self._others:
            wait = self._pace.wait(trio.current_time(), self._live)
            if wait:
                if wait < math.inf and self._pause is None:
                    self._pause = trio.CancelScope()
                    self._start(self._sleep)
                return
            task = (self._refused or self._others).popleft()
            self._tickets[task] = self._begin()
            if task is not trio.lowlevel.current_task():
                del self._patience[task]
                trio.lowlevel.reschedule(task)

    async def _sleep(self) -> None:
        # This task ends when the pause ends or the queue is empty.
        assert self._pause is not None
        try:
            with self._pause:
                while True:
                    wait = self._pace.wait(trio.current_time(), self._live)
                    if not 0 < wait < math.inf:
                        break
                    await trio.sleep(wait)  # longer if another refusal extends the pause
        finally:
            self._pause = None
        self._admit()
