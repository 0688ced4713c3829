"""Fair slots: limits always hold, keys take turns, and cancellation loses no slot."""

import math
from functools import partial

import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import assert_no_checkpoints, wait_all_tasks_blocked

from agent_actors.kernel.fair_limiter import FairLimiter
from tests.actors.helpers import Attempt, run_in_order


async def queue_up(
    nursery: trio.Nursery, slots: FairLimiter, keys: str, log: list[str]
) -> list[Attempt[None]]:
    """Start a task per character that waits for a slot under that key, one after the other."""

    async def acquire(key: str) -> None:
        await slots.acquire(key)
        log.append(key)

    attempts: list[Attempt[None]] = []
    for key in keys:
        attempts.append(Attempt(nursery, partial(acquire, key)))
        await wait_all_tasks_blocked()
    return attempts


async def test_free_slot_needs_no_checkpoint() -> None:
    slots = FairLimiter(1, 1)
    with assert_no_checkpoints():
        await slots.acquire("a")
        slots.release("a")
        assert slots.statistics().used == 0


async def test_slots_alternate_by_key(
    nursery: trio.Nursery,
) -> None:
    slots = FairLimiter(1)
    await slots.acquire("holder")
    log: list[str] = []
    await queue_up(nursery, slots, "aaaabbc", log)
    slots.release("holder")
    while slots.statistics().used:
        await wait_all_tasks_blocked()
        slots.release(log[-1])
    assert "".join(log) == "abcabaa"


async def test_many_waiters_do_not_block_others(
    nursery: trio.Nursery,
) -> None:
    slots = FairLimiter(2)
    log: list[str] = []
    await slots.acquire("a")
    await slots.acquire("a")
    for _ in range(400):
        nursery.start_soon(slots.acquire, "a")
    await wait_all_tasks_blocked()
    await queue_up(nursery, slots, "b", log)
    slots.release("a")
    slots.release("a")
    await wait_all_tasks_blocked()
    assert log == ["b"], "b gets the second turn at the latest"


async def test_key_stays_within_its_own_limit(
    nursery: trio.Nursery,
) -> None:
    slots = FairLimiter(10, per_key=2)
    log: list[str] = []
    await queue_up(nursery, slots, "aaab", log)
    assert log == ["a", "a", "b"]
    found = slots.statistics()
    assert (found.used, found.waiting, found.peak, found.total) == (3, 1, 3, 10)
    slots.release("b")
    await wait_all_tasks_blocked()
    assert log == ["a", "a", "b"], "a key at its limit cannot use another slot"
    slots.release("a")
    await wait_all_tasks_blocked()
    assert log == ["a", "a", "b", "a"]


async def test_released_slot_restores_turn_of_key(
    nursery: trio.Nursery,
) -> None:
    slots = FairLimiter(3, per_key=2)
    log: list[str] = []
    await queue_up(nursery, slots, "aabaaab", log)
    assert log == ["a", "a", "b"]
    slots.release("a")
    await wait_all_tasks_blocked()
    assert log[3:] == ["b"], "b waited for its turn, a for its limit"
    slots.release("b")
    await wait_all_tasks_blocked()
    assert log[4:] == ["a"]


async def test_cancelled_wait_holds_nothing(nursery: trio.Nursery) -> None:
    slots = FairLimiter(1)
    await slots.acquire("holder")
    log: list[str] = []
    first, second, third = await queue_up(nursery, slots, "aab", log)
    first.scope.cancel()
    third.scope.cancel()
    await wait_all_tasks_blocked()
    assert slots.statistics().waiting == 1
    slots.release("holder")
    await wait_all_tasks_blocked()
    assert second.outcome == "value"
    slots.release("a")
    assert slots.statistics().used == 0
    with assert_no_checkpoints():
        await slots.acquire("b")


async def test_slot_granted_during_cancel_is_held(nursery: trio.Nursery) -> None:
    slots = FairLimiter(1)
    await slots.acquire("holder")
    waiting = Attempt(nursery, partial(slots.acquire, "a"))
    await wait_all_tasks_blocked()
    slots.release("holder")
    waiting.scope.cancel()
    await wait_all_tasks_blocked()
    assert waiting.outcome == "value"
    assert slots.statistics().used == 1


async def test_cancel_before_grant_passes_slot_on(
    nursery: trio.Nursery,
) -> None:
    slots = FairLimiter(1)
    await slots.acquire("holder")
    first, second = await queue_up(nursery, slots, "aa", [])
    first.scope.cancel()
    slots.release("holder")
    await wait_all_tasks_blocked()
    assert (first.outcome, second.outcome) == ("cancelled", "value")


async def test_first_waiter_precedes_others_of_key(
    nursery: trio.Nursery,
) -> None:
    slots = FairLimiter(1)
    await slots.acquire("holder")
    log: list[str] = []
    await queue_up(nursery, slots, "ba", log)

    async def first() -> None:
        await slots.acquire("a", first=True)
        log.append("first")

    nursery.start_soon(first)
    await wait_all_tasks_blocked()
    slots.release("holder")
    await wait_all_tasks_blocked()
    assert log == ["first"]
    slots.release("a")
    await wait_all_tasks_blocked()
    assert log == ["first", "b"]


async def test_first_waiter_respects_the_limit(nursery: trio.Nursery) -> None:
    slots = FairLimiter(5, per_key=1)
    await slots.acquire("a")
    waiting = Attempt(nursery, partial(slots.acquire, "a", first=True))
    await wait_all_tasks_blocked()
    assert waiting.outcome == "waiting"
    slots.release("a")
    await wait_all_tasks_blocked()
    assert waiting.outcome == "value"


async def test_slots_without_a_bound_never_wait() -> None:
    slots = FairLimiter(math.inf)
    with assert_no_checkpoints():
        for _ in range(1000):
            await slots.acquire("a")
    assert slots.statistics().peak == 1000


# Any program of tasks that acquire, hold, are cancelled and release.

Program = list[tuple[str, float, float, float, bool]]
PROGRAMS = st.lists(
    st.tuples(
        st.sampled_from("abc"),  # key
        st.sampled_from([0.0, 0.5, 1.0, 2.0]),  # time of the request
        st.sampled_from([0.0, 1.0, 1.5]),  # seconds that it holds the slot
        st.sampled_from([0.5, 1.0, 3.0, math.inf]),  # seconds from the request to its cancellation
        st.booleans(),  # True if it goes first
    ),
    max_size=25,
)


@given(program=PROGRAMS, total=st.integers(1, 4), per_key=st.integers(1, 3), seed=st.integers(0))
def test_limits_hold_without_starvation(
    program: Program, total: int, per_key: int, seed: int
) -> None:
    slots = FairLimiter(total, per_key)
    held = {"a": 0, "b": 0, "c": 0}
    ends: list[str] = []

    async def task(key: str, start: float, hold: float, patience: float, first: bool) -> None:
        await trio.sleep(start)
        with trio.move_on_after(patience) as scope:
            await slots.acquire(key, first=first)
            held[key] += 1
            try:
                assert held[key] <= per_key
                assert sum(held.values()) <= total
                assert sum(held.values()) <= slots.statistics().used <= total
                await trio.sleep(hold)
            finally:
                held[key] -= 1
                slots.release(key)
        ends.append("cancelled" if scope.cancelled_caught else "served")

    async def main() -> None:
        with trio.fail_after(1_000):
            async with trio.open_nursery() as nursery:
                for item in program:
                    nursery.start_soon(task, *item)

    run_in_order(main, seed)
    assert len(ends) == len(program)
    patient = sum(1 for item in program if item[3] == math.inf)
    assert ends.count("served") >= patient
    found = slots.statistics()
    assert (found.used, found.waiting) == (0, 0)
    assert not slots._used_by
    assert not slots._queues
    assert not slots._ready
