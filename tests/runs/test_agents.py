"""Runs of an agent: their results, their events and their limits."""

import math
from typing import TYPE_CHECKING, cast

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from agent_actors import AgentOptions, RunInfo, ToolContext, open_runtime, tool
from agent_actors.domain.events import AssistantDelta, ToolResult, ToolUse, UsageEvent
from agent_actors.errors import ConfigError, RunDeadlineExceeded, SessionBusy
from agent_actors.testing import ScriptedModel, Turn, call, pause, say, usage
from tests.runs.helpers import check_history

if TYPE_CHECKING:
    from agent_actors.actors.session_gate import OnBusy


@tool
async def double(number: int) -> int:
    """Twice the number, after that many seconds."""
    await trio.sleep(number)
    return 2 * number


def agent(model: ScriptedModel, run_timeout: float = math.inf) -> AgentOptions:
    return AgentOptions(model="m", provider=model, tools=[double], run_timeout=run_timeout)


@pytest.mark.feature("ASDK-076", "ASDK-074", "ASDK-085", "ASDK-111")
async def test_run_returns_text_calls_and_usage(autojump_clock: MockClock) -> None:
    model = ScriptedModel(
        [[say("Hm."), call("double", {"number": 2}), usage(10, 5)], [say("4."), usage(20, 1)]]
    )
    async with open_runtime() as runtime:
        result = await runtime.run("Twice two?", agent(model))
        named = ScriptedModel(["Hi."])
        again = await runtime.run("Hello", agent(named), session_id="s", request_id="q")
    assert (result.text, result.stop_reason, result.iterations) == ("4.", "completed", 2)
    assert [(c.name, c.input, c.content) for c in result.tool_calls] == [
        ("double", {"number": 2}, "4")
    ]
    assert (result.usage.input_tokens, result.usage.output_tokens) == (30, 6)
    assert result.duration == pytest.approx(2)
    assert len({result.session_id, result.run_id, result.request_id}) == 3
    assert (again.session_id, again.request_id) == ("s", "q")
    check_history(result.messages)


@pytest.mark.feature("ASDK-077", "OAGS-097", "ASDK-079", "ASDK-060", "OAGS-048", "OAGS-010")
async def test_stream_yields_events_in_order(autojump_clock: MockClock) -> None:
    model = ScriptedModel(
        [
            [say("Let ", "me."), call("double", {"number": 3}), call("double", {"number": 1})],
            "Done.",
        ]
    )
    async with (
        open_runtime() as runtime,
        runtime.stream("Go.", agent(model), session_id="s", request_id="q") as stream,
    ):
        events = [event async for event in stream]
    assert [event.type for event in events] == [
        "system.init",
        "user.message",
        "assistant.delta",
        "assistant.delta",
        "assistant.message",
        "usage",
        "tool.use",
        "tool.use",
        "tool.result",
        "tool.result",
        "assistant.delta",
        "assistant.message",
        "usage",
        "result",
    ]
    recorded = [event.seq for event in events if event.recorded]
    assert recorded == list(range(1, len(recorded) + 1))
    assert len({event.id for event in events}) == len(events)
    assert {(e.session_id, e.request_id, e.run_id) for e in events} == {
        ("s", "q", stream.result.run_id)
    }
    assert [event.iteration for event in events] == [0, 0, *[1] * 8, *[2] * 4]
    uses = [event.tool_use_id for event in events if isinstance(event, ToolUse)]
    ended = [event.tool_use_id for event in events if isinstance(event, ToolResult)]
    assert ended == uses[::-1], "results come in the order in which calls end"
    assert [m.tool_call_id for m in stream.result.messages.tool_messages()] == uses


@pytest.mark.feature("ASDK-035")
async def test_tools_of_one_turn_are_parallel(autojump_clock: MockClock) -> None:
    calls = [call("double", {"number": 5}) for _ in range(8)]
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", agent(ScriptedModel([calls, "Done."])))
    assert result.duration == pytest.approx(5)
    assert [c.duration for c in result.tool_calls] == pytest.approx([5] * 8)


@pytest.mark.feature("ASDK-071")
@pytest.mark.parametrize("blank", ["", "  \n\t"])
async def test_prompt_is_trimmed_and_required(blank: str) -> None:
    model = ScriptedModel(["Hi."])
    async with open_runtime() as runtime:
        await runtime.run("  Hello \n", agent(model))
        with pytest.raises(ConfigError, match="prompt must not be blank"):
            await runtime.run(blank, agent(model))
        with pytest.raises(ConfigError, match="prompt must not be blank"):
            runtime.stream(blank, agent(model))
    assert model.requests[0].messages.last_content() == "Hello"


@pytest.mark.feature("OAS-001")
async def test_system_prompt_is_never_stored() -> None:
    model = ScriptedModel([call("double", {"number": 0}), "Done."])
    options = AgentOptions(model="m", provider=model, tools=[double], system_prompt="Be brief.")
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", options)
    assert [request.system_prompt for request in model.requests] == ["Be brief."] * 2
    assert not result.messages.system_messages()


@pytest.mark.feature("WICK-093", "ASDK-010")
async def test_iteration_limit_keeps_history_valid() -> None:
    model = ScriptedModel(lambda request: [call("double", {"number": 0})])
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", agent(model))
    assert (result.iterations, result.stop_reason) == (25, "max_iterations")
    assert len(model.requests) == 25
    check_history(result.messages)


@pytest.mark.feature("ASDK-008")
async def test_agent_without_tools_reports_errors() -> None:
    model = ScriptedModel([call("double", {"number": 0}), "Oh."])
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", AgentOptions(model="m", provider=model))
    [refused] = result.tool_calls
    assert refused.is_error
    assert refused.content == "unknown tool 'double'; the available tools are: none"
    check_history(result.messages)


@pytest.mark.feature("ASDK-011", "OAGS-047")
async def test_tool_knows_run_and_directory(autojump_clock: MockClock) -> None:
    seen: list[tuple[RunInfo, str]] = []

    @tool
    async def look(context: ToolContext) -> str:
        """Look around."""
        seen.append((context.run, str(context.cwd)))
        return "seen"

    model = ScriptedModel([[say("One."), call("look")], [say("Two."), call("look")], "Done."])
    options = AgentOptions(model="m", provider=model, tools=[look], cwd="/somewhere")
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", options, session_id="s")
    assert [(run.iteration, run.last_output) for run, _ in seen] == [(1, "One."), (2, "Two.")]
    assert {(run.session_id, run.run_id) for run, _ in seen} == {("s", result.run_id)}
    assert all(run.started_at > 0 for run, _ in seen)
    assert {cwd for _, cwd in seen} == {"/somewhere"}


@pytest.mark.feature("ASDK-012", "ASDK-014")
@pytest.mark.parametrize(
    "script",
    [[[pause(9), say("late")]], [[pause(2), call("double", {"number": 4})], "late"]],
    ids=["the model", "the model and a tool"],
)
async def test_run_deadline_covers_model_and_tools(
    script: list[Turn], autojump_clock: MockClock
) -> None:
    model = ScriptedModel(script)
    started = trio.current_time()
    async with open_runtime() as runtime:
        with pytest.raises(RunDeadlineExceeded, match="within 5 s") as caught:
            await runtime.run("Go.", agent(model, run_timeout=5), session_id="s")
        assert trio.current_time() - started == pytest.approx(5)
        assert caught.value.seconds == 5
        history = runtime.history("s")
        assert history is not None
        check_history(history)


@pytest.mark.feature("ASDK-017")
async def test_reader_error_ends_run(
    autojump_clock: MockClock,
) -> None:
    model = ScriptedModel([[say("a", "b", "c", every=1), pause(60)]])

    async def read() -> None:
        async with runtime.stream("Go.", agent(model), session_id="s") as events:
            async for event in events:
                if isinstance(event, AssistantDelta):
                    raise ZeroDivisionError

    async with open_runtime() as runtime:
        with pytest.raises(ZeroDivisionError):
            await read()
        assert not runtime.is_busy("s")
        assert model.live == 0


@pytest.mark.feature("ASDK-098", "OAS-115")
async def test_usage_is_per_call_and_summed(
    autojump_clock: MockClock,
) -> None:
    model = ScriptedModel(
        [[call("double", {"number": 1}), usage(10, 5)], [say("Done."), usage(20, 1)]]
    )
    async with (
        open_runtime() as runtime,
        runtime.stream("Go.", agent(model)) as events,
    ):
        seen = [event async for event in events if isinstance(event, UsageEvent)]
    assert [event.usage.total_tokens for event in seen] == [15, 21]
    assert [event.total.total_tokens for event in seen] == [15, 36]
    assert events.result.usage == seen[-1].total


@pytest.mark.feature("ASDK-092", "ASDK-093")
async def test_busy_session_names_its_holder(
    autojump_clock: MockClock,
) -> None:
    model = ScriptedModel(lambda request: [pause(1), say("Done.")])
    async with (
        open_runtime() as runtime,
        runtime.stream("Go.", agent(model), session_id="s") as events,
    ):
        first = await anext(events)
        with pytest.raises(SessionBusy) as caught:
            await runtime.run("Me too.", agent(model), session_id="s")
        assert (caught.value.session_id, caught.value.run_id) == ("s", first.run_id)
        assert "'s'" in str(caught.value)
        assert first.run_id in str(caught.value)
        assert (await runtime.run("Hello", agent(model), session_id="t")).text == "Done."
        async for _ in events:
            pass
    assert len(events.result.messages) == 2


async def test_queued_runs_keep_order(autojump_clock: MockClock) -> None:
    model = ScriptedModel(lambda request: [pause(1), say("Done.")])

    async def run(number: int) -> None:
        await runtime.run(f"{number}", agent(model), session_id="s")

    async with open_runtime(on_busy="queue") as runtime, trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(run, number)
            await wait_all_tasks_blocked()
    assert [r.messages.last_content() for r in model.requests] == ["0", "1", "2", "3", "4"]
    assert trio.current_time() == pytest.approx(5)


async def test_unknown_policy_is_refused() -> None:
    async with open_runtime() as runtime:
        with pytest.raises(ConfigError, match="one of reject, queue, interrupt, rollback, steer"):
            await runtime.run("Go.", agent(ScriptedModel([])), on_busy=cast("OnBusy", "maybe"))
