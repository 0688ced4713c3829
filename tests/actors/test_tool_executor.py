"""Parallel tool calls within limits: shares, cancellation, nested calls, and statistics."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial

import pytest
import trio
from trio.testing import MockClock, assert_no_checkpoints, wait_all_tasks_blocked

from agent_actors.actors.run_tree import current_call, slots_lent
from agent_actors.actors.tool_executor import RunTools, ToolExecutor
from agent_actors.domain.run import ToolCallResult
from agent_actors.errors import RuntimeClosed
from agent_actors.kernel.request import RequestCancelled
from agent_actors.testing import cancel_at_every_step
from agent_actors.tools import tool
from tests.actors.helpers import Attempt, Clock
from tests.actors.tool_helpers import (
    Crowd,
    call_of,
    nothing_is_held,
    results,
    run_of,
    run_one,
    submit,
)

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


@pytest.fixture
async def executor(nursery: trio.Nursery) -> ToolExecutor:
    made = ToolExecutor(Clock())
    await nursery.start(made.owner.serve)
    return made


@tool
async def echo(text: str = "hello") -> str:
    return text


async def small(nursery: trio.Nursery, *, runtime: int, run: int) -> ToolExecutor:
    made = ToolExecutor(Clock(), tools_per_runtime=runtime, tools_per_run=run)
    await nursery.start(made.owner.serve)
    return made


# Shares and limits.


@pytest.mark.feature("ASDK-035")
async def test_calls_of_run_are_parallel_and_joined(
    executor: ToolExecutor, autojump_clock: MockClock
) -> None:
    ends: list[float] = []

    @tool
    async def wait(seconds: float) -> float:
        await trio.sleep(seconds)
        ends.append(seconds)
        return seconds

    run = run_of(wait)
    calls = [call_of(wait, number, seconds=10.0 - number) for number in range(10)]
    found = await results(await submit(executor, run, *calls))
    assert [result.id for result in found] == [call.id for call in calls]
    assert ends == sorted(ends)
    assert trio.current_time() == 10.0


async def test_800_calls_respect_the_cap(executor: ToolExecutor, autojump_clock: MockClock) -> None:
    inside = peak = 0

    @tool
    async def work() -> str:
        nonlocal inside, peak
        inside += 1
        peak = max(peak, inside)
        await trio.sleep(1)
        inside -= 1
        return "done"

    calls = [call_of(work, number) for number in range(800)]
    found = await results(await submit(executor, run_of(work), *calls))
    assert [result.id for result in found] == [call.id for call in calls]
    assert all(result.content == "done" for result in found)
    assert peak == 16
    assert trio.current_time() == 50.0, "16 at a time"
    assert executor.statistics().calls == 800
    assert nothing_is_held(executor)


async def test_stuck_run_leaves_slots_for_others(
    nursery: trio.Nursery,
) -> None:
    executor = await small(nursery, runtime=20, run=16)
    crowd = Crowd()
    stuck = [call_of(crowd.tool, number) for number in range(100)]
    await submit(executor, run_of(crowd.tool, run_id="B"), *stuck)
    await wait_all_tasks_blocked()
    assert crowd.inside == 16
    calls = [call_of(echo, number) for number in range(50)]
    found = await results(await submit(executor, run_of(echo, run_id="A"), *calls))
    assert len(found) == 50
    assert crowd.inside == 16


async def test_large_fan_out_is_fair_to_others(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    executor = await small(nursery, runtime=2, run=2)

    @tool
    async def second() -> None:
        await trio.sleep(1)

    await submit(
        executor, run_of(second, run_id="B"), *(call_of(second, number) for number in range(200))
    )
    await wait_all_tasks_blocked()
    await run_one(executor, run_of(second, run_id="A"), call_of(second))
    assert trio.current_time() == 2.0, "it waited for one turn, and not for 200 calls"


async def test_max_concurrency_spans_runs_fairly(
    executor: ToolExecutor, autojump_clock: MockClock
) -> None:
    inside = peak = 0

    @tool(max_concurrency=2)
    async def scarce() -> None:
        nonlocal inside, peak
        inside += 1
        peak = max(peak, inside)
        await trio.sleep(1)
        inside -= 1

    many = [call_of(scarce, number) for number in range(40)]
    requests = await submit(executor, run_of(scarce, run_id="B"), *many)
    await wait_all_tasks_blocked()
    await run_one(executor, run_of(scarce, run_id="A"), call_of(scarce))
    assert trio.current_time() == 2.0, "not after all of B's calls"
    await results(requests)
    assert peak == 2
    assert nothing_is_held(executor)


async def test_exclusive_tool_runs_alone_in_its_run(
    executor: ToolExecutor, nursery: trio.Nursery
) -> None:
    before, alone, after = Crowd("before"), Crowd("alone", exclusive=True), Crowd("after")
    run = run_of(before.tool, alone.tool, after.tool)
    first = await submit(executor, run, call_of("before", 1), call_of("before", 2))
    await wait_all_tasks_blocked()
    second = await submit(executor, run, call_of("alone", 3))
    await wait_all_tasks_blocked()
    third = await submit(executor, run, call_of("after", 4))
    await wait_all_tasks_blocked()
    assert (before.inside, alone.inside, after.inside) == (2, 0, 0)
    other = run_of(echo, run_id="another")
    assert (await run_one(executor, other, call_of(echo))).content == "hello"
    before.leave.set()
    await wait_all_tasks_blocked()
    assert (before.inside, alone.inside, after.inside) == (0, 1, 0)
    alone.leave.set()
    await wait_all_tasks_blocked()
    assert after.inside == 1
    after.leave.set()
    await results([*first, *second, *third])
    assert nothing_is_held(executor)


# Cancelled calls.


async def test_cancelled_call_runs_finally_and_frees_slots(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    executor = await small(nursery, runtime=1, run=1)
    log: list[str] = []

    @tool(max_concurrency=1, exclusive=True)
    async def slow() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(2)
            log.append("ended")

    run = run_of(slow, echo)
    request = await executor.submit(run, call_of(slow))
    await wait_all_tasks_blocked()
    request.cancel("the run ended")
    assert not request.done
    await request.wait_done()
    assert log == ["ended"]
    with pytest.raises(RequestCancelled):
        request.result()
    assert nothing_is_held(executor)
    assert (await run_one(executor, run, call_of(echo))).content == "hello"


async def test_slot_granted_during_cancel_starts_no_call(
    nursery: trio.Nursery,
) -> None:
    executor = await small(nursery, runtime=1, run=1)
    crowd = Crowd()
    begun: list[str] = []

    @tool
    async def effect() -> None:
        begun.append("effect")

    run = run_of(crowd.tool, effect)
    first, second = await submit(executor, run, call_of(crowd.tool), call_of(effect, 1))
    await wait_all_tasks_blocked()
    first.on_done(lambda: second.cancel("the run ended"))
    crowd.leave.set()
    await second.wait_done()
    assert first.result().content == "left"
    assert begun == []
    assert nothing_is_held(executor)


async def test_nursery_errors_of_cancelled_tool_are_contained(
    executor: ToolExecutor,
) -> None:
    request = await executor.submit(run_of(crumbling), call_of(crumbling))
    await wait_all_tasks_blocked()
    request.cancel("the run ended")
    await request.wait_done()
    with pytest.raises(RequestCancelled):
        request.result()
    assert nothing_is_held(executor)


@tool
async def crumbling() -> None:
    """Fail in the child tasks when cancelled."""

    async def child(error: BaseException) -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise error

    async with trio.open_nursery() as nursery:
        nursery.start_soon(child, ValueError("in finally"))
        nursery.start_soon(child, SystemExit(3))
        await trio.sleep_forever()


async def test_nursery_errors_of_late_tool_are_contained(
    executor: ToolExecutor, autojump_clock: MockClock
) -> None:
    found = await run_one(executor, run_of(crumbling, timeout=5), call_of(crumbling))
    assert found.is_error
    assert found.content == "tool 'crumbling' did not finish within 5 s"


def test_cancel_at_any_step_frees_slots() -> None:
    inside = 0

    @tool(max_concurrency=1)
    async def shared() -> None:
        nonlocal inside
        inside += 1
        try:
            await trio.sleep(1)
        finally:
            inside -= 1

    @tool(exclusive=True)
    async def alone() -> None:
        await trio.sleep(1)

    @asynccontextmanager
    async def around() -> AsyncGenerator[ToolExecutor]:
        executor = ToolExecutor(Clock(), tools_per_runtime=2, tools_per_run=2)
        async with trio.open_nursery() as nursery:
            await nursery.start(executor.owner.serve)
            yield executor
            assert nothing_is_held(executor)
            assert inside == 0
            executor.owner.close()

    async def join(executor: ToolExecutor, run: RunTools, name: str) -> None:
        await (await executor.submit(run, call_of(name))).wait()

    async def turn(executor: ToolExecutor) -> None:
        run = run_of(shared, alone)
        async with trio.open_nursery() as nursery:
            for name in ("shared", "shared", "alone"):
                nursery.start_soon(join, executor, run, name)

    assert cancel_at_every_step(turn, around=around) > 15


# Nested calls under one limit.


async def test_nested_calls_under_one_slot_finish(
    nursery: trio.Nursery,
) -> None:
    executor = await small(nursery, runtime=1, run=1)

    @tool(max_concurrency=1)
    async def delegate(depth: int) -> str:
        assert executor.statistics().tools.used == 1
        if not depth:
            return "bottom"
        child = run_of(delegate, run_id=f"child {depth}")
        async with slots_lent(current_call.get()):
            inner = await run_one(executor, child, call_of(delegate, depth=depth - 1))
        assert executor.statistics().tools.used == 1
        return f"{depth} over {inner.content}"

    with trio.fail_after(5):
        found = await run_one(executor, run_of(delegate), call_of(delegate, depth=3))
    assert found.content == "3 over 2 over 1 over bottom"
    assert nothing_is_held(executor)
    assert executor.statistics().tools.peak == 1


# Context variables.


async def test_tool_sees_context_variables_of_caller(
    executor: ToolExecutor, nursery: trio.Nursery
) -> None:
    @tool
    async def who() -> str:
        seen = tenant.get()
        tenant.set("changed by a tool")
        return seen

    async def call_as(name: str) -> tuple[ToolCallResult, str]:
        tenant.set(name)
        return await run_one(executor, run_of(who), call_of(who)), tenant.get()

    attempts = {name: Attempt(nursery, partial(call_as, name)) for name in ("one", "two")}
    await wait_all_tasks_blocked()
    for name, attempt in attempts.items():
        result, left = attempt.value
        assert (result.content, left) == (name, name)


# Closing and statistics.


async def test_a_closed_executor_takes_no_calls(executor: ToolExecutor) -> None:
    executor.owner.close()
    with pytest.raises(RuntimeClosed):
        await executor.submit(run_of(echo), call_of(echo))


async def test_the_executor_counts_slots_threads_and_calls(
    executor: ToolExecutor, nursery: trio.Nursery
) -> None:
    crowd = Crowd()
    run = run_of(crowd.tool)
    requests = await submit(executor, run, *(call_of(crowd.tool, n) for n in range(20)))
    await wait_all_tasks_blocked()
    with assert_no_checkpoints():
        found = executor.statistics()
    assert (found.tools.used, found.tools.waiting, found.tools.total) == (16, 4, 256)
    assert (found.threads.used, found.threads.total, found.abandoned) == (0, 64, 0)
    assert found.calls == 16
    crowd.leave.set()
    await results(requests)
    assert executor.statistics().calls == 20
