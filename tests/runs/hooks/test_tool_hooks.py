"""Hooks around tool calls: the data they see, the changes they make, and how they end the run."""

from functools import partial

import attrs
import pytest
import trio
from trio.testing import MockClock

from agent_actors import AgentOptions, ToolContext, open_runtime, tool
from agent_actors.domain.blocks import ToolResultBlock, ToolUseBlock
from agent_actors.domain.events import SkillActivated
from agent_actors.domain.json import JsonObject
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
from tests.runs.hooks.helpers import USE, Recorder, actions, agent, asked, echo, ran, results, run


@pytest.fixture(autouse=True)
def forget() -> None:
    ran.clear()


# --- tools ---


@pytest.mark.parametrize("late", [False, True], ids=["before the call", "while it is judged"])
async def test_in_place_wrapper_change_is_checked(
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


@pytest.mark.feature("OAS-094", "OAS-095", "OAS-097", "OAS-100", "OAS-102")
async def test_denied_call_reports_its_reason() -> None:
    async def refuse(event: PreToolUseEvent) -> HookDecision:
        assert (event.tool_name, event.tool_input) == ("echo", {"text": "a"})
        assert [message["role"] for message in event.history][:1] == ["user"]
        return HookDecision(continue_=False, reason="not a")

    options = agent(*USE, hooks={"pre_tool_use": [refuse]})
    result = await run(options)
    assert result.text == "Done."
    (block,) = asked(options)[1].messages[-1].blocks
    assert isinstance(block, ToolResultBlock)
    assert (block.content, block.is_error) == ("the call was refused: not a", True)
    assert ran == []
    assert actions(result) == [("refuse", "before_tool", "deny")]


@pytest.mark.feature("OAS-094", "OAS-101")
async def test_denial_ends_the_chain_of_rewrites() -> None:
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
async def test_rewrite_cannot_bypass_a_denial(order: int) -> None:
    async def guard(event: PreToolUseEvent) -> HookDecision | None:
        bad = event.tool_input["text"] == "bad"
        return HookDecision(continue_=False, reason="bad") if bad else None

    async def rewrite(event: PreToolUseEvent) -> HookDecision:
        return HookDecision(modified_input={"text": "bad"})

    hooks = [guard, rewrite][::order]
    result = await run(agent(*USE, hooks={"pre_tool_use": hooks}))
    assert ran == []
    assert results(result) == ["the call was refused: bad"]


async def test_in_place_change_has_no_effect() -> None:
    async def scribble(event: PreToolUseEvent) -> None:
        event.tool_input["text"] = "bad"
        event.history.clear()

    await run(agent(*USE, hooks={"pre_tool_use": [scribble, scribble]}))
    assert ran == ["a"]


async def test_invalid_arguments_are_hook_error() -> None:
    async def rewrite(event: PreToolUseEvent) -> HookDecision:
        return HookDecision(modified_input={"txt": 1})

    with pytest.raises(HookError, match="the arguments so that they are not valid for the tool"):
        await run(agent(*USE, hooks={"pre_tool_use": rewrite}))


@pytest.mark.feature("OAS-098", "OAS-105")
async def test_replaced_result_keeps_call_done() -> None:
    async def shout(event: PostToolUseEvent) -> HookDecision:
        seen.append((event.tool_name, event.tool_input, event.tool_result, event.is_error))
        return HookDecision(modified_output=str(event.tool_result).upper(), continue_=True)

    seen: list[object] = []
    result = await run(agent(*USE, hooks={"post_tool_use": [shout]}))
    assert seen == [("echo", {"text": "a"}, "said a", False)]
    assert results(result) == ["SAID A"]
    assert ran == ["a"]


async def test_matcher_selects_tools() -> None:
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


async def test_broken_call_meets_no_hook() -> None:
    recorder = Recorder()
    turns: list[Turn] = [[interleave(call("nobody", {}), call("echo", {"wrong": 1}))], "Done."]
    result = await run(agent(*turns, hooks=recorder))
    assert "before_tool" not in recorder.phases
    assert all(one.is_error for one in result.tool_calls)


@pytest.mark.feature("OAS-102")
@pytest.mark.parametrize("phase", ["before_tool", "after_tool"])
async def test_hook_may_end_run_from_call(phase: str) -> None:
    async def stop(event: PhaseEvent) -> HookDecision:
        return HookDecision(stop=True, reason="enough")

    result = await run(agent(*USE, hooks={phase: stop}))
    assert result.stop_reason == f"blocked:{phase}"
    assert ran == ([] if phase == "before_tool" else ["a"])
    assert actions(result) == [("stop", phase, "stop")]


async def test_wrapper_changes_input_and_output() -> None:
    async def wrap(one: ToolUseBlock, call_next: ToolCall) -> ToolOutput:
        output = await call_next(attrs.evolve(one, input={"text": "b"}))
        return attrs.evolve(output, content=f"<{output.content}>")

    async def wrong(one: ToolUseBlock, call_next: ToolCall) -> ToolOutput:
        return await call_next(attrs.evolve(one, input={"txt": "b"}))

    result = await run(agent(*USE, hooks={"wrap_tool_call": wrap}))
    assert (results(result), ran) == (["<said b>"], ["b"])
    result = await run(agent(*USE, hooks={"wrap_tool_call": wrong}))
    assert result.tool_calls[0].is_error


@pytest.mark.feature("WICK-042")
async def test_first_tool_wrapper_is_outermost() -> None:
    def layer(name: str) -> dict[str, object]:
        async def wrap(one: ToolUseBlock, call_next: ToolCall) -> ToolOutput:
            output = await call_next(
                attrs.evolve(one, input={"text": f"{one.input['text']}{name}"})
            )
            return attrs.evolve(output, content=f"{output.content}{name}")

        return {"wrap_tool_call": wrap}

    result = await run(agent(*USE, hooks=[layer("1"), layer("2")]))
    assert (ran, results(result)) == (["a12"], ["said a1221"])


@pytest.mark.feature("WICK-095")
async def test_each_parallel_call_has_its_wrapper(autojump_clock: MockClock) -> None:
    async def wrap(one: ToolUseBlock, call_next: ToolCall) -> ToolOutput:
        inside.append(one.input["text"])
        await trio.sleep(5)
        seen_together.append(len(inside))
        return await call_next(one)

    inside: list[object] = []
    seen_together: list[int] = []
    turn = interleave(*(call("echo", {"text": text}) for text in "abc"))
    await run(agent([turn], "Done.", hooks={"wrap_tool_call": wrap}))
    assert sorted(ran) == sorted(map(str, inside)) == ["a", "b", "c"]
    assert seen_together == [3, 3, 3]


async def test_slow_hook_delays_no_other_call(
    autojump_clock: MockClock,
) -> None:
    async def slow(event: PreToolUseEvent) -> None:
        await trio.sleep(20 if event.tool_input["text"] == "a" else 0)

    turn = interleave(*(call("echo", {"text": text}) for text in "abc"))
    await run(agent([turn], "Done.", hooks={"pre_tool_use": slow}))
    assert ran[-1] == "a"
    assert sorted(ran) == ["a", "b", "c"]


async def test_hooks_do_not_count_toward_deadline(
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
async def test_hook_may_load_another_skill() -> None:
    @tool(name="SkillLoad")
    async def skill_load(name: str, ctx: ToolContext) -> str:
        """Load a skill."""
        ctx.record(partial(SkillActivated, name=name))
        return f"How to work with {name}."

    async def pin(event: PreToolUseEvent) -> HookDecision:
        return HookDecision(modified_input={**event.tool_input, "name": "pdf-v2"})

    options = agent(
        call("SkillLoad", {"name": "pdf"}),
        "Done.",
        hooks={"pre_tool_use": [HookMatcher("SkillLoad", pin)]},
    )
    async with open_runtime() as runtime:
        options = attrs.evolve(options, tools=[skill_load])
        result = await runtime.run("Go.", options, session_id="s")
        state = await runtime.sessions.snapshot("s")
    assert state is not None
    assert (state.skills, results(result)) == (("pdf-v2",), ["How to work with pdf-v2."])
    assert "pdf-v2" in asked(options)[1].system_prompt


async def test_repeated_call_drops_the_exception() -> None:
    @tool
    async def flaky(text: str) -> str:
        """Fail the first time."""
        seen.append(text)
        if len(seen) == 1:
            raise OSError("try again")
        return "fine"

    async def twice(call: ToolUseBlock, call_next: ToolCall) -> ToolOutput:
        first = await call_next(call)
        return await call_next(call) if first.is_error and repeats else first

    for repeats in (True, False):
        seen: list[str] = []
        options = agent(call("flaky", {"text": "a"}), "Done.", hooks={"wrap_tool_call": twice})
        result = await run(attrs.evolve(options, tools=[flaky]))
        (used,) = result.tool_calls
        assert (type(used.exception), used.is_error) == (
            (type(None), False) if repeats else (OSError, True)
        )


@pytest.mark.feature("ASDK-121")
async def test_one_validator_checks_all_tools() -> None:
    def validate(name: str, arguments: JsonObject) -> str | None:
        seen.append((name, arguments.pop("text")))
        if seen[-1][1] == "boom":
            raise ValueError("odd")
        return "not this" if seen[-1][1] == "bad" else None

    async def rewrite(event: PreToolUseEvent) -> HookDecision | None:
        if event.tool_input["text"] == "c":
            return HookDecision(modified_input={"text": "bad"})
        return None

    seen: list[tuple[str, object]] = []
    calls = [call("echo", {"text": text}) for text in ("a", "bad", "boom", "c")]
    options = agent(interleave(*calls), "Done.", hooks={"before_tool": rewrite})
    result = await run(attrs.evolve(options, tool_validator=validate))
    assert results(result) == [
        "said a",
        "not this",
        "the validator of all tools raised ValueError: odd",
        "not this",
    ]
    assert ran == ["a"]
    assert [type(used.exception) for used in result.tool_calls].count(ValueError) == 1
    assert ("echo", "bad") in seen


@pytest.mark.feature("ASDK-122")
async def test_changed_hooks_apply_to_later_runs() -> None:
    async def refuse(event: PreToolUseEvent) -> HookDecision:
        return HookDecision(continue_=False, reason="later")

    async def add(event: PreToolUseEvent) -> None:
        later.append(options.evolve(hooks=[{"before_tool": add}, {"before_tool": refuse}]))

    later: list[AgentOptions] = []
    options = agent(*USE, *USE, hooks={"before_tool": add})
    assert results(await run(options)) == ["said a"]
    assert "later" in results(await run(later[0]))[0]
