"""A decision is validated when it is created, and shares no mutable data with its creator."""

import datetime as dt
from typing import Any

import pytest

from agent_actors.domain.blocks import TextBlock
from agent_actors.errors import ConfigError
from agent_actors.hooks import HookDecision

DEEP: dict[str, object] = {}
inner = DEEP
for _ in range(2_000):
    inner["a"] = inner = {}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"continue_": "no"}, "continue_ and stop must be True or False; got 'no'"),
        ({"continue_": None}, "continue_ and stop must be True or False; got None"),
        ({"stop": 1}, "continue_ and stop must be True or False; got 1"),
        ({"reason": 5}, "reason must be text; got 5"),
        ({"modified_prompt": 5}, "modified_prompt must be text that is not blank; got 5"),
        ({"modified_prompt": " \n"}, r"modified_prompt must be text that is not blank; got ' \n'"),
        ({"modified_input": "x"}, "modified_input must be a JSON object; got 'x'"),
        (
            {"modified_input": {"a": {1: 2}}},
            "modified_input: a key of type int cannot be a JSON key",
        ),
        (
            {"modified_input": {"a": float("nan")}},
            "modified_input: nan is not a JSON number (at a)",
        ),
        ({"modified_messages": "x"}, "modified_messages must be a list of messages as dicts"),
        ({"modified_messages": ["x"]}, "modified_messages must be a list of messages as dicts"),
        ({"modified_output": dt.date.min}, "modified_output: a value of type date cannot"),
        (
            {"modified_output": {"a": 10**5_000}},
            "modified_output: an integer with thousands of digits",
        ),
        ({"modified_output": DEEP}, "modified_output: dict is nested too deeply"),
    ],
)
def test_unsendable_decision_is_refused(fields: Any, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        HookDecision(**fields)
    assert str(caught.value).startswith(f"HookDecision: {says}")


def test_result_accepts_any_tool_output() -> None:
    assert HookDecision(modified_output=[TextBlock("a")]).modified_output == [  # type: ignore[list-item] # pyright: ignore[reportArgumentType]
        {"type": "text", "text": "a"}
    ]
    assert HookDecision(modified_output="\ud83d\ude00 \ud800").modified_output == "😀 �"
    assert HookDecision(reason="\ud800", modified_prompt="\ud800").reason == "�"


def test_later_changes_by_creator_have_no_effect() -> None:
    arguments: dict[str, Any] = {"a": [1]}
    messages = [{"role": "user", "content": "a"}]
    decision = HookDecision(modified_input=arguments, modified_messages=messages)
    arguments["a"].append(2)
    messages.clear()
    assert decision.modified_input == {"a": [1]}
    assert decision.modified_messages == ({"role": "user", "content": "a"},)
