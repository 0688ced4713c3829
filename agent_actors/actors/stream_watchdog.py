"""Deadlines for many streams at the price of one sleeping task.

Owns, per watched stream, when it last got something and which deadline runs. Getting something
costs reading the clock; nothing is rescheduled. One sweeper task sleeps until the nearest
deadline, looks who is really late, and ends when nobody is watched: a task that ticked on for
ever would keep a virtual clock running. It does not know what streams are.
"""

import math
from collections.abc import Awaitable, Callable
from typing import Final

import attrs
import trio

from agent_actors.domain.limits import Timeouts
from agent_actors.errors import DeadlineKind

_STOPPING: Final = 5.0
"""Seconds in which a stream has to end that was told to: closing a connection takes no longer."""


@attrs.define(eq=False)
class Watch:
    """One watched stream. Times are those of `trio.current_time`."""

    deadlines: Timeouts
    started: float
    _last: float
    _begun: bool = attrs.field(default=False, init=False)
    _paused: bool = attrs.field(default=False, init=False)
    # The clock itself: `trio.current_time` looks for it anew, once for each piece of each stream.
    _now: Callable[[], float] = attrs.field(
        factory=lambda: trio.lowlevel.current_clock().current_time, init=False
    )
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    expired: DeadlineKind | None = attrs.field(default=None, init=False)
    # What ends the stream instead, where all that counts of it has come; and by when it has to.
    _stop: Callable[[], object] | None = attrs.field(default=None, init=False)
    _stopping: tuple[float, DeadlineKind] | None = attrs.field(default=None, init=False)

    def touch(self) -> None:
        """Something that counts has come."""
        self._begun = True
        self._last = self._now()

    def pause(self) -> None:
        """The stream is not being read: `first_token` and `idle` stand still."""
        self._paused = True

    def resume(self) -> None:
        """The stream is being read again; the running deadline begins anew."""
        self._paused = False
        self._last = trio.current_time()

    def enough(self, stop: Callable[[], object] | None) -> None:
        """All that counts has come: lateness is no failure, and calls this; None: it is one."""
        self._stop = stop

    def next_deadline(self) -> tuple[float, DeadlineKind]:
        """When this stream is late as things stand, and for what."""
        if self._stopping is not None:
            return self._stopping
        total = self.started + self.deadlines.total
        if self._paused:
            return total, "total"
        kind: DeadlineKind = "idle" if self._begun else "first_token"
        wait = self.deadlines.idle if self._begun else self.deadlines.first_token
        return min((total, "total"), (self._last + wait, kind))

    def shortest_wait(self) -> float:
        """How long, whatever comes or pauses, this stream cannot be late for but for `total`."""
        if self._begun:
            return self.deadlines.idle
        return min(self.deadlines.idle, self.deadlines.first_token)

    def seconds(self) -> float:
        """The length of the deadline that expired."""
        if self.expired == "idle":
            return self.deadlines.idle
        return self.deadlines.total if self.expired == "total" else self.deadlines.first_token

    def expire(self, kind: DeadlineKind) -> None:
        """Cancel the stream for being late; or, if all that counts has come, have it end."""
        if self._stop is not None and self._stopping is None:
            self._stopping = self._now() + _STOPPING, kind
            self._stop()
            return
        self.expired = kind
        self.scope.cancel(f"deadline: {kind}")


class Sweeper:
    """Watches streams and cancels those that are late.

    Args:
        start: Starts the sweeping task among its actor's own.
    """

    def __init__(self, start: Callable[[Callable[[], Awaitable[None]]], None]) -> None:
        self._start = start
        self._watched: set[Watch] = set()
        self._nearest = math.inf
        self._sleep: trio.CancelScope | None = None
        self._sweeping = False

    def watch(self, deadlines: Timeouts) -> Watch:
        """Begin to watch a stream, from now."""
        now = trio.current_time()
        watch = Watch(deadlines, now, now)
        self._watched.add(watch)
        due, _ = watch.next_deadline()
        # The idle deadline may turn out nearer than the first token's, once it runs.
        due = min(due, now + deadlines.idle)
        if not self._sweeping and due < math.inf:
            self._sweeping = True
            self._start(self._sweep)
        if due < self._nearest:
            self._nearest = due
            if self._sleep is not None:
                self._sleep.deadline = due
        return watch

    def unwatch(self, watch: Watch) -> None:
        """The stream has ended."""
        self._watched.discard(watch)
        if not self._watched and self._sleep is not None:
            self._sleep.cancel("nothing to watch")

    async def _sweep(self) -> None:
        try:
            while self._watched and self._nearest < math.inf:
                with trio.CancelScope(deadline=self._nearest) as self._sleep:
                    await trio.sleep_forever()
                self._sleep = None
                self._look()
        finally:
            self._sleep = None
            self._sweeping = False
            self._nearest = math.inf

    def _look(self) -> None:
        now = trio.current_time()
        nearest = math.inf
        for watch in self._watched:
            if watch.expired is not None:
                continue
            due, kind = watch.next_deadline()
            if due <= now:
                watch.expire(kind)
                due, _ = watch.next_deadline()
            if watch.expired is None:
                nearest = min(nearest, due, now + watch.shortest_wait())
        self._nearest = nearest
