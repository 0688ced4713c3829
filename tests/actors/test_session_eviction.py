"""Sessions in memory: loaded on first use, and evicted when idle or least recently used."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from agent_actors.actors.session_log import _SHORT, _WARM
from tests.actors.helpers import said, scope_of
from tests.actors.store_helpers import Logged, serve_log


def sessions(logged: Logged) -> list[str]:
    return list(logged.log._loaded)


@pytest.mark.feature("WICK-031")
async def test_session_is_loaded_once_on_first_use(
    nursery: trio.Nursery,
) -> None:
    logged = await serve_log(nursery)
    await logged.touch("new")
    await logged.touch("new")
    assert logged.store.loads == [("new", 0)]
    with logged.lease("new") as lease, await logged.log.open(lease) as session:
        await session.append(scope_of("new"), [said("kept")])
    again = await serve_log(nursery, logged.store)
    with again.lease("new") as lease, await again.log.open(lease) as session:
        assert [message.content for message in session.history()] == ["kept"]
        assert session.state.last_seq == 1


async def test_store_epoch_grows_with_every_opening(
    nursery: trio.Nursery,
) -> None:
    logged = await serve_log(nursery)
    assert logged.lease("a").fence == 1
    again = await serve_log(nursery, logged.store)
    assert again.lease("a").fence == 2


@pytest.mark.feature("ASDK-050")
async def test_least_recently_used_session_is_evicted(
    nursery: trio.Nursery,
) -> None:
    logged = await serve_log(nursery)
    for number in range(1_000):
        await logged.touch(f"s{number}")
    await logged.touch("s0")
    assert logged.log.statistics().sessions == 1_000
    await logged.touch("one more")
    found = logged.log.statistics()
    assert (found.sessions, found.evicted) == (1_000, 1)
    assert logged.store.forgotten == ["s1"], "s0 was used since"
    await logged.touch("another")
    assert logged.store.forgotten == ["s1", "s2"]


@pytest.mark.feature("ASDK-050")
async def test_held_or_open_session_is_not_evicted(
    nursery: trio.Nursery,
) -> None:
    logged = await serve_log(nursery, max_sessions=2)
    for name in ("held", "open", "free"):
        await logged.touch(name)
    assert sessions(logged) == ["open", "free"]
    await logged.touch("held")
    held = logged.lease("held")
    open_lease = logged.lease("open")
    session = await logged.log.open(open_lease)
    open_lease.release()
    await logged.touch("x")
    await logged.touch("y")
    assert sessions(logged) == ["held", "open", "y"], "held, open, and the newest"
    held.release()
    session.close()
    await logged.touch("z")
    assert sessions(logged) == ["y", "z"], "the number returns to its limit"


async def test_eviction_skips_sessions_in_use(
    nursery: trio.Nursery,
) -> None:
    logged = await serve_log(nursery, max_sessions=2)
    opened = [await logged.log.open(logged.lease(f"in use {number}")) for number in range(100)]
    await logged.touch("free")
    for number in range(4):
        await logged.touch(f"later {number}")
    left = sessions(logged)
    assert "free" not in left
    assert len([name for name in left if name.startswith("in use")]) == 100
    for session in opened:
        session.close()


async def test_a_closed_session_is_put_back_once(nursery: trio.Nursery) -> None:
    logged = await serve_log(nursery, max_sessions=1)
    lease = logged.lease("s")
    first = await logged.log.open(lease)
    second = await logged.log.open(lease)
    lease.release()
    first.close()
    first.close()
    await logged.touch("other")
    assert "s" in sessions(logged), "the second use is still open"
    second.close()
    await logged.touch("another")
    assert sessions(logged) == ["another"]


@pytest.mark.feature("WICK-030")
async def test_idle_sessions_expire_after_an_hour(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    logged = await serve_log(nursery)
    await logged.touch("early")
    await trio.sleep(1_000)
    await logged.touch("late")
    await trio.sleep(3_599 - 1_000)
    assert sessions(logged) == ["early", "late"]
    await trio.sleep(2)
    assert sessions(logged) == ["late"]
    await trio.sleep(4_799 - 3_601)
    assert sessions(logged) == ["late"], "the sweeps are at 4,500 and 4,800"
    await trio.sleep(2)
    assert sessions(logged) == []
    assert logged.log.statistics().evicted == 2


@pytest.mark.feature("WICK-030")
async def test_a_session_in_use_is_not_swept(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    logged = await serve_log(nursery)
    for name in ("idle", "held", "open"):
        await logged.touch(name)
    held, open_lease = logged.lease("held"), logged.lease("open")
    session = await logged.log.open(open_lease)
    open_lease.release()
    await trio.sleep(10_000)
    assert sessions(logged) == ["held", "open"]
    held.release()
    session.close()
    await trio.sleep(299)
    assert sessions(logged) == ["open"], "idle since it was closed"
    await trio.sleep(3_700)
    assert sessions(logged) == []


async def test_sweeper_follows_the_number_of_sessions(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    logged = await serve_log(nursery)
    workers = logged.log.owner._workers
    assert workers is not None
    at_rest = len(workers.child_tasks)
    for _ in range(2):
        await logged.touch("a")
        await logged.touch("b")
        assert len(workers.child_tasks) == at_rest + 1, "one sweeper for all"
        await trio.sleep(4_000)
        await wait_all_tasks_blocked()
        assert len(workers.child_tasks) == at_rest


async def test_only_recently_used_sessions_stay_warm(nursery: trio.Nursery) -> None:
    logged = await serve_log(nursery)
    for number in range(_WARM + 2):
        await logged.touch(f"s{number}")
    assert logged.store.compacted == ["s0", "s1"]
    await logged.touch("s2")
    await logged.touch("again s0")
    assert logged.store.compacted == ["s0", "s1", "s3"], "s2 was used since"


async def test_session_in_use_is_not_compacted(nursery: trio.Nursery) -> None:
    logged = await serve_log(nursery)
    await logged.touch("held")
    with logged.lease("held") as lease, await logged.log.open(lease):
        for number in range(_WARM + 1):
            await logged.touch(f"s{number}")
        assert logged.store.compacted == ["s0"]


async def test_cold_session_drops_encoded_messages(nursery: trio.Nursery) -> None:
    logged = await serve_log(nursery)
    encoded: list[str] = []

    async def open_and_encode(name: str) -> None:
        with logged.lease(name) as lease, await logged.log.open(lease) as session:
            count = _SHORT + 1 if name == "long" else 4
            if not session.state.last_seq:
                await session.append(scope_of(name), [said(f"{n}") for n in range(count)])
            session.state.memo.map("key", session.history(), lambda m: encoded.append(m.content))

    await open_and_encode("short")
    await open_and_encode("long")
    for number in range(_WARM):
        await logged.touch(f"s{number}")
    encoded.clear()
    await open_and_encode("long")
    assert encoded == [], "encoding a long conversation again would cost more than it takes"
    await open_and_encode("short")
    assert encoded == ["0", "1", "2", "3"]
