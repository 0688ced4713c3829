"""A table of alarms that costs only one sleeping task.

The table owns the due time of each entry. Setting or clearing an entry costs only one dictionary
operation; nothing is scheduled. One task sleeps until the nearest due time and calls `ring` on the
entries that are due. If the nearest alarm was cleared, the task wakes up once without ringing.
While the table is empty, the task then sleeps without a deadline: starting a task for each alarm
would cost more than the alarm, and a task that kept ticking would keep a virtual clock running for
ever. The task ends when the owner of the table has no more use for it, or with the `trio.run`. The
table knows nothing else about its entries.
"""

import math
from typing import Protocol

import trio


class Timed(Protocol):
    """An object that an alarm can be set for. Compared by identity."""

    def ring(self) -> None:
        """Handle the expiry, after the alarm was cleared; synchronous, and must not raise."""
        ...


class Timers:
    """The alarms of one `trio.run`. All times are by `trio.current_time`."""

    def __init__(self) -> None:
        self._due: dict[Timed, float] = {}
        self._nearest = math.inf
        self._sleep: trio.CancelScope | None = None
        self._life: trio.CancelScope = trio.CancelScope()
        self._ended: trio.Event = trio.Event()

    def set(self, thing: Timed, due: float) -> None:
        """Set the alarm to ring at `due`, replacing any earlier setting; `math.inf` clears it."""
        if due == math.inf:
            self.clear(thing)
            return
        self._due[thing] = due
        if due < self._nearest:
            self._nearest = due
            if self._sleep is not None:
                self._sleep.deadline = due
        if self._sleep is None:
            self._start()

    def clear(self, thing: Timed) -> None:
        """Clear the alarm; does nothing if none is set."""
        self._due.pop(thing, None)

    async def stop_if_empty(self) -> None:
        """End the task and wait for its end, unless an alarm is set; the next alarm restarts it.

        Cancellation: safe.
        """
        if self._sleep is not None and not self._due:
            self._life.cancel("no alarms")
            await self._ended.wait()

    def _start(self) -> None:
        self._sleep = trio.CancelScope(deadline=self._nearest)
        self._life = trio.CancelScope()
        self._ended = trio.Event()
        trio.lowlevel.spawn_system_task(self._watch)

    async def _watch(self) -> None:
        try:
            with self._life:
                while True:
                    assert self._sleep is not None
                    with self._sleep:
                        await trio.sleep_forever()
                    self._ring()
                    self._sleep = trio.CancelScope(deadline=self._nearest)
        finally:  # if the `trio.run` is ending, the next `set` in another one starts a new task
            self._sleep = None
            self._nearest = math.inf
            self._ended.set()
        if self._due:  # an alarm was set while the task was ending
            self._nearest = min(self._due.values())
            self._start()

    def _ring(self) -> None:
        now = trio.current_time()
        for thing in [thing for thing, due in self._due.items() if due <= now]:
            # Ringing one entry may clear another entry's alarm.
            if self._due.get(thing, math.inf) <= now:
                del self._due[thing]
                thing.ring()
        self._nearest = min(self._due.values(), default=math.inf)
