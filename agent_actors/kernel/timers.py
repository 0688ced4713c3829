"""A table of alarms that costs only one sleeping task.

The table owns the due time of each entry. Setting or clearing an entry costs only one dictionary
operation; nothing is scheduled. One task sleeps until the nearest due time, calls `ring` on the
entries that are due, and ends when the table is empty. A task that kept ticking would keep a
virtual clock running for ever. The table knows nothing else about its entries.
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
            self._sleep = trio.CancelScope(deadline=self._nearest)
            trio.lowlevel.spawn_system_task(self._watch)

    def clear(self, thing: Timed) -> None:
        """Clear the alarm; does nothing if none is set."""
        if self._due.pop(thing, None) is not None and not self._due and self._sleep is not None:
            self._sleep.cancel("no alarm is set")

    async def _watch(self) -> None:
        try:
            while self._due:
                assert self._sleep is not None
                with self._sleep:
                    await trio.sleep_forever()
                self._ring()
                self._sleep = trio.CancelScope(deadline=self._nearest)
        finally:
            # No other task runs between the last check of `_due` and this line, so the next `set`
            # starts a new task.
            self._sleep = None
            self._nearest = math.inf

    def _ring(self) -> None:
        now = trio.current_time()
        for thing in [thing for thing, due in self._due.items() if due <= now]:
            # Ringing one entry may clear another entry's alarm.
            if self._due.get(thing, math.inf) <= now:
                del self._due[thing]
                thing.ring()
        self._nearest = min(self._due.values(), default=math.inf)
