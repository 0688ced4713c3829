"""Deadlines for many streams, at the cost of one sleeping task.

For each watched stream, this module owns the time of the last delta and the current deadline. A
delta only costs one clock reading; nothing is rescheduled. One sweeper task sleeps until the
nearest deadline and checks which streams are late. If the stream with that deadline has ended, the
task wakes up once without finding one. While no stream is being watched, the task then sleeps
without a deadline: a new task for each stream would cost more than the watch, and a task that kept
ticking would keep a virtual clock running for ever. The task ends with its actor. The module knows
nothing else about streams.
"""

import math
from collections.abc import Awaitable, Callable
from typing import Final

import attrs
import trio

from agent_actors.domain.limits import Timeouts
from agent_actors.errors import DeadlineKind

_STOPPING: Final = 5.0
"""Seconds that a stream has to end after it was asked to. Closing a connection takes less time."""


@attrs.define(eq=False)
class Watch:
    """One watched stream. All times are by `trio.current_time`.

    Attributes:
        deadlines: The deadlines of the stream.
        scope: The scope around the stream, which is cancelled at a deadline.
        started: The start time of the stream.
        expired: The deadline at which the stream was cancelled; None if it was not cancelled.
    """

    deadlines: Timeouts
    scope: trio.CancelScope
    started: float
    _last: float
    _begun: bool = attrs.field(default=False, init=False)
    _paused: bool = attrs.field(default=False, init=False)
    # The clock's own method, since `trio.current_time` would look it up again for every delta.
    _now: Callable[[], float] = attrs.field(
        factory=lambda: trio.lowlevel.current_clock().current_time, init=False
    )
    expired: DeadlineKind | None = attrs.field(default=None, init=False)
    # If everything needed has arrived, this function is called instead of cancelling the stream.
    # `_stopping` is then the deadline by which the stream must end.
    _stop: Callable[[], object] | None = attrs.field(default=None, init=False)
    _stopping: tuple[float, DeadlineKind] | None = attrs.field(default=None, init=False)

    def touch(self) -> None:
        """Record that content has arrived."""
        self._begun = True
        self._last = self._now()

    def pause(self) -> None:
        """Pause the `first_token` and `idle` deadlines, because the stream is not being read."""
        self._paused = True

    def resume(self) -> None:
        """Restart the current deadline, because the stream is being read again."""
        self._paused = False
        self._last = trio.current_time()

    def mark_complete(self, stop: Callable[[], object] | None) -> None:
        """Record that all content has arrived, so that a late end of the stream is not a failure.

        Args:
            stop: Called to end the stream when a deadline expires; None: an expired deadline is a
                failure again.
        """
        self._stop = stop

    def next_deadline(self) -> tuple[float, DeadlineKind]:
        """Return the time and kind of this stream's next deadline, if nothing arrives before it."""
        if self._stopping is not None:
            return self._stopping
        total = self.started + self.deadlines.total
        if self._paused:
            return total, "total"
        kind: DeadlineKind = "idle" if self._begun else "first_token"
        wait = self.deadlines.idle if self._begun else self.deadlines.first_token
        return min((total, "total"), (self._last + wait, kind))

    def shortest_wait(self) -> float:
        """Return the seconds before the stream can become late, except by its `total` deadline."""
        if self._begun:
            return self.deadlines.idle
        return min(self.deadlines.idle, self.deadlines.first_token)

    def seconds(self) -> float:
        """Return the duration, in seconds, of the deadline that expired."""
        if self.expired == "idle":
            return self.deadlines.idle
        return self.deadlines.total if self.expired == "total" else self.deadlines.first_token

    def expire(self, kind: DeadlineKind) -> None:
        """Cancel the late stream, or, if everything needed has arrived, ask it to end."""
        if self._stop is not None and self._stopping is None:
            self._stopping = self._now() + _STOPPING, kind
            self._stop()
            return
        self.expired = kind
        self.scope.cancel(f"deadline: {kind}")


class Sweeper:
    """Watches streams and cancels those that are late.

    Args:
        start: Starts the sweeper task as a background task of the actor.
    """

    def __init__(self, start: Callable[[Callable[[], Awaitable[None]]], None]) -> None:
        self._start = start
        self._watched: set[Watch] = set()
        self._nearest = math.inf
        self._sleep: trio.CancelScope | None = None
        self._sweeping = False

    def watch(self, deadlines: Timeouts, scope: trio.CancelScope) -> Watch:
        """Start watching a stream, whose code runs in this scope."""
        now = trio.current_time()
        watch = Watch(deadlines, scope, now, now)
        due, _ = watch.next_deadline()
        # Once the idle deadline runs, it may be nearer than the first-token deadline.
        due = min(due, now + deadlines.idle)
        if not self._sweeping and due < math.inf:
            self._start(self._sweep)  # fails if the actor has ended
            self._sweeping = True
        self._watched.add(watch)
        if due < self._nearest:
            self._nearest = due
            if self._sleep is not None:
                self._sleep.deadline = due
        return watch

    def unwatch(self, watch: Watch) -> None:
        """Stop watching a stream that has ended."""
        self._watched.discard(watch)

    async def _sweep(self) -> None:
        try:
            while True:
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
