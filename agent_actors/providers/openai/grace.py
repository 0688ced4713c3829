"""How long an answer is waited for that has said how it ends, and does not end.

Owns one wait. An endpoint that sends its finish reason, and then neither `[DONE]` nor the end of
its body, would keep a whole answer until the idle deadline, and then lose it. So from the finish
reason on there is a short grace, for token counts that come late; after it, what came is the answer
and the connection is given up. Time in which the reader takes nothing does not count, since what
the endpoint sent meanwhile has not been looked at.
"""

import math
from typing import Final

import trio

GRACE: Final = 2.0
"""Seconds. Token counts come within milliseconds of the finish reason; a person hardly waits."""


class EndGrace:
    """Ends the reading of one answer soon after its end was told.

    Attributes:
        scope: What stands around the reading.
    """

    def __init__(self) -> None:
        self.scope: trio.CancelScope = trio.CancelScope()
        self._running = False

    def told(self, ends: bool) -> None:
        """The endpoint has said how the answer ends; or it went on, and had not meant it."""
        self._running = ends
        self.resume()

    def pause(self) -> None:
        """Nothing is read for now."""
        self.scope.deadline = math.inf

    def resume(self) -> None:
        """It is being read again; the grace begins anew."""
        self.scope.deadline = trio.current_time() + GRACE if self._running else math.inf
