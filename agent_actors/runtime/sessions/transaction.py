"""Changes to sessions that no run holds; each change takes one lease and one commit.

Runs and changes acquire their leases from the same session gate, so a session never has two
writers. Records are published to subscribers after they are committed. This module starts no tasks.
"""

from collections.abc import Awaitable, Callable, Sequence

import attrs

from agent_actors.actors.hook_bus import HookBus
from agent_actors.actors.session_gate import Lease, OnBusy, SessionGate
from agent_actors.actors.session_log import OpenSession, SessionLog
from agent_actors.codec.events import encode_event
from agent_actors.domain.events import AnyEvent, EventBuilder, EventScope, Notification
from agent_actors.domain.ids import Ids
from agent_actors.domain.json import JsonObject
from agent_actors.errors import SessionExists
from agent_actors.sessions import SessionState
from agent_actors.sessions.records import validated


@attrs.frozen(eq=False)
class SessionTransactions:
    """Acquires a session for the duration of one change, and commits the change."""

    _gate: SessionGate
    _log: SessionLog
    _bus: HookBus
    _ids: Ids
    _wall_clock: Callable[[], float]

    def hold(self, session_id: str) -> Lease:
        """Acquire a session without waiting; leaving the lease's `with` block releases it.

        Raises:
            SessionBusy: A run holds the session.
        """
        return self._gate.acquire_nowait(session_id, self._ids.new())

    async def commit(
        self,
        scope: EventScope,
        make: Callable[[SessionState], Sequence[EventBuilder]],
        *,
        on_busy: OnBusy = "reject",
    ) -> SessionState:
        """Commit all or none of the records to a session, and then publish them.

        Args:
            scope: The session, run and request of the records; an empty run id is replaced by the
                lease's run id.
            make: Returns the records, given the state of the session. If `make` returns no records
                or raises, nothing is written.
            on_busy: The policy if a run holds the session.

        Returns:
            The state of the session. Read the state at once, since later commits change it.

        Raises:
            InvalidEventError: A record could not be read back. Nothing is written.
            SessionBusy: A run holds the session.
            SessionStoreError, SessionFenced: See `OpenSession.append`.
            Exception: Any exception that `make` raises.

        Cancellation: safe; either all records are written or none.
        """
        run_id = scope.run_id or self._ids.new()
        lease = await self._gate.acquire(scope.session_id, run_id, on_busy=on_busy)
        with lease, await self._log.open(lease) as session:
            return await self._append(session, scope, make(session.state))

    async def commit_after(
        self,
        scope: EventScope,
        work: Callable[[SessionState], Awaitable[Sequence[EventBuilder]]],
    ) -> SessionState:
        """Do some work while the session is held, and commit the records that it returns.

        Args:
            scope: The session, run and request of the records.
            work: Returns the records, given the state of the session. If it returns no records or
                raises, nothing is written.

        Returns:
            The state of the session. Read the state at once, since later commits change it.

        Raises:
            SessionBusy: A run holds the session.
            SessionStoreError, SessionFenced: See `OpenSession.append`.
            Exception: Any exception that `work` raises.

        Cancellation: cancels the work; either all records are written or none.
        """
        with self.hold(scope.session_id) as lease, await self._log.open(lease) as session:
            return await self._append(session, scope, await work(session.state))

    async def _append(
        self, session: OpenSession, scope: EventScope, drafts: Sequence[EventBuilder]
    ) -> SessionState:
        checked = [validated(draft) for draft in drafts]
        if checked:
            events = await session.append(scope, checked)
            if self._bus.has_subscribers:
                self._bus.publish_nowait(events)
        return session.state

    async def create(
        self,
        session_id: str,
        records: Sequence[AnyEvent],
        lines: Sequence[bytes],
        *,
        note: str,
        metadata: JsonObject,
    ) -> None:
        """Create a session from existing records, in one commit.

        Args:
            session_id: The session to create.
            records: The records of the session, at least one.
            lines: The same records as they are stored.
            note: The text of the `notification` record that follows them.
            metadata: The metadata of the session; the `notification` record also contains it.

        Raises:
            SessionExists: A session with this id already exists.
            SessionBusy: A run holds the session.
            SessionStoreError, SessionFenced: See `OpenSession.append`.

        Cancellation: safe; the session is created completely or not at all.
        """
        with self.hold(session_id) as lease, await self._log.open(lease) as session:
            if session.state.last_seq:
                raise SessionExists(session_id)
            # Give the last record the current time, so that the cleanup of old sessions keeps the
            # new session.
            ts = max(self._wall_clock(), records[-1].ts)
            scope = EventScope(session_id, lease.run_id, lease.run_id)
            event_id, seq = self._ids.new(), len(lines) + 1
            last = Notification(scope, event_id, ts, note, metadata or None, seq=seq)
            session.note(metadata)
            await session.append_lines([*records, last], [*lines, encode_event(last)])

    async def delete(self, lease: Lease) -> None:
        """Delete the leased session from memory and from the store.

        Raises:
            SessionBusy: Another process holds the session.
            SessionStoreError: The store failed. The session may have been deleted.

        Cancellation: safe; the session is either deleted or unchanged.
        """
        await self._log.delete(lease)

    def read_anew(self, session_id: str) -> None:
        """Mark a session as changed in the store, so that it is reloaded at its next use."""
        self._log.read_anew(session_id)

    def forget(self, session_id: str) -> None:
        """Remove a session from memory after it was deleted from the store."""
        self._log.forget(session_id)
