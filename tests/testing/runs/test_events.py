"""Assertions on the events of a run."""

import pytest

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.events import ResultEvent, RunEvent, ToolResult, ToolUse
from agent_actors.testing import ScriptedModel, call, check_events, like


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def events() -> list[RunEvent]:
    model = ScriptedModel([call("add", {"a": 1, "b": 2}), "It is 3."])
    agent = AgentOptions(model="m", provider=model, tools=[add])
    async with open_runtime() as runtime, runtime.stream("1 + 2?", agent) as stream:
        return [event async for event in stream]


async def test_expected_events_may_have_others_between() -> None:
    check_events(
        await events(),
        like(ToolUse, name="add", input={"a": 1, "b": 2}, iteration=1),
        like(ToolResult, content="3", is_error=False),
        like(ResultEvent, stop_reason="completed"),
    )


async def test_message_shows_events_and_missing_one() -> None:
    """The events exist, but in another order."""
    with pytest.raises(AssertionError) as raised:
        check_events(await events(), like(ToolResult, content="3"), like(ToolUse, name="add"))
    first, second, *lines = str(raised.value).splitlines()
    assert first == "expected event 2 is missing after event 6: tool.use           name='add'"
    assert second == "the events were:"
    assert lines[1] == "    2  user.message       text='1 + 2?'"
    assert [line[7:18] for line in lines if line.startswith("+")] == ["tool.result"]


def test_missing_event_of_empty_run_is_shown() -> None:
    with pytest.raises(AssertionError, match=r"(?s)event 1 is missing: result.*none"):
        check_events([], like(ResultEvent))


def test_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError, match="ToolUse has no field 'tool'; its fields are tool_use_id"):
        like(ToolUse, tool="add")
