"""Sessions, changed from outside of their runs: `runtime.sessions`.

Each operation takes the session by the gate, as a run does, and is refused while a run holds it;
each is one commit, so that it is carried out whole or not at all, whatever is cancelled or breaks.
Nothing is ever taken out of a log: to go back is a record too. It does not know how a store keeps
anything.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from agent_actors.actors.session_gate import Lease
from agent_actors.codec.events import encode_event
from agent_actors.codec.openai_messages import messages_from_openai
from agent_actors.codec.session_lines import moved_line, session_of
from agent_actors.context.truncation import head_of
from agent_actors.domain.events import (
    EventBuilder,
    EventScope,
    Notification,
    SessionRewind,
)
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.messages import Messages
from agent_actors.domain.session import (
    PARENT_CALL,
    PARENT_SESSION,
    JsonScalar,
    SessionOrder,
    SessionPage,
)
from agent_actors.errors import (
    ConfigError,
    InvalidEventError,
    SessionExists,
    SessionUnknown,
)
from agent_actors.runtime.lifecycle import Actors
from agent_actors.runtime.sessions.queries import SessionReading
from agent_actors.runtime.sessions.transaction import committed
from agent_actors.sessions import SessionState
from agent_actors.sessions.integrity import faults_of
from agent_actors.sessions.records import as_records, replacing, validated

_DAY: Final = 86_400.0
FORKED_FROM: Final = "forked_from"
FORKED_AT: Final = "forked_at_seq"


class Sessions(SessionReading):
    """The sessions of a runtime: looked at, and changed while no run holds them."""

    async def append(self, session_id: str, messages: Messages) -> Messages:
        """Go on with messages that were said elsewhere; a session is made if there is none.

        Args:
            session_id: The session.
            messages: What was said; no system messages.

        Returns:
            The conversation as it stands then.

        Raises:
            MessageError: They hold what no session can; nothing is on record.
            SessionBusy: A run holds the session.
            SessionStoreError, SessionFenced: They were not written, or nobody knows.

        Cancellation: safe; the records are written or they are not.
        """
        state = await self._commit(session_id, lambda _: [*as_records(messages)])
        return state.history()

    async def replace(self, session_id: str, messages: Messages) -> Messages:
        """Put another conversation in the place of the session's.

        What was said before stays on record, and can be gone back to by `rewind`.

        Raises:
            As `append`.

        Cancellation: as `append`.
        """
        state = await self._commit(session_id, lambda state: replacing(state, messages))
        return state.history()

    async def reset(self, session_id: str) -> None:
        """Take the conversation back to its beginning; tokens that were used stay counted.

        Raises:
            SessionUnknown: Nothing is on record.
            As `append`.

        Cancellation: as `append`.
        """
        await self.rewind(session_id, 0)

    async def rewind(self, session_id: str, to_seq: int) -> Messages:
        """Take the conversation back to what it was right after a record.

        It goes back to what an earlier rewind had taken back, too.

        Args:
            session_id: The session.
            to_seq: The record's `seq`; 0: the beginning.

        Returns:
            The conversation as it stands then. A call whose result came later is open again, and
            closed by the next run.

        Raises:
            SessionUnknown: Nothing is on record.
            ConfigError: There is no such record.
            SessionBusy: A run holds the session.
            SessionStoreError, SessionFenced: It was not written, or nobody knows.

        Cancellation: as `append`.
        """

        def make(state: SessionState) -> Sequence[EventBuilder]:
            _check_seq(session_id, state, "to_seq", 0, to_seq)
            return [partial(SessionRewind, to_seq=to_seq)]

        return (await self._commit(session_id, make)).history()

    async def record(self, session_id: str, *drafts: EventBuilder) -> None:
        """Put on record what a session keeps beside its messages.

        Args:
            session_id: The session; it is made if there is none.
            drafts: Events but for their header: `partial(TodosChanged, todos=(...))`, and likewise
                `FileChanged`, `SkillActivated` and `Notification`.

        Raises:
            ConfigError: Another type of event: those are for runs to record.
            InvalidEventError: An event cannot be read back from a log; nothing is recorded.
            SessionBusy: A run holds the session.
            SessionStoreError, SessionFenced: They were not written, or nobody knows.

        Cancellation: as `append`.
        """
        builders = [validated(draft) for draft in drafts]
        await self._commit(session_id, lambda _: builders)

    async def annotate(self, session_id: str, metadata: Mapping[str, JsonValue]) -> bool:
        """Note keys of a session's metadata, held or not; one whose value is None is forgotten.

        Returns:
            False if nothing is on record: nothing was noted.

        Raises:
            SessionStoreError: A value is no JSON, or they could not be written.

        Cancellation: safe; they are noted or they are not.
        """
        return await self._asked(session_id, partial(self._store.annotate, session_id, metadata))

    async def fork(
        self, session_id: str, at_seq: int | None = None, *, new_id: str | None = None
    ) -> str:
        """Begin another session with the records of this one, up to a record.

        The records are the same, with what this version does not know in them, but for the session
        that they name; what was used by then counts for the fork too. A last one tells of the fork.

        Args:
            session_id: The session; it stays as it is.
            at_seq: The `seq` of the last record to take, from 1; None: all.
            new_id: The fork's id; None: one is made.

        Returns:
            The fork's id. Its metadata is a copy, with `forked_from` and `forked_at_seq`.

        Raises:
            SessionUnknown: Nothing is on record.
            ConfigError: There is no such record.
            SessionExists: There is a session of the new id.
            SessionBusy: A run holds one of the two.
            SessionStoreError: It was not read, or not written, or nobody knows.

        Cancellation: safe; the fork is there, whole, or it is not.
        """
        new_id = new_id or self._actors.ids.new()
        if new_id == session_id:
            raise SessionExists(new_id)
        with self._hold(session_id):
            lines = await self._lines(session_id, 0)
            info = await self.info(session_id)
            if info is None or not lines:
                raise SessionUnknown(session_id)
            at_seq = len(lines) if at_seq is None else at_seq
            _check_range(session_id, "at_seq", 1, at_seq, len(lines))
            metadata = dict(info.metadata)
            for link in (PARENT_SESSION, PARENT_CALL):
                metadata.pop(link, None)
            told: JsonObject = {FORKED_FROM: session_id, FORKED_AT: at_seq}
            taken = [moved_line(line, new_id) for line in lines[:at_seq]]
            await self._install(new_id, taken, "forked from another session", {**metadata, **told})
        return new_id

    async def delete(self, session_id: str) -> bool:
        """Forget a session for good, wherever it is kept.

        Returns:
            Whether something was on record.

        Raises:
            SessionBusy: A run holds the session, here or in another process.
            SessionStoreError: It could not be deleted, or nobody knows.

        Cancellation: safe; it is deleted or it is not.
        """
        with self._hold(session_id) as lease:
            known = await self.info(session_id) is not None
            await self._actors.log.delete(lease)
        return known

    async def import_records(
        self, lines: Iterable[str | bytes], *, session_id: str | None = None
    ) -> str:
        """Make a session of exported records; they stay as they are, what is not known too.

        Args:
            lines: A record each, from the first on; blank ones are passed over. A last record tells
                of the import.
            session_id: The session to make; None: the one that the records name.

        Returns:
            The session's id.

        Raises:
            InvalidEventError: These are no records of a session; says which line, and why.
            SessionExists: There is a session of that id.
            SessionBusy: A run holds it.
            SessionStoreError: They were not written, or nobody knows.

        Cancellation: safe; the session is there, whole, or it is not.
        """
        given = [line.encode() if isinstance(line, str) else line for line in lines]
        records = [line.strip() for line in given if line.strip()]
        if not records:
            raise InvalidEventError("expected the records of a session, and there are none")
        if session_id is None:
            session_id = session_of(records[0])
        else:
            records = [moved_line(line, session_id) for line in records]
        fault = next(faults_of(session_id, records), None)
        if fault is not None:
            raise InvalidEventError(f"these are no records of a session: {fault}")
        await self._install(session_id, records, "imported", {})
        return session_id

    async def import_messages(
        self, messages: Iterable[Mapping[str, object]], *, session_id: str | None = None
    ) -> str:
        """Make a session of messages in the form of OpenAI's chat completions.

        Args:
            messages: The messages. System messages at the head are left out: a session keeps none,
                it is sent from the agent's options.
            session_id: The session to make; None: a new id.

        Returns:
            The session's id.

        Raises:
            MessageError: One is no message; says which, and why.
            SessionExists: There is a session of that id.
            SessionBusy: A run holds it.
            SessionStoreError: They were not written, or nobody knows.

        Cancellation: safe; the session is there, whole, or it is not.
        """
        read = messages_from_openai(messages)
        records = [*as_records(read[head_of(read) :])]
        session_id = session_id or self._actors.ids.new()

        def make(state: SessionState) -> Sequence[EventBuilder]:
            if state.last_seq:
                raise SessionExists(session_id)
            return [*records, partial(Notification, text="imported")]

        await self._commit(session_id, make)
        return session_id

    async def prune(self, days: float) -> tuple[str, ...]:
        """Delete the sessions whose last record is older than that; those in use stay.

        A store on disk does this by itself, by its `cleanup_period_days`.

        Returns:
            The ids of those that are gone.

        Raises:
            ConfigError: `days` is not above 0.
            SessionStoreError: They could not be deleted.

        Cancellation: safe; some may be gone.
        """
        if not days > 0:
            raise ConfigError(f"prune: days must be above 0; got {days}")
        before = self._actors.wall_clock() - days * _DAY
        gone = tuple(await self._asked("", partial(self._store.prune, before)))
        for session_id in gone:
            self._actors.log.forget(session_id)
        return gone

    # How it is done.

    def _hold(self, session_id: str) -> Lease:
        self._check_open()
        return self._actors.gate.acquire_nowait(session_id, self._actors.ids.new())

    async def _commit(
        self, session_id: str, make: Callable[[SessionState], Sequence[EventBuilder]]
    ) -> SessionState:
        self._check_open()
        run_id = self._actors.ids.new()
        return await committed(self._actors, EventScope(session_id, run_id, run_id), make)

    async def _install(
        self, session_id: str, lines: Sequence[bytes], text: str, metadata: JsonObject
    ) -> None:
        records = await self._read(lines)
        with self._hold(session_id) as lease, await self._actors.log.open(lease) as session:
            if session.state.last_seq:
                raise SessionExists(session_id)
            # So that the session is as old as what was done here, and not swept away at once.
            ts = max(self._actors.wall_clock(), records[-1].ts)
            scope = EventScope(session_id, lease.run_id, lease.run_id)
            event_id, seq = self._actors.ids.new(), len(lines) + 1
            last = Notification(scope, event_id, ts, text, metadata or None, seq=seq)
            session.note(metadata)
            await session.append_lines([*records, last], [*lines, encode_event(last)])


def _check_seq(session_id: str, state: SessionState, name: str, least: int, seq: int) -> None:
    if not state.last_seq:
        raise SessionUnknown(session_id)
    _check_range(session_id, name, least, seq, state.last_seq)


def _check_range(session_id: str, name: str, least: int, seq: int, last_seq: int) -> None:
    if not least <= seq <= last_seq:
        raise ConfigError(
            f"{name} must be from {least} to {last_seq}, the last record of session "
            f"{session_id!r}; got {seq}"
        )


class Stored(ABC):
    """What a runtime offers about its sessions."""

    _actors: Actors

    @abstractmethod
    def _check_open(self) -> None: ...

    @property
    def sessions(self) -> Sessions:
        """Its sessions, to look at and to change while no run holds them."""
        return Sessions(self._actors, self._actors.store, self._check_open)

    async def list_sessions(
        self,
        *,
        where: Mapping[str, JsonScalar] | None = None,
        order: SessionOrder = "created",
        limit: int = 50,
        after: str | None = None,
    ) -> SessionPage:
        """A page of the sessions, the newest first: `sessions.list`."""
        return await self.sessions.list(where=where, order=order, limit=limit, after=after)

    def history(self, session_id: str) -> Messages | None:
        """The history of a session that is in memory, always valid; None if it is not there.

        For any session, `await runtime.sessions.history(session_id)`.
        """
        return self._actors.log.peek(session_id)
