"""Sessions, looked at: listed, read, exported. Nothing here is held, loaded or changed.

A session that is in memory is told as it stands there; any other is read from the store past the
log's actor, also while another process runs it. It knows no runs.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final, TypeVar

import trio

from agent_actors.abc import RepairableStore, SessionStore
from agent_actors.actors.session_cache import is_shared
from agent_actors.actors.session_log import STORE_TIMEOUT
from agent_actors.codec.events import read_event, readable_line
from agent_actors.codec.openai_messages import MessageDict, messages_to_openai
from agent_actors.domain.events import AnyEvent
from agent_actors.domain.messages import Messages
from agent_actors.domain.session import (
    JsonScalar,
    SessionInfo,
    SessionOrder,
    SessionPage,
    SessionSnapshot,
)
from agent_actors.errors import AgentError, SessionStoreError, SessionUnknown
from agent_actors.runtime.lifecycle import Actors
from agent_actors.sessions import SessionState
from agent_actors.sessions.alignment import Damage
from agent_actors.sessions.integrity import faults_of

T = TypeVar("T")

# Records that are read in one go, some milliseconds, before other tasks have their turn.
_AT_ONCE: Final = 1000


class SessionReading:
    """What can be asked about sessions.

    Args:
        actors: Who keeps them.
        store: Where they are.
        check_open: Raises if the runtime is not open.
    """

    def __init__(self, actors: Actors, store: SessionStore, check_open: Callable[[], None]) -> None:
        self._actors = actors
        self._store = store
        self._shared = is_shared(store)
        self._check_open = check_open

    async def list(
        self,
        *,
        where: Mapping[str, JsonScalar] | None = None,
        order: SessionOrder = "created",
        limit: int = 50,
        after: str | None = None,
    ) -> SessionPage:
        """A page of the sessions, the newest first.

        The runs that a tool of session `s` started are `where={"parent_session_id": "s"}`.

        Args:
            where: Keys of the metadata and the values they must have, all of them; None stands
                for a key that is not there. None: every session.
            order: `created` or `updated`, by the first or the last record.
            limit: The most on a page, from 1 to 1,000.
            after: The `next` of the page before, for the same `where` and `order`.

        Raises:
            ConfigError: A bound, an order or an `after` that is none.
            SessionStoreError: They cannot be read.
            RuntimeClosed: The runtime is closed.

        Cancellation: safe.
        """
        page = partial(
            self._store.list_sessions, where=where, order=order, limit=limit, after=after
        )
        return await self._asked("", page)

    async def info(self, session_id: str) -> SessionInfo | None:
        """What is known of a session without reading it; None if nothing is on record.

        Raises:
            SessionStoreError: It cannot be read.

        Cancellation: safe.
        """
        return await self._asked(session_id, partial(self._store.info, session_id))

    async def history(self, session_id: str) -> Messages | None:
        """The conversation of a session, in memory or not, always valid.

        Returns:
            The conversation; None if nothing is on record.

        Raises:
            SessionStoreError: Its records cannot be read.

        Cancellation: safe.
        """
        state = await self._state(session_id)
        return None if state is None else state.history()

    async def snapshot(self, session_id: str) -> SessionSnapshot | None:
        """All that a session adds up to: messages, todos, files, skills, metadata, usage.

        Returns:
            A copy; None if nothing is on record.

        Raises:
            SessionStoreError: Its records cannot be read.

        Cancellation: safe.
        """
        info = await self.info(session_id)
        state = await self._state(session_id)
        if state is None:
            return None
        return SessionSnapshot(
            session_id=session_id,
            messages=state.history(),
            todos=state.todos,
            files=dict(state.files),
            skills=state.skills,
            metadata={} if info is None else info.metadata,
            usage=state.usage,
            requests=state.requests,
            last_seq=state.last_seq,
            open_calls=tuple(call.id for call in state.open_calls),
            questions=tuple(state.suspended),
            external_calls=tuple(state.external.values()),
            unreadable=state.unreadable,
        )

    async def records(self, session_id: str, *, after_seq: int = 0) -> tuple[AnyEvent, ...]:
        """A session's records, from one on.

        Args:
            session_id: The session.
            after_seq: Those above this `seq`; 0: all.

        Returns:
            The records, in order; none if there are none. One that cannot be read is an
            `UnreadableEvent`.

        Raises:
            SessionStoreError: They cannot be read, or some are lost.

        Cancellation: safe.
        """
        lines = await self._lines(session_id, after_seq)
        return await self._read(lines, session_id, after_seq)

    async def export(self, session_id: str, *, after_seq: int = 0) -> tuple[str, ...]:
        """A session's records as lines of JSON, as they were written; for `import_records`.

        What this version does not know is in them too. The line of a record that cannot be read
        is a `record.unreadable`, which keeps the bytes.

        Args:
            session_id: The session.
            after_seq: Those above this `seq`; 0: all.

        Raises:
            SessionUnknown: Nothing is on record.
            SessionStoreError: They cannot be read.

        Cancellation: safe.
        """
        lines = await self._lines(session_id, after_seq)
        if not lines and (after_seq == 0 or await self.info(session_id) is None):
            raise SessionUnknown(session_id)
        exported: list[str] = []
        for seq, line in enumerate(lines, after_seq + 1):
            exported.append(readable_line(line, session_id, seq).decode())
            if not seq % _AT_ONCE:
                await trio.lowlevel.checkpoint()
        return tuple(exported)

    async def export_messages(self, session_id: str) -> Sequence[MessageDict]:
        """The conversation as OpenAI's chat completions have it; for `import_messages`.

        Raises:
            SessionUnknown: Nothing is on record.
            SessionStoreError: Its records cannot be read.

        Cancellation: safe.
        """
        messages = await self.history(session_id)
        if messages is None:
            raise SessionUnknown(session_id)
        return messages_to_openai(messages)

    async def check(self, session_id: str) -> tuple[str, ...]:
        """What is wrong with a session's records, as text; nothing if they are valid.

        Calls without a result are not wrong: the next run closes them. `damage` has what is wrong
        with what is stored, by itself.

        Raises:
            SessionUnknown: Nothing is on record.
            SessionStoreError: The store cannot read them.

        Cancellation: safe.
        """
        damage = await self.damage(session_id)
        found = [str(one) for one in damage]
        if any(one.lost for one in damage):
            return tuple(found)  # its records cannot be read before it is repaired
        lines = await self._lines(session_id, 0)
        if not lines and not damage:
            raise SessionUnknown(session_id)
        damaged = {one.seq for one in damage}
        for seq, fault in faults_of(session_id, lines):
            if seq not in damaged:
                found.append(fault)
        return tuple(found)

    async def damage(self, session_id: str) -> tuple[Damage, ...]:
        """What is wrong with the stored log of a session: damaged, lost and repeated records.

        Returns:
            Each with its `seq`, its place in the file and the reason; nothing if all is in order,
            if there is no such session, or if the store keeps nothing on disk.

        Raises:
            SessionStoreError: The store cannot read the log.

        Cancellation: safe.
        """
        if not isinstance(self._store, RepairableStore):
            return ()
        return tuple(await self._asked(session_id, partial(self._store.damage, session_id)))

    async def _state(self, session_id: str) -> SessionState | None:
        self._check_open()
        state = self._actors.log.peek_state(session_id)
        # One that no run holds may have been overtaken by another opening of the store.
        overtaken = self._shared and not self._actors.gate.is_busy(session_id)
        if state is None or overtaken:
            state = SessionState()
            for record in await self.records(session_id):
                state.apply(record)
        return state if state.last_seq else None

    async def _lines(self, session_id: str, after_seq: int) -> Sequence[bytes]:
        return await self._asked(
            session_id, partial(self._store.export, session_id, after_seq=after_seq)
        )

    async def _read(
        self, lines: Sequence[bytes], session_id: str, after_seq: int = 0
    ) -> tuple[AnyEvent, ...]:
        records: list[AnyEvent] = []
        rest = iter(lines)
        while some := tuple(islice(rest, _AT_ONCE)):
            seq = after_seq + len(records) + 1
            records += [read_event(line, session_id, at) for at, line in enumerate(some, seq)]
            await trio.lowlevel.checkpoint()
        return tuple(records)

    async def _asked(self, session_id: str, what: Callable[[], Awaitable[T]]) -> T:
        self._check_open()
        await trio.lowlevel.checkpoint()
        try:
            with trio.move_on_after(STORE_TIMEOUT):
                return await what()
        except AgentError:
            raise
        except Exception as error:
            raise SessionStoreError(
                f"the store failed: {type(error).__name__}: {error}", session_id=session_id
            ) from error
        raise SessionStoreError(
            f"the store did not answer within {STORE_TIMEOUT:g} s", session_id=session_id
        )
