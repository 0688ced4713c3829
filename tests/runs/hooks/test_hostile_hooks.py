"""Hooks that write unreadable values: the run ends and names the hook, with no other effect."""

import datetime as dt
from typing import Any

import attrs
import pytest

from agent_actors import AgentOptions, Tool, open_runtime
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.model import ModelCompleted, ModelRequest
from agent_actors.errors import HookError
from agent_actors.hooks import (
    HookDecision,
    ModelCall,
    PhaseEvent,
    PostToolUseEvent,
    PreToolUseEvent,
    ToolCall,
)
from agent_actors.permissions import PermissionPolicy
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import ScriptedModel, call
from agent_actors.tools.output import ToolOutput
from tests.runs.helpers import check_history
from tests.runs.hooks.helpers import USE, actions, agent, ran, results, run

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def anything(hooks: object, permissions: PermissionPolicy | None = None) -> AgentOptions:
    """Return an agent that calls a tool with `force=1`; the tool accepts any value for `force`."""

    async def handle(arguments: dict[str, object]) -> str:
        ran.append(repr(arguments["force"]))
        return "done"

    schema: dict[str, object] = {"type": "object", "properties": {"force": {}}}
    return AgentOptions(
        model="m",
        provider=ScriptedModel([call("force", {"force": 1}), "Done."]),
        tools=[Tool("force", "Any.", schema, handle)],
        hooks=hooks,  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        permissions=permissions,
    )


@pytest.fixture(autouse=True)
def forget() -> None:
    ran.clear()


@pytest.mark.parametrize("value", [True, 1.0])
async def test_equal_looking_rewrite_is_checked_again(
    value: object,
) -> None:
    async def guard(event: PreToolUseEvent) -> HookDecision | None:
        plain = type(event.tool_input["force"]) is int
        return None if plain else HookDecision(continue_=False, reason="no force")

    async def rewrite(event: PreToolUseEvent) -> HookDecision:
        return HookDecision(modified_input={"force": value})  # type: ignore[dict-item] # pyright: ignore[reportArgumentType]

    result = await run(anything({"pre_tool_use": [guard, rewrite]}))
    assert ran == []
    assert results(result) == ["the call was refused: no force"]


async def test_wrapper_rewrite_is_checked_by_rules() -> None:
    async def wrap(call: ToolUseBlock, call_next: ToolCall) -> ToolOutput:
        return await call_next(attrs.evolve(call, input={"force": True}))

    policy = PermissionPolicy(mode="bypass", deny=["force(force=true)"])
    result = await run(anything({"wrap_tool_call": wrap}, policy))
    assert ran == []
    assert "denied by the rule" in results(result)[0]


async def test_non_object_arguments_are_an_error() -> None:
    async def wrap(call: ToolUseBlock, call_next: ToolCall) -> ToolOutput:
        return await call_next(attrs.evolve(call, input=5))  # type: ignore[arg-type]

    result = await run(agent(*USE, hooks={"wrap_tool_call": wrap}))
    assert ran == []
    assert "its rewritten arguments are not valid: expected object" in results(result)[0]


async def decides(event: PhaseEvent) -> HookDecision:
    match event.phase.value:
        case "user_prompt_submit":
            return HookDecision(modified_prompt=5)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        case "after_model":
            return HookDecision(modified_output={})
        case _:
            return HookDecision(modified_output=NOW)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


async def wraps(call: ToolUseBlock, call_next: ToolCall) -> ToolOutput:
    return ToolOutput({"at": NOW})  # type: ignore[dict-item] # pyright: ignore[reportArgumentType]


async def writes_in_place(call: ToolUseBlock, call_next: ToolCall) -> ToolOutput:
    output = ToolOutput({})
    written: Any = output.content
    written["at"] = NOW
    return output


async def asks_with_a_number(asked: object, call_next: Any) -> Any:
    return await call_next(5)


async def answers(request: ModelRequest, call_next: ModelCall) -> ModelCompleted:
    return ModelCompleted((ToolUseBlock("c", "echo", {"text": NOW}),))  # type: ignore[dict-item] # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("phase", "hook", "says"),
    [
        ("user_prompt_submit", decides, "modified_prompt must be text that is not blank; got 5"),
        ("after_model", decides, "modified_output must be text here; got dict"),
        (
            "after_tool",
            decides,
            "modified_output: a value of type datetime cannot be converted to JSON",
        ),
        ("wrap_tool_call", wraps, "returned an invalid JSON value: a value of type datetime"),
        (
            "wrap_tool_call",
            writes_in_place,
            "returned an invalid JSON value: a value of type datetime",
        ),
        ("wrap_tool_call", asks_with_a_number, "of type int; expected ToolUseBlock"),
        ("wrap_model_call", asks_with_a_number, "of type int; expected ModelRequest"),
        ("wrap_model_call", answers, "returned an invalid response: a value of type datetime"),
    ],
)
async def test_non_json_output_is_hook_error(phase: str, hook: object, says: str) -> None:
    options = agent(*USE, hooks={phase: hook})
    store = MemoryStore()
    async with open_runtime(store=store) as runtime:
        with pytest.raises(HookError) as caught:
            await runtime.run("Go.", options, session_id="s")
        assert caught.value.phase == phase
        assert says in str(caught.value)
        assert (await runtime.run("Again.", agent("Fine."), session_id="s")).text == "Fine."
    async with open_runtime(store=store) as runtime:
        result = await runtime.run("And again.", agent("Fine."), session_id="s")
        check_history(result.messages)


async def test_in_place_result_change_has_no_effect() -> None:
    async def structured(call: ToolUseBlock, call_next: ToolCall) -> ToolOutput:
        return ToolOutput({"a": [1]})

    async def scribble(event: PostToolUseEvent) -> None:
        shown: Any = event.tool_result
        shown["a"].append(2)

    result = await run(agent(*USE, hooks={"wrap_tool_call": structured, "after_tool": scribble}))
    assert result.tool_calls[0].content == {"a": [1]}


async def test_unsupported_rewrite_is_reported() -> None:
    async def confused(event: PreToolUseEvent) -> HookDecision:
        return HookDecision(modified_output="not run", modified_input={"text": "b"})

    result = await run(agent(*USE, hooks={"before_tool": confused}))
    assert ran == ["b"]
    assert actions(result) == [
        ("confused", "before_tool", "ignored"),
        ("confused", "before_tool", "replace"),
    ]
    assert result.hook_events[0].reason == "modified_output has no effect in this phase"


@pytest.mark.parametrize("looks", [True, False], ids=["a hook", "a policy"])
async def test_too_deep_call_is_refused(looks: bool) -> None:
    async def look(event: PreToolUseEvent) -> None:
        ran.append("seen")

    async def handle(arguments: dict[str, object]) -> str:
        return "done"  # pragma: no cover - it is never called

    deep = '{"a":' * 600 + "1" + "}" * 600
    policy = None if looks else PermissionPolicy(mode="bypass", deny=["deep(b=c)"])
    options = AgentOptions(
        model="m",
        provider=ScriptedModel([call("deep", deep), "Done."]),
        tools=[Tool("deep", "Any.", {"type": "object"}, handle)],
        hooks={"before_tool": look} if looks else (),
        permissions=policy,
    )
    result = await run(options)
    assert ran == []
    assert results(result) == [
        "the call was not permitted: its arguments are nested more than 100 levels deep"
    ]
