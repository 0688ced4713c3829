"""A session in memory, and what is read from a store becomes of it.

Pure but for the state that it keeps. Where others can open the store too, a session in memory may
have been overtaken: written to by another process, or deleted and begun anew. What a reading of
the log's end tells of that is decided here.
"""

from collections.abc import Sequence
from typing import cast

import attrs

from agent_actors.abc import InstantStore, SessionStore, SharedStore
from agent_actors.domain.events import AnyEvent, UnknownEvent
from agent_actors.domain.json import JsonValue
from agent_actors.errors import SessionStoreError
from agent_actors.sessions import SessionState, fold


@attrs.define(eq=False)
class Loaded:
    """A session in memory.

    Attributes:
        session_id: The session.
        state: What its records add up to.
        users: Runs that have it open: one at most.
        dirty: Whether the outcome of an append is not known.
        last_used: By trio's clock.
        noted: What of its metadata was last put on record here; None: nothing.
        noting: What goes on record with the next commit; None: nothing.
    """

    session_id: str
    state: SessionState
    users: int = 0
    dirty: bool = False
    last_used: float = 0.0
    noted: dict[str, JsonValue] | None = None
    noting: dict[str, JsonValue] | None = None
    # Tells the last record from one that another log has in its place.
    last_id: str = ""

    def take(self, records: Sequence[AnyEvent]) -> None:
        """Fold these, which come next."""
        for record in records:
            self.state.apply(record)
        if records:
            self.last_id = _id_of(records[-1])

    def note(self, metadata: dict[str, JsonValue]) -> None:
        """Have these keys noted with the next commit, unless they were the last ones."""
        if metadata is not self.noted and metadata != self.noted:
            self.noting = metadata

    def overtaken(self, store: SessionStore) -> bool:
        """Whether others may have had the session since its last run here; else it is taken."""
        return not cast(SharedStore, store).take_nowait(self.session_id)

    def read_from(self, *, shared: bool) -> int:
        """The `seq` after which the log has to be read, to tell whether this is still its end."""
        last = self.state.last_seq
        return max(last - 1, 0) if shared else last

    def caught_up(self, records: Sequence[AnyEvent], *, shared: bool) -> bool:
        """Take what was read from there; False if this is another log: all has to be read."""
        if shared and self.state.last_seq:
            if not records or _id_of(records[0]) != self.last_id:
                return False
            records = records[1:]
        self.take(records)
        self.dirty = False
        return True


def loaded_from(session_id: str, records: Sequence[AnyEvent]) -> Loaded:
    """A session of which all records were read."""
    last_id = _id_of(records[-1]) if records else ""
    return Loaded(session_id, fold(records), last_id=last_id)


def _id_of(record: AnyEvent) -> str:
    return str(record.raw.get("id")) if isinstance(record, UnknownEvent) else record.id


def instant_store(store: SessionStore) -> InstantStore | None:
    """The store, if it can answer at once and no subclass has taken over how it answers."""
    for waiting, at_once in (("load", "load_nowait"), ("append", "append_nowait")):
        known = [vars(cls) for cls in type(store).__mro__]
        nearest = [names for names in known if waiting in names or at_once in names][:1]
        if not any(at_once in names for names in nearest):
            return None
    return cast(InstantStore, store)


def is_shared(store: SessionStore) -> bool:
    """Whether others can open the store too."""
    return isinstance(store, SharedStore) and store.shared


def told(error: Exception) -> str:
    """An error of a store's in words."""
    return f"{type(error).__name__}: {error}"


def unreadable(session_id: str, error: Exception) -> SessionStoreError:
    """What is raised where a store raised something of its own."""
    return SessionStoreError(f"its records cannot be read: {told(error)}", session_id=session_id)


def unknown(session_id: str, cause: Exception | None, seconds: float) -> SessionStoreError:
    """What is raised where nobody knows whether records were written.

    Args:
        session_id: The session.
        cause: What the store raised; None: it took too long.
        seconds: How long it may take.
    """
    what = f"took longer than {seconds:g} s" if cause is None else told(cause)
    error = SessionStoreError(
        f"whether its records were written is not known: {what}; "
        "the next run on it reads the log again",
        session_id=session_id,
    )
    error.__cause__ = cause
    return error
