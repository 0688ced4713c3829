"""Why and how one run is stopped from outside.

The first reason counts. A caller's cancel takes effect at the next checkpoint. A stop in favour of
another run waits until the session is open, which takes a bounded time. So the prompt of a run that
acquired its session is always recorded, even if the run is stopped immediately.
"""

import attrs
import trio

from agent_actors.domain.run import CancelReason, StopReason
from agent_actors.run.steering import Inbox, SteeringOutcome


@attrs.define(eq=False)
class RunStop:
    """Stops one run.

    Args:
        inbox: The steering inbox of the run; it is closed when the run is to end.

    Attributes:
        scope: The cancel scope of the run, from its beginning to its closing.
        reason: Why the run was stopped; None: it was not.
        why: A further explanation by the caller; empty: none.
        rolls_back: Whether the records of the run are to be undone.
        steered: How the run ends because another run took its input; None: no run did.
    """

    _inbox: Inbox
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    reason: CancelReason | None = attrs.field(default=None, init=False)
    why: str = attrs.field(default="", init=False)
    rolls_back: bool = attrs.field(default=False, init=False)
    steered: SteeringOutcome | None = attrs.field(default=None, init=False)
    _opening: bool = attrs.field(default=True, init=False)

    @property
    def explanation(self) -> str:
        """Why the run ended, as the model reads it in the result of a call that was cut off."""
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

    def settle(self, outcome: SteeringOutcome) -> None:
        """End the run: the run that holds the session has taken its input, or has refused it."""
        if self.steered is None:
            self.steered = outcome
            self.scope.cancel("steered")

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
        self._inbox.close()
