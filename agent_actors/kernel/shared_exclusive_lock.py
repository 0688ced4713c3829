"""Shared and exclusive turns, first come first served.

Owns the order in which one run's calls may start: ordinary calls share, an exclusive call is
alone. A waiting exclusive call holds back later ones, so that it is never starved.
"""

import attrs
import trio


@attrs.define(eq=False)
class Turns:
    """A FIFO lock with two modes. Nothing comes between a grant and what follows the await."""

    _shared: int = attrs.field(default=0, init=False)
    _exclusive: bool = attrs.field(default=False, init=False)
    # A list: each run has one, short and nearly always empty, and an empty deque takes 600 bytes.
    _queue: list[tuple[trio.lowlevel.Task, bool]] = attrs.field(
        factory=list[tuple[trio.lowlevel.Task, bool]], init=False
    )

    async def acquire(self, *, exclusive: bool) -> None:
        """Take a turn; wait for it. Does not checkpoint if it is free.

        Cancellation: safe; a cancelled wait holds nothing.
        """
        if self.take_nowait(exclusive=exclusive):
            return
        entry = (trio.lowlevel.current_task(), exclusive)
        self._queue.append(entry)

        def abort(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            self._queue.remove(entry)
            self._grant()  # those behind a withdrawn exclusive call may go on
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def take_nowait(self, *, exclusive: bool) -> bool:
        """Take a turn if it is free and nobody waits; else False."""
        if self._queue or not self._is_free(exclusive=exclusive):
            return False
        self._take(exclusive=exclusive)
        return True

    def release(self, *, exclusive: bool) -> None:
        """Give a turn back."""
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
