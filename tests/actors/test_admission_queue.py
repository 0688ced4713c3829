"""The admission queue of an endpoint: refused calls go first, then first come, first served."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
from trio.testing import MockClock, assert_no_checkpoints, wait_all_tasks_blocked

from agent_actors.actors.admission_queue import AdmissionQueue, EndpointRefusing
from agent_actors.kernel.actor_loop import ActorLoop


@asynccontextmanager
async def line() -> AsyncGenerator[AdmissionQueue]:
    owner = ActorLoop("line")
    async with trio.open_nursery() as nursery:
        await nursery.start(owner.serve)
        yield AdmissionQueue(owner.start_background)
        owner.close()


async def refuse(line: AdmissionQueue, *, pause: float = 0.0) -> None:
    ticket = await line.enter()
    line.refused(ticket, pause)
    line.leave(ticket)


async def test_no_call_waits_without_a_refusal() -> None:
    async with line() as free:
        with assert_no_checkpoints():
            tickets = [await free.enter() for _ in range(100)]
        for ticket in tickets:
            free.answered(ticket)
            free.leave(ticket)
        assert (free.answers, free.waiting) == (100, 0)


async def test_refused_requests_go_first_in_order() -> None:
    order: list[str] = []

    async def go(name: str, *, first: bool) -> None:
        ticket = await narrow.enter(first=first)
        order.append(name)
        await trio.lowlevel.checkpoint()
        narrow.leave(ticket)  # without a response: the window stays at one

    async with line() as narrow:
        await refuse(narrow)
        holder = await narrow.enter()
        async with trio.open_nursery() as nursery:
            for name in ("a", "b", "again", "c"):
                nursery.start_soon(partial(go, name, first=name == "again"))
                await wait_all_tasks_blocked()
            assert narrow.waiting == 4
            narrow.leave(holder)
        assert order == ["again", "a", "b", "c"]


async def test_persistent_refusals_exhaust_patience(
    autojump_clock: MockClock,
) -> None:
    outcomes: list[tuple[str, float]] = []

    async def wait(name: str, patience: float) -> None:
        try:
            ticket = await narrow.enter(patience=patience)
        except EndpointRefusing:
            outcomes.append((name, trio.current_time() - start))
        else:
            outcomes.append((f"{name} goes", trio.current_time() - start))
            narrow.leave(ticket)

    async with line() as narrow:
        start = trio.current_time()
        await refuse(narrow)
        async with trio.open_nursery() as nursery:
            holder = await narrow.enter()
            for name, patience in (("a", 10), ("b", 20), ("c", 30)):
                nursery.start_soon(wait, name, patience)
            for _ in range(3):
                await trio.sleep(9)
                narrow.refused(holder, 0.0)
            await wait_all_tasks_blocked()
            assert outcomes == [("a", 18), ("b", 27)]
            assert narrow.waiting == 1
            narrow.answered(holder)  # the endpoint refuses no request from here on
            narrow.leave(holder)
        assert outcomes[2:] == [("c goes", 27)]


async def test_old_refusal_does_not_count_after_recovery(
    autojump_clock: MockClock,
) -> None:
    async with line() as narrow:
        await refuse(narrow)
        await trio.sleep(600)
        await refuse(narrow)
        holder = await narrow.enter()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(narrow.enter, patience=300))
            await wait_all_tasks_blocked()
            narrow.refused(holder, 0.0)
            await wait_all_tasks_blocked()
            assert narrow.waiting == 1
            nursery.cancel_scope.cancel()


async def test_response_between_refusals_resets_patience(
    autojump_clock: MockClock,
) -> None:
    async with line() as narrow:
        await refuse(narrow)
        holder = await narrow.enter()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(narrow.enter, patience=10))
            await trio.sleep(9)
            narrow.answered(narrow._begin())
            narrow.refused(holder, 60.0)
            await trio.sleep(9)
            narrow.refused(holder, 60.0)
            await wait_all_tasks_blocked()
            assert narrow.waiting == 1
            nursery.cancel_scope.cancel()
        assert narrow.waiting == 0


async def test_pause_is_shared_by_all_waiters(autojump_clock: MockClock) -> None:
    begun: list[float] = []

    async def go() -> None:
        ticket = await paused.enter()
        begun.append(trio.current_time())
        paused.answered(ticket)
        paused.leave(ticket)

    async with line() as paused:
        await refuse(paused, pause=5)
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(go)
            await trio.sleep(2)
            another = paused._begin()
            paused.refused(another, 7)
            paused.leave(another)
        assert begun == [pytest.approx(9)] * 3


@pytest.mark.parametrize("left", [0, 1])
async def test_cancelled_waiter_holds_nothing(left: int, autojump_clock: MockClock) -> None:
    async with line() as paused:
        await refuse(paused, pause=5)
        async with trio.open_nursery() as nursery:
            for _ in range(left):
                nursery.start_soon(paused.enter)
            with trio.move_on_after(1) as scope:
                await paused.enter(first=True)
            assert scope.cancelled_caught
            assert paused.waiting == left
            # The task that waits for the end of the pause exits if no caller waits for that end.
            await wait_all_tasks_blocked()
            assert (paused._pause is None) == (left == 0)
    assert trio.current_time() < 6


async def test_slot_granted_during_cancel_is_returned() -> None:
    async with line() as narrow:
        await refuse(narrow)
        holder = await narrow.enter()
        taken: list[object] = []
        async with trio.open_nursery() as nursery:

            async def go() -> None:
                taken.append(await narrow.enter())

            nursery.start_soon(go)
            await wait_all_tasks_blocked()
            narrow.leave(holder)
            nursery.cancel_scope.cancel()
        assert len(taken) == 1
