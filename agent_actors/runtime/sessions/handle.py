"""Access to one session for `Client` and `query()`: its state, and commits between its runs."""

from collections.abc import Callable, Sequence

import attrs

from agent_actors.actors.kept_results import KeptResults
from agent_actors.actors.session_gate import OnBusy
from agent_actors.actors.session_log import SessionLog
from agent_actors.domain.events import EventBuilder, EventScope
from agent_actors.domain.ids import Ids
from agent_actors.runtime.sessions.transaction import SessionTransactions
from agent_actors.sessions import SessionState


@attrs.frozen(eq=False)
class SessionHandle:
    """Access to one session, for packages that build on the runtime.

    Attributes:
        session_id: The session.
        ids: Makes ids.
        wall_clock: Returns seconds since the epoch.
        kept_results: The complete texts of truncated results.
    """

    session_id: str
    ids: Ids
    wall_clock: Callable[[], float]
    _log: SessionLog
    _transactions: SessionTransactions
    _on_busy: OnBusy
    kept_results: KeptResults

    def peek(self) -> SessionState | None:
        """Return the state of the session, for reading only; None if it is not in memory."""
        return self._log.peek_state(self.session_id)

    async def commit(
        self, scope: EventScope, make: Callable[[SessionState], Sequence[EventBuilder]]
    ) -> SessionState:
        """Commit records between two runs; see `SessionTransactions.commit`.

        Args:
            scope: The session, run and request of the records.
            make: Returns the records, given the state of the session.

        Raises:
            SessionBusy: A run holds the session, and the runtime's policy is `reject`.
            SessionStoreError, SessionFenced: See `OpenSession.append`.
            Exception: Any exception that `make` raises.

        Cancellation: safe; either all records are written or none.
        """
        return await self._transactions.commit(scope, make, on_busy=self._on_busy)
