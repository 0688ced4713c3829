"""The events that hooks receive, the effects of decisions on them, and hooks without overrides."""

from typing import cast

import pytest

from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import ModelCompleted, ModelRequest, ModelSettings
from agent_actors.errors import ConfigError
from agent_actors.hooks import (
    AfterModelEvent,
    BeforeModelEvent,
    CompactEvent,
    Hook,
    HookContext,
    HookDecision,
    PhaseEvent,
    PostToolUseEvent,
    PreToolUseEvent,
    StopEvent,
    UserPromptSubmitEvent,
)
from agent_actors.tools.output import ToolOutput

EVERYTHING = HookDecision(
    modified_input={"a": 1}, modified_prompt="p", modified_messages=(), modified_output="o"
)


@pytest.mark.parametrize(
    "event",
    [
        StopEvent(text="t", stop_reason="completed"),
        UserPromptSubmitEvent(prompt="said"),
        BeforeModelEvent(messages=(), iteration=1, rewrites=True),
        AfterModelEvent(answer=ModelCompleted(()), text="said", iteration=1),
        PreToolUseEvent(tool_name="f", tool_input={}, tool_use_id="c"),
        PostToolUseEvent(tool_name="f", tool_input={}, tool_use_id="c", tool_result="r"),
    ],
)
def test_unchanged_decision_keeps_the_same_event(event: PhaseEvent) -> None:
    assert event.rewritten(HookDecision()) is event
    rewritten = event.rewritten(EVERYTHING)
    assert (rewritten is event) == isinstance(event, StopEvent)
    assert (rewritten is event) == (not event.takes)
    assert rewritten.tool == event.tool
    assert event.tool == ("f" if isinstance(event, PreToolUseEvent | PostToolUseEvent) else "")


def test_response_is_rewritten_as_text_only() -> None:
    event = AfterModelEvent(answer=ModelCompleted(()), text="said", iteration=1)
    with pytest.raises(ConfigError, match="modified_output must be text here; got dict"):
        event.rewritten(HookDecision(modified_output={}))


async def test_a_hook_that_overrides_nothing_changes_nothing() -> None:
    hook, ctx = Hook(), cast(HookContext, None)
    request = ModelRequest(Messages(), ModelSettings("m"))
    answer, output = ModelCompleted(()), ToolOutput("done")

    async def ask(_: ModelRequest) -> ModelCompleted:
        return answer

    async def handle(_: ToolUseBlock) -> ToolOutput:
        return output

    assert await hook.wrap_model_call(request, ask, ctx) is answer
    assert await hook.wrap_tool_call(ToolUseBlock("c", "f", {}), handle, ctx) is output
    assert await hook.modify_request(request, ctx) is None


def test_summary_of_a_hook_is_text() -> None:
    event = CompactEvent(trigger="threshold", kind="summary", tokens=9)
    assert event.rewritten(HookDecision(modified_output="Short.")).summary == "Short."
    with pytest.raises(ConfigError, match="the summary must be text; got"):
        event.rewritten(HookDecision(modified_output={"a": 1}))
    cleared = CompactEvent(trigger="threshold", kind="results", tokens=9)
    assert cleared.rewritten(HookDecision(modified_output="Short.")) is cleared
