"""Why and how one run is stopped from outside.

Owns the run's cancel scope and the reason that counts, which is the first one. A caller's cancel
takes effect at the next checkpoint, wherever the run is. A stop in favour of another run waits
until the session is open, which is bounded: so what was said to a run that got its session is on
record, also if it is stopped in the very tick in which it begins. It knows nothing of sessions or
records.
"""

from collections.abc import Callable

import attrs
import trio

from agent_actors.domain.run import CancelReason, StopReason


@attrs.define(eq=False)
class RunStop:
    """The way in which one run is stopped.

    Args:
        stopped: Called, synchronously, when the run is told to end; maybe more than once.

    Attributes:
        scope: What the run does between its beginning and its end.
        reason: Why it was stopped; None if it was not.
        why: Whoever stopped it may have said more; empty: nothing.
        rolls_back: Whether what the run put on record is to count no longer.
    """

    _stopped: Callable[[], None]
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    reason: CancelReason | None = attrs.field(default=None, init=False)
    why: str = attrs.field(default="", init=False)
    rolls_back: bool = attrs.field(default=False, init=False)
    _opening: bool = attrs.field(default=True, init=False)

    @property
    def told(self) -> str:
        """Why the run ended, for the model: of a call that it cut off."""
        return "the run was stopped" + (f": {self.why}" if self.why else f" ({self.reason})")

    def cancel(self, reason: str) -> None:
        """End the run, at its next checkpoint."""
        self._note(reason)
        self.scope.cancel(reason)

    def stop(self, reason: CancelReason, why: str) -> None:
        """End the run so that another can begin, but not before its session is open."""
        self.why = self.why or why
        self.rolls_back = self.rolls_back or reason is CancelReason.ROLLBACK
        self._note(reason)
        if not self._opening:
            self.scope.cancel(reason)

    def outcome(self, stop_reason: str) -> str:
        """How the run ended, which would have ended like this."""
        return StopReason.ROLLED_BACK if self.rolls_back else stop_reason

    def opened(self) -> None:
        """The session is open: a stop that came before takes effect."""
        self._opening = False
        if self.reason is not None:
            self.scope.cancel(self.reason)

    def _note(self, reason: str) -> None:
        if self.reason is None:
            self.reason = CancelReason(reason)
        self._stopped()
