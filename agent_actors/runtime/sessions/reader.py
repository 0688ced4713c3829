"""Read sessions from memory or from the store, without acquiring or loading them."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import islice
from typing import Final, TypeVar

import trio

from agent_actors.abc import SessionStore
from agent_actors.actors.session_cache import is_shared
from agent_actors.actors.session_gate import SessionGate
from agent_actors.actors.session_log import STORE_TIMEOUT, SessionLog
from agent_actors.codec.events import read_event
from agent_actors.domain.events import AnyEvent
from agent_actors.domain.session import SessionInfo
from agent_actors.errors import AgentError, SessionStoreError
from agent_actors.runtime.open_state import OpenState
from agent_actors.sessions import SessionState

T = TypeVar("T")

# The number of records to decode between checkpoints; decoding them takes a few milliseconds.
RECORDS_PER_TICK: Final = 1000


class SessionReader:
    """Reads sessions, including those that runs in this or another process hold.

    If a session is in memory, its state is used as is. All other sessions are read directly from
    the store, without the session log's actor.

    Args:
        store: The store.
        log: The sessions in memory.
        gate: Tracks which sessions are held by runs.
        state: Tracks whether the runtime is open.
    """

    def __init__(
        self, store: SessionStore, log: SessionLog, gate: SessionGate, state: OpenState
    ) -> None:
        self.store: SessionStore = store
        self._is_shared = is_shared(store)
        self._log = log
        self._gate = gate
        self._state = state

    async def call_store(self, session_id: str, operation: Callable[[], Awaitable[T]]) -> T:
        """Call the store with the deadline for store operations, and translate its errors.

        Args:
            session_id: The session to name in errors; empty: none.
            operation: The call.

        Raises:
            RuntimeClosed: The runtime is closed.
            SessionStoreError: The store failed, or did not respond in time.
            AgentError: Any other `AgentError` that the store raises.

        Cancellation: see the operation.
        """
        self._state.check_open()
        await trio.lowlevel.checkpoint()
        try:
            with trio.move_on_after(STORE_TIMEOUT):
                return await operation()
        except AgentError:
            raise
        except Exception as error:
            raise SessionStoreError(
                f"the store failed: {type(error).__name__}: {error}", session_id=session_id
            ) from error
        raise SessionStoreError(
            f"the store did not respond within {STORE_TIMEOUT:g} s", session_id=session_id
        )

    async def info(self, session_id: str) -> SessionInfo | None:
        """Return the store's information about a session; None if the session has no records.

        Raises:
            SessionStoreError: The store cannot be read.

        Cancellation: safe.
        """
        return await self.call_store(session_id, partial(self.store.info, session_id))

    async def state(self, session_id: str) -> SessionState | None:
        """Return the state of a session, which must not be changed; None if it has no records.

        Raises:
            SessionStoreError: The store cannot be read, or records are lost.

        Cancellation: safe.
        """
        self._state.check_open()
        state = self._log.peek_state(session_id)
        # If no run here holds the session, another process may have added records to a shared
        # store.
        may_be_outdated = self._is_shared and not self._gate.is_busy(session_id)
        if state is None or may_be_outdated:
            state = SessionState()
            for record in await self.decode(await self.lines(session_id), session_id):
                state.apply(record)
        return state if state.last_seq else None

    async def lines(self, session_id: str, after_seq: int = 0) -> Sequence[bytes]:
        """Return the records of a session as they are stored, beginning after a `seq`.

        Raises:
            SessionStoreError: The store cannot be read.

        Cancellation: safe.
        """
        return await self.call_store(
            session_id, partial(self.store.export, session_id, after_seq=after_seq)
        )

    async def decode(
        self, lines: Sequence[bytes], session_id: str, after_seq: int = 0
    ) -> tuple[AnyEvent, ...]:
        """Decode records, with a checkpoint every thousand.

        A record that cannot be decoded becomes an `UnreadableEvent`.

        Args:
            lines: The records as they are stored.
            session_id: The session, for records that cannot be decoded.
            after_seq: The `seq` of the record before the first one.

        Cancellation: safe.
        """
        records: list[AnyEvent] = []
        remaining = iter(lines)
        while batch := tuple(islice(remaining, RECORDS_PER_TICK)):
            first = after_seq + len(records) + 1
            records += [read_event(line, session_id, seq) for seq, line in enumerate(batch, first)]
            await trio.lowlevel.checkpoint()
        return tuple(records)
