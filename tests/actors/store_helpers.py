"""Stores that wait or fail on request, and a session log over one of them."""

from collections.abc import Callable, Sequence

import attrs
import trio

from agent_actors.abc import AppendOutcome, LogAppend
from agent_actors.actors.session_gate import Lease, SessionGate
from agent_actors.actors.session_log import SessionLog
from agent_actors.domain.events import AnyEvent
from agent_actors.stores.memory import MemoryStore
from tests.actors.helpers import Clock, CountedIds


@attrs.define(eq=False)
class ToldStore(MemoryStore):
    """A memory store whose commits and loads wait or fail on request.

    Attributes:
        before_commit: Awaited before each commit.
        after_commit: Awaited after each commit: an error here hides that the commit succeeded.
        before_load: Awaited before each load.
        batches: The session ids of each commit that began.
        loads: The arguments of each load.
        forgotten: Sessions that were evicted.
        compacted: Sessions whose memory was to be reduced.
    """

    before_commit: "Hook | None" = None
    after_commit: "Hook | None" = None
    before_load: "Hook | None" = None
    batches: list[list[str]] = attrs.field(factory=list[list[str]])
    loads: list[tuple[str, int]] = attrs.field(factory=list[tuple[str, int]])
    forgotten: list[str] = attrs.field(factory=list[str])
    compacted: list[str] = attrs.field(factory=list[str])
    closed: int = 0

    async def load(self, session_id: str, *, after_seq: int = 0) -> Sequence[AnyEvent]:
        self.loads.append((session_id, after_seq))
        if self.before_load is not None:
            await self.before_load()
        return await super().load(session_id, after_seq=after_seq)

    async def append(self, batch: Sequence[LogAppend]) -> Sequence[AppendOutcome]:
        self.batches.append([item.session_id for item in batch])
        if self.before_commit is not None:
            await self.before_commit()
        outcomes = await super().append(batch)
        if self.after_commit is not None:
            await self.after_commit()
        return outcomes

    def evicted(self, session_id: str) -> None:
        self.forgotten.append(session_id)
        super().evicted(session_id)

    def compact(self, session_id: str) -> None:
        self.compacted.append(session_id)
        super().compact(session_id)

    async def aclose(self) -> None:
        self.closed += 1


class Hook:
    """An awaitable hook for a store that returns, waits for `go_on`, or raises."""

    def __init__(self, error: BaseException | None = None, *, once: bool = False) -> None:
        self.entered = trio.Event()
        self.go_on = trio.Event()
        self.error = error
        self.calls = 0
        self._once = once

    async def __call__(self) -> None:
        self.calls += 1
        self.entered.set()
        if self._once and self.calls > 1:
            return
        if self.error is not None:
            raise self.error
        await self.go_on.wait()


@attrs.define(eq=False)
class Logged:
    """A log, its store, its gate and its wall clock."""

    store: ToldStore
    gate: SessionGate
    clock: Clock
    log: SessionLog

    def lease(self, session_id: str = "s", run_id: str = "run") -> Lease:
        return self.gate.acquire_nowait(session_id, run_id)

    async def touch(self, session_id: str) -> None:
        """Open a session and close it at once."""
        with self.lease(session_id) as lease, await self.log.open(lease):
            pass


async def serve_log(
    nursery: trio.Nursery,
    store: ToldStore | None = None,
    *,
    is_held: Callable[[str], bool] | None = None,
    max_sessions: int = 1_000,
    session_ttl: float = 3_600.0,
) -> Logged:
    store, gate, clock = store or ToldStore(), SessionGate(), Clock()
    log = SessionLog(
        store,
        CountedIds(),
        clock,
        is_held or gate.is_busy,
        max_sessions=max_sessions,
        session_ttl=session_ttl,
    )
    await nursery.start(log.owner.serve)
    gate.start_fences_at(await log.start())
    return Logged(store, gate, clock, log)
