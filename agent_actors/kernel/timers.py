"""Deadlines of things that wait, at the price of one sleeping task.

Owns who is due when. Setting and clearing cost a dictionary's entry; nothing is scheduled. One task
sleeps until the nearest time, rings who is due, and ends when nobody waits: a task that ticked on
would keep a virtual clock running for ever. It does not know what the things are.
"""

import math
from typing import Protocol

import trio


class Alarmed(Protocol):
    """What an alarm is set for. Compared by identity."""

    def ring(self) -> None:
        """The time has come. Synchronous; must not raise. The alarm is cleared before."""
        ...


class Alarms:
    """The alarms of one `trio.run`. Times are those of `trio.current_time`."""

    def __init__(self) -> None:
        self._due: dict[Alarmed, float] = {}
        self._nearest = math.inf
        self._sleep: trio.CancelScope | None = None

    def set(self, thing: Alarmed, due: float) -> None:
        """Ring at `due`, instead of an earlier setting; `math.inf` is never."""
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

    def clear(self, thing: Alarmed) -> None:
        """Do not ring; nothing happens if no alarm is set."""
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
            # Nothing happens between the last look at `_due` and this: the next one starts anew.
            self._sleep = None
            self._nearest = math.inf

    def _ring(self) -> None:
        now = trio.current_time()
        for thing in [thing for thing, due in self._due.items() if due <= now]:
            # One ring may clear another's alarm.
            if self._due.get(thing, math.inf) <= now:
                del self._due[thing]
                thing.ring()
        self._nearest = min(self._due.values(), default=math.inf)
