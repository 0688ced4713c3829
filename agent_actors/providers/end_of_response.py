"""Limit the time spent waiting for the end of a response, once everything that matters has arrived.

The outcome of two kinds of responses is known before they end:

- A response with a finish reason. Some endpoints send a finish reason, but neither a last event nor
  the end of the body. Without a limit, such a complete response would stay open until the idle
  deadline. The finish reason therefore starts a short grace period for late token counts. When it
  is over, the received content is the response, and the connection is closed. The grace period is
  suspended while the sink is full, because data that arrives during that time has not been read
  yet.
- A failure. Its status and headers determine how to proceed; its body is only a message for people.
  The error shows the part of the body that arrives within the grace period.

In neither case may a deadline turn the response into a failure. If the sink enforces deadlines, it
is notified that the received content suffices. If a deadline then expires, it ends the wait and
raises no error.
"""

import math
from typing import Final, cast

import trio

from agent_actors.abc import DeadlineSink, ModelSink

GRACE: Final = 2.0
"""Seconds. Token counts follow the finish reason within milliseconds, and users hardly notice this
delay.
"""

FAILURE_GRACE: Final = 5.0
"""Seconds to wait for the complete body of a failure: a few hundred bytes, sent with the headers.
"""


class Grace:
    """Stops reading a response soon after everything that matters has arrived.

    Args:
        sink: Receives the response. A sink that enforces deadlines is notified when the response
            is complete enough: a missed deadline then ends it without an error.

    Attributes:
        scope: The cancel scope to enter around the reading.
    """

    __slots__ = (
        "_running",
        "_sink",
        "scope",
    )

    def __init__(self, sink: ModelSink | None = None) -> None:
        self.scope: trio.CancelScope = trio.CancelScope()
        # `isinstance` with a runtime-checkable protocol costs as much as the rest of the set-up.
        self._sink = cast("DeadlineSink", sink) if hasattr(sink, "mark_complete") else None
        self._running = False

    def on_finish_reason(self, ends: bool, *, complete: bool = True) -> None:
        """Start the grace period on a finish reason, or cancel it if more content followed.

        Args:
            ends: True if the finish reason arrived, False if more content followed it.
            complete: Whether the response is complete. If further requests must follow, deadlines
                still apply.
        """
        self._running = ends
        self.scope.deadline = trio.current_time() + GRACE if ends else math.inf
        self._tell(complete=ends and complete)

    def on_error_status(self) -> None:
        """Start the grace period of a failure, after its status and headers have arrived."""
        self.scope.deadline = trio.current_time() + FAILURE_GRACE
        self._tell(complete=True)

    def pause(self) -> None:
        """Suspend the grace period while nothing is read."""
        if self._running:
            self.scope.deadline = math.inf

    def resume(self) -> None:
        """Restart the grace period when reading resumes."""
        if self._running:
            self.scope.deadline = trio.current_time() + GRACE

    def stop(self) -> None:
        """Let deadlines apply again. Call this when reading has ended."""
        self._tell(complete=False)

    def _tell(self, *, complete: bool) -> None:
        if self._sink is not None:
            self._sink.mark_complete(self.scope.cancel if complete else None)
