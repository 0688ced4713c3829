"""A store that never waits is read and written synchronously; all else is as with other stores."""

from collections.abc import Sequence
from functools import partial

import attrs
import pytest
import trio
from trio.testing import assert_no_checkpoints, wait_all_tasks_blocked

from agent_actors.abc import AppendOutcome, LogAppend, SessionStore
from agent_actors.actors.session_gate import Lease, SessionGate
from agent_actors.actors.session_log import OpenSession, SessionLog
from agent_actors.domain.events import AnyEvent, Event
from agent_actors.errors import RuntimeClosed, SessionFenced, SessionStoreError
from agent_actors.stores.memory import MemoryStore
from tests.actors.helpers import Attempt, Clock, CountedIds, said, scope_of


@attrs.define(eq=False)
class Instant(MemoryStore):
    """A store that never waits, and that fails on request.

    Attributes:
        before: Raised instead of the next result.
        after: Raised after the next append, which succeeds.
    """

    before: Exception | None = None
    after: Exception | None = None

    def load_nowait(self, session_id: str, *, after_seq: int = 0) -> Sequence[AnyEvent]:
        self._fail()
        return super().load_nowait(session_id, after_seq=after_seq)

    def append_nowait(self, append: LogAppend) -> AppendOutcome:
        self._fail()
        outcome = super().append_nowait(append)
        if self.after is not None:
            self.before, self.after = self.after, None
        self._fail()
        return outcome

    def _fail(self) -> None:
        error, self.before = self.before, None
        if error is not None:
            raise error


async def serve(nursery: trio.Nursery, store: SessionStore) -> SessionLog:
    log = SessionLog(store, CountedIds(), Clock(), lambda _: False)
    await nursery.start(log.owner.serve)
    await log.start()
    return log


def lease(session_id: str = "s", *, gate: SessionGate | None = None) -> Lease:
    return (gate or SessionGate()).acquire_nowait(session_id, "run")


async def append(session: OpenSession, *texts: str) -> tuple[Event, ...]:
    return await session.append(scope_of(session.session_id), [said(text) for text in texts])


def texts(session: OpenSession) -> list[str]:
    return [message.content for message in session.history()]


async def test_memory_log_needs_no_checkpoint(
    nursery: trio.Nursery,
) -> None:
    log = await serve(nursery, MemoryStore())
    with assert_no_checkpoints():
        with await log.open(lease()) as session:
            first = await append(session, "one")
            others = await append(session, "two", "three")
            assert await append(session) == ()
        with await log.open(lease()) as session:
            assert texts(session) == ["one", "two", "three"]
    assert [event.seq for event in (*first, *others)] == [1, 2, 3]
    assert [event.id for event in (*first, *others)] == ["id-1", "id-2", "id-3"]
    found = log.statistics()
    assert (found.commits, found.records, found.failures, found.appends.peak) == (2, 3, 0, 0)


async def test_records_of_another_opening_are_continued(nursery: trio.Nursery) -> None:
    store = MemoryStore()
    with await (await serve(nursery, store)).open(lease()) as session:
        await append(session, "one")
    log = await serve(nursery, store)
    with assert_no_checkpoints(), await log.open(lease()) as session:
        (event,) = await append(session, "two")
    assert event.seq == 2
    assert texts(session) == ["one", "two"]


async def test_a_cancelled_append_is_written_and_returned(nursery: trio.Nursery) -> None:
    log = await serve(nursery, MemoryStore())
    session = await log.open(lease())
    with trio.CancelScope() as scope:
        scope.cancel()
        (event,) = await append(session, "kept")
        assert (event.seq, texts(session)) == (1, ["kept"])
        await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught


async def test_stale_lease_is_fenced(nursery: trio.Nursery) -> None:
    log, gate = await serve(nursery, MemoryStore()), SessionGate()
    old = lease(gate=gate)
    stale = await log.open(old)
    old.release()
    newer = await log.open(lease(gate=gate))
    await append(newer, "by the newer")
    with pytest.raises(SessionFenced, match="older"):
        await append(stale, "by the older")
    assert log.statistics().failures == 1


async def test_failed_append_makes_next_run_reread(
    nursery: trio.Nursery,
) -> None:
    store = Instant()
    log = await serve(nursery, store)
    session = await log.open(lease())
    await append(session, "one")
    store.after = OSError("disk full")
    with pytest.raises(SessionStoreError, match="OSError: disk full") as failed:
        await append(session, "written, but who knows")
    assert failed.value.session_id == "s"
    assert isinstance(failed.value.__cause__, OSError)
    with pytest.raises(SessionStoreError, match="append in this run is unknown"):
        await append(session, "nothing more in this run")
    assert texts(session) == ["one"]
    session.close()
    session = await log.open(lease())
    assert texts(session) == ["one", "written, but who knows"]
    store.before = OSError("no disk")
    with pytest.raises(SessionStoreError):
        await append(session, "lost")
    session.close()
    session = await log.open(lease())
    (event,) = await append(session, "three")
    assert event.seq == 3
    found = log.statistics()
    assert (found.commits, found.records, found.failures) == (4, 2, 2)


async def test_unreadable_records_close_the_session(
    nursery: trio.Nursery,
) -> None:
    store = Instant()
    log = await serve(nursery, store)
    store.before = OSError("torn page")
    with pytest.raises(SessionStoreError, match="cannot be read: OSError: torn page"):
        await log.open(lease())
    store.before = SessionFenced("of its own", session_id="s")
    with pytest.raises(SessionFenced):
        await log.open(lease())
    assert log.statistics().sessions == 0
    with await log.open(lease()) as session:
        await append(session, "one")


async def test_closed_log_answers_nothing(nursery: trio.Nursery) -> None:
    log = await serve(nursery, MemoryStore())
    session = await log.open(lease())
    log.owner.close()
    await log.owner.ended.wait()
    with pytest.raises(RuntimeClosed):
        await append(session, "late")
    with pytest.raises(RuntimeClosed):
        await log.open(lease("another"))
    assert texts(session) == []


class Appends(MemoryStore):
    """A store that overrides `append`, but not `append_nowait`."""

    calls = 0

    async def append(self, batch: Sequence[LogAppend]) -> Sequence[AppendOutcome]:
        await trio.lowlevel.checkpoint()
        Appends.calls += 1
        return await super().append(batch)


class Loads(MemoryStore):
    """A store that overrides `load`, but not `load_nowait`."""

    calls = 0

    async def load(self, session_id: str, *, after_seq: int = 0) -> Sequence[AnyEvent]:
        await trio.lowlevel.checkpoint()
        Loads.calls += 1
        return await super().load(session_id, after_seq=after_seq)


class Wrapped:
    """A store that forwards all other calls to an inner store."""

    calls = 0

    def __init__(self) -> None:
        self._inner = MemoryStore()

    async def append(self, batch: Sequence[LogAppend]) -> Sequence[AppendOutcome]:
        Wrapped.calls += 1
        return await self._inner.append(batch)

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


@pytest.mark.parametrize("make", [Appends, Loads, Wrapped])
async def test_overriding_subclass_is_not_bypassed(
    nursery: trio.Nursery, make: type[Appends | Loads | Wrapped]
) -> None:
    make.calls = 0
    log = await serve(nursery, make())  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    session = await log.open(lease())
    writing = Attempt(nursery, partial(append, session, "one"))
    await wait_all_tasks_blocked()
    assert writing.outcome == "value"
    assert make.calls == 1
