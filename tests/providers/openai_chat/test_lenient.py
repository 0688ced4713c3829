"""Arguments that are nearly JSON are repaired, from the stream to the block."""

import attrs
import pytest

from agent_actors.domain.blocks import ToolUseBlock, ToolUseError
from agent_actors.domain.model import ModelRequest
from tests.providers.openai_chat.answers import REQUEST, calls, chunk, entry, read, sse

LENIENT: ModelRequest = attrs.evolve(
    REQUEST, settings=attrs.evolve(REQUEST.settings, lenient_tool_json=True)
)
ODD = '{"hvd": Pura90"}'


def test_quirk_26_lost_quotes_are_repaired() -> None:
    body = sse(calls(entry(0, "a", "find", ODD)), chunk({}, "tool_calls"))
    assert read(body, LENIENT).blocks == (
        ToolUseBlock("a", "find", {"hvd": "Pura90"}, ODD, repaired=True),
    )


def test_valid_json_is_not_marked() -> None:
    body = sse(calls(entry(0, "a", "find", '{"q":1}')), chunk({}, "stop"))
    assert read(body, LENIENT).blocks == (ToolUseBlock("a", "find", {"q": 1}, '{"q":1}'),)


@pytest.mark.parametrize("finish", ["length", None])
def test_quirk_28_truncated_call_is_not_repaired(
    finish: str | None,
) -> None:
    body = sse(
        calls(entry(0, "a", "find", ODD)),
        calls(entry(1, "b", "find", "{'q': [1,]}")),
        *([chunk({}, finish)] if finish else []),
        done=bool(finish),
    )
    first, second = read(body, LENIENT).blocks
    assert isinstance(first, ToolUseBlock)
    assert isinstance(second, ToolUseError)
    assert "before the arguments of this call were complete" in second.error
