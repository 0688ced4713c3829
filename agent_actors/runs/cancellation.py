"""Stops one run from outside, and keeps the reason.

Only the first reason counts. If a caller cancels the run, the cancellation takes effect at the next
checkpoint. If the run is stopped in favour of another run, the stop takes effect only once the
session is open, and opening has a time limit. Therefore the prompt of a run that has acquired its
session is always recorded, even if the run is stopped immediately.
"""

import attrs
import trio

from agent_actors.domain.run import CancelReason, StopReason
from agent_actors.runs.steering import Inbox, SteeringOutcome


@attrs.define(eq=False)
class RunStop:
    """Stops one run.

    Args:
        inbox: The steering inbox of the run; closed when the run is stopped.

    Attributes:
        scope: The cancel scope of the run, from its start until its closing begins.
        reason: The reason why the run was stopped; None if it was not stopped.
        why: A further explanation from the caller; empty if there is none.
        rolls_back: True if the session must be rewound to the state before the run.
        steered: The outcome if another run took this run's input; otherwise None.
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
        """The reason why the run ended, for the results of interrupted calls."""
        return "the run was stopped" + (f": {self.why}" if self.why else f" ({self.reason})")

    def cancel(self, reason: str) -> None:
        """Cancel the run at its next checkpoint."""
        self._note(reason)
        self.scope.cancel(reason)

    def stop(self, reason: CancelReason, why: str) -> None:
        """Stop the run so that another run can start, but not before this run's session is open."""
        self.why = self.why or why
        self.rolls_back = self.rolls_back or reason is CancelReason.ROLLBACK
        self._note(reason)
        if not self._opening:
            self.scope.cancel(reason)

    def settle(self, outcome: SteeringOutcome) -> None:
        """End this run, since the run that holds the session has taken or rejected its input."""
        if self.steered is None:
            self.steered = outcome
            self.scope.cancel("steered")

    def outcome(self, stop_reason: str) -> str:
        """Return the run's stop reason, which is `stop_reason` unless the run is rolled back."""
        return StopReason.ROLLED_BACK if self.rolls_back else stop_reason

    def opened(self) -> None:
        """Record that the session is open; if the run was stopped before, cancel it now."""
        self._opening = False
        if self.reason is not None:
            self.scope.cancel(self.reason)

    def _note(self, reason: str) -> None:
        if self.reason is None:
            self.reason = CancelReason(reason)
        self._inbox.close()
