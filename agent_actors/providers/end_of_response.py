"""How long the rest of an answer is waited for, once what counts of it has come.

Owns one wait. Two answers have told all that matters before they end:

- One that has said how it ends. An endpoint that sends its finish reason, and then neither a last
  event nor the end of its body, would keep a whole answer until the idle deadline. So from the
  finish reason on there is a short grace, for token counts that come late; after it, what came is
  the answer and the connection is given up. Time in which the reader takes nothing does not count,
  since what the endpoint sent meanwhile has not been looked at.
- A failure. Its status and its headers say what to do; its body only says it to a person, and
  whatever of it has come by the end of its grace is shown.

No deadline makes a failure of either: where the sink keeps deadlines, it is told that what has come
is enough, and then ends the wait instead of the stream.
"""

import math
from typing import Final

import trio

from agent_actors.abc import DeadlineSink, ModelSink

GRACE: Final = 2.0
"""Seconds. Token counts come within milliseconds of the finish reason; a person hardly waits."""

FAILURE_GRACE: Final = 5.0
"""Seconds for the body of a failure, all in all: it is a few hundred bytes, sent with its head."""


class Grace:
    """Ends the reading of one answer soon after all that counts of it has come.

    Args:
        sink: Who is told that deadlines are no failure from then on, if it keeps any.

    Attributes:
        scope: What stands around the reading.
    """

    def __init__(self, sink: ModelSink | None = None) -> None:
        self.scope: trio.CancelScope = trio.CancelScope()
        kept: object = sink
        self._sink = kept if isinstance(kept, DeadlineSink) else None
        self._running = False

    def told(self, ends: bool, *, whole: bool = True) -> None:
        """The endpoint has said how the answer ends; or it went on, and had not meant it.

        Args:
            ends: Which of the two.
            whole: Whether nothing else has to follow; if something has, deadlines still count.
        """
        self._running = ends
        self.scope.deadline = trio.current_time() + GRACE if ends else math.inf
        self._tell(enough=ends and whole)

    def failed(self) -> None:
        """The head of a failure has come."""
        self.scope.deadline = trio.current_time() + FAILURE_GRACE
        self._tell(enough=True)

    def pause(self) -> None:
        """Nothing is read for now."""
        if self._running:
            self.scope.deadline = math.inf

    def resume(self) -> None:
        """It is being read again; the grace begins anew."""
        if self._running:
            self.scope.deadline = trio.current_time() + GRACE

    def over(self) -> None:
        """The reading has ended: deadlines count again for what is read next."""
        self._tell(enough=False)

    def _tell(self, *, enough: bool) -> None:
        if self._sink is not None:
            self._sink.enough(self.scope.cancel if enough else None)
