"""What the stores on disk share: a port in front, a thread behind, and a core that does the work.

Owns the thread, the errors and what happens by itself: pruning old sessions, and writing through
to the disk. A core is plain blocking code that one thread calls, one method at a time; it raises
what the system raises, and `SessionError`. It knows neither trio nor waiting.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Literal, Protocol, TypeAlias, TypeVar

import attrs

from agent_actors.abc import AppendOutcome, LogAppend, LogRepair
from agent_actors.domain.events import AnyEvent
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.session import (
    JsonScalar,
    SessionInfo,
    SessionOrder,
    SessionPage,
    find_session_id_error,
)
from agent_actors.errors import ConfigError, SessionStoreError
from agent_actors.sessions.alignment import Damage
from agent_actors.stores.disk.append_batch import Entry, plain_metadata, prepared
from agent_actors.stores.disk.idle_sessions import KeptSessions
from agent_actors.stores.disk.listing import Query, asked
from agent_actors.stores.disk.thread import StoreThread

T = TypeVar("T")

# What of a commit is on the disk itself, and not only with the system, when it is acknowledged.
Durability: TypeAlias = Literal["sync", "batch", "exit"]
DURABILITIES: Final = ("sync", "batch", "exit")

# Days that a session is kept after its last record.
CLEANUP_PERIOD_DAYS: Final = 30.0
_DAY: Final = 86_400.0
# Seconds between looks for old sessions, and how many go at once, so that others need not wait.
_PRUNE_EVERY: Final = _DAY
_PRUNED_AT_ONCE: Final = 200
# Seconds between looks for sessions to give back, and whether others are there who may want them:
# to wake the thread for each costs more than all else about it.
_LOOK_EVERY: Final = 0.02
# Seconds that a session is kept after its run where nobody else has the store open.
_KEEP: Final = 1.0
# Seconds that `batch` leaves commits to the system before it writes them through.
SYNC_EVERY: Final = 1.0


class Core(Protocol):
    """A store as blocking code, called by one thread.

    Attributes:
        faults: What the system raises when it cannot do what is asked.
    """

    faults: tuple[type[Exception], ...]

    def open(self) -> int:
        """Make ready; the epoch."""
        ...

    def load(self, session_id: str, after_seq: int) -> Sequence[AnyEvent]:
        """Take the session, and read its records."""
        ...

    def export(self, session_id: str, after_seq: int) -> Sequence[bytes]:
        """Read the session's records as they are written."""
        ...

    def append(self, entries: Sequence[Entry]) -> Sequence[AppendOutcome]:
        """Commit what can be; one outcome per entry."""
        ...

    def info(self, session_id: str) -> SessionInfo | None:
        """What is known of the session."""
        ...

    def page(self, query: Query) -> SessionPage:
        """A page of the sessions."""
        ...

    def annotate(self, session_id: str, changes: JsonObject) -> bool:
        """Note keys; False if there is no such session."""
        ...

    def damage(self, session_id: str) -> Sequence[Damage]:
        """What is wrong with the session's log."""
        ...

    def repair(self, session_id: str) -> LogRepair:
        """Take the session, and make its log readable."""
        ...

    def alone(self) -> bool:
        """Whether nobody else has the store open."""
        ...

    def release(self, session_id: str) -> None:
        """Let others have the session."""
        ...

    def forget(self, session_id: str) -> None:
        """Drop what is remembered of the session; it is still there."""
        ...

    def delete(self, session_id: str) -> None:
        """Take the session, and delete it."""
        ...

    def prune(self, before: float, most: int) -> Sequence[str]:
        """Delete so many old sessions that nobody uses."""
        ...

    def sync(self) -> None:
        """Write through to the disk what is committed."""
        ...

    def close(self) -> None:
        """Close everything, written through; idempotent."""
        ...


@attrs.frozen(kw_only=True)
class DiskOptions:
    """What the stores on disk have in common; see `SqliteStore`."""

    durability: Durability = "batch"
    cleanup_period_days: float = CLEANUP_PERIOD_DAYS
    wall_clock: Callable[[], float] = time.time

    def __attrs_post_init__(self) -> None:
        if self.durability not in DURABILITIES:
            raise ConfigError(
                f"durability is one of {', '.join(DURABILITIES)}; got {self.durability!r}"
            )
        if not self.cleanup_period_days > 0:
            raise ConfigError(
                "cleanup_period_days must be above 0 for a store on disk; use open_store(), or a "
                f"MemoryStore, to persist nothing; got {self.cleanup_period_days}"
            )


class DiskStore:
    """A `SessionStore` over a core in a thread of its own. The base of those on disk.

    Attributes:
        shared: True: other processes can open the same place.
    """

    shared: Final = True

    def __init__(self, core: Core, options: DiskOptions, where: str) -> None:
        self._core = core
        self._options = options
        self._where = where
        self._thread = StoreThread(f"agent_actors {where}")
        # Sessions to give back, and whether the thread will look at them by itself.
        self._kept = KeptSessions()
        self._looks = False

    async def open(self) -> int:
        """Make ready; the epoch grows with every opening of this place by anyone.

        Raises:
            SessionStoreError: It cannot be used; the message tells what the system said.

        Cancellation: waits no longer, and closes it again behind the caller.
        """
        if self._thread.running:
            raise SessionStoreError(f"the store {self._where} is open already", session_id="")
        self._kept.clear()
        self._looks = False
        self._thread.start()
        try:
            return await self._thread.run(partial(self._guarded, "", self._open))
        except BaseException:
            self._thread.post(self._close)
            self._thread.end()
            raise

    async def load(self, session_id: str, *, after_seq: int = 0) -> Sequence[AnyEvent]:
        """The records with `seq` above `after_seq`; from here on the session is this opening's."""
        return await self._run(session_id, partial(self._load, session_id, after_seq))

    async def export(self, session_id: str, *, after_seq: int = 0) -> Sequence[bytes]:
        """The records with `seq` above `after_seq`, as they are written."""
        return await self._run(session_id, partial(self._core.export, session_id, after_seq))

    async def append(self, batch: Sequence[LogAppend]) -> Sequence[AppendOutcome]:
        """Commit each append whose `expected_seq` and `fence` are current, all in one go."""
        return await self._run(None, partial(self._append, batch))

    async def damage(self, session_id: str) -> Sequence[Damage]:
        """What is wrong with the stored log of the session; nothing is changed."""
        return await self._run(session_id, partial(self._core.damage, session_id))

    async def repair(self, session_id: str) -> LogRepair:
        """Make the log of the session readable again, and keep it as it was in a file."""
        return await self._run(session_id, partial(self._core.repair, session_id))

    async def info(self, session_id: str) -> SessionInfo | None:
        """What is known of the session."""
        return await self._run(session_id, partial(self._core.info, session_id))

    async def list_sessions(
        self,
        *,
        where: Mapping[str, JsonScalar] | None = None,
        order: SessionOrder = "created",
        limit: int = 50,
        after: str | None = None,
    ) -> SessionPage:
        """A page of the sessions, the newest first."""
        query = asked(where, order, limit, after)
        return await self._run(None, partial(self._core.page, query))

    async def annotate(self, session_id: str, metadata: Mapping[str, JsonValue]) -> bool:
        """Note keys of the session's metadata."""
        return await self._run(session_id, partial(self._annotate, session_id, metadata))

    def evicted(self, session_id: str) -> None:
        """Drop what is remembered of the session; what is stored stays."""
        if self._thread.running:
            self._thread.post(partial(self._forget, session_id))

    def released(self, session_id: str) -> None:
        """Let another opening have the session, soon."""
        if self._thread.running:
            self._kept.add(session_id)
            if not self._looks:
                self._thread.post(self._look)

    def take_nowait(self, session_id: str) -> bool:
        """Take the session again, if this opening has kept it since its last run."""
        return self._kept.take(session_id)

    async def delete(self, session_id: str) -> None:
        """Forget the session, on the disk too."""
        await self._run(session_id, partial(self._core.delete, session_id))

    async def prune(self, before: float) -> Sequence[str]:
        """Delete the sessions whose last record is older than that, but for those in use."""
        gone: list[str] = []
        while True:
            some = await self._run(None, partial(self._prune, before))
            if not some:
                return gone
            gone += some

    async def aclose(self) -> None:
        """Write everything through and close it, once what was asked before is done; idempotent.

        Cancellation: waits no longer; it is closed all the same.
        """
        if self._thread.running:
            try:
                await self._run(None, self._close)
            except BaseException:
                self._thread.post(self._close)  # a cancel may have come before it was begun
                raise
            finally:
                self._thread.end()

    # In the asking task.

    async def _run(self, session_id: str | None, job: Callable[[], T]) -> T:
        if not self._thread.running:
            raise SessionStoreError(f"the store {self._where} is not open", session_id="")
        if session_id is not None and (fault := find_session_id_error(session_id)) is not None:
            raise SessionStoreError(fault, session_id=str(session_id))
        return await self._thread.run(partial(self._guarded, session_id or "", job))

    # In the thread.

    def _guarded(self, session_id: str, job: Callable[[], T]) -> T:
        try:
            if self._kept.news:
                self._look()
            return job()
        except self._core.faults as error:
            raise self._failure(error, session_id) from error

    def _look(self) -> None:
        self._looks = False  # first: what is added from here on wakes the thread
        self._give_back(_KEEP if self._core.alone() else 0.0)
        if self._kept:
            self._looks = True
            self._thread.later(self._look, _LOOK_EVERY)

    def _give_back(self, kept_for: float) -> None:
        for session_id in self._kept.due(kept_for):
            self._core.release(session_id)

    def _forget(self, session_id: str) -> None:
        self._core.forget(session_id)
        self._kept.take(session_id)
        self._core.release(session_id)

    def _load(self, session_id: str, after_seq: int) -> Sequence[AnyEvent]:
        self._kept.take(session_id)
        return self._core.load(session_id, after_seq)

    def _prune(self, before: float) -> Sequence[str]:
        self._give_back(0.0)
        return self._core.prune(before, _PRUNED_AT_ONCE)

    def _failure(self, error: Exception, session_id: str) -> SessionStoreError:
        return SessionStoreError(
            f"the store {self._where}: {type(error).__name__}: {error}", session_id=session_id
        )

    def _open(self) -> int:
        try:
            epoch = self._core.open()
        except BaseException:
            self._core.close()
            raise
        self._thread.later(self._prune_some, 0.0)
        return epoch

    def _close(self) -> None:
        self._thread.forget_later()
        self._core.close()

    def _append(self, batch: Sequence[LogAppend]) -> Sequence[AppendOutcome]:
        outcomes: list[AppendOutcome] = [None] * len(batch)
        entries: list[tuple[int, Entry]] = []
        for position, append in enumerate(batch):
            entry = prepared(append)
            if isinstance(entry, Entry):
                self._kept.take(append.session_id)
                entries.append((position, entry))
            else:
                outcomes[position] = entry
        found = self._core.append([entry for _, entry in entries])
        for (position, _), outcome in zip(entries, found, strict=True):
            outcomes[position] = outcome
        if self._options.durability == "batch":
            self._thread.later(self._sync, SYNC_EVERY)
        return outcomes

    def _annotate(self, session_id: str, metadata: Mapping[str, JsonValue]) -> bool:
        changes = plain_metadata(metadata, session_id)
        return self._core.annotate(session_id, changes)

    def _sync(self) -> None:
        # What cannot be written through now is, with what follows it, or when the store is closed.
        with suppress(*self._core.faults):
            self._core.sync()

    def _prune_some(self) -> None:
        before = self._options.wall_clock() - self._options.cleanup_period_days * _DAY
        gone: Sequence[str] = ()
        with suppress(*self._core.faults):
            gone = self._prune(before)
        self._thread.later(self._prune_some, 0.0 if gone else _PRUNE_EVERY)
