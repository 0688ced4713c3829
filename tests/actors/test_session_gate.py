"""The session gate: at most one run per session, a queue of limited length, cancellation, and
leases.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
from trio.testing import assert_no_checkpoints, wait_all_tasks_blocked

from agent_actors.actors.session_gate import Lease, OnBusy, SessionGate
from agent_actors.errors import ActorCrashed, RuntimeClosed, SessionBusy
from agent_actors.testing import cancel_at_every_step
from tests.actors.helpers import Attempt


@pytest.fixture
async def gate(nursery: trio.Nursery) -> SessionGate:
    made = SessionGate()
    await nursery.start(made.owner.serve)
    return made


async def queue_up(
    nursery: trio.Nursery, gate: SessionGate, *run_ids: str, session_id: str = "s"
) -> list[Attempt[Lease]]:
    attempts: list[Attempt[Lease]] = []
    for run_id in run_ids:
        ask = partial(gate.acquire, session_id, run_id, on_busy="queue")
        attempts.append(Attempt(nursery, ask))
        await wait_all_tasks_blocked()
    return attempts


def outcomes(attempts: list[Attempt[Lease]]) -> list[str]:
    return [attempt.outcome for attempt in attempts]


async def test_an_uncontended_acquire_is_synchronous(gate: SessionGate) -> None:
    with assert_no_checkpoints():
        lease = gate.acquire_nowait("s", "first")
        assert gate.holder("s") == "first"
        assert gate.is_busy("s")
        gate.statistics()
        lease.release()
        assert not gate.is_busy("s")
        assert gate.holder("s") is None
        with await gate.acquire("s", "second", on_busy="queue"):
            assert gate.holder("s") == "second"


@pytest.mark.feature("ASDK-092")
async def test_second_run_is_rejected_with_details(
    gate: SessionGate,
) -> None:
    with gate.acquire_nowait("chat-7", "run-1"), pytest.raises(SessionBusy) as refused:
        await gate.acquire("chat-7", "run-2")
    assert refused.value.session_id == "chat-7"
    assert refused.value.run_id == "run-1"
    assert "chat-7" in str(refused.value)
    assert "run-1" in str(refused.value)
    assert gate.statistics().rejected == 1


@pytest.mark.feature("ASDK-093")
async def test_other_sessions_are_unaffected(gate: SessionGate) -> None:
    with gate.acquire_nowait("a", "run-1"), gate.acquire_nowait("b", "run-2"):
        assert (gate.holder("a"), gate.holder("b")) == ("run-1", "run-2")
        assert gate.statistics().held == 2


async def test_queued_runs_acquire_in_fifo_order(gate: SessionGate, nursery: trio.Nursery) -> None:
    lease = gate.acquire_nowait("s", "holder")
    attempts = await queue_up(nursery, gate, "one", "two", "three")
    assert gate.statistics().waiting == 3
    order = ["holder"]
    for attempt in attempts:
        lease.release()
        await wait_all_tasks_blocked()
        lease = attempt.value
        order.append(str(gate.holder("s")))
    assert order == ["holder", "one", "two", "three"]
    lease.release()
    assert not gate.is_busy("s")


async def test_release_keeps_the_queue_order(gate: SessionGate, nursery: trio.Nursery) -> None:
    lease = gate.acquire_nowait("s", "holder")
    (waiting,) = await queue_up(nursery, gate, "waiting")
    lease.release()
    with pytest.raises(SessionBusy, match="run waiting"):
        gate.acquire_nowait("s", "jumper")
    await waiting.ended.wait()
    assert waiting.value.run_id == "waiting"


async def test_full_queue_is_refused_with_reason(nursery: trio.Nursery) -> None:
    gate = SessionGate(queue_capacity=2)
    await nursery.start(gate.owner.serve)
    gate.acquire_nowait("s", "holder")
    await queue_up(nursery, gate, "one", "two")
    with pytest.raises(SessionBusy, match="2 runs are already waiting") as refused:
        await gate.acquire("s", "three", on_busy="queue")
    assert refused.value.run_id == "holder"
    assert gate.statistics().rejected == 1
    assert gate.statistics().waiting == 2


@pytest.mark.parametrize("on_busy", ["reject", "queue"])
async def test_session_of_ancestor_is_always_busy(gate: SessionGate, on_busy: OnBusy) -> None:
    gate.acquire_nowait("s", "parent")
    with pytest.raises(SessionBusy, match="descendant") as refused:
        await gate.acquire("s", "child", on_busy=on_busy, ancestors=("root", "s"))
    assert refused.value.run_id == "parent"


async def test_released_session_of_ancestor_can_be_acquired(gate: SessionGate) -> None:
    with await gate.acquire("s", "child", on_busy="queue", ancestors=("s",)) as lease:
        assert lease.run_id == "child"


# Cancellation in the same tick as a lease.


async def test_lease_granted_during_cancel_is_returned(
    gate: SessionGate, nursery: trio.Nursery
) -> None:
    lease = gate.acquire_nowait("s", "holder")
    (waiting,) = await queue_up(nursery, gate, "waiting")
    lease.release()
    waiting.scope.cancel()
    await wait_all_tasks_blocked()
    with waiting.value as granted:
        assert gate.holder("s") == granted.run_id == "waiting"
    gate.acquire_nowait("s", "next").release()


async def test_lease_granted_after_cancel_is_passed_on(
    gate: SessionGate, nursery: trio.Nursery
) -> None:
    lease = gate.acquire_nowait("s", "holder")
    cancelled, waiting = await queue_up(nursery, gate, "cancelled", "waiting")
    cancelled.scope.cancel()
    lease.release()
    assert gate.holder("s") == "cancelled"
    await wait_all_tasks_blocked()
    assert cancelled.outcome == "cancelled"
    assert waiting.value.run_id == "waiting"
    waiting.value.release()
    gate.acquire_nowait("s", "next").release()
    assert gate.statistics().waiting == 0


async def test_a_cancelled_waiter_leaves_the_queue(
    gate: SessionGate, nursery: trio.Nursery
) -> None:
    lease = gate.acquire_nowait("s", "holder")
    attempts = await queue_up(nursery, gate, "one", "two", "three")
    attempts[1].scope.cancel()
    await wait_all_tasks_blocked()
    assert gate.statistics().waiting == 2
    lease.release()
    await wait_all_tasks_blocked()
    assert outcomes(attempts) == ["value", "cancelled", "waiting"]
    attempts[0].value.release()
    await wait_all_tasks_blocked()
    assert gate.holder("s") == "three"


def test_cancel_at_any_step_leaves_nothing() -> None:
    @asynccontextmanager
    async def around() -> AsyncGenerator[SessionGate]:
        gate = SessionGate()
        async with trio.open_nursery() as nursery:
            await nursery.start(gate.owner.serve)
            yield gate
            assert gate.statistics() == SessionGate().statistics(), "all as at the start"
            gate.acquire_nowait("s", "next").release()
            gate.owner.close()

    async def run(gate: SessionGate, run_id: str) -> None:
        with await gate.acquire("s", run_id, on_busy="queue"):
            await trio.sleep(1)

    async def runs(gate: SessionGate) -> None:
        async with trio.open_nursery() as nursery:
            for run_id in ("one", "two", "three"):
                nursery.start_soon(run, gate, run_id)

    assert cancel_at_every_step(runs, around=around) > 10


# Leases.


async def test_fencing_numbers_increase_with_leases(
    nursery: trio.Nursery,
) -> None:
    gate = SessionGate(first_fence=5)
    await nursery.start(gate.owner.serve)
    first = gate.acquire_nowait("a", "one")
    second = gate.acquire_nowait("b", "two")
    (third,) = await queue_up(nursery, gate, "three", session_id="a")
    first.release()
    await third.ended.wait()
    assert [first.fence, second.fence, third.value.fence] == [5, 6, 7]
    gate.start_fences_at(1_000)
    assert gate.acquire_nowait("c", "four").fence == 1_000
    gate.start_fences_at(10)
    assert gate.acquire_nowait("d", "five").fence == 1_001, "fencing numbers never go back"


async def test_double_release_keeps_next_holder(
    gate: SessionGate,
) -> None:
    first = gate.acquire_nowait("s", "first")
    first.release()
    second = gate.acquire_nowait("s", "second")
    first.release()
    assert gate.holder("s") == "second"
    second.release()


async def test_entry_without_holder_is_removed(gate: SessionGate) -> None:
    for number in range(100):
        gate.acquire_nowait(f"s{number}", "run").release()
    assert gate.statistics().held == 0
    assert not gate._entries


# Closing and crashes of the actor.


async def test_waiters_leave_when_gate_closes(
    nursery: trio.Nursery,
) -> None:
    gate = SessionGate()
    served = Attempt(nursery, gate.owner.serve)
    gate.acquire_nowait("s", "holder")
    (waiting,) = await queue_up(nursery, gate, "waiting")
    gate.owner.fail_with(ActorCrashed("another"))
    served.scope.cancel()
    await wait_all_tasks_blocked()
    assert isinstance(waiting.error, ActorCrashed)
    assert gate.statistics().waiting == 0


async def test_closed_gate_refuses_waiters(gate: SessionGate) -> None:
    gate.owner.close()
    await gate.owner.ended.wait()
    gate.acquire_nowait("s", "holder")
    with pytest.raises(RuntimeClosed):
        await gate.acquire("s", "late", on_busy="queue")
    assert gate.statistics().waiting == 0


async def test_statistics_count_leases_waiters_and_rejections(
    gate: SessionGate, nursery: trio.Nursery
) -> None:
    gate.acquire_nowait("a", "one")
    gate.acquire_nowait("b", "two")
    await queue_up(nursery, gate, "three", session_id="b")
    with pytest.raises(SessionBusy):
        gate.acquire_nowait("a", "four")
    found = gate.statistics()
    assert (found.held, found.waiting, found.rejected) == (2, 1, 1)
