"""Blocking implementation of `JsonlStore`; one thread calls it.

    <path>/epoch                          how often the store was opened
    <path>/lock                           locks: which store instance uses which session
    <path>/sessions/<id>/events.jsonl     the records, one line of JSON each
    <path>/sessions/<id>/meta.json        session_id, created_at, metadata
    <path>/sessions/<id>/events.jsonl.damaged-<n>   a copy of the records before the nth repair

This module owns these files. An append is a single write of complete lines. If the write fails, the
file is truncated to its previous size. A crash can leave an incomplete line at the end of a log.
When a store instance next acquires the session, the incomplete line is removed and the removal is
reported. All complete lines are kept, acknowledged or not. The end of a log is cached while the
session is held. An append compares the file with the cached end: if another program has deleted,
replaced, truncated or extended the log, nothing is written and the append fails.
"""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

import attrs

from agent_actors.abc import AppendOutcome, LogRepair
from agent_actors.domain.events import AnyEvent
from agent_actors.domain.json import JsonObject
from agent_actors.domain.session import Damage, SessionInfo, SessionPage, find_session_id_error
from agent_actors.errors import SessionError, SessionStoreError
from agent_actors.sessions.alignment import Alignment, aligned
from agent_actors.stores._jsonl_ends import LogEnd, end_of
from agent_actors.stores._jsonl_meta import (
    EVENTS,
    META,
    Meta,
    backup_name,
    backups_in,
    first_record,
    indented,
    meta_of,
    new_meta,
    note,
)
from agent_actors.stores.disk.append_batch import Entry, placed, read_records, stale, used_elsewhere
from agent_actors.stores.disk.file_names import directory_name
from agent_actors.stores.disk.listing import Query
from agent_actors.stores.disk.locks import StoreInUse, StoreLocks
from agent_actors.stores.disk.open_files import NO_FILES, StoreReplaced, watched
from agent_actors.stores.disk.safe_files import (
    file,
    folder,
    make_folder,
    read_file,
    replace_file,
    write_all,
)

_EPOCH: Final = "epoch"
_SESSIONS: Final = "sessions"

_LOG: Final = logging.getLogger(__name__)


@attrs.frozen
class Repair:
    """The removal of an incomplete last line from a session's log after a crash.

    Attributes:
        session_id: The session.
        last_seq: `seq` of the record that is now the last one.
        cut: The number of bytes removed.
    """

    session_id: str
    last_seq: int
    cut: int


class NoStore(Exception):
    """The directory does not contain a store of this kind."""


class LogChanged(Exception):
    """Another program changed a log whose session this instance holds; the message says how."""


class JsonlCore:
    """The blocking half of `JsonlStore`.

    Args:
        path: The directory.
        sync: True to flush each commit to the disk.
        on_repair: Called with each repair.
    """

    faults: tuple[type[Exception], ...] = (OSError, NoStore, StoreInUse, StoreReplaced)

    def __init__(self, path: Path, *, sync: bool, on_repair: Callable[[Repair], None]) -> None:
        self._path = path
        self._sync = sync
        self._on_repair = on_repair
        self._locks: StoreLocks | None = None
        self._folder = -1
        self._files = NO_FILES
        self._read_only = False
        self._ends: dict[str, LogEnd] = {}
        self._fences: dict[str, int] = {}
        # Directory names of sessions with records that are not flushed to the disk yet.
        self._unsynced: set[str] = set()

    # Opening and closing.

    def open(self) -> int:
        """Open the store and return its epoch."""
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._locks = StoreLocks(self._path / "lock")
        root = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            text = read_file(_EPOCH, root) or b"0"
            if not text.strip().isdigit():
                raise NoStore(
                    f"the file {_EPOCH!r} contains no number; choose the directory of a store"
                )
            epoch = int(text) + 1
            replace_file(_EPOCH, root, b"%d\n" % epoch, sync=True)
            make_folder(_SESSIONS, root)
            with folder(_SESSIONS, root) as found:
                self._folder = os.dup(found)
        finally:
            os.close(root)
        self._files = watched((self._path / _SESSIONS, self._path / "lock"))
        self._locks.made_ready()
        return epoch

    def open_read_only(self) -> int:
        """Open an existing store for reading, without locks, and return its epoch."""
        root = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            text = read_file(_EPOCH, root) or b""
            with folder(_SESSIONS, root) as found:
                self._folder = os.dup(found)
        finally:
            os.close(root)
        self._read_only = True
        self._files = watched((self._path / _SESSIONS,))
        return int(text) if text.strip().isdigit() else 1

    def check_files(self) -> None:
        """Check that no file of the open store was deleted or replaced."""
        self._files.check()

    def sync(self) -> None:
        """Flush all commits to the disk; try every session before raising the first error."""
        failed: dict[str, OSError] = {}
        for name in self._unsynced:
            try:
                self._sync_session(name)
            except FileNotFoundError:
                continue  # the session was deleted in the meantime
            except OSError as error:
                failed[name] = error
        self._unsynced = set(failed)
        for failure in failed.values():
            raise failure

    def _sync_session(self, name: str) -> None:
        with folder(name, self._folder) as found:
            for one in (EVENTS, META):
                with file(one, found, os.O_RDONLY) as opened:
                    os.fsync(opened)
            os.fsync(found)

    def close(self) -> None:
        """Flush everything to the disk and release all sessions. Idempotent."""
        try:
            if self._folder >= 0 and not self._read_only:
                self.sync()
                os.fsync(self._folder)
        finally:
            if self._folder >= 0:
                os.close(self._folder)
                self._folder = -1
            if self._locks is not None:
                self._locks.close()
                self._locks = None
            self._files, self._read_only = NO_FILES, False
            self._ends.clear()
            self._fences.clear()
            self._unsynced.clear()

    # Ownership of sessions.

    def _take(self, session_id: str) -> None:
        assert self._locks is not None
        if not self._locks.take(session_id):
            raise used_elsewhere(session_id)

    def alone(self) -> bool:
        """Return whether this is the only instance that has the store open."""
        return self._locks is None or self._locks.alone()

    def release(self, session_id: str) -> None:
        """Release the session, after which another instance may extend its log."""
        self._ends.pop(session_id, None)
        if self._locks is not None:
            self._locks.give_back(session_id)

    def forget(self, session_id: str) -> None:
        """Drop the cached fence of the session."""
        self._fences.pop(session_id, None)

    # Appending.

    def append(self, entries: Sequence[Entry]) -> Sequence[AppendOutcome]:
        """Commit each entry independently of the others."""
        return [self._outcome(entry) for entry in entries]

    def _outcome(self, entry: Entry) -> AppendOutcome:
        session_id = entry.append.session_id
        try:
            self._append(session_id, entry)
        except LogChanged as change:
            self._ends.pop(session_id, None)  # the next append reads the end of the log again
            return SessionStoreError(
                f"the store at {self._path}: {EVENTS} was {change} by another program while this "
                "store used the session; nothing was written",
                session_id=session_id,
            )
        except SessionError as error:
            return error
        except OSError as error:
            self._ends.pop(session_id, None)  # read the end of the log again before the next append
            failure = SessionStoreError(
                f"the store at {self._path}: {type(error).__name__}: {error}",
                session_id=session_id,
            )
            failure.__cause__ = error
            return failure
        return None

    def _append(self, session_id: str, entry: Entry) -> None:
        self._take(session_id)
        end = self._end(session_id)
        append = entry.append
        refusal = stale(append, end.last_seq, self._fences.get(session_id, 0))
        if refusal is not None:
            raise refusal
        name = directory_name(session_id)
        if not end.last_seq:
            self._begin(name, entry)
        try:
            with folder(name, self._folder) as found:
                after = self._append_to(found, entry, end)
        except FileNotFoundError as error:
            raise LogChanged("deleted") from error
        self._fences[session_id] = append.fence
        after.last_seq = end.last_seq + len(append.events)
        after.updated_at = append.events[-1].ts
        self._ends[session_id] = after
        if not self._sync:
            self._unsynced.add(name)

    def _append_to(self, found: int, entry: Entry, end: LogEnd) -> LogEnd:
        """Append to the log in a session's directory and return the new end of the log."""
        session_id, changes = entry.append.session_id, entry.changes
        before = None if changes is None else self._note(found, session_id, changes)
        try:
            return self._write(found, end, b"\n".join((*entry.lines, b"")))
        except (OSError, LogChanged):
            if before is not None:
                with suppress(OSError):
                    replace_file(META, found, before, sync=False)
            raise

    def _begin(self, name: str, entry: Entry) -> None:
        """Create the directory of a session that has no records yet."""
        append = entry.append
        made = make_folder(name, self._folder)
        try:
            with folder(name, self._folder) as found:
                meta = new_meta(append.session_id, append.events[0].ts)
                replace_file(META, found, indented(meta), sync=self._sync)
            if self._sync:
                os.fsync(self._folder)
        except OSError:
            if made:
                with suppress(OSError):
                    os.rmdir(name, dir_fd=self._folder)
            raise

    def _write(self, found: int, end: LogEnd, data: bytes) -> LogEnd:
        """Append to a log with this end, and return the new size and the file's inode number.

        Raises:
            LogChanged: The log has a different end.
        """
        flags = os.O_WRONLY | (os.O_CREAT if end.inode is None else 0)
        with file(EVENTS, found, flags) as log:
            opened = os.fstat(log)
            if (change := end.find_change(opened)) is not None:
                raise LogChanged(change)
            self._write_at(log, end.size, data)
        if self._sync and not end.size:
            os.fsync(found)
        return LogEnd(end.size + len(data), inode=opened.st_ino)

    def _write_at(self, log: int, size: int, data: bytes) -> None:
        os.lseek(log, size, os.SEEK_SET)
        try:
            write_all(log, data)
            if self._sync:
                os.fsync(log)
        except OSError:
            with suppress(OSError):
                os.ftruncate(log, size)
            raise

    def _note(self, found: int, session_id: str, changes: JsonObject) -> bytes:
        """Update metadata keys in the session's `meta.json` and return the previous content."""
        return note(found, session_id, changes, sync=self._sync)

    # The end of a log.

    def _end(self, session_id: str) -> LogEnd:
        """Return the end of a session's log, after removing an incomplete last line.

        This instance must hold the session.
        """
        end = self._ends.get(session_id)
        if end is None:
            end = LogEnd()
            with (
                suppress(FileNotFoundError),
                folder(directory_name(session_id), self._folder) as found,
                file(EVENTS, found, os.O_RDWR) as log,
            ):
                end = self._mended(session_id, log)
            self._ends[session_id] = end
        return end

    def _mended(self, session_id: str, log: int) -> LogEnd:
        end = end_of(session_id, log)
        cut = os.fstat(log).st_size - end.size
        if cut:
            os.ftruncate(log, end.size)
            _LOG.warning(
                "session %r: removed %d bytes after record %d: an incomplete line, probably left "
                "by a crash",
                session_id,
                cut,
                end.last_seq,
            )
            self._on_repair(Repair(session_id, end.last_seq, cut))
        return end

    # Reading.

    def load(self, session_id: str, after_seq: int) -> Sequence[AnyEvent]:
        """Acquire the session and read its records."""
        self._take(session_id)
        end = self._end(session_id)
        lines = placed(self._lines(session_id), session_id)
        end.last_seq = len(lines)  # not the `seq` in the last line, which may be damaged
        return read_records(lines[after_seq:], session_id, after_seq)

    def export(self, session_id: str, after_seq: int) -> Sequence[bytes]:
        """Read the session's records as stored lines."""
        return placed(self._lines(session_id), session_id)[after_seq:]

    def _lines(self, session_id: str) -> list[bytes]:
        return self._text(session_id).split(b"\n")[:-1]

    def _text(self, session_id: str) -> bytes:
        with suppress(FileNotFoundError), folder(directory_name(session_id), self._folder) as found:
            return read_file(EVENTS, found) or b""
        return b""

    def info(self, session_id: str) -> SessionInfo | None:
        """Return information about the session; None if it has no records."""
        with suppress(FileNotFoundError), folder(directory_name(session_id), self._folder) as found:
            return self._info(found, session_id)
        return None

    def _info(self, found: int, session_id: str) -> SessionInfo | None:
        with file(EVENTS, found, os.O_RDONLY) as log:
            end = end_of(session_id, log)
        if not end.last_seq:
            return None
        text = read_file(META, found)
        meta = None if text is None else meta_of(text)
        if meta is None:
            meta = Meta(session_id, first_record(found).ts)
        known = cast(JsonObject, meta.metadata)
        return SessionInfo(session_id, meta.created_at, end.updated_at, end.last_seq, known)

    def page(self, query: Query) -> SessionPage:
        """Return a page of sessions, reading every session in the store."""
        return query.page_of_all(self._infos())

    def _infos(self) -> Iterator[SessionInfo]:
        for name in os.listdir(self._folder):  # noqa: PTH208 - pathlib cannot list a descriptor
            # Skip foreign directories and sessions that are being deleted.
            with suppress(OSError, SessionStoreError), folder(name, self._folder) as found:
                text = read_file(META, found)
                meta = None if text is None else meta_of(text)
                session_id = first_record(found).session_id if meta is None else meta.session_id
                info = None
                if find_session_id_error(session_id) is None and directory_name(session_id) == name:
                    info = self._info(found, session_id)
                if info is not None:
                    yield info

    # Damage.

    def damage(self, session_id: str) -> Sequence[Damage]:
        """Return the damage found in the session's files."""
        found = self._alignment(self._text(session_id), session_id)
        with (
            suppress(FileNotFoundError),
            folder(directory_name(session_id), self._folder) as opened,
        ):
            text = read_file(META, opened)
            if text is not None and found.lines and meta_of(text) is None:
                damage = Damage(f"{META} cannot be read; the metadata is lost", 0)
                return (damage, *found.damage)
        return found.damage

    @staticmethod
    def _alignment(text: bytes, session_id: str) -> Alignment:
        *lines, rest = text.split(b"\n")
        found = aligned(session_id, lines)
        if rest:
            torn = Damage(
                f"{len(rest)} bytes of an incomplete line, probably left by a crash",
                len(found.lines) + 1,
                len(text) - len(rest),
            )
            found = attrs.evolve(found, damage=(*found.damage, torn))
        return found

    def repair(self, session_id: str) -> LogRepair:
        """Replace a damaged log with a readable one, and keep a copy of the old log next to it.

        Even if the process is killed, either the old or the new log is in place, because the copy
        and the new log are completely on the disk before the new log replaces the old one.
        """
        had = self._taken(session_id)
        try:
            text = self._text(session_id)
            found = self._alignment(text, session_id)
            damage = tuple(self.damage(session_id))
            if not damage:
                return LogRepair(session_id, ())
            name = directory_name(session_id)
            with folder(name, self._folder) as opened:
                backup = backup_name(EVENTS, opened)
                replace_file(backup, opened, text, sync=True)
                if len(damage) > len(found.damage):
                    self._note(opened, session_id, {})
                os.fsync(opened)
                new = b"".join(line + b"\n" for line in found.lines)
                replace_file(EVENTS, opened, new, sync=True)
                os.fsync(opened)
            return LogRepair(session_id, damage, str(self._path / _SESSIONS / name / backup))
        finally:
            self._ends.pop(session_id, None)
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
        """Update metadata keys. Return False if the session has no records."""
        if self.info(session_id) is None:
            return False
        with folder(directory_name(session_id), self._folder) as found:
            self._note(found, session_id, changes)
        return True

    def delete(self, session_id: str) -> None:
        """Acquire the session and delete its files, starting with the records."""
        had = self._taken(session_id)
        name = directory_name(session_id)
        try:
            with suppress(FileNotFoundError), folder(name, self._folder) as found:
                backups = backups_in(found)
                for one in (EVENTS, META, f"{EVENTS}.new", f"{META}.new", *backups):
                    with suppress(FileNotFoundError):
                        os.unlink(one, dir_fd=found)
                os.rmdir(name, dir_fd=self._folder)
        finally:
            self._ends.pop(session_id, None)
            self._fences.pop(session_id, None)
            if not had:
                self.release(session_id)

    def prune(self, before: float, most: int) -> Sequence[str]:
        """Delete up to `most` unused sessions whose last record is older than `before`."""
        assert self._locks is not None
        gone: list[str] = []
        for info in self._infos():
            name = info.session_id
            if info.updated_at >= before or self._locks.holds(name):
                continue
            with suppress(SessionError):  # another instance holds the session
                self.delete(name)
                gone.append(name)
            if len(gone) == most:
                break
        return gone
