"""Blocking implementation of `SqliteStore`; one thread calls it.

This module owns the connection, the locks for the sessions that this instance uses, and a cache of
the ends of session logs. A batch of appends is one transaction. If it fails, each append is retried
in its own transaction, and succeeds or fails independently.

The number of steps per statement matters: SQLite releases Python's global interpreter lock at each
step, and it can take milliseconds to get the lock back from a busy event loop. Therefore, many rows
are written with one statement, and results are read as one value. The ends of session logs are
cached across runs, as long as SQLite's `data_version` shows that no other connection wrote to the
file.
"""

import logging
import os
import sqlite3
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, cast
from weakref import WeakSet

import attrs
import msgspec

from agent_actors.abc import AppendOutcome, LogRepair
from agent_actors.domain.events import AnyEvent
from agent_actors.domain.json import JsonObject
from agent_actors.domain.session import Damage, SessionInfo, SessionPage
from agent_actors.errors import SessionError, SessionStoreError
from agent_actors.stores._sqlite_listing import (
    INFO,
    ROWS_AT_ONCE,
    Row,
    damaged_row,
    find_row_damage,
    info_of,
    insert,
    metadata_of,
    read_page,
    relabel,
)
from agent_actors.stores._sqlite_log import (
    COMMIT,
    alignment_of,
    back_up,
    rewrite,
    stored_lines,
)
from agent_actors.stores._sqlite_schema import ForeignFile, epoch_of, migrate
from agent_actors.stores.disk.append_batch import (
    Entry,
    lost_records,
    merged,
    placed,
    read_records,
    stale,
    used_elsewhere,
)
from agent_actors.stores.disk.listing import Query
from agent_actors.stores.disk.locks import StoreInUse, StoreLocks
from agent_actors.stores.disk.open_files import NO_FILES, StoreReplaced, watched

# Number of seconds that a statement waits for another process's transaction.
BUSY_TIMEOUT: Final = 5.0
# Number of pages (of 4 KiB) in the write-ahead log before a checkpoint. The same pages are written
# again and again, and a checkpoint writes each of them to the database file only once, so
# checkpoints should be rare.
_CHECKPOINT_PAGES: Final = 4_000

# Ways to open a file that cannot be written: URI parameters and locking mode. The first way needs
# the `-shm` file, or permission to create it. The second way needs no other file, but ignores the
# write-ahead log. The third way reads the write-ahead log without the `-shm` file and without
# locks.
IMMUTABLE: Final = "mode=ro&immutable=1"
READ_ONLY_WAYS: Final = (
    ("mode=ro", "NORMAL"),
    (IMMUTABLE, "NORMAL"),
    ("mode=ro&vfs=unix-none", "EXCLUSIVE"),
)

_DELETE_COMMITS: Final = """
    WITH RECURSIVE walk (id, previous) AS (
        SELECT id, previous FROM commits WHERE id = :commit
        UNION ALL
        SELECT c.id, c.previous FROM walk AS w JOIN commits AS c ON c.id = w.previous
    )
    DELETE FROM commits WHERE id IN (SELECT id FROM walk)
"""
# Used for a session whose row is damaged. Reads the complete table.
_DELETE_ALL_COMMITS: Final = """
    DELETE FROM commits WHERE session IN (SELECT number FROM sessions WHERE session_id = ?)
"""
LOST_METADATA: Final = "the metadata cannot be read and is lost"

_LOG: Final = logging.getLogger(__name__)


@attrs.define(eq=False)
class _End:
    """The end of a session's log, and its metadata.

    Attributes:
        lost: The content of a damaged metadata column, to be saved to a file before it is replaced;
            None if the metadata is not damaged.
    """

    number: int
    created_at: float
    updated_at: float
    last_seq: int
    last_commit: int
    metadata: bytes
    lost: bytes | None = None


class _EndRow(msgspec.Struct, array_like=True):
    session_id: str
    number: int
    created_at: float
    updated_at: float
    last_seq: int
    last_commit: int
    metadata: msgspec.Raw


class ForkedStore(Exception):
    """A forked child cannot open a database that its parent had open at the time of the fork."""


class SqliteCore:
    """The blocking half of `SqliteStore`.

    Args:
        path: The file.
        sync: True to flush each commit to the disk.
    """

    faults: tuple[type[Exception], ...] = (
        sqlite3.Error,
        OSError,
        ForeignFile,
        StoreInUse,
        StoreReplaced,
        ForkedStore,
    )

    def __init__(self, path: Path, *, sync: bool) -> None:
        self._path = path
        self._sync = sync
        self._locks: StoreLocks | None = None
        self._db: sqlite3.Connection | None = None
        self._files = NO_FILES
        self._ends: dict[str, _End] = {}
        self._fences: dict[str, int] = {}
        # The last assigned numbers; None if they must be read from the file.
        self._last_number: int | None = None
        self._last_commit: int | None = None
        self._data_version = 0

    # Opening and closing.

    def open(self) -> int:
        """Open the store and return its epoch."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._locks = StoreLocks(self._path.with_name(self._path.name + "-lock"))
        # SQLite creates its other files with this file's mode. An existing file must not be opened
        # here, because closing it would release the locks of this process's other connections.
        with suppress(FileExistsError):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            os.close(os.open(self._path, flags, 0o600))
        if _identity_of(self._path) in _inherited:
            raise ForkedStore(
                "this process was forked from a process that has the store open, so SQLite "
                "cannot lock it; start the process in another way, for example with `spawn`"
            )
        self._db = self._connect(str(self._path), uri=False)
        _open_cores.add(self)
        epoch = migrate(self._db)
        (mode,) = self._db.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != b"wal":
            raise ForeignFile(
                f"SQLite cannot use a write-ahead log here (only {mode.decode()!r}); use a local "
                "disk"
            )
        self._db.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        self._db.execute(f"PRAGMA synchronous = {'FULL' if self._sync else 'NORMAL'}")
        self._db.execute("SELECT epoch FROM store").fetchone()  # opens the write-ahead log
        names = ("", "-wal", "-shm", "-lock")
        self._files = watched(self._path.with_name(self._path.name + name) for name in names)
        self._locks.made_ready()
        return epoch

    def open_read_only(self) -> int:
        """Open an existing store for reading, without locks, and return its epoch."""
        log = self._path.with_name(f"{self._path.name}-wal")
        last: Exception | None = None
        for options, mode in READ_ONLY_WAYS:
            if options == IMMUTABLE and log.exists() and log.stat().st_size:
                continue  # this way would ignore the log, which contains the last commits
            try:
                self._db = self._connect(f"{self._path.absolute().as_uri()}?{options}", uri=True)
                self._db.execute(f"PRAGMA locking_mode = {mode}").fetchone()
                epoch = epoch_of(self._db)
            except sqlite3.OperationalError as error:
                self.close()
                last = error
            else:
                self._files = watched((self._path,))
                return epoch
        assert last is not None
        raise last

    @staticmethod
    def _connect(path: str, *, uri: bool) -> sqlite3.Connection:
        db = sqlite3.connect(
            path,
            timeout=BUSY_TIMEOUT,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=4 * ROWS_AT_ONCE,
            uri=uri,
        )
        db.text_factory = bytes
        return db

    def check_files(self) -> None:
        """Check that no file of the open store was deleted or replaced."""
        self._files.check()

    def sync(self) -> None:
        """Flush all commits to the disk."""
        self._connection().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def close(self) -> None:
        """Flush everything to the disk, close the file, and release all sessions. Idempotent."""
        db, self._db = self._db, None
        locks, self._locks = self._locks, None
        self._files = NO_FILES
        self._forget_ends()
        self._fences.clear()
        try:
            if db is not None:
                db.close()
        finally:
            if locks is not None:
                locks.close()

    def abandon(self, inherited: dict[tuple[int, int], sqlite3.Connection]) -> None:
        """Give up the connection in a forked child, and keep it in `inherited` by its file."""
        db, self._db = self._db, None
        if db is not None:
            with suppress(OSError):
                inherited[_identity_of(self._path)] = db

    def _connection(self) -> sqlite3.Connection:
        assert self._db is not None  # `DiskStore` only calls an open store
        return self._db

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        db = self._connection()
        db.execute("BEGIN IMMEDIATE")
        try:
            self._look_for_others(db)
            yield db
            db.execute("COMMIT")
        except BaseException:
            self._forget_ends()  # the transaction's outcome is unknown: read the ends again
            with suppress(sqlite3.Error):
                db.rollback()
            raise

    def _look_for_others(self, db: sqlite3.Connection) -> None:
        (version,) = db.execute("PRAGMA data_version").fetchone()
        if version != self._data_version:
            self._data_version = version
            self._forget_ends()

    def _forget_ends(self) -> None:
        self._ends.clear()
        self._last_number = self._last_commit = None

    # Ownership of sessions.

    def _take(self, session_id: str) -> None:
        assert self._locks is not None
        if not self._locks.take(session_id):
            raise used_elsewhere(session_id)

    def alone(self) -> bool:
        """Return whether this is the only instance that has the store open."""
        return self._locks is None or self._locks.alone()

    def release(self, session_id: str) -> None:
        """Release the session."""
        if self._locks is not None:
            self._locks.give_back(session_id)

    def forget(self, session_id: str) -> None:
        """Drop the cached end and fence of the session."""
        self._ends.pop(session_id, None)
        self._fences.pop(session_id, None)

    # Appending.

    def append(self, entries: Sequence[Entry]) -> Sequence[AppendOutcome]:
        """Commit the entries in one transaction. If it fails, commit each entry on its own."""
        outcomes: dict[int, SessionError] = {}
        try:
            self._append(entries, outcomes)
        except sqlite3.Error:
            outcomes = {}
            for position, entry in enumerate(entries):
                try:
                    self._append([entry], outcomes, position)
                except sqlite3.Error as error:
                    outcomes[position] = self._unwritten(error, entry)
        return [outcomes.get(position) for position in range(len(entries))]

    def _unwritten(self, error: sqlite3.Error, entry: Entry) -> SessionStoreError:
        failure = SessionStoreError(
            f"the store at {self._path}: {type(error).__name__}: {error}",
            session_id=entry.append.session_id,
        )
        failure.__cause__ = error
        return failure

    def _append(
        self, entries: Sequence[Entry], outcomes: dict[int, SessionError], first: int = 0
    ) -> None:
        with self._transaction() as db:
            unusable = self._read_ends(db, [entry.append.session_id for entry in entries])
            touched: dict[str, _End] = {}
            rows: list[int | str] = []
            commit = self._last(db, "id", "commits", self._last_commit)
            for position, entry in enumerate(entries, first):
                try:
                    _check_usable(unusable, entry.append.session_id)
                    end = self._follow(db, entry)
                except SessionError as error:
                    outcomes[position] = error
                    continue
                touched[entry.append.session_id] = end
                commit += 1
                lines = b"\n".join(entry.lines).decode()
                rows += (commit, end.number, entry.append.expected_seq + 1, end.last_commit, lines)
                end.last_commit = commit
            self._last_commit = commit
            self._write_ends(db, touched)
            insert(db, f"INSERT INTO commits ({COMMIT}) VALUES", "", rows, 5)

    @staticmethod
    def _last(db: sqlite3.Connection, column: str, table: str, known: int | None) -> int:
        """Return the greatest value in a column, reading the table unless the value is known."""
        if known is None:
            (found,) = db.execute(f"SELECT max({column}) FROM {table}").fetchone()
            return int(found or 0)
        return known

    def _follow(self, db: sqlite3.Connection, entry: Entry) -> _End:
        """Return the end of the session's log after this append.

        Raises:
            SessionError: The append does not follow the current end of the log, or another instance
                holds the session.
        """
        append = entry.append
        self._take(append.session_id)
        end = self._ends.get(append.session_id)
        last_seq = end.last_seq if end else 0
        refusal = stale(append, last_seq, self._fences.get(append.session_id, 0))
        if refusal is not None:
            raise refusal
        first, last = append.events[0].ts, append.events[-1].ts
        if end is None:
            self._last_number = self._last(db, "number", "sessions", self._last_number) + 1
            end = _End(self._last_number, first, last, 0, 0, b"{}")
            self._ends[append.session_id] = end
        end.last_seq += len(append.events)
        end.updated_at = last
        self._fences[append.session_id] = append.fence
        if entry.changes is not None or end.lost is not None:
            self._note(db, append.session_id, end, entry.changes or {})
        return end

    def _read_ends(self, db: sqlite3.Connection, session_ids: Sequence[str]) -> dict[str, str]:
        """Cache the log ends of those of the given sessions that exist.

        Returns:
            The sessions whose rows cannot be used, with the reasons.
        """
        unusable: dict[str, str] = {}
        unknown = sorted({name for name in session_ids if name not in self._ends})
        for at in range(0, len(unknown), ROWS_AT_ONCE):
            names = unknown[at : at + ROWS_AT_ONCE]
            try:
                self._ends.update(_read_together(db, names))
            except (sqlite3.OperationalError, ValueError):
                # A row is damaged, so find out which one.
                for name in names:
                    damage = self._read_alone(db, name)
                    if damage is not None:
                        unusable[name] = damage
        return unusable

    def _read_alone(self, db: sqlite3.Connection, session_id: str) -> str | None:
        """Cache the end of a session's log; return the reason if its row cannot be used."""
        row = db.execute(
            f"SELECT {INFO}, number, last_commit FROM sessions WHERE session_id = ?", (session_id,)
        ).fetchone()
        if row is None:
            return None
        if (damage := find_row_damage(row)) is not None:
            return damage
        _, created_at, updated_at, last_seq, metadata, number, last_commit = row
        end = _End(number, created_at, updated_at, last_seq, last_commit, metadata)
        if metadata_of(metadata) is None:
            end.metadata, end.lost = b"{}", _as_bytes(metadata)
        self._ends[session_id] = end
        return None

    def _write_ends(self, db: sqlite3.Connection, ends: Mapping[str, _End]) -> None:
        values: list[int | float | str] = []
        for session_id, end in ends.items():
            values += (end.number, session_id, end.created_at, end.updated_at, end.last_seq)
            values += (end.metadata.decode(), end.last_commit)
        insert(
            db,
            f"INSERT INTO sessions (number, {INFO}, last_commit) VALUES",
            "ON CONFLICT (number) DO UPDATE SET updated_at = excluded.updated_at, "
            "last_seq = excluded.last_seq, last_commit = excluded.last_commit, "
            "metadata = excluded.metadata",
            values,
            7,
        )

    def _note(
        self, db: sqlite3.Connection, session_id: str, end: _End, changes: JsonObject
    ) -> None:
        before = metadata_of(end.metadata)
        if end.lost is not None:
            backup = back_up(self._path, session_id, end.lost)
            _LOG.warning(
                "session %r: replaced the damaged metadata and kept it in %s", session_id, backup
            )
            before = end.lost = None
        after = merged(before or {}, changes)
        end.metadata = msgspec.json.encode(after)
        relabel(db, before, after, (end.created_at, session_id))

    # Reading.

    def load(self, session_id: str, after_seq: int) -> Sequence[AnyEvent]:
        """Acquire the session and read its records."""
        self._take(session_id)
        return read_records(self.export(session_id, after_seq), session_id, after_seq)

    def export(self, session_id: str, after_seq: int) -> Sequence[bytes]:
        """Read the session's records as stored lines."""
        lines, first, last_seq = stored_lines(self._connection(), session_id, after_seq)
        if after_seq >= last_seq:
            return []
        if first > after_seq + 1:
            raise lost_records(session_id, after_seq + 1, first - 1)
        return placed(lines, session_id, first, last_seq)[after_seq + 1 - first :]

    def info(self, session_id: str) -> SessionInfo | None:
        """Return information about the session; None if it does not exist."""
        row = _find_row(self._connection(), session_id)
        if row is None:
            return None
        if (damage := find_row_damage(row)) is not None:
            raise damaged_row(session_id, damage)
        return info_of(row)

    def page(self, query: Query) -> SessionPage:
        """Return a page of sessions."""
        return read_page(self._connection(), query)

    # Damage.

    def damage(self, session_id: str) -> Sequence[Damage]:
        """Return the damage found in the session's log."""
        db = self._connection()
        row = _find_row(db, session_id)
        if row is not None and (unusable := find_row_damage(row)) is not None:
            return (Damage(unusable, 0),)
        found = alignment_of(db, session_id)[0].damage
        if row is not None and metadata_of(row[4]) is None:
            return (Damage(LOST_METADATA, 0), *found)
        return found

    def repair(self, session_id: str) -> LogRepair:
        """Rewrite a damaged log in one transaction and keep the old one in a backup file."""
        had = self._taken(session_id)
        try:
            with self._transaction() as db:
                _check_usable(self._read_ends(db, [session_id]), session_id)
                end = self._ends.get(session_id)
                found, text = alignment_of(db, session_id)
                if end is None or (not found.damage and end.lost is None):
                    return LogRepair(session_id, ())
                damage = found.damage
                if end.lost is not None:
                    damage = (Damage(LOST_METADATA, 0), *damage)
                    text = b"\n".join((end.lost, text))
                    self._note(db, session_id, end, {})
                backup = back_up(self._path, session_id, text)
                commit = self._last(db, "id", "commits", None)
                end.last_commit = rewrite(db, end.number, commit, found.lines)
                end.last_seq = len(found.lines)
                self._last_commit = None
                self._write_ends(db, {session_id: end})
            return LogRepair(session_id, damage, str(backup))
        finally:
            if not had:
                self.release(session_id)

    def _taken(self, session_id: str) -> bool:
        """Acquire the session and return whether this instance already held it."""
        assert self._locks is not None
        had = self._locks.holds(session_id)
        self._take(session_id)
        return had

    # Metadata and deletion.

    def annotate(self, session_id: str, changes: JsonObject) -> bool:
        """Update metadata keys. Return False if the session does not exist."""
        with self._transaction() as db:
            _check_usable(self._read_ends(db, [session_id]), session_id)
            end = self._ends.get(session_id)
            if end is None:
                return False
            self._note(db, session_id, end, changes)
            self._write_ends(db, {session_id: end})
        return True

    def delete(self, session_id: str) -> None:
        """Acquire the session and delete it."""
        had = self._taken(session_id)
        try:
            with self._transaction() as db:
                self._delete(db, session_id)
        finally:
            if not had:
                self.release(session_id)

    def prune(self, before: float, most: int) -> Sequence[str]:
        """Delete up to `most` unused sessions whose last record is older than `before`."""
        assert self._locks is not None
        gone: list[str] = []
        try:
            with self._transaction() as db:
                for session_id in _older_sessions(db, before):
                    if self._locks.holds(session_id) or not self._locks.take(session_id):
                        continue
                    gone.append(session_id)
                    self._delete(db, session_id)
                    if len(gone) == most:
                        break
        finally:
            for session_id in gone:
                self.release(session_id)
        return gone

    def _delete(self, db: sqlite3.Connection, session_id: str) -> None:
        unusable = self._read_ends(db, [session_id])
        end = self._ends.pop(session_id, None)
        self._fences.pop(session_id, None)
        if unusable or (end is not None and end.lost is not None):
            relabel(db, None, {}, (0.0, session_id))
            db.execute(_DELETE_ALL_COMMITS, (session_id,))
            db.execute("DELETE FROM sessions WHERE session_id = ?", (session_id,))
        elif end is not None:
            self._note(db, session_id, end, dict.fromkeys(metadata_of(end.metadata) or {}))
            db.execute(_DELETE_COMMITS, {"commit": end.last_commit})
            db.execute("DELETE FROM sessions WHERE number = ?", (end.number,))


def _read_together(db: sqlite3.Connection, names: Sequence[str]) -> dict[str, _End]:
    """Read the ends of several sessions with one statement.

    Raises:
        sqlite3.OperationalError, ValueError: A row is damaged.
    """
    (found,) = db.execute(
        "SELECT json_group_array(json_array(session_id, number, created_at, updated_at, "
        "last_seq, last_commit, json(metadata))) FROM sessions WHERE session_id IN "
        f"({', '.join('?' * len(names))})",
        names,
    ).fetchone()
    ends: dict[str, _End] = {}
    for row in _END_ROWS.decode(found):
        metadata = bytes(row.metadata)
        if not metadata.startswith(b"{"):
            raise ValueError("the metadata is not an object")
        ends[row.session_id] = _End(
            row.number, row.created_at, row.updated_at, row.last_seq, row.last_commit, metadata
        )
    return ends


def _older_sessions(db: sqlite3.Connection, before: float) -> list[str]:
    rows = db.execute(
        "SELECT session_id FROM sessions WHERE updated_at < ? AND "
        "typeof(session_id) = 'text' ORDER BY updated_at",
        (before,),
    )
    found: list[str] = []
    for (name,) in rows:
        with suppress(UnicodeDecodeError):  # a damaged row, whose id cannot be a session's
            found.append(name.decode())
    return found


def _find_row(db: sqlite3.Connection, session_id: str) -> Row | None:
    return cast(
        "Row | None",
        db.execute(f"SELECT {INFO} FROM sessions WHERE session_id = ?", (session_id,)).fetchone(),
    )


def _as_bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _check_usable(unusable: Mapping[str, str], session_id: str) -> None:
    damage = unusable.get(session_id)
    if damage is not None:
        raise damaged_row(session_id, damage)


_END_ROWS: Final = msgspec.json.Decoder(list[_EndRow])


# SQLite must not be used across a fork, because the child inherits SQLite's list of locks, but not
# the locks themselves. The parent's connections stay referenced in the child, so that they are
# never closed there.
_open_cores: Final[WeakSet[SqliteCore]] = WeakSet()
_inherited: Final[dict[tuple[int, int], sqlite3.Connection]] = {}


def _identity_of(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _keep_in_child() -> None:
    for core in tuple(_open_cores):
        core.abandon(_inherited)


os.register_at_fork(after_in_child=_keep_in_child)
