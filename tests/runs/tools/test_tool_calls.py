"""The calls of one run: results are returned as calls end, and all calls are joined."""

from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from agent_actors import AgentOptions, open_runtime
from agent_actors.actors.tool_executor import RunTools, ToolExecutor
from agent_actors.domain.run import ToolCallResult
from agent_actors.errors import ActorCrashed
from agent_actors.runs.tools.tool_calls import RunCalls
from agent_actors.testing import ScriptedModel, call, interleave
from agent_actors.tools import tool
from tests.actors.helpers import Attempt, Clock
from tests.actors.tool_helpers import Crowd, call_of, nothing_is_held, run_of
from tests.runs.helpers import check_history


@pytest.fixture
async def executor(nursery: trio.Nursery) -> ToolExecutor:
    made = ToolExecutor(Clock())
    await nursery.start(made.owner.serve)
    return made


@tool
async def wait(seconds: float) -> None:
    await trio.sleep(seconds)


def numbers(results: Sequence[ToolCallResult]) -> list[str]:
    return [result.id.removeprefix("call-") for result in results]


async def start(calls: RunCalls, run: RunTools, *seconds: float) -> None:
    for number, value in enumerate(seconds):
        await calls.start(run, call_of(wait, number, seconds=value))


async def test_ended_calls_are_returned_in_order(
    executor: ToolExecutor, autojump_clock: MockClock
) -> None:
    calls = RunCalls(executor)
    await start(calls, run_of(wait), 3, 1, 1, 2)
    assert "call-0" in calls
    assert sorted(numbers(await calls.ended())) == ["1", "2"]
    assert numbers(await calls.ended()) == ["3"]
    await trio.sleep(5)
    assert "call-0" in calls, "kept until it is returned"
    assert numbers(await calls.ended()) == ["0"]
    assert "call-0" not in calls
    assert await calls.join() == []


async def test_a_cancelled_wait_loses_no_result(
    executor: ToolExecutor, nursery: trio.Nursery
) -> None:
    calls, crowd = RunCalls(executor), Crowd()
    run = run_of(crowd.tool)
    for number in range(2):
        await calls.start(run, call_of(crowd.tool, number))
    waiting = Attempt(nursery, calls.ended)
    await wait_all_tasks_blocked()
    waiting.scope.cancel()
    crowd.leave.set()
    await wait_all_tasks_blocked()
    assert waiting.outcome == "cancelled"
    with trio.CancelScope() as scope:
        scope.cancel()
        await calls.ended()
    assert scope.cancelled_caught
    assert sorted(numbers(await calls.join())) == ["0", "1"]


async def test_join_cancels_running_keeps_ended(
    executor: ToolExecutor, autojump_clock: MockClock
) -> None:
    calls, ends = RunCalls(executor), list[float]()

    @tool
    async def careful() -> str:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(2)
            ends.append(trio.current_time())
        raise AssertionError

    run = run_of(wait, careful)
    await calls.start(run, call_of(wait, 0, seconds=1))
    await calls.start(run, call_of(careful, 1))
    await trio.sleep(3)
    with trio.CancelScope() as scope:
        scope.cancel()
        assert numbers(await calls.join()) == ["0"]
    assert ends == [5]
    assert nothing_is_held(executor)


async def test_missing_result_is_left_to_join(
    executor: ToolExecutor,
) -> None:
    calls, crowd, stuck = RunCalls(executor), Crowd(), Crowd("stuck")
    run = run_of(crowd.tool, stuck.tool)
    for number, item in enumerate((crowd, stuck, crowd)):
        await calls.start(run, call_of(item.tool, number))
    await wait_all_tasks_blocked()
    crowd.leave.set()
    await wait_all_tasks_blocked()
    calls._open["call-1"].fail(ActorCrashed("tool_executor"))
    with pytest.raises(ActorCrashed):
        await calls.ended()
    assert numbers(await calls.join()) == ["0", "2"]
    stuck.leave.set()


async def test_woken_driver_does_not_wait(
    executor: ToolExecutor, autojump_clock: MockClock
) -> None:
    calls = RunCalls(executor)
    await start(calls, run_of(wait), 1)
    calls.wake()
    assert await calls.ended() == []
    assert trio.current_time() == 0
    assert numbers(await calls.ended()) == ["0"]


async def test_run_starts_bounded_number_of_calls() -> None:
    model = ScriptedModel(
        [[interleave(*(call("wait", {"seconds": 0}) for _ in range(5)))], "Done."]
    )
    options = AgentOptions(model="m", provider=model, tools=[wait], max_calls_per_response=3)
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", options)
        assert runtime.statistics().tools.calls == 3
    assert [one.is_error for one in result.tool_calls] == [False] * 3 + [True] * 2
    assert "at most 3 calls" in str(result.tool_calls[-1].content)
    assert result.text == "Done."
    check_history(result.messages)
