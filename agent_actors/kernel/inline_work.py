"""Work for an actor that its caller performs in its own task.

A request that waits for nothing, and that belongs to one caller from its beginning to its end,
needs neither the mailbox nor a worker. The caller enters an `InlineWork` instead. The actor counts
the work among its live requests and does not end before the work has ended. If the actor fails or
is torn down, the work is cancelled, and its block raises the error of the actor.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Self

import trio


class InlineWork:
    """One piece of work in the task of its caller; use it once, with `with`.

    Leaving the block raises the error of the actor if the actor has cancelled the work.

    Args:
        begin: Registers the work with its actor; raises the error of an actor that has ended.
        end: Removes the work from its actor.

    Attributes:
        scope: The cancel scope of the block. The caller may cancel it too, for example at a
            deadline; the code after the block then runs.
    """

    __slots__ = ("_begin", "_end", "_ended", "_error", "scope")

    def __init__(
        self, begin: Callable[["InlineWork"], None], end: Callable[["InlineWork"], None]
    ) -> None:
        self.scope: trio.CancelScope = trio.CancelScope()
        self._begin = begin
        self._end = end
        self._error: Exception | None = None
        # Only created if the actor waits for the work.
        self._ended: trio.Event | None = None

    def fail(self, error: Exception) -> None:
        """Cancel the work because the actor has ended; only the first error counts."""
        self._error = self._error or error
        self.scope.cancel("actor ended")

    async def wait_done(self) -> None:
        """Wait until the work has ended, with any outcome.

        Cancellation: safe; the work continues.
        """
        if self._ended is None:
            self._ended = trio.Event()
        await self._ended.wait()

    def __enter__(self) -> Self:
        self._begin(self)
        self.scope.__enter__()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        try:
            absorbed = self.scope.__exit__(exc_type, exc, traceback)
        finally:
            self._end(self)
            if self._ended is not None:
                self._ended.set()
        # A block that ended by itself keeps its outcome.
        if self.scope.cancelled_caught and self._error is not None:
            # The error is shared: `from None` would erase its cause.
            raise self._error from self._error.__cause__
        return bool(absorbed)
