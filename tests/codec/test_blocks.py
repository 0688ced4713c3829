"""Conversion of blocks to and from their dict form."""

from typing import Any

import pytest
from hypothesis import given

from agent_actors.codec.blocks import dump_block, load_block
from agent_actors.domain.blocks import ContentBlock, TextBlock, ToolUseBlock
from agent_actors.errors import MessageError
from tests.codec.events import blocks


@given(blocks)
def test_a_block_survives_its_dict_form(block: ContentBlock) -> None:
    dumped = dump_block(block)
    assert next(iter(dumped)) == "type"
    assert load_block(dumped) == block


def test_default_values_are_left_out() -> None:
    assert dump_block(TextBlock("a")) == {"type": "text", "text": "a"}
    assert dump_block(ToolUseBlock("1", "n", {}, extra={"k": 1})) == {
        "type": "tool_use",
        "id": "1",
        "name": "n",
        "input": {},
        "extra": {"k": 1},
    }


def test_unknown_fields_of_a_block_are_ignored() -> None:
    assert load_block({"type": "text", "text": "a", "later": 1}) == TextBlock("a")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "not a content block: Expected `object`, got `null`"),
        ({"text": "a"}, "missing required field `type`"),
        ({"type": "hologram"}, "Invalid value 'hologram'"),
        ({"type": "text", "text": 3}, "Expected `str`, got `int`"),
    ],
)
def test_non_block_is_refused(data: Any, said: str) -> None:
    with pytest.raises(MessageError, match=said):
        load_block(data)
