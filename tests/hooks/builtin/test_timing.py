"""Durations of a run, its model calls and its tools."""

import pytest

from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import ModelCompleted, ModelRequest, ModelSettings
from agent_actors.hooks import AfterAgentEvent, BeforeAgentEvent
from agent_actors.hooks.builtin import CallTime, RunTimes, Timing
from agent_actors.tools.output import ToolOutput
from tests.hooks.builtin.helpers import Clock, Run

REQUEST = ModelRequest(Messages(), ModelSettings("m"))
CALL = ToolUseBlock("c", "echo", {})
END = AfterAgentEvent(session_id="s", run_id="r", text="", stop_reason="completed")


@pytest.mark.parametrize("waits", [False, True], ids=["a function", "an async one"])
async def test_failed_calls_are_measured_too(waits: bool) -> None:
    clock, run, reports = Clock(), Run(), list[RunTimes]()

    async def report_later(times: RunTimes) -> None:
        reports.append(times)

    async def answer(request: ModelRequest) -> ModelCompleted:
        clock.now += 2
        return ModelCompleted(())

    async def fail(_: object) -> ModelCompleted:
        clock.now += 3
        raise ValueError("odd")

    async def work(call: ToolUseBlock) -> ToolOutput:
        clock.now += 1
        return ToolOutput("no", is_error=clock.now > 1_007)

    hook = Timing(report_later if waits else reports.append, clock=clock)
    await hook.before_agent(BeforeAgentEvent(prompt="Go."), run)
    await hook.wrap_model_call(REQUEST, answer, run)
    with pytest.raises(ValueError, match="odd"):
        await hook.wrap_model_call(REQUEST, fail, run)
    for _ in range(3):
        await hook.wrap_tool_call(CALL, work, run)
    clock.now += 0.5
    await hook.after_agent(END, run)
    (times,) = reports
    assert times == RunTimes(
        "s",
        "r",
        8.5,
        (CallTime("m", 2, failed=False), CallTime("m", 3, failed=True)),
        (
            CallTime("echo", 1, failed=False),
            CallTime("echo", 1, failed=False),
            CallTime("echo", 1, failed=True),
        ),
    )
    assert times.model_seconds == 5


async def test_run_ended_by_hook_took_no_time() -> None:
    reports: list[RunTimes] = []
    await Timing(reports.append, clock=Clock()).after_agent(END, Run())
    assert reports == [RunTimes("s", "r", 0.0, (), ())]
