"""A call lends its slots to its child runs, once, and gets them back before other waiters."""

import trio
from trio.testing import assert_no_checkpoints, wait_all_tasks_blocked

from agent_actors.actors.run_tree import CallSlots, RunNode, current_call, current_run, slots_lent
from agent_actors.kernel.fair_limiter import FairLimiter
from agent_actors.testing import cancel_at_every_step
from tests.actors.helpers import Attempt, Bug


def used(*all_slots: FairLimiter) -> list[int]:
    return [slots.statistics().used for slots in all_slots]


def test_run_lists_ancestors_from_the_inside() -> None:
    root = RunNode("root session", "root run", runtime=object())
    child = RunNode("child session", "child run", root.runtime, parent=root)
    assert [node.session_id for node in child.lineage()] == ["child session", "root session"]
    assert current_run.get() is None
    assert current_call.get() is None


async def test_slots_are_returned_in_reverse_order() -> None:
    tool, run = FairLimiter(1), FairLimiter(1)
    log: list[str] = []
    held = CallSlots("call")
    held.at_end(lambda: log.append("first"))
    held.at_end(lambda: log.append("second"))
    with assert_no_checkpoints():
        await held.take(tool, None)
        await held.take(run, "run")
        assert used(tool, run) == [1, 1]
        held.release_all()
    assert used(tool, run) == [0, 0]
    assert log == ["second", "first"]
    held.release_all()
    assert used(tool, run) == [0, 0]


async def test_call_lends_slots_during_child_run() -> None:
    slots = FairLimiter(1)
    held = CallSlots("call")
    await held.take(slots, "run")
    async with slots_lent(held):
        assert used(slots) == [0]
    assert used(slots) == [1]
    held.release_all()
    assert used(slots) == [0]
    async with slots_lent(None):
        pass


async def test_slots_are_reacquired_before_other_waiters(
    nursery: trio.Nursery,
) -> None:
    slots = FairLimiter(1)
    held = CallSlots("call")
    await held.take(slots, "run")
    log: list[str] = []

    async def wait_for_slot() -> None:
        await slots.acquire("run")
        log.append("other")

    async with slots_lent(held):
        await slots.acquire("child")
        nursery.start_soon(wait_for_slot)
        await wait_all_tasks_blocked()
        nursery.start_soon(release_later, slots)
    assert log == [], "the call gets its slot first"
    held.release_all()
    await wait_all_tasks_blocked()
    assert log == ["other"]


async def release_later(slots: FairLimiter) -> None:
    await wait_all_tasks_blocked()
    slots.release("child")


async def test_parallel_children_lend_slots_once() -> None:
    slots = FairLimiter(1)
    held = CallSlots("call")
    await held.take(slots, "run")
    held.lend()
    held.lend()
    assert used(slots) == [0]
    with assert_no_checkpoints():
        await held.take_again()
        assert used(slots) == [0]
        await held.take_again()
    assert used(slots) == [1]


async def test_child_started_during_reacquire_gets_slots(
    nursery: trio.Nursery,
) -> None:
    slots = FairLimiter(1)
    held = CallSlots("call")
    await held.take(slots, "run")
    held.lend()
    await slots.acquire("other")
    first = Attempt(nursery, held.take_again)
    await wait_all_tasks_blocked()
    held.lend()
    slots.release("other")
    await first.ended.wait()
    assert used(slots) == [0], "the running child has the slots"
    await held.take_again()
    assert used(slots) == [1]
    held.release_all()
    assert used(slots) == [0]


async def test_children_ending_together_reacquire_once(
    nursery: trio.Nursery,
) -> None:
    tool, run = FairLimiter(1), FairLimiter(1)
    held = CallSlots("call")
    await held.take(tool, None)
    await held.take(run, "run")
    held.lend()
    await run.acquire("other")
    first = Attempt(nursery, held.take_again)
    await wait_all_tasks_blocked()
    held.lend()
    second = Attempt(nursery, held.take_again)
    await wait_all_tasks_blocked()
    run.release("other")
    await wait_all_tasks_blocked()
    assert (first.outcome, second.outcome) == ("value", "value")
    assert used(tool, run) == [1, 1]
    held.release_all()
    assert used(tool, run) == [0, 0]


async def test_cancelled_reacquire_passes_to_other_child(
    nursery: trio.Nursery,
) -> None:
    slots = FairLimiter(1)
    held = CallSlots("call")
    await held.take(slots, "run")
    held.lend()
    await slots.acquire("other")
    first = Attempt(nursery, held.take_again)
    await wait_all_tasks_blocked()
    held.lend()
    second = Attempt(nursery, held.take_again)
    await wait_all_tasks_blocked()
    first.scope.cancel()
    await wait_all_tasks_blocked()
    assert (first.outcome, second.outcome) == ("cancelled", "waiting")
    slots.release("other")
    await wait_all_tasks_blocked()
    assert second.outcome == "value"
    assert used(slots) == [1]


async def test_cancelled_reacquire_holds_no_slot(
    nursery: trio.Nursery,
) -> None:
    tool, run = FairLimiter(1), FairLimiter(1)
    held = CallSlots("call")
    await held.take(tool, None)
    await held.take(run, "run")
    held.lend()
    await run.acquire("other")
    taking = Attempt(nursery, held.take_again)
    await wait_all_tasks_blocked()
    assert used(tool, run) == [1, 1]
    taking.scope.cancel()
    await wait_all_tasks_blocked()
    assert taking.outcome == "cancelled"
    assert used(tool, run) == [0, 1]
    held.release_all()
    assert used(tool, run) == [0, 1], "the other call keeps its slot"


async def test_body_exception_survives_cancelled_reacquire() -> None:
    slots = FairLimiter(1)
    held = CallSlots("call")
    await held.take(slots, "run")
    raised = False
    with trio.CancelScope() as scope:
        try:
            async with slots_lent(held):
                await slots.acquire("other")
                scope.cancel()
                raise Bug
        except Bug:
            raised = True
    assert raised
    assert not scope.cancelled_caught


async def test_a_cancelled_block_is_cancelled() -> None:
    slots = FairLimiter(1)
    held = CallSlots("call")
    await held.take(slots, "run")
    with trio.CancelScope() as scope:
        async with slots_lent(held):
            await slots.acquire("other")
            scope.cancel()
    assert scope.cancelled_caught


def test_nested_calls_under_one_slot_finish() -> None:
    async def call(slots: FairLimiter, run: str, depth: int) -> None:
        held = CallSlots(run)
        try:
            await held.take(slots, run)
            await trio.lowlevel.checkpoint()
            if depth:
                async with slots_lent(held), trio.open_nursery() as children:
                    for child in "ab":
                        children.start_soon(call, slots, run + child, depth - 1)
        finally:
            held.release_all()

    async def program() -> None:
        slots = FairLimiter(1)
        try:
            async with trio.open_nursery() as roots:
                roots.start_soon(call, slots, "x", 2)
                roots.start_soon(call, slots, "y", 1)
        finally:
            found = slots.statistics()
            assert (found.used, found.waiting) == (0, 0)
            assert found.peak <= 1

    assert cancel_at_every_step(program) > 20
