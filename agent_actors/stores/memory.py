"""Session logs in memory (the default), which live as long as the runtime keeps the session."""

from collections.abc import Mapping, Sequence

import attrs

from agent_actors.abc import AppendOutcome, LogAppend
from agent_actors.codec.events import encode_event
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
from agent_actors.stores.disk.append_batch import append_fault, merged, plain_metadata, stale
from agent_actors.stores.disk.listing import asked


@attrs.define(eq=False)
class _Log:
    records: list[AnyEvent] = attrs.field(factory=list[AnyEvent])
    fence: int = 0
    in_use: bool = False
    # Created on first use, because most logs in memory have neither.
    metadata: JsonObject | None = None
    lines: dict[int, bytes] | None = None


@attrs.define(eq=False)
class MemoryStore:
    """A `SessionStore` that keeps everything in memory and never blocks.

    An evicted session is deleted. Records are kept as objects and are not encoded. Therefore a
    record with a value that JSON cannot represent, which the on-disk stores reject, is accepted
    here and fails only when it is exported.
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
        return tuple(log.records[after_seq:]) if log else ()

    async def append(self, batch: Sequence[LogAppend]) -> Sequence[AppendOutcome]:
        """Commit each append whose `expected_seq` and `fence` are current."""
        return [self.append_nowait(append) for append in batch]

    def append_nowait(self, append: LogAppend) -> AppendOutcome:
        """Commit an append whose `expected_seq` and `fence` are current."""
        log = self._logs.get(append.session_id)
        if log is None:
            fault = find_session_id_error(append.session_id)
            if fault is not None:
                return SessionStoreError(fault, session_id=str(append.session_id))
            log = _Log()
        refusal = stale(append, len(log.records), log.fence)
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
            log.lines.update(enumerate(append.lines, len(log.records)))
        self._logs[append.session_id] = log
        log.in_use = True
        log.fence = append.fence
        log.records.extend(append.events)
        return None

    async def export(self, session_id: str, *, after_seq: int = 0) -> Sequence[bytes]:
        """Return the records with `seq` above `after_seq`, as JSON."""
        log = self._log(session_id)
        if log is None:
            return ()
        lines = log.lines or {}
        positions = range(after_seq, len(log.records))
        return [lines.get(at) or encode_event(log.records[at]) for at in positions]

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
    first, last = log.records[0], log.records[-1]
    return SessionInfo(session_id, first.ts, last.ts, len(log.records), metadata)
