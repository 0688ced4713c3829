"""Hooks around tool calls: what they see, what they change, and how they end the run."""

import attrs
import pytest
import trio
from trio.testing import MockClock

from agent_actors import tool
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.errors import HookError
from agent_actors.hooks import (
    HookDecision,
    HookMatcher,
    PhaseEvent,
    PostToolUseEvent,
    PreToolUseEvent,
    ToolCall,
)
from agent_actors.permissions import PermissionPolicy
from agent_actors.testing import Turn, call, interleave
from agent_actors.tools.output import ToolOutput
from tests.run.hooks.helpers import USE, Recorder, actions, agent, echo, ran, results, run


@pytest.fixture(autouse=True)
def forget() -> None:
    ran.clear()


# --- tools ---


@pytest.mark.parametrize("late", [False, True], ids=["before the call", "while it is judged"])
async def test_what_a_hook_that_wraps_writes_in_place_is_judged_like_any_rewrite(
    late: bool,
) -> None:
    async def wrap(call: ToolUseBlock, call_next: ToolCall) -> ToolOutput:
        held.append(call)
        call.input["text"] = "b" if late else "bad"
        return await call_next(call)

    async def judge(event: PreToolUseEvent) -> None:
        for one in held if late and event.recheck else ():
            one.input["text"] = "bad"

    held: list[ToolUseBlock] = []
    options = attrs.evolve(
        agent(*USE, hooks={"wrap_tool_call": wrap, "before_tool": judge}),
        permissions=PermissionPolicy(deny=["echo(text=bad)"], mode="bypass"),
    )
    result = await run(options)
    assert ran == (["b"] if late else [])
    assert ("not permitted" in results(result)[0]) is not late


@pytest.mark.feature("OAS-094", "OAS-095", "OAS-097", "OAS-098", "OAS-100", "OAS-102")
async def test_a_refused_call_is_told_to_the_model_with_the_reason() -> None:
    async def refuse(event: PreToolUseEvent) -> HookDecision:
        assert (event.tool_name, event.tool_input) == ("echo", {"text": "a"})
        assert [message["role"] for message in event.history][:1] == ["user"]
        return HookDecision(continue_=False, reason="not a")

    result = await run(agent(*USE, hooks={"pre_tool_use": [refuse]}))
    assert result.text == "Done."
    assert results(result) == ["the call was refused: not a"]
    assert ran == []
    assert actions(result) == [("refuse", "before_tool", "deny")]


@pytest.mark.feature("OAS-101")
async def test_a_rewrite_goes_on_to_the_later_hooks_and_a_refusal_ends_the_chain() -> None:
    seen: list[object] = []

    def writes(text: str) -> object:
        async def write(event: PreToolUseEvent) -> HookDecision | None:
            seen.append((text, event.tool_input["text"], event.recheck))
            return None if event.recheck else HookDecision(modified_input={"text": text})

        return write

    result = await run(agent(*USE, hooks={"pre_tool_use": [writes("b"), writes("c")]}))
    assert ran == ["c"]
    assert seen == [("b", "a", False), ("c", "b", False), ("b", "c", True), ("c", "c", True)]
    assert result.tool_calls[0].input == {"text": "c"}


@pytest.mark.parametrize("order", [1, -1], ids=["guard first", "guard last"])
async def test_a_rewrite_does_not_slip_past_who_would_refuse_it(order: int) -> None:
    async def guard(event: PreToolUseEvent) -> HookDecision | None:
        bad = event.tool_input["text"] == "bad"
        return HookDecision(continue_=False, reason="bad") if bad else None

    async def rewrite(event: PreToolUseEvent) -> HookDecision:
        return HookDecision(modified_input={"text": "bad"})

    hooks = [guard, rewrite][::order]
    result = await run(agent(*USE, hooks={"pre_tool_use": hooks}))
    assert ran == []
    assert results(result) == ["the call was refused: bad"]


async def test_what_a_hook_writes_in_place_changes_nothing() -> None:
    async def scribble(event: PreToolUseEvent) -> None:
        event.tool_input["text"] = "bad"
        event.history.clear()

    await run(agent(*USE, hooks={"pre_tool_use": [scribble, scribble]}))
    assert ran == ["a"]


async def test_arguments_that_do_not_fit_are_the_hooks_fault() -> None:
    async def rewrite(event: PreToolUseEvent) -> HookDecision:
        return HookDecision(modified_input={"txt": 1})

    with pytest.raises(HookError, match="hook rewrite in before_tool: wrote arguments that do not"):
        await run(agent(*USE, hooks={"pre_tool_use": rewrite}))


@pytest.mark.feature("OAS-105")
async def test_a_result_may_be_replaced_and_the_call_stays_done() -> None:
    async def shout(event: PostToolUseEvent) -> HookDecision:
        assert event.tool_result == "said a"
        return HookDecision(modified_output=str(event.tool_result).upper(), continue_=True)

    result = await run(agent(*USE, hooks={"post_tool_use": [shout]}))
    assert results(result) == ["SAID A"]
    assert ran == ["a"]


async def test_only_the_tools_that_match_are_looked_at() -> None:
    async def refuse(event: PreToolUseEvent) -> HookDecision:
        return HookDecision(continue_=False)

    @tool
    async def other() -> str:
        """Another."""
        return "other"

    turn = interleave(call("echo", {"text": "a"}), call("other", {}))
    plain = agent([turn], "Done.", hooks={"pre_tool_use": [HookMatcher("ec*", [refuse])]})
    result = await run(attrs.evolve(plain, tools=[echo, other]))
    assert results(result) == ["the call was refused: no reason was given", "other"]
    assert result.hook_events[0].matcher == "ec*"


async def test_a_call_that_cannot_be_carried_out_meets_no_hook() -> None:
    recorder = Recorder()
    turns: list[Turn] = [[interleave(call("nobody", {}), call("echo", {"wrong": 1}))], "Done."]
    result = await run(agent(*turns, hooks=recorder))
    assert "before_tool" not in recorder.phases
    assert all(one.is_error for one in result.tool_calls)


@pytest.mark.parametrize("phase", ["before_tool", "after_tool"])
async def test_a_hook_may_end_the_run_from_a_call(phase: str) -> None:
    async def stop(event: PhaseEvent) -> HookDecision:
        return HookDecision(stop=True, reason="enough")

    result = await run(agent(*USE, hooks={phase: stop}))
    assert result.stop_reason == f"blocked:{phase}"
    assert ran == ([] if phase == "before_tool" else ["a"])
    assert actions(result) == [("stop", phase, "stop")]


async def test_who_wraps_a_call_may_change_what_goes_in_and_what_comes_out() -> None:
    async def wrap(one: ToolUseBlock, call_next: ToolCall) -> ToolOutput:
        output = await call_next(attrs.evolve(one, input={"text": "b"}))
        return attrs.evolve(output, content=f"<{output.content}>")

    async def wrong(one: ToolUseBlock, call_next: ToolCall) -> ToolOutput:
        return await call_next(attrs.evolve(one, input={"txt": "b"}))

    result = await run(agent(*USE, hooks={"wrap_tool_call": wrap}))
    assert (results(result), ran) == (["<said b>"], ["b"])
    result = await run(agent(*USE, hooks={"wrap_tool_call": wrong}))
    assert result.tool_calls[0].is_error


async def test_a_slow_hook_of_one_call_does_not_hold_up_the_others(
    autojump_clock: MockClock,
) -> None:
    async def slow(event: PreToolUseEvent) -> None:
        await trio.sleep(20 if event.tool_input["text"] == "a" else 0)

    turn = interleave(*(call("echo", {"text": text}) for text in "abc"))
    await run(agent([turn], "Done.", hooks={"pre_tool_use": slow}))
    assert ran[-1] == "a"
    assert sorted(ran) == ["a", "b", "c"]


async def test_the_deadline_of_a_tool_does_not_run_while_hooks_decide(
    autojump_clock: MockClock,
) -> None:
    @tool(timeout=5)
    async def nap(seconds: float) -> str:
        """Sleep."""
        await trio.sleep(seconds)
        return "rested"

    async def slow(event: PhaseEvent) -> None:
        await trio.sleep(20)

    turn = interleave(call("nap", {"seconds": 4}), call("nap", {"seconds": 6}))
    plain = agent([turn], "Done.", hooks={"pre_tool_use": slow, "post_tool_use": slow})
    result = await run(attrs.evolve(plain, tools=[nap]))
    assert results(result) == ["rested", "tool 'nap' did not finish within 5 s"]


@pytest.mark.feature("OAGS-063")
async def test_a_hook_may_have_another_skill_loaded_than_the_model_asked_for() -> None:
    loaded: list[str] = []

    @tool(name="SkillLoad")
    async def skill_load(name: str) -> str:
        """Load a skill."""
        loaded.append(name)
        return f"How to work with {name}."

    async def pin(event: PreToolUseEvent) -> HookDecision:
        return HookDecision(modified_input={**event.tool_input, "name": "pdf-v2"})

    options = agent(
        call("SkillLoad", {"name": "pdf"}),
        "Done.",
        hooks={"pre_tool_use": [HookMatcher("SkillLoad", pin)]},
    )
    result = await run(attrs.evolve(options, tools=[skill_load]))
    assert (loaded, results(result)) == (["pdf-v2"], ["How to work with pdf-v2."])
