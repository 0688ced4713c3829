"""The order in which the calls of a run begin, and calls that end before they begin."""

from contextvars import ContextVar

import pytest
import trio
from trio.testing import assert_no_checkpoints, wait_all_tasks_blocked

from agent_actors.actors.tool_executor import ToolExecutor
from agent_actors.domain.run import ToolCallResult
from agent_actors.errors import RuntimeClosed
from agent_actors.kernel.request import Request, RequestCancelled
from agent_actors.tools import Tool, tool
from tests.actors.helpers import Attempt, Clock, run_in_order
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


async def serving(nursery: trio.Nursery, *, tools: int = 16) -> ToolExecutor:
    made = ToolExecutor(Clock(), tools_per_run=tools)
    await nursery.start(made.owner.serve)
    return made


def logging_tool(log: list[str], name: str, *, exclusive: bool = False) -> Tool:
    async def handler(arguments: dict[str, object]) -> None:
        log.append(f"{name}{arguments['item']}")
        await trio.lowlevel.checkpoint()
        log.append("-")

    return Tool(name, "", None, handler, exclusive=exclusive)


@pytest.mark.parametrize("seed", range(8))
def test_calls_begin_in_model_order(
    seed: int,
) -> None:
    begun: list[int] = []
    ticks: set[int] = set()
    tick = 0

    class Ticks(trio.abc.Instrument):
        def before_io_wait(self, timeout: float) -> None:
            nonlocal tick
            tick += 1

    @tool
    async def work(item: int) -> None:
        begun.append(item)
        ticks.add(tick)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            executor = await serving(nursery)
            calls = [call_of(work, number, item=number) for number in range(8)]
            trio.lowlevel.add_instrument(Ticks())
            await results(await submit(executor, run_of(work), *calls))
            executor.owner.close()

    run_in_order(main, seed)
    assert begun == list(range(8))
    assert len(ticks) == 1, "all calls begin in one tick"


@pytest.mark.parametrize("seed", range(8))
def test_exclusive_tool_keeps_its_place(
    seed: int,
) -> None:
    log: list[str] = []
    shared, alone = logging_tool(log, "shared"), logging_tool(log, "alone", exclusive=True)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            executor = await serving(nursery)
            names = (shared, shared, alone, shared, shared)
            calls = [call_of(name, number, item=number) for number, name in enumerate(names)]
            await results(await submit(executor, run_of(shared, alone), *calls))
            assert nothing_is_held(executor)
            executor.owner.close()

    run_in_order(main, seed)
    assert log[:6] == ["shared0", "shared1", "-", "-", "alone2", "-"]
    assert sorted(log[6:]) == ["-", "-", "shared3", "shared4"]


@pytest.mark.parametrize("seed", range(4))
def test_queued_calls_take_slots_in_order(seed: int) -> None:
    begun: list[int] = []

    @tool
    async def work(item: int) -> None:
        begun.append(item)
        await trio.sleep(1)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            executor = await serving(nursery, tools=3)
            calls = [call_of(work, number, item=number) for number in range(9)]
            await results(await submit(executor, run_of(work), *calls))
            executor.owner.close()

    run_in_order(main, seed)
    assert begun[:3] == [0, 1, 2]
    assert [set(begun[at : at + 3]) for at in (3, 6)] == [{3, 4, 5}, {6, 7, 8}]


async def test_withdrawn_call_blocks_no_follower(
    nursery: trio.Nursery,
) -> None:
    executor = await serving(nursery)
    crowd, alone = Crowd(), Crowd("alone", exclusive=True)
    run = run_of(crowd.tool, alone.tool)
    first, second = await submit(executor, run, call_of(crowd.tool), call_of(alone.tool, 1))
    second.cancel("not wanted")
    with pytest.raises(RequestCancelled):
        second.result()
    assert not run.in_line
    await submit(executor, run, call_of(crowd.tool, 2))
    await wait_all_tasks_blocked()
    assert crowd.inside == 2
    crowd.leave.set()
    await first.wait_done()
    assert alone.peak == 0


async def test_calls_of_one_tick_keep_contexts(nursery: trio.Nursery) -> None:
    executor = await serving(nursery)
    seen: dict[int, str] = {}

    @tool
    async def look(item: int) -> None:
        seen[item] = tenant.get()

    run = run_of(look)
    requests = list[Request[ToolCallResult]]()
    for number, name in enumerate(("first", "first", "second", "third")):
        tenant.set(name)
        requests += await submit(executor, run, call_of(look, number, item=number))
    await results(requests)
    assert seen == {0: "first", 1: "first", 2: "second", 3: "third"}


async def test_call_cancelled_at_submission_frees_slots(
    nursery: trio.Nursery,
) -> None:
    executor = await serving(nursery)
    crowd = Crowd(exclusive=True, max_concurrency=1)
    run = run_of(crowd.tool)
    (request,) = await submit(executor, run, call_of(crowd.tool))
    assert executor.statistics().tools.used == 1
    request.cancel("at once")
    await request.wait_done()
    assert crowd.peak == 0
    assert nothing_is_held(executor)
    crowd.leave.set()
    assert (await run_one(executor, run, call_of(crowd.tool))).content == "left"


async def test_queued_call_keeps_no_turn(
    nursery: trio.Nursery,
) -> None:
    executor = await serving(nursery, tools=1)
    crowd, alone = Crowd(), Crowd("alone", exclusive=True)
    run, other = run_of(crowd.tool, alone.tool), run_of(crowd.tool, run_id="other")
    first, second = await submit(executor, run, call_of(crowd.tool), call_of(crowd.tool, 1))
    with assert_no_checkpoints():
        (third,) = await submit(executor, other, call_of(crowd.tool, 2))
    await wait_all_tasks_blocked()
    assert crowd.inside == 2, "one call of each run"
    second.cancel("not wanted")
    crowd.leave.set()
    for request in (first, second, third):
        await request.wait_done()
    alone.leave.set()
    assert (await run_one(executor, run, call_of(alone.tool, 3))).content == "left"
    assert nothing_is_held(executor)


async def test_calls_before_serving_end_with_actor(
    nursery: trio.Nursery,
) -> None:
    executor = ToolExecutor(Clock())
    crowd = Crowd()
    crowd.leave.set()
    calls = [call_of(crowd.tool, number) for number in range(3)]
    requests = await submit(executor, run_of(crowd.tool), *calls)
    await nursery.start(executor.owner.serve)
    assert [found.content for found in await results(requests)] == ["left"] * 3


async def test_call_after_actor_end_takes_nothing(nursery: trio.Nursery) -> None:
    executor = ToolExecutor(Clock())
    served = Attempt(nursery, executor.owner.serve)
    await wait_all_tasks_blocked()
    executor.owner.close()
    await served.ended.wait()
    crowd = Crowd(exclusive=True)
    run = run_of(crowd.tool)
    with pytest.raises(RuntimeClosed):
        await executor.submit(run, call_of(crowd.tool))
    assert nothing_is_held(executor)
    assert run.turns.take_nowait(exclusive=True)
    assert not run.starting
