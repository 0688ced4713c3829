"""Sessions as plain files, as blocking code that one thread calls.

    <path>/epoch                          the number of openings so far
    <path>/lock                           which opening has which session
    <path>/sessions/<id>/events.jsonl     the records, a line of JSON each
    <path>/sessions/<id>/meta.json        session_id, created_at, metadata

Owns these files. An append is one write of whole lines; one that fails is cut off again. What a
crash has left of a line at the end is cut when the session is taken, and reported: whole lines
before it stay, acknowledged or not. Where a log ends is remembered while the session is held.
"""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

import attrs
import msgspec

from agent_actors.abc import AppendOutcome
from agent_actors.domain.events import AnyEvent
from agent_actors.domain.json import JsonObject
from agent_actors.domain.session import SessionInfo, SessionPage, find_session_id_error
from agent_actors.errors import SessionError, SessionStoreError
from agent_actors.stores.disk.append_batch import Entry, merged, read_records, stale, used_elsewhere
from agent_actors.stores.disk.file_names import directory_name
from agent_actors.stores.disk.listing import Query
from agent_actors.stores.disk.locks import StoreInUse, StoreLocks
from agent_actors.stores.disk.safe_files import (
    file,
    folder,
    make_folder,
    read_file,
    read_from,
    replace_file,
    write_all,
)

EVENTS: Final = "events.jsonl"
META: Final = "meta.json"
_EPOCH: Final = "epoch"
_SESSIONS: Final = "sessions"
# Bytes that are read at once from a log's end to find its last line; most are shorter.
_TAIL: Final = 16_384

_LOG: Final = logging.getLogger("agent_actors.stores")


@attrs.frozen
class Repair:
    """What was cut from a session's log, since a crash had left a line without its end.

    Attributes:
        session_id: The session.
        last_seq: `seq` of the record that is now the last.
        cut: The bytes that were cut.
    """

    session_id: str
    last_seq: int
    cut: int


@attrs.define(eq=False)
class _End:
    """Where a log ends: its bytes, and its last record."""

    size: int = 0
    last_seq: int = 0
    updated_at: float = 0.0


class _Meta(msgspec.Struct):
    """What is read of `meta.json`; other keys of it stay where they are."""

    session_id: str
    created_at: float
    metadata: dict[str, object] = msgspec.field(default_factory=dict[str, object])


class _Header(msgspec.Struct):
    """What is read of a record to tell where a log ends."""

    seq: int
    ts: float = 0.0


_META: Final = msgspec.json.Decoder(_Meta)
_HEADER: Final = msgspec.json.Decoder(_Header)


class NoStore(Exception):
    """What is there is no store of this kind."""


class JsonlCore:
    """See `JsonlStore`.

    Args:
        path: The directory.
        sync: Whether each commit is written through to the disk.
        on_repair: Told of each repair.
    """

    faults: tuple[type[Exception], ...] = (OSError, NoStore, StoreInUse)

    def __init__(self, path: Path, *, sync: bool, on_repair: Callable[[Repair], None]) -> None:
        self._path = path
        self._sync = sync
        self._on_repair = on_repair
        self._locks: StoreLocks | None = None
        self._folder = -1
        self._ends: dict[str, _End] = {}
        self._fences: dict[str, int] = {}
        # Names of the sessions with something to write through.
        self._unsynced: set[str] = set()

    # Opening and closing.

    def open(self) -> int:
        """Make ready; the epoch."""
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._locks = StoreLocks(self._path / "lock")
        root = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            text = read_file(_EPOCH, root) or b"0"
            if not text.strip().isdigit():
                raise NoStore(f"its file {_EPOCH} holds no number; is this another directory?")
            epoch = int(text) + 1
            replace_file(_EPOCH, root, b"%d\n" % epoch, sync=True)
            make_folder(_SESSIONS, root)
            with folder(_SESSIONS, root) as found:
                self._folder = os.dup(found)
        finally:
            os.close(root)
        self._locks.made_ready()
        return epoch

    def sync(self) -> None:
        """Write through what is committed; of what cannot be, raise the first when all is tried."""
        failed: dict[str, OSError] = {}
        for name in self._unsynced:
            try:
                self._sync_session(name)
            except FileNotFoundError:
                continue  # it was deleted meanwhile
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
        """Write everything through, and give all sessions back; idempotent."""
        try:
            if self._folder >= 0:
                self.sync()
                os.fsync(self._folder)
        finally:
            if self._folder >= 0:
                os.close(self._folder)
                self._folder = -1
            if self._locks is not None:
                self._locks.close()
                self._locks = None
            self._ends.clear()
            self._fences.clear()
            self._unsynced.clear()

    # Who has a session.

    def _take(self, session_id: str) -> None:
        assert self._locks is not None
        if not self._locks.take(session_id):
            raise used_elsewhere(session_id)

    def alone(self) -> bool:
        """Whether nobody else has the store open."""
        return self._locks is None or self._locks.alone()

    def release(self, session_id: str) -> None:
        """Let others have the session, who may change where its log ends."""
        self._ends.pop(session_id, None)
        if self._locks is not None:
            self._locks.give_back(session_id)

    def forget(self, session_id: str) -> None:
        """Drop what is remembered of it."""
        self._fences.pop(session_id, None)

    # Appending.

    def append(self, entries: Sequence[Entry]) -> Sequence[AppendOutcome]:
        """Commit each entry by itself."""
        return [self._outcome(entry) for entry in entries]

    def _outcome(self, entry: Entry) -> AppendOutcome:
        session_id = entry.append.session_id
        try:
            self._append(session_id, entry)
        except SessionError as error:
            return error
        except OSError as error:
            self._ends.pop(session_id, None)  # what became of it, the file will tell
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
        with folder(name, self._folder) as found:
            before = None if entry.changes is None else self._note(found, session_id, entry.changes)
            try:
                size = self._write(found, end.size, b"\n".join((*entry.lines, b"")))
            except OSError:
                if before is not None:
                    with suppress(OSError):
                        replace_file(META, found, before, sync=False)
                raise
        self._fences[session_id] = append.fence
        self._ends[session_id] = _End(size, end.last_seq + len(append.events), append.events[-1].ts)
        if not self._sync:
            self._unsynced.add(name)

    def _begin(self, name: str, entry: Entry) -> None:
        """Make the directory of a session that has no records yet."""
        append = entry.append
        made = make_folder(name, self._folder)
        try:
            with folder(name, self._folder) as found:
                meta = _new_meta(append.session_id, append.events[0].ts)
                replace_file(META, found, _indented(meta), sync=self._sync)
            if self._sync:
                os.fsync(self._folder)
        except OSError:
            if made:
                with suppress(OSError):
                    os.rmdir(name, dir_fd=self._folder)
            raise

    def _write(self, found: int, size: int, data: bytes) -> int:
        """Append to a log that ends there; its new size."""
        with file(EVENTS, found, os.O_WRONLY | os.O_CREAT) as log:
            os.lseek(log, size, os.SEEK_SET)
            try:
                write_all(log, data)
                if self._sync:
                    os.fsync(log)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(log, size)
                raise
        if self._sync and not size:
            os.fsync(found)
        return size + len(data)

    def _note(self, found: int, session_id: str, changes: JsonObject) -> bytes:
        """Note keys in the session's `meta.json`; what stood there before."""
        before = read_file(META, found)
        if before is None:
            before = _indented(_new_meta(session_id, 0.0))
        meta = _meta(before, session_id)
        raw = cast(JsonObject, msgspec.json.decode(before))  # with keys that are not ours
        raw["metadata"] = merged(cast(JsonObject, meta.metadata), changes)
        replace_file(META, found, _indented(raw), sync=self._sync)
        return before

    # Where a log ends.

    def _end(self, session_id: str) -> _End:
        """The end of a session that this opening has; what a crash left there is cut."""
        end = self._ends.get(session_id)
        if end is None:
            end = _End()
            with (
                suppress(FileNotFoundError),
                folder(directory_name(session_id), self._folder) as found,
                file(EVENTS, found, os.O_RDWR) as log,
            ):
                end = self._mended(session_id, log)
            self._ends[session_id] = end
        return end

    def _mended(self, session_id: str, log: int) -> _End:
        end = _end_of(session_id, log)
        cut = os.fstat(log).st_size - end.size
        if cut:
            os.ftruncate(log, end.size)
            _LOG.warning(
                "session %r: %d bytes after record %d were cut: a line without its end, as a crash "
                "leaves it",
                session_id,
                cut,
                end.last_seq,
            )
            self._on_repair(Repair(session_id, end.last_seq, cut))
        return end

    # Reading.

    def load(self, session_id: str, after_seq: int) -> Sequence[AnyEvent]:
        """Take the session, and read its records."""
        self._take(session_id)
        self._end(session_id)
        lines = self._lines(session_id)[after_seq:]
        return read_records(lines, session_id, after_seq)

    def export(self, session_id: str, after_seq: int) -> Sequence[bytes]:
        """Read the session's records as they are written."""
        return self._lines(session_id)[after_seq:]

    def _lines(self, session_id: str) -> list[bytes]:
        with suppress(FileNotFoundError), folder(directory_name(session_id), self._folder) as found:
            return (read_file(EVENTS, found) or b"").split(b"\n")[:-1]
        return []

    def info(self, session_id: str) -> SessionInfo | None:
        """What is known of the session."""
        with suppress(FileNotFoundError), folder(directory_name(session_id), self._folder) as found:
            return self._info(found, session_id)
        return None

    def _info(self, found: int, session_id: str) -> SessionInfo | None:
        with file(EVENTS, found, os.O_RDONLY) as log:
            end = _end_of(session_id, log)
        text = read_file(META, found)
        meta = _meta(text, session_id) if text is not None else _Meta(session_id, 0.0)
        if not end.last_seq:
            return None
        known = cast(JsonObject, meta.metadata)
        return SessionInfo(session_id, meta.created_at, end.updated_at, end.last_seq, known)

    def page(self, query: Query) -> SessionPage:
        """A page of the sessions, all of which are looked at."""
        return query.page_of_all(self._infos())

    def _infos(self) -> Iterator[SessionInfo]:
        for name in os.listdir(self._folder):  # noqa: PTH208 - of a descriptor
            # What is no session of ours, or is being deleted, is passed over.
            with suppress(OSError, SessionStoreError), folder(name, self._folder) as found:
                text = read_file(META, found)
                if text is None:
                    continue
                session_id = _meta(text, "").session_id
                info = None
                if find_session_id_error(session_id) is None and directory_name(session_id) == name:
                    info = self._info(found, session_id)
                if info is not None:
                    yield info

    # Noting and deleting.

    def annotate(self, session_id: str, changes: JsonObject) -> bool:
        """Note keys; False if there is no such session."""
        if self.info(session_id) is None:
            return False
        with folder(directory_name(session_id), self._folder) as found:
            self._note(found, session_id, changes)
        return True

    def delete(self, session_id: str) -> None:
        """Take the session, and delete its files, the records first."""
        assert self._locks is not None
        had = self._locks.holds(session_id)
        self._take(session_id)
        name = directory_name(session_id)
        try:
            with suppress(FileNotFoundError), folder(name, self._folder) as found:
                for one in (EVENTS, META, f"{META}.new"):
                    with suppress(FileNotFoundError):
                        os.unlink(one, dir_fd=found)
                os.rmdir(name, dir_fd=self._folder)
        finally:
            self._ends.pop(session_id, None)
            self._fences.pop(session_id, None)
            if not had:
                self.release(session_id)

    def prune(self, before: float, most: int) -> Sequence[str]:
        """Delete so many sessions whose last record is older, and that nobody uses."""
        assert self._locks is not None
        gone: list[str] = []
        for info in self._infos():
            name = info.session_id
            if info.updated_at >= before or self._locks.holds(name):
                continue
            with suppress(SessionError):  # another opening has it
                self.delete(name)
                gone.append(name)
            if len(gone) == most:
                break
        return gone


def _end_of(session_id: str, log: int) -> _End:
    """Where a log's last whole line ends, and what it says; what follows it does not count."""
    size = os.fstat(log).st_size
    length = _TAIL
    while True:
        start = max(0, size - length)
        text = read_from(log, start)
        last = text.rfind(b"\n")
        first = text.rfind(b"\n", 0, last) + 1 if last > 0 else 0
        if first or not start:
            break
        length *= 4
    if last < 0:
        return _End()
    try:
        header = _HEADER.decode(text[first:last])
    except ValueError as error:
        raise SessionStoreError(
            f"its last record cannot be read: {error}", session_id=session_id
        ) from error
    return _End(start + last + 1, header.seq, header.ts)


def _meta(text: bytes, session_id: str) -> _Meta:
    try:
        return _META.decode(text)
    except ValueError as error:
        raise SessionStoreError(
            f"its {META} cannot be read: {error}", session_id=session_id
        ) from error


def _new_meta(session_id: str, created_at: float) -> JsonObject:
    return {"session_id": session_id, "created_at": created_at, "metadata": {}}


def _indented(value: JsonObject) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
