"""The line before one endpoint: who may send a request, as fast as the endpoint takes them.

Owns those who wait, and the endpoint's `Pace`. Without a refusal nobody waits, and standing in line
costs two additions. Whoever was refused goes before those who were not, and the others go first
come, first served, whichever session they are of. A turn is granted synchronously: nothing comes
between it and the `try` after it.
"""

import math
from collections import deque
from collections.abc import Awaitable, Callable

import trio

from agent_actors.protocol.rate_control import Pace, PaceStatistics, Ticket


class RefusesAll(Exception):
    """The endpoint has answered nobody for as long as one waits in its line."""


class Line:
    """The line of one endpoint.

    Args:
        start: Starts a task among its actor's own: one that waits out a pause.
    """

    def __init__(self, start: Callable[[Callable[[], Awaitable[None]]], None]) -> None:
        self._start = start
        self._pace = Pace()
        self._live = 0
        self._refused: deque[trio.lowlevel.Task] = deque()
        self._others: deque[trio.lowlevel.Task] = deque()
        self._tickets: dict[trio.lowlevel.Task, Ticket] = {}
        # Seconds of nothing but refusals after which each of them gives up.
        self._patience: dict[trio.lowlevel.Task, float] = {}
        # The sleep until a pause is over; None while nobody waits for that.
        self._pause: trio.CancelScope | None = None

    @property
    def answers(self) -> int:
        """Answers that have begun so far."""
        return self._pace.answers

    @property
    def waiting(self) -> int:
        """How many stand in line."""
        return len(self._refused) + len(self._others)

    async def enter(self, *, first: bool = False, patience: float = math.inf) -> Ticket:
        """Wait for the turn to send a request. Does not checkpoint if nobody is held back.

        Args:
            first: Go before those who were not refused.
            patience: Seconds of nothing but refusals after which to give up.

        Raises:
            RefusesAll: They are over, and another refusal came.

        Cancellation: safe; a cancelled wait holds nothing.
        """
        if self._pace.is_open and not self._refused and not self._others:
            return self._begin()
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
            raise RefusesAll
        return ticket

    def answered(self, ticket: Ticket) -> None:
        """Something of the answer has come."""
        self._pace.answered(ticket)
        self._admit()

    def leave(self, ticket: Ticket) -> None:
        """The request is over."""
        self._live -= 1
        self._pace.ended(ticket)
        self._admit()

    def refused(self, ticket: Ticket, pause: float) -> None:
        """The endpoint refused the request, which leaves next.

        Args:
            ticket: The request.
            pause: Seconds for which the endpoint asked to be left alone; 0 if it named none.
        """
        now = trio.current_time()
        self._pace.refused(ticket, now, pause=pause, live=self._live - 1)
        refusing = now - self._pace.refusing_since
        for task in [one for one, patience in self._patience.items() if patience <= refusing]:
            self._leave(task)
            trio.lowlevel.reschedule(task)

    def statistics(self) -> PaceStatistics:
        """What the endpoint has taught."""
        return self._pace.statistics()

    def _leave(self, task: trio.lowlevel.Task) -> None:
        """Leave the line without a turn."""
        del self._patience[task]
        queue = self._refused if task in self._refused else self._others
        queue.remove(task)
        if self._pause is not None and not self.waiting:
            self._pause.cancel("nobody waits")

    def _begin(self) -> Ticket:
        self._live += 1
        return self._pace.begin(trio.current_time())

    def _admit(self) -> None:
        """Let in whoever may go now."""
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
        # Ends with the pause, or when nobody waits for its end any more.
        assert self._pause is not None
        try:
            with self._pause:
                while True:
                    wait = self._pace.wait(trio.current_time(), self._live)
                    if not 0 < wait < math.inf:
                        break
                    await trio.sleep(wait)  # longer, if another refusal asked for more
        finally:
            self._pause = None
        self._admit()
