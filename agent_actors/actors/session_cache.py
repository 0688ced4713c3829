"""The sessions in memory, and how they are updated with records read from a store.

This module does no I/O. If other processes can open the store, a session in memory may be out of
date: another process may have written to it, or deleted and restarted it. This module detects such
changes from the records at the end of the log.
"""

from collections.abc import Mapping, Sequence
from typing import cast

import attrs

from agent_actors.abc import InstantStore, SessionStore, SharedStore
from agent_actors.domain.events import AnyEvent, UnknownEvent
from agent_actors.domain.json import JsonValue
from agent_actors.errors import SessionStoreError
from agent_actors.sessions import SessionState, fold


@attrs.define(eq=False)
class CachedSession:
    """A session in memory.

    Attributes:
        session_id: The id of the session.
        state: The state built from its records.
        users: The number of runs that have the session open; at most one.
        dirty: True if the outcome of an append is unknown.
        last_used: The time of the last use, by trio's clock.
        noted: The metadata that this process last recorded; None if there is none.
        announced: True if subscribers were notified that the session is open.
        noting: The metadata to record with the next commit; None if there is none.
    """

    session_id: str
    state: SessionState
    users: int = 0
    dirty: bool = False
    last_used: float = 0.0
    announced: bool = False
    noted: Mapping[str, JsonValue] | None = None
    noting: dict[str, JsonValue] | None = None
    # Distinguishes the last record from a record with the same `seq` in another log.
    last_id: str = ""

    def take(self, records: Sequence[AnyEvent]) -> None:
        """Apply the next records to the state."""
        for record in records:
            self.state.apply(record)
        if records:
            self.last_id = _id_of(records[-1])

    def note(self, metadata: dict[str, JsonValue]) -> None:
        """Record these metadata keys with the next commit, unless they are unchanged."""
        if metadata is not self.noted and metadata != self.noted:
            self.noting = metadata

    def overtaken(self, store: SessionStore) -> bool:
        """Return whether other processes may have used the session since; if not, claim it."""
        return not cast(SharedStore, store).take_nowait(self.session_id)

    def read_from(self, *, shared: bool) -> int:
        """Return the `seq` after which to read the log for new records."""
        last = self.state.last_seq
        return max(last - 1, 0) if shared else last

    def caught_up(self, records: Sequence[AnyEvent], *, shared: bool) -> bool:
        """Apply the records read from there, and return False if all records must be read again."""
        if shared and self.state.last_seq:
            if not records or _id_of(records[0]) != self.last_id:
                return False
            records = records[1:]
        self.take(records)
        self.dirty = False
        return True


def loaded_from(session_id: str, records: Sequence[AnyEvent]) -> CachedSession:
    """Return a session with all of its records, which were just read."""
    last_id = _id_of(records[-1]) if records else ""
    return CachedSession(session_id, fold(records), last_id=last_id)


def _id_of(record: AnyEvent) -> str:
    return str(record.raw.get("id")) if isinstance(record, UnknownEvent) else record.id


def instant_store(store: SessionStore) -> InstantStore | None:
    """Return the store if it can be called synchronously; otherwise None.

    The store counts as asynchronous if a subclass has overridden only the async methods.
    """
    for waiting, at_once in (("load", "load_nowait"), ("append", "append_nowait")):
        known = [vars(cls) for cls in type(store).__mro__]
        nearest = [names for names in known if waiting in names or at_once in names][:1]
        if not any(at_once in names for names in nearest):
            return None
    return cast(InstantStore, store)


def is_shared(store: SessionStore) -> bool:
    """Return whether other processes can also open the store."""
    return isinstance(store, SharedStore) and store.shared


def error_text(error: Exception) -> str:
    """Return the text for an error that a store raised."""
    return f"{type(error).__name__}: {error}"


def unreadable(session_id: str, error: Exception) -> SessionStoreError:
    """Return the error to raise if a store could not be read."""
    return SessionStoreError(
        f"its records cannot be read: {error_text(error)}", session_id=session_id
    )


def unknown(session_id: str, cause: Exception | None, seconds: float) -> SessionStoreError:
    """Return the error to raise if it is unknown whether records were written.

    Args:
        session_id: The session.
        cause: The error that the store raised; None if the store took too long.
        seconds: The timeout of the store.
    """
    what = f"took longer than {seconds:g} s" if cause is None else error_text(cause)
    error = SessionStoreError(
        f"it is unknown whether its records were written: {what}; the next run reads the log again",
        session_id=session_id,
    )
    error.__cause__ = cause
    return error
