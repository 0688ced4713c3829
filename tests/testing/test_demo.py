import json

import msgspec
import pytest

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.model import FinishDelta, TextDelta, ToolCallDelta
from agent_actors.testing.demo import demo_script
from agent_actors.testing.replies import EndpointRequest, Reply
from agent_actors.testing.script import Action, Fail, Pause, Step, play


def request(*messages: JsonObject, tools: tuple[str, ...] = ("a", "b")) -> EndpointRequest:
    offered: list[JsonValue] = [{"type": "function", "function": {"name": name}} for name in tools]
    body: JsonObject = {"model": "m", "messages": [*messages], "tools": offered}
    return EndpointRequest(0, 0, "POST", "/v1/chat/completions", {}, body, b"")


def played(answer: Reply) -> list[Action]:
    steps = [step for step in answer.steps if isinstance(step, Step)]
    return play(steps, call_id=str)


ASKED: JsonObject = {"role": "user", "content": "Go."}
RESULT: JsonObject = {"role": "tool", "tool_call_id": "x", "content": "done"}


def test_first_response_calls_tools_in_parallel() -> None:
    actions = played(demo_script(5)(request(ASKED)))

    arguments = dict.fromkeys(range(5), "")
    names: dict[int, str] = {}
    for action in actions:
        if isinstance(action, ToolCallDelta):
            assert action.index is not None
            names[action.index] = action.name
            arguments[action.index] += str(action.arguments)
    assert list(names.values()) == ["a", "b", "a", "b", "a"]
    assert [json.loads(text) for text in arguments.values()] == [{}] * 5
    # All calls have begun before the first of them is complete.
    slots = [action.index for action in actions if isinstance(action, ToolCallDelta)]
    assert slots == [0, 1, 2, 3, 4] * 3
    assert isinstance(actions[0], Pause)


def test_tool_results_get_text_response() -> None:
    actions = played(demo_script(2, deltas=50)(request(ASKED, RESULT, RESULT)))

    assert sum(isinstance(action, TextDelta) for action in actions) == 50
    assert FinishDelta("stop") in actions
    assert not any(isinstance(action, Fail) for action in actions)


@pytest.mark.parametrize(("tools", "offered"), [(0, ("a",)), (3, ())])
def test_without_tools_text_comes_immediately(tools: int, offered: tuple[str, ...]) -> None:
    actions = played(demo_script(tools, deltas=3)(request(ASKED, tools=offered)))

    assert sum(isinstance(action, TextDelta) for action in actions) == 3
    assert not any(isinstance(action, ToolCallDelta) for action in actions)


def test_later_prompt_gets_calls_again() -> None:
    actions = played(demo_script(1)(request(ASKED, RESULT, ASKED)))

    assert any(isinstance(action, ToolCallDelta) for action in actions)


def test_names_and_arguments_may_be_chosen() -> None:
    script = demo_script(2, tool_names=["mine"], arguments=lambda slot: {"n": -slot}, every=0)
    actions = played(script(request(ASKED, tools=())))

    calls = [action for action in actions if isinstance(action, ToolCallDelta)]
    assert {call.name for call in calls} == {"mine"}
    texts = ["".join(str(c.arguments) for c in calls if c.index == slot) for slot in range(2)]
    assert [msgspec.json.decode(text) for text in texts] == [{"n": 0}, {"n": -1}]
    assert not any(isinstance(action, Pause) for action in actions)


STRING: JsonObject = {"type": "string"}
EVERY_TYPE: JsonObject = {
    "text": STRING,
    "whole": {"type": "integer"},
    "number": {"type": "number"},
    "yes": {"type": "boolean"},
    "list": {"type": "array"},
    "object": {"type": "object"},
    "one": {"enum": ["a", "b"]},
    "odd": True,
    "left_out": STRING,
}
REQUIRED: list[JsonValue] = [name for name in EVERY_TYPE if name != "left_out"]


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        (
            {"type": "object", "properties": EVERY_TYPE, "required": REQUIRED},
            {
                "text": "text 1",
                "whole": 1,
                "number": 1,
                "yes": False,
                "list": [],
                "object": {},
                "one": "b",
                "odd": "odd 1",
            },
        ),
        ({"type": "object", "properties": {"left_out": STRING}}, {}),
        ({"type": "object", "properties": {}, "required": [7, "x"]}, {"x": "x 1"}),
        ({"required": "x", "properties": 3}, {}),
        ("no schema", {}),
    ],
)
@pytest.mark.parametrize("protocol", ["chat", "messages"])
def test_arguments_satisfy_the_tool_schema(
    schema: JsonValue, arguments: JsonObject, protocol: str
) -> None:
    if protocol == "messages":
        path = "/v1/messages"
        offered: JsonObject = {"name": "t", "input_schema": schema}
    else:
        path = "/v1/chat/completions"
        offered = {"type": "function", "function": {"name": "t", "parameters": schema}}
    body: JsonObject = {"model": "m", "messages": [ASKED], "tools": [offered]}
    asked = EndpointRequest(0, 0, "POST", path, {}, body, b"")
    found = {0: "", 1: ""}
    for action in played(demo_script(2)(asked)):
        if isinstance(action, ToolCallDelta):
            assert action.index is not None
            found[action.index] += str(action.arguments)
    assert json.loads(found[1]) == arguments
