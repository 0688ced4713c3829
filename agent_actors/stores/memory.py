"""Session logs in memory (the default), which live as long as the runtime keeps the session."""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from agent_actors.abc import AppendOutcome, LogAppend
from agent_actors.codec.events import encode_event
from agent_actors.codec.packed_records import pack_records, unpack_records
from agent_actors.domain.events import AnyEvent
from agent_actors.domain.json import JsonObject, JsonValue, copy_object
from agent_actors.domain.session import (
    JsonScalar,
    SessionInfo,
    SessionOrder,
    SessionPage,
    find_session_id_error,
)
from agent_actors.errors import SessionStoreError
from agent_actors.stores.disk.append_batch import (
    Entry,
    append_fault,
    merged,
    plain_metadata,
    prepared,
    stale,
)
from agent_actors.stores.disk.listing import asked

# The minimum number of records to pack. Sessions with a few turns are never packed, because packing
# costs about 5 µs per record.
_WORTH_PACKING: Final = 32


@attrs.frozen
class _Pack:
    first: int  # the position of the first record in the log
    end: int
    data: bytes


@attrs.define(eq=False)
class _Log:
    # The records that are not packed. All packed records precede them.
    records: list[AnyEvent] = attrs.field(factory=list[AnyEvent])
    packs: tuple[_Pack, ...] = ()
    # False if a record cannot be packed.
    packable: bool = True
    created: float = 0.0
    fence: int = 0
    in_use: bool = False
    # Created on first use, because most logs in memory have neither.
    metadata: JsonObject | None = None
    lines: dict[int, bytes] | None = None

    @property
    def packed(self) -> int:
        """The number of packed records."""
        return self.packs[-1].end if self.packs else 0

    def __len__(self) -> int:
        return self.packed + len(self.records)

    def after(self, position: int) -> tuple[AnyEvent, ...]:
        """Return the records from a position on."""
        packed = self.packed
        if position >= packed:
            return tuple(self.records[position - packed :])
        found: list[AnyEvent] = []
        for pack in self.packs:
            if pack.end > position:
                found += unpack_records(pack.data)[max(position - pack.first, 0) :]
        return (*found, *self.records)

    def pack(self) -> None:
        """Pack all records except the last one, whose time a listing needs."""
        *older, last = self.records
        data = pack_records(older)
        if data is None:
            self.packable = False
            return
        first = self.packed
        self.packs = (*self.packs, _Pack(first, first + len(older), data))
        self.records = [last]


@attrs.define(eq=False)
class MemoryStore:
    """A `SessionStore` that keeps everything in memory and never blocks.

    An evicted session is deleted. Records are kept as objects; the older records of a session that
    is not in use may be packed, which takes a tenth of the memory. `append` refuses the same
    records as the on-disk stores. `append_nowait`, which the runtime uses, does not encode records.
    Therefore a value from a provider or hook that JSON cannot represent fails only when it is
    exported.
    """

    _logs: dict[str, _Log] = attrs.field(factory=dict[str, _Log], init=False)
    _epoch: int = attrs.field(default=0, init=False)

    async def open(self) -> int:
        """Open the store. The epoch counts how often this object was opened."""
        self._epoch += 1
        return self._epoch

    async def load(self, session_id: str, *, after_seq: int = 0) -> Sequence[AnyEvent]:
        """Return the records with `seq` above `after_seq`."""
        return self.load_nowait(session_id, after_seq=after_seq)

    def load_nowait(self, session_id: str, *, after_seq: int = 0) -> Sequence[AnyEvent]:
        """Return the records with `seq` above `after_seq`."""
        log = self._log(session_id)
        return log.after(after_seq) if log else ()

    async def append(self, batch: Sequence[LogAppend]) -> Sequence[AppendOutcome]:
        """Commit each valid append whose `expected_seq` and `fence` are current.

        Like the on-disk stores, this method refuses a record that could not be read back.
        """
        return [self._append(append) for append in batch]

    def _append(self, append: LogAppend) -> AppendOutcome:
        entry = prepared(append)
        return self.append_nowait(append) if isinstance(entry, Entry) else entry

    def append_nowait(self, append: LogAppend) -> AppendOutcome:
        """Commit an append whose `expected_seq` and `fence` are current."""
        log = self._logs.get(append.session_id)
        if log is None:
            fault = find_session_id_error(append.session_id)
            if fault is not None:
                return SessionStoreError(fault, session_id=str(append.session_id))
            log = _Log()
        refusal = stale(append, len(log), log.fence)
        if refusal is not None:
            return refusal
        if (fault := append_fault(append)) is not None:
            return SessionStoreError(fault, session_id=append.session_id)
        if append.metadata is not None:
            try:
                changes = plain_metadata(append.metadata, append.session_id)
            except SessionStoreError as error:
                return error
            log.metadata = merged(log.metadata or {}, changes)
        if append.lines is not None:
            log.lines = log.lines or {}
            log.lines.update(enumerate(append.lines, len(log)))
        self._logs[append.session_id] = log
        log.in_use = True
        log.fence = append.fence
        if not len(log) and append.events:
            log.created = append.events[0].ts
        log.records.extend(append.events)
        return None

    async def export(self, session_id: str, *, after_seq: int = 0) -> Sequence[bytes]:
        """Return the records with `seq` above `after_seq`, as JSON."""
        log = self._log(session_id)
        if log is None:
            return ()
        lines = log.lines or {}
        records = enumerate(log.after(after_seq), after_seq)
        return [lines.get(at) or encode_event(record) for at, record in records]

    async def info(self, session_id: str) -> SessionInfo | None:
        """Return information about the session; None if it has no records."""
        log = self._log(session_id)
        return _info(session_id, log) if log and log.records else None

    async def list_sessions(
        self,
        *,
        where: Mapping[str, JsonScalar] | None = None,
        order: SessionOrder = "created",
        limit: int = 50,
        after: str | None = None,
    ) -> SessionPage:
        """Return a page of sessions, in time proportional to the number of sessions."""
        query = asked(where, order, limit, after)
        return query.page_of_all(
            _info(name, log) for name, log in self._logs.items() if log.records
        )

    async def annotate(self, session_id: str, metadata: Mapping[str, JsonValue]) -> bool:
        """Update metadata keys of the session; return False if it has no records."""
        log = self._log(session_id)
        if log is None or not log.records:
            return False
        log.metadata = merged(log.metadata or {}, plain_metadata(metadata, session_id))
        return True

    def evicted(self, session_id: str) -> None:
        """Delete the session, which is stored nowhere else."""
        self._logs.pop(session_id, None)

    def released(self, session_id: str) -> None:
        """Allow `prune` to delete the session; no other instance can open this store."""
        log = self._logs.get(session_id)
        if log is not None:
            log.in_use = False

    def compact(self, session_id: str) -> None:
        """Pack the older records of a session, if that saves enough memory."""
        log = self._logs.get(session_id)
        if log is not None and log.packable and len(log.records) > _WORTH_PACKING:
            log.pack()

    async def delete(self, session_id: str) -> None:
        """Delete the session."""
        if self._log(session_id) is not None:
            del self._logs[session_id]

    async def prune(self, before: float) -> Sequence[str]:
        """Delete unused sessions whose last record is older than `before`; return their ids."""
        old = [
            name
            for name, log in self._logs.items()
            if not log.in_use and log.records and log.records[-1].ts < before
        ]
        for name in old:
            del self._logs[name]
        return old

    async def aclose(self) -> None:
        """Do nothing, so that the records are available when the store is opened again."""

    def _log(self, session_id: str) -> _Log | None:
        log = self._logs.get(session_id)
        if log is None and (fault := find_session_id_error(session_id)) is not None:
            raise SessionStoreError(fault, session_id=str(session_id))
        return log


def _info(session_id: str, log: _Log) -> SessionInfo:
    metadata = copy_object(log.metadata or {})
    return SessionInfo(session_id, log.created, log.records[-1].ts, len(log), metadata)
