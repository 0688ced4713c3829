"""Shared and exclusive locking, first come, first served."""

from functools import partial

import trio
from trio.testing import assert_no_checkpoints, wait_all_tasks_blocked

from agent_actors.kernel.shared_exclusive_lock import SharedExclusiveLock
from tests.actors.helpers import Attempt

SHARED = False
EXCLUSIVE = True


async def in_line(
    nursery: trio.Nursery, turns: SharedExclusiveLock, *modes: bool
) -> list[Attempt[None]]:
    attempts: list[Attempt[None]] = []
    for exclusive in modes:
        attempts.append(Attempt(nursery, partial(turns.acquire, exclusive=exclusive)))
        await wait_all_tasks_blocked()
    return attempts


def outcomes(attempts: list[Attempt[None]]) -> list[str]:
    return [attempt.outcome for attempt in attempts]


async def test_shared_locks_need_no_checkpoint() -> None:
    turns = SharedExclusiveLock()
    with assert_no_checkpoints():
        await turns.acquire(exclusive=False)
        await turns.acquire(exclusive=False)
        turns.release(exclusive=False)
        turns.release(exclusive=False)
        await turns.acquire(exclusive=True)


async def test_an_exclusive_turn_is_alone(nursery: trio.Nursery) -> None:
    turns = SharedExclusiveLock()
    attempts = await in_line(nursery, turns, SHARED, EXCLUSIVE)
    assert outcomes(attempts) == ["value", "waiting"]
    turns.release(exclusive=False)
    attempts += await in_line(nursery, turns, SHARED, EXCLUSIVE)
    assert outcomes(attempts) == ["value", "value", "waiting", "waiting"]
    turns.release(exclusive=True)
    await wait_all_tasks_blocked()
    assert outcomes(attempts) == ["value", "value", "value", "waiting"]


async def test_waiting_exclusive_blocks_later_shared(
    nursery: trio.Nursery,
) -> None:
    turns = SharedExclusiveLock()
    attempts = await in_line(nursery, turns, SHARED, EXCLUSIVE, SHARED, SHARED)
    assert outcomes(attempts) == ["value", "waiting", "waiting", "waiting"]
    turns.release(exclusive=False)
    await wait_all_tasks_blocked()
    assert outcomes(attempts) == ["value", "value", "waiting", "waiting"]
    turns.release(exclusive=True)
    await wait_all_tasks_blocked()
    assert outcomes(attempts) == ["value", "value", "value", "value"]


async def test_withdrawn_exclusive_lets_followers_continue(nursery: trio.Nursery) -> None:
    turns = SharedExclusiveLock()
    attempts = await in_line(nursery, turns, SHARED, EXCLUSIVE, SHARED, EXCLUSIVE)
    attempts[1].scope.cancel()
    await wait_all_tasks_blocked()
    assert outcomes(attempts) == ["value", "cancelled", "value", "waiting"]


async def test_lock_granted_during_cancel_is_held(nursery: trio.Nursery) -> None:
    turns = SharedExclusiveLock()
    first, second, third = await in_line(nursery, turns, EXCLUSIVE, EXCLUSIVE, EXCLUSIVE)
    turns.release(exclusive=True)
    second.scope.cancel()
    await wait_all_tasks_blocked()
    assert outcomes([first, second, third]) == ["value", "value", "waiting"]
    turns.release(exclusive=True)
    await wait_all_tasks_blocked()
    assert third.outcome == "value"
