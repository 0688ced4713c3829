"""A lock with a shared and an exclusive mode, first come, first served.

The lock determines the order in which the tool calls of one run may start. Ordinary calls share the
lock. An exclusive call runs alone. A waiting exclusive call holds back later calls, so that it
never starves.
"""

import attrs
import trio


@attrs.define(eq=False)
class SharedExclusiveLock:
    """A FIFO lock with two modes; no task can run between a grant and the code after the await."""

    _shared: int = attrs.field(default=0, init=False)
    _exclusive: bool = attrs.field(default=False, init=False)
    # A list and not a deque: each run has one, which is usually empty, and an empty deque takes 600
    # bytes.
    _queue: list[tuple[trio.lowlevel.Task, bool]] = attrs.field(
        factory=list[tuple[trio.lowlevel.Task, bool]], init=False
    )

    async def acquire(self, *, exclusive: bool) -> None:
        """Acquire the lock, waiting if necessary, without a checkpoint if the lock is free.

        Cancellation: safe; a cancelled call holds nothing.
        """
        if self.take_nowait(exclusive=exclusive):
            return
        entry = (trio.lowlevel.current_task(), exclusive)
        self._queue.append(entry)

        def abort(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            self._queue.remove(entry)
            self._grant()  # waiters behind a withdrawn exclusive call may start now
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def take_nowait(self, *, exclusive: bool) -> bool:
        """Acquire the lock if it is free and has no waiters, and return whether it was acquired."""
        if self._queue or not self._is_free(exclusive=exclusive):
            return False
        self._take(exclusive=exclusive)
        return True

    def release(self, *, exclusive: bool) -> None:
        """Release the lock."""
        if exclusive:
            self._exclusive = False
        else:
            self._shared -= 1
        self._grant()

    def _is_free(self, *, exclusive: bool) -> bool:
        return not self._exclusive and not (exclusive and self._shared)

    def _take(self, *, exclusive: bool) -> None:
        if exclusive:
            self._exclusive = True
        else:
            self._shared += 1

    def _grant(self) -> None:
        while self._queue and self._is_free(exclusive=self._queue[0][1]):
            task, exclusive = self._queue.pop(0)
            self._take(exclusive=exclusive)
            trio.lowlevel.reschedule(task)
