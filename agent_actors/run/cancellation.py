"""Stops one run from outside, and keeps the reason.

The first reason counts. A caller's cancel takes effect at the next checkpoint. A stop in favour of
another run waits until the session is open, which takes a bounded time. Therefore the prompt of a
run that acquired its session is always recorded, even if the run is stopped immediately.
"""

import attrs
import trio

from agent_actors.domain.run import CancelReason, StopReason
from agent_actors.run.steering import Inbox, SteeringOutcome


@attrs.define(eq=False)
class RunStop:
    """Stops one run.

    Args:
        inbox: The steering inbox of the run; closed when the run is stopped.

    Attributes:
        scope: The cancel scope of the run, from its start until its closing begins.
        reason: The reason for the stop; None if the run was not stopped.
        why: A further explanation from the caller; empty if there is none.
        rolls_back: True if the records of the run are to be undone.
        steered: The outcome if another run took the input of this run; else None.
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
        """The reason for the end of the run, for the results of calls that were cut off."""
        return "the run was stopped" + (f": {self.why}" if self.why else f" ({self.reason})")

    def cancel(self, reason: str) -> None:
        """Cancel the run at its next checkpoint."""
        self._note(reason)
        self.scope.cancel(reason)

    def stop(self, reason: CancelReason, why: str) -> None:
        """Stop the run so that another run can begin, but not before this run's session is open."""
        self.why = self.why or why
        self.rolls_back = self.rolls_back or reason is CancelReason.ROLLBACK
        self._note(reason)
        if not self._opening:
            self.scope.cancel(reason)

    def settle(self, outcome: SteeringOutcome) -> None:
        """End the run: the run that holds the session has taken or refused its input."""
        if self.steered is None:
            self.steered = outcome
            self.scope.cancel("steered")

    def outcome(self, stop_reason: str) -> str:
        """Return the stop reason of the run; `stop_reason` unless the run is rolled back."""
        return StopReason.ROLLED_BACK if self.rolls_back else stop_reason

    def opened(self) -> None:
        """Note that the session is open; an earlier stop takes effect now."""
        self._opening = False
        if self.reason is not None:
            self.scope.cancel(self.reason)

    def _note(self, reason: str) -> None:
        if self.reason is None:
            self.reason = CancelReason(reason)
        self._inbox.close()
