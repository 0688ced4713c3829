"""Append-only records, which are committed in groups."""

from collections.abc import Sequence
from functools import partial

import pytest
import trio
from trio.testing import MockClock, assert_no_checkpoints, wait_all_tasks_blocked

from agent_actors.actors.session_log import OpenSession
from agent_actors.domain.events import Event
from agent_actors.errors import ActorCrashed, RuntimeClosed, SessionFenced, SessionStoreError
from tests.actors.helpers import Attempt, Bug, said, scope_of
from tests.actors.store_helpers import Hook, Logged, ToldStore, serve_log


@pytest.fixture
async def logged(nursery: trio.Nursery) -> Logged:
    return await serve_log(nursery)


async def append(session: OpenSession, *texts: str) -> tuple[Event, ...]:
    return await session.append(scope_of(session.session_id), [said(text) for text in texts])


def attempt(nursery: trio.Nursery, session: OpenSession, *texts: str) -> Attempt[tuple[Event, ...]]:
    return Attempt(nursery, partial(append, session, *texts))


def texts(session: OpenSession) -> list[str]:
    return [message.content for message in session.history()]


async def opened(logged: Logged, *session_ids: str) -> list[OpenSession]:
    return [await logged.log.open(logged.lease(session_id)) for session_id in session_ids]


# Records.


async def test_records_are_numbered_and_form_history(logged: Logged) -> None:
    with logged.lease() as lease, await logged.log.open(lease) as session:
        first = await append(session, "one")
        others = await append(session, "two", "three")
        assert [event.seq for event in (*first, *others)] == [1, 2, 3]
        assert [event.id for event in (*first, *others)] == ["id-1", "id-2", "id-3"]
        assert texts(session) == ["one", "two", "three"]
        assert session.state.last_seq == 3
        assert await append(session) == ()
    with assert_no_checkpoints():
        found = logged.log.peek("s")
        assert found is not None
        assert len(found) == 3
        assert logged.log.peek("unknown") is None


async def test_timestamps_never_decrease_within_a_session(
    logged: Logged,
) -> None:
    with logged.lease() as lease, await logged.log.open(lease) as session:
        times: list[float] = []
        for now in (100.0, 50.0, 120.0):
            logged.clock.now = now
            (event,) = await append(session, "x")
            times.append(event.ts)
    assert times == [100.0, 100.0, 120.0]


async def test_next_run_continues_the_numbering(logged: Logged) -> None:
    with logged.lease() as lease, await logged.log.open(lease) as session:
        await append(session, "one")
    with logged.lease() as lease, await logged.log.open(lease) as session:
        (event,) = await append(session, "two")
        assert event.seq == 2
        assert texts(session) == ["one", "two"]
    assert logged.store.loads == [("s", 0)]


# Group commit.


async def test_waiting_appends_commit_as_one_batch(logged: Logged, nursery: trio.Nursery) -> None:
    a, b, c = await opened(logged, "a", "b", "c")
    hook = logged.store.before_commit = Hook()
    first = attempt(nursery, a, "first")
    await hook.entered.wait()
    second = attempt(nursery, b, "second")
    await wait_all_tasks_blocked()
    third = attempt(nursery, c, "third")
    await wait_all_tasks_blocked()
    assert logged.store.batches == [["a"]]
    assert logged.log.statistics().appends.depth == 2
    hook.go_on.set()
    for item in (first, second, third):
        await item.ended.wait()
        assert item.outcome == "value"
    assert logged.store.batches == [["a"], ["b", "c"]]
    found = logged.log.statistics()
    assert (found.commits, found.records, found.failures) == (2, 3, 0)


async def test_refused_append_harms_no_other(logged: Logged, nursery: trio.Nursery) -> None:
    a, b, c = await opened(logged, "a", "b", "c")
    hook = logged.store.before_commit = Hook()
    first = attempt(nursery, a, "first")
    await hook.entered.wait()
    b.state.last_seq = 7  # as if another writer had appended
    refused, third = attempt(nursery, b, "second"), attempt(nursery, c, "third")
    await wait_all_tasks_blocked()
    hook.go_on.set()
    await wait_all_tasks_blocked()
    assert (first.outcome, third.outcome) == ("value", "value")
    assert isinstance(refused.error, SessionFenced)
    assert logged.log.statistics().failures == 1


# Cancelled appends.


async def test_unbatched_append_is_withdrawn_on_cancel(
    logged: Logged, nursery: trio.Nursery
) -> None:
    a, b, c = await opened(logged, "a", "b", "c")
    hook = logged.store.before_commit = Hook()
    first = attempt(nursery, a, "first")
    await hook.entered.wait()
    withdrawn, kept = attempt(nursery, b, "withdrawn"), attempt(nursery, c, "kept")
    await wait_all_tasks_blocked()
    withdrawn.scope.cancel()
    await wait_all_tasks_blocked()
    assert withdrawn.outcome == "cancelled"
    hook.go_on.set()
    await wait_all_tasks_blocked()
    assert (first.outcome, kept.outcome) == ("value", "value")
    assert logged.store.batches == [["a"], ["c"]]
    assert texts(b) == []
    (event,) = await append(b, "again")
    assert event.seq == 1


async def test_empty_batch_is_not_committed(logged: Logged, nursery: trio.Nursery) -> None:
    (session,) = await opened(logged, "s")
    withdrawn = attempt(nursery, session, "withdrawn")
    withdrawn.scope.cancel()
    await wait_all_tasks_blocked()
    assert withdrawn.outcome == "cancelled"
    assert logged.store.batches == []
    assert logged.log.statistics().commits == 0


async def test_batched_append_survives_cancel(logged: Logged, nursery: trio.Nursery) -> None:
    (session,) = await opened(logged, "s")
    hook = logged.store.before_commit = Hook()
    got: list[Event] = []

    async def append_one() -> None:
        got.extend(await append(session, "kept"))

    asker = Attempt(nursery, append_one)
    await hook.entered.wait()
    asker.scope.cancel()
    await wait_all_tasks_blocked()
    assert asker.outcome == "waiting"
    hook.go_on.set()
    await asker.ended.wait()
    assert [event.seq for event in got] == [1]
    assert texts(session) == ["kept"]


# Unusual but allowed behavior of a store.


async def test_failed_commit_makes_next_run_reread(
    logged: Logged,
) -> None:
    with logged.lease() as lease, await logged.log.open(lease) as session:
        await append(session, "one")
        logged.store.after_commit = Hook(OSError("disk full"), once=True)
        with pytest.raises(SessionStoreError, match="OSError: disk full") as failed:
            await append(session, "written, but who knows")
        assert failed.value.session_id == "s"
        assert isinstance(failed.value.__cause__, OSError)
        with pytest.raises(SessionStoreError, match="append in this run is unknown"):
            await append(session, "nothing more in this run")
        assert texts(session) == ["one"]
    assert logged.log.statistics().failures == 1
    with logged.lease() as lease, await logged.log.open(lease) as session:
        assert logged.store.loads == [("s", 0), ("s", 1)]
        assert texts(session) == ["one", "written, but who knows"]
        (event,) = await append(session, "three")
        assert event.seq == 3


async def test_unwritten_commit_is_absent_from_tail(logged: Logged) -> None:
    with logged.lease() as lease, await logged.log.open(lease) as session:
        logged.store.before_commit = Hook(OSError("no disk"), once=True)
        with pytest.raises(SessionStoreError):
            await append(session, "lost")
    with logged.lease() as lease, await logged.log.open(lease) as session:
        assert texts(session) == []
        (event,) = await append(session, "one")
        assert event.seq == 1


async def test_slow_commit_is_a_store_error(logged: Logged, autojump_clock: MockClock) -> None:
    with logged.lease() as lease, await logged.log.open(lease) as session:
        logged.store.before_commit = Hook(once=True)
        with pytest.raises(SessionStoreError, match="took longer than 10 s"):
            await append(session, "late")
        assert trio.current_time() == 10.0
    with logged.lease() as lease, await logged.log.open(lease) as session:
        await append(session, "one")
        assert texts(session) == ["one"]


async def test_stale_lease_is_fenced(logged: Logged) -> None:
    old, new = logged.lease("s"), logged.lease("elsewhere")
    stale = await logged.log.open(old)
    old.release()
    newer = await logged.log.open(logged.lease("s"))
    await append(newer, "by the newer")
    assert new.fence < newer._fence
    with pytest.raises(SessionFenced, match="older"):
        await append(stale, "by the older")


async def test_unreadable_records_close_the_session(
    logged: Logged, autojump_clock: MockClock
) -> None:
    with logged.lease() as lease:
        logged.store.before_load = Hook(OSError("torn page"))
        with pytest.raises(SessionStoreError, match="cannot be read: OSError: torn page"):
            await logged.log.open(lease)
        logged.store.before_load = Hook(SessionFenced("of its own", session_id="s"))
        with pytest.raises(SessionFenced):
            await logged.log.open(lease)
        logged.store.before_load = Hook()
        with pytest.raises(SessionStoreError, match="not read within 10 s"):
            await logged.log.open(lease)
        assert logged.log.statistics().sessions == 0
        logged.store.before_load = None
        with await logged.log.open(lease) as session:
            await append(session, "one")


async def test_a_cancelled_load_leaves_nothing_open(logged: Logged, nursery: trio.Nursery) -> None:
    lease = logged.lease()
    hook = logged.store.before_load = Hook()
    opening = Attempt(nursery, partial(logged.log.open, lease))
    await hook.entered.wait()
    opening.scope.cancel()
    await opening.ended.wait()
    assert opening.outcome == "cancelled"
    assert logged.log.statistics().sessions == 0


async def test_missing_outcomes_stay_unknown(
    nursery: trio.Nursery,
) -> None:
    class Forgetful(ToldStore):
        async def append(self, batch: Sequence[object]) -> Sequence[None]:
            return ()

    logged = await serve_log(nursery, Forgetful())
    (session,) = await opened(logged, "s")
    with pytest.raises(SessionStoreError, match="it is unknown whether"):
        await append(session, "one")


# Closing and crashes of the actor.


async def crash(logged: Logged) -> None:
    """Break the actor, as only a bug could."""

    async def bug() -> None:
        raise Bug

    logged.log.owner.start_background(bug)
    await wait_all_tasks_blocked()


async def test_crash_resolves_every_kind_of_append(
    nursery: trio.Nursery,
) -> None:
    ready: list[Logged] = []

    async def serve() -> None:
        async with trio.open_nursery() as inner:
            ready.append(await serve_log(inner))

    served = Attempt(nursery, serve)
    await wait_all_tasks_blocked()
    (logged,) = ready
    hook = logged.store.before_commit = Hook()
    sessions = await opened(logged, *(f"s{number}" for number in range(1_030)))
    appends = [attempt(nursery, sessions[0], "x")]
    await hook.entered.wait()
    appends += [attempt(nursery, session, "x") for session in sessions[1:]]
    await wait_all_tasks_blocked()
    found = logged.log.statistics().appends
    assert found.depth == found.capacity == 1_024, "five appends found no room"
    await crash(logged)
    await served.ended.wait()
    assert {type(item.error) for item in appends} == {ActorCrashed}
    with pytest.raises(ActorCrashed):
        await append(sessions[0], "after the crash")
    for session in sessions:
        session.close()  # as runs do when they end


async def test_append_waiting_for_room_is_withdrawn(nursery: trio.Nursery, logged: Logged) -> None:
    hook = logged.store.before_commit = Hook()
    sessions = await opened(logged, *(f"s{number}" for number in range(1_026)))
    appends = [attempt(nursery, sessions[0], "x")]
    await hook.entered.wait()
    appends += [attempt(nursery, session, "x") for session in sessions[1:-1]]
    await wait_all_tasks_blocked()
    last = attempt(nursery, sessions[-1], "withdrawn")
    await wait_all_tasks_blocked()
    last.scope.cancel()
    await wait_all_tasks_blocked()
    assert last.outcome == "cancelled"
    hook.go_on.set()
    await wait_all_tasks_blocked()
    assert {item.outcome for item in appends} == {"value"}
    assert logged.log.statistics().records == 1_025
    assert logged.log.owner.statistics().live == 0


async def test_closed_log_refuses_appends_and_closes_store(logged: Logged) -> None:
    (session,) = await opened(logged, "s")
    logged.log.owner.close()
    await logged.log.owner.ended.wait()
    with pytest.raises(RuntimeClosed):
        await append(session, "late")
    session.close()
    await logged.log.aclose()
    assert logged.store.closed == 1


async def test_close_waits_for_running_appends(logged: Logged, nursery: trio.Nursery) -> None:
    (session,) = await opened(logged, "s")
    hook = logged.store.before_commit = Hook()
    under_way = attempt(nursery, session, "one")
    await hook.entered.wait()
    logged.log.owner.close()
    await wait_all_tasks_blocked()
    assert not logged.log.owner.ended.is_set()
    hook.go_on.set()
    await logged.log.owner.ended.wait()
    assert under_way.outcome == "value"


async def test_statistics_count_sessions_commits_and_failures(logged: Logged) -> None:
    (session,) = await opened(logged, "s")
    await append(session, "one", "two")
    logged.store.before_commit = Hook(OSError())
    with pytest.raises(SessionStoreError):
        await append(session, "three")
    found = logged.log.statistics()
    assert (found.sessions, found.evicted) == (1, 0)
    assert (found.commits, found.records, found.failures) == (2, 2, 1)
    assert (found.appends.depth, found.appends.capacity) == (0, 1_024)
