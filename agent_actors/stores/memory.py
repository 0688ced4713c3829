"""Session logs in memory: the default. They live as long as the runtime keeps the session."""

from collections.abc import Sequence

import attrs

from agent_actors.abc import AppendOutcome, LogAppend
from agent_actors.domain.events import AnyEvent, Event
from agent_actors.errors import SessionFenced


@attrs.define(eq=False)
class _Log:
    records: list[Event] = attrs.field(factory=list[Event])
    fence: int = 0


@attrs.define(eq=False)
class MemoryStore:
    """A `SessionStore` of dicts and lists, that never waits. Eviction forgets a session."""

    _logs: dict[str, _Log] = attrs.field(factory=dict[str, _Log], init=False)
    _epoch: int = attrs.field(default=0, init=False)

    async def open(self) -> int:
        """Make ready; the epoch counts the openings of this object."""
        self._epoch += 1
        return self._epoch

    async def load(self, session_id: str, *, after_seq: int = 0) -> Sequence[AnyEvent]:
        """The records with `seq` above `after_seq`."""
        return self.load_nowait(session_id, after_seq=after_seq)

    def load_nowait(self, session_id: str, *, after_seq: int = 0) -> Sequence[AnyEvent]:
        """The records with `seq` above `after_seq`."""
        log = self._logs.get(session_id)
        return tuple(log.records[after_seq:]) if log else ()

    async def append(self, batch: Sequence[LogAppend]) -> Sequence[AppendOutcome]:
        """Commit each append whose `expected_seq` and `fence` are current."""
        return [self.append_nowait(append) for append in batch]

    def append_nowait(self, append: LogAppend) -> AppendOutcome:
        """Commit an append whose `expected_seq` and `fence` are current."""
        log = self._logs.setdefault(append.session_id, _Log())
        if append.fence < log.fence:
            return SessionFenced(
                f"the writer's fencing number {append.fence} is older than {log.fence}",
                session_id=append.session_id,
            )
        if append.expected_seq != len(log.records):
            return SessionFenced(
                f"the writer expected the log to end at {append.expected_seq}, "
                f"and it ends at {len(log.records)}",
                session_id=append.session_id,
            )
        log.fence = append.fence
        log.records.extend(append.events)
        return None

    def evicted(self, session_id: str) -> None:
        """Forget the session: there is nowhere else to keep it."""
        self._logs.pop(session_id, None)

    async def delete(self, session_id: str) -> None:
        """Forget the session."""
        self._logs.pop(session_id, None)

    async def aclose(self) -> None:
        """Nothing to close: the records stay readable for the next opening."""
