"""The base class of the on-disk stores, which combines an async port, a thread and a core.

`DiskStore` owns the thread, translates errors, prunes old sessions and flushes commits to the disk
periodically. A core is plain blocking code, which only the thread calls, one method at a time. It
raises the system's exceptions and `SessionError`, and does not use trio.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Final, Literal, Protocol, TypeAlias, TypeVar

import attrs
import trio

from agent_actors.abc import AppendOutcome, LogAppend, LogRepair
from agent_actors.domain.events import AnyEvent
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.session import (
    Damage,
    JsonScalar,
    SessionInfo,
    SessionOrder,
    SessionPage,
    find_session_id_error,
    trusted_now,
)
from agent_actors.errors import ConfigError, SessionStoreError
from agent_actors.stores.disk.append_batch import Entry, plain_metadata, prepared, read_records
from agent_actors.stores.disk.idle_sessions import IdleSessions
from agent_actors.stores.disk.listing import Query, asked
from agent_actors.stores.disk.result_files import ResultFiles
from agent_actors.stores.disk.thread import StoreThread
from agent_actors.stores.disk.unwritable import is_unwritable

T = TypeVar("T")

_LOG: Final = logging.getLogger(__name__)

# The time at which a commit reaches the disk itself, not only the operating system; see
# `SqliteStore`.
Durability: TypeAlias = Literal["sync", "batch", "exit"]
DURABILITIES: Final = ("sync", "batch", "exit")

# How many days a session is kept after its last record.
CLEANUP_PERIOD_DAYS: Final = 30.0
_DAY: Final = 86_400.0
# The interval, in seconds, between searches for old sessions, and the number of sessions that one
# job deletes. The number is small so that other jobs do not wait long.
_PRUNE_EVERY: Final = _DAY
_PRUNED_AT_ONCE: Final = 200
# The interval, in seconds, between checks for sessions to release and for other instances that may
# need them. Waking the thread for each session would cost more than the release itself.
_LOOK_EVERY: Final = 0.02
# How many seconds a session is held after its run if no other instance has the store open.
_KEEP: Final = 1.0
# Limits the threads that read and write texts of results, for all stores in the process.
_RESULT_THREADS: Final = trio.CapacityLimiter(8)
# The interval, in seconds, between flushes to the disk with `batch`.
SYNC_EVERY: Final = 1.0


class Core(Protocol):
    """A blocking store that one thread calls.

    Attributes:
        faults: The types of exceptions that the system raises if an operation fails.
    """

    faults: tuple[type[Exception], ...]

    def open(self) -> int:
        """Open the store and return its epoch."""
        ...

    def open_read_only(self) -> int:
        """Open an existing store for reading, without locks, and return its epoch."""
        ...

    def check_files(self) -> None:
        """Raise `StoreReplaced` if a file of the open store was deleted or replaced."""
        ...

    def load(self, session_id: str, after_seq: int) -> Sequence[AnyEvent]:
        """Acquire the session and read its records."""
        ...

    def export(self, session_id: str, after_seq: int) -> Sequence[bytes]:
        """Read the session's records as stored lines."""
        ...

    def append(self, entries: Sequence[Entry]) -> Sequence[AppendOutcome]:
        """Commit the valid entries and return one outcome per entry."""
        ...

    def info(self, session_id: str) -> SessionInfo | None:
        """Return information about the session; None if it has no records."""
        ...

    def page(self, query: Query) -> SessionPage:
        """Return a page of sessions."""
        ...

    def annotate(self, session_id: str, changes: JsonObject) -> bool:
        """Update metadata keys. Return False if the session has no records."""
        ...

    def damage(self, session_id: str) -> Sequence[Damage]:
        """Return the damage found in the session's log."""
        ...

    def repair(self, session_id: str) -> LogRepair:
        """Acquire the session and make its log readable."""
        ...

    def alone(self) -> bool:
        """Return whether this is the only instance that has the store open."""
        ...

    def release(self, session_id: str) -> None:
        """Release the session."""
        ...

    def forget(self, session_id: str) -> None:
        """Drop the cached state of the session; its stored data is kept."""
        ...

    def delete(self, session_id: str) -> None:
        """Acquire the session and delete it."""
        ...

    def prune(self, before: float, most: int) -> Sequence[str]:
        """Delete up to `most` unused sessions whose last record is older than `before`."""
        ...

    def sync(self) -> None:
        """Flush all commits to the disk."""
        ...

    def close(self) -> None:
        """Flush everything to the disk and close it. Idempotent."""
        ...


@attrs.frozen(kw_only=True)
class DiskOptions:
    """Options shared by the on-disk stores; see `SqliteStore`."""

    durability: Durability = "batch"
    cleanup_period_days: float = CLEANUP_PERIOD_DAYS
    wall_clock: Callable[[], float] = time.time

    def __attrs_post_init__(self) -> None:
        if self.durability not in DURABILITIES:
            raise ConfigError(
                f"durability must be one of {', '.join(DURABILITIES)}; got {self.durability!r}"
            )
        if not self.cleanup_period_days > 0:
            raise ConfigError(
                "cleanup_period_days must be above 0 for a store on disk; got "
                f"{self.cleanup_period_days}; to persist nothing, use open_store() or a MemoryStore"
            )


class DiskStore:
    """A `SessionStore` that runs a core in a separate thread; the base of the on-disk stores.

    Attributes:
        shared: Always True, because other processes can open the same store.
    """

    shared: Final = True

    def __init__(self, core: Core, options: DiskOptions, where: str, results: ResultFiles) -> None:
        self._core = core
        self._results = results
        self._options = options
        self._where = where
        self._thread = StoreThread(f"agent_actors {where}")
        # The sessions to release, and True if the thread is checking them periodically.
        self._kept = IdleSessions()
        self._looks = False
        self._read_only = ""

    @property
    def read_only(self) -> str:
        """The error that made the store read-only; empty if the store is writable."""
        return self._read_only

    async def open(self) -> int:
        """Open the store. Its epoch increases whenever an instance opens it for writing.

        If the disk is full or writing is not permitted, an existing store is opened read-only:
        sessions can be listed and read, `read_only` contains the reason, the logger
        `agent_actors.stores` emits a warning, and every change raises `SessionStoreError`.

        Raises:
            SessionStoreError: The store cannot be used; the message includes the system's error.

        Cancellation: stops waiting; the thread closes the store again.
        """
        if self._thread.running:
            raise SessionStoreError(f"the store {self._where} is already open", session_id="")
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
        """Return the records with `seq` above `after_seq`. This instance then holds the session."""
        return await self._run(session_id, partial(self._load, session_id, after_seq))

    async def export(self, session_id: str, *, after_seq: int = 0) -> Sequence[bytes]:
        """Return the records with `seq` above `after_seq`, as stored lines."""
        return await self._run(session_id, partial(self._core.export, session_id, after_seq))

    async def append(self, batch: Sequence[LogAppend]) -> Sequence[AppendOutcome]:
        """Commit each append whose `expected_seq` and `fence` are current, together if possible."""
        return await self._change(None, partial(self._append, batch))

    async def damage(self, session_id: str) -> Sequence[Damage]:
        """Return the damage found in the session's stored log, without changing it."""
        return await self._run(session_id, partial(self._core.damage, session_id))

    async def repair(self, session_id: str) -> LogRepair:
        """Make the session's log readable again, and keep a copy of the damaged log."""
        return await self._change(session_id, partial(self._core.repair, session_id))

    async def info(self, session_id: str) -> SessionInfo | None:
        """Return information about the session; None if it has no records."""
        return await self._run(session_id, partial(self._core.info, session_id))

    async def list_sessions(
        self,
        *,
        where: Mapping[str, JsonScalar] | None = None,
        order: SessionOrder = "created",
        limit: int = 50,
        after: str | None = None,
    ) -> SessionPage:
        """Return a page of sessions, newest first."""
        query = asked(where, order, limit, after)
        return await self._run(None, partial(self._core.page, query))

    async def annotate(self, session_id: str, metadata: Mapping[str, JsonValue]) -> bool:
        """Update metadata keys of the session. Return False if it has no records."""
        return await self._change(session_id, partial(self._annotate, session_id, metadata))

    def evicted(self, session_id: str) -> None:
        """Drop the cached state of the session; its stored data is kept."""
        if self._thread.running:
            self._thread.post(partial(self._forget, session_id))

    def released(self, session_id: str) -> None:
        """Release the session for other instances soon."""
        if self._thread.running:
            self._kept.add(session_id)
            if not self._looks:
                self._thread.post(self._look)

    def take_nowait(self, session_id: str) -> bool:
        """Take the session for a new run; return False if this instance no longer holds it."""
        return self._kept.take(session_id)

    async def delete(self, session_id: str) -> None:
        """Delete the session from the disk."""
        await self._change(session_id, partial(self._delete, session_id))

    async def keep_result(self, session_id: str, tool_use_id: str, chunks: Sequence[bytes]) -> None:
        """Keep the complete text of a truncated tool result.

        Raises:
            OSError: The text could not be written.

        Cancellation: stops waiting; the text may or may not have been written.
        """
        # Not in the store's thread, because commits must not wait for a large text.
        keep = partial(self._results.keep, session_id, tool_use_id, chunks)
        await trio.to_thread.run_sync(keep, abandon_on_cancel=True, limiter=_RESULT_THREADS)

    async def read_result(
        self, session_id: str, tool_use_id: str, offset: int, size: int
    ) -> bytes | None:
        """Return a part of a text kept by `keep_result`; None if the text is not kept.

        Raises:
            OSError: The text could not be read.

        Cancellation: safe.
        """
        read = partial(self._results.read, session_id, tool_use_id, offset, size)
        return await trio.to_thread.run_sync(read, abandon_on_cancel=True, limiter=_RESULT_THREADS)

    async def prune(self, before: float) -> Sequence[str]:
        """Delete unused sessions whose last record is older than `before`; return their ids."""
        gone: list[str] = []
        while True:
            some = await self._change(None, partial(self._prune, before))
            if not some:
                return gone
            gone += some

    async def aclose(self) -> None:
        """Flush the store to the disk and close it, after all earlier calls. Idempotent.

        Cancellation: stops waiting; the store is still closed.
        """
        if self._thread.running:
            try:
                await self._thread.run(partial(self._guarded, "", self._close))
            except BaseException:
                self._thread.post(self._close)  # because a cancellation may have dropped the job
                raise
            finally:
                self._thread.end()

    # Methods that run in the calling task.

    async def _change(self, session_id: str | None, job: Callable[[], T]) -> T:
        if self._read_only and self._thread.running:
            raise SessionStoreError(
                f"the store {self._where} is open for reading only, because it could not be "
                f"written: {self._read_only}; solve this problem and open the store again",
                session_id=session_id or "",
            )
        return await self._run(session_id, job)

    async def _run(self, session_id: str | None, job: Callable[[], T]) -> T:
        if not self._thread.running:
            raise SessionStoreError(f"the store {self._where} is not open", session_id="")
        if session_id is not None and (fault := find_session_id_error(session_id)) is not None:
            raise SessionStoreError(fault, session_id=str(session_id))
        return await self._thread.run(
            partial(self._guarded, session_id or "", partial(self._checked, job))
        )

    # Methods that run in the store's thread.

    def _guarded(self, session_id: str, job: Callable[[], T]) -> T:
        try:
            if self._kept.news:
                self._look()
            return job()
        except self._core.faults as error:
            raise self._failure(error, session_id) from error

    def _checked(self, job: Callable[[], T]) -> T:
        self._core.check_files()
        return job()

    def _look(self) -> None:
        self._looks = False  # must come first, so that sessions added from now on wake the thread
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
        if self._read_only:  # nothing can change the session through this instance
            lines = self._core.export(session_id, after_seq)
            return read_records(lines, session_id, after_seq)
        self._kept.take(session_id)
        return self._core.load(session_id, after_seq)

    def _delete(self, session_id: str) -> None:
        self._core.delete(session_id)
        self._results.delete(session_id)

    def _prune(self, before: float) -> Sequence[str]:
        self._give_back(0.0)
        gone = self._core.prune(before, _PRUNED_AT_ONCE)
        for session_id in gone:
            with suppress(OSError):
                self._results.delete(session_id)
        if gone:
            _LOG.info(
                "the store %s: deleted %d sessions without records since %s: %s",
                self._where,
                len(gone),
                _date(before),
                ", ".join(map(repr, gone)),
            )
        return gone

    def _failure(self, error: Exception, session_id: str) -> SessionStoreError:
        return SessionStoreError(
            f"the store {self._where}: {type(error).__name__}: {error}", session_id=session_id
        )

    def _open(self) -> int:
        self._read_only = ""
        try:
            epoch = self._core.open()
        except BaseException as error:  # noqa: ASYNC103
            self._core.close()
            if not is_unwritable(error):
                raise
            return self._open_read_only(error)  # noqa: ASYNC104
        self._thread.later(self._prune_some, 0.0)
        return epoch

    def _open_read_only(self, reason: BaseException) -> int:
        try:
            epoch = self._core.open_read_only()
        except Exception:  # noqa: BLE001 - for example, because there is no store
            self._core.close()
            raise reason from None
        self._read_only = f"{type(reason).__name__}: {reason}"
        _LOG.warning(
            "the store %s is open for reading only, because it could not be written: %s",
            self._where,
            self._read_only,
        )
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
        # If this fails, the next flush or `close` will include the same commits.
        with suppress(*self._core.faults):
            self._core.sync()

    def _prune_some(self) -> None:
        if math.isinf(self._options.cleanup_period_days):
            return
        gone: Sequence[str] = ()
        with suppress(*self._core.faults):
            self._core.check_files()
            before = self._trusted_now() - self._options.cleanup_period_days * _DAY
            gone = self._prune(before)
        self._thread.later(self._prune_some, 0.0 if gone else _PRUNE_EVERY)

    def _trusted_now(self) -> float:
        newest = self._core.page(Query({}, "updated", 1, None)).sessions
        return trusted_now(self._options.wall_clock(), newest)


def _date(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):  # the time is out of range
        return f"{seconds:g}"
