"""A fair limiter, with a total limit, a limit per key, and round-robin turns between keys.

The limiter owns the counts and the queues for one scarce resource. Free slots go to the waiting
keys in round-robin order. Within a key, they are granted first come, first served. A run with 800
calls therefore waits for its turn just like a run with one call. A grant is synchronous: no other
task can run between a grant and the `try` statement that follows.
"""

import math
from collections import OrderedDict, deque
from collections.abc import Hashable

import attrs
import trio


@attrs.frozen
class LimiterStatistics:
    """A snapshot of a limiter.

    Attributes:
        used: Slots in use.
        peak: The largest number of slots in use so far.
        waiting: The number of waiting tasks.
        total: The limit for all keys together.
    """

    used: int
    peak: int
    waiting: int
    total: float


@attrs.define(eq=False)
class FairLimiter:
    """A limiter that gives free slots to keys in turn.

    Args:
        total: The number of slots; `math.inf` for no limit.
        per_key: The number of slots that one key may hold; `math.inf` for no limit.
    """

    total: float
    per_key: float = math.inf
    _used: int = attrs.field(default=0, init=False)
    _peak: int = attrs.field(default=0, init=False)
    _waiting: int = attrs.field(default=0, init=False)
    _used_by: dict[Hashable, int] = attrs.field(factory=dict[Hashable, int], init=False)
    _queues: dict[Hashable, deque[trio.lowlevel.Task]] = attrs.field(
        factory=dict[Hashable, "deque[trio.lowlevel.Task]"], init=False
    )
    # The waiting keys that have not reached their own limit, in the order of their turns.
    _ready: OrderedDict[Hashable, None] = attrs.field(
        factory=OrderedDict[Hashable, None], init=False
    )

    async def acquire(self, key: Hashable = None, *, first: bool = False) -> None:
        """Acquire a slot for a key, waiting if necessary, without a checkpoint if a slot is free.

        Args:
            key: The key that the slot counts against.
            first: Put the task ahead of the key's other waiters, and give this key the next turn.

        Cancellation: safe; a cancelled call holds nothing.
        """
        if self.take_nowait(key):
            return
        task = trio.lowlevel.current_task()
        queue = self._queues.setdefault(key, deque())
        if first:
            queue.appendleft(task)
        else:
            queue.append(task)
        self._waiting += 1
        if self._has_room(key):
            self._ready.setdefault(key)
            if first:
                self._ready.move_to_end(key, last=False)

        def abort(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            queue.remove(task)
            self._forget_waiter(key, queue)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def take_nowait(self, key: Hashable = None) -> bool:
        """Acquire a slot if one is free and the key has no waiters; return whether this worked."""
        used = self._used_by.get(key, 0)
        if self._used >= self.total or used >= self.per_key or key in self._queues:
            return False
        self._take(key)
        return True

    def release(self, key: Hashable = None) -> None:
        """Release a slot; the next waiter acquires it immediately."""
        self._used -= 1
        left = self._used_by[key] - 1
        if left:
            self._used_by[key] = left
        else:
            del self._used_by[key]
        if key in self._queues:
            self._ready.setdefault(key)
        while self._ready and self._used < self.total:
            self._grant_next()

    def statistics(self) -> LimiterStatistics:
        """Return a snapshot."""
        return LimiterStatistics(self._used, self._peak, self._waiting, self.total)

    def _has_room(self, key: Hashable) -> bool:
        return self._used_by.get(key, 0) < self.per_key

    def _take(self, key: Hashable) -> None:
        self._used += 1
        self._peak = max(self._peak, self._used)
        self._used_by[key] = self._used_by.get(key, 0) + 1

    def _grant_next(self) -> None:
        key, _ = self._ready.popitem(last=False)
        queue = self._queues[key]
        task = queue.popleft()
        self._take(key)
        self._forget_waiter(key, queue)
        if queue and self._has_room(key):
            self._ready[key] = None
        trio.lowlevel.reschedule(task)

    def _forget_waiter(self, key: Hashable, queue: deque[trio.lowlevel.Task]) -> None:
        self._waiting -= 1
        if not queue:
            del self._queues[key]
            self._ready.pop(key, None)
