"""Arguments that are nearly JSON are repaired, and text before an error is kept."""

import attrs
import pytest

from agent_actors.domain.blocks import ToolUseBlock, ToolUseError
from agent_actors.domain.model import ModelDelta, ModelRequest, TextDelta
from agent_actors.errors import ProviderInBandError
from agent_actors.providers.anthropic import AnthropicMessages
from tests.providers.anthropic.answers import (
    REQUEST,
    begin,
    call_block,
    end,
    read,
    sse,
    text_block,
)
from tests.providers.openai_chat.fake_exchange import FakeExchange
from tests.providers.sinks import CollectingSink

LENIENT: ModelRequest = attrs.evolve(
    REQUEST, settings=attrs.evolve(REQUEST.settings, lenient_tool_json=True)
)
ODD = "{'q': 'A',}"


def test_nearly_json_is_repaired_on_request() -> None:
    body = sse(begin(), *call_block(ODD), *end("tool_use"))
    assert read(body, LENIENT).blocks == (
        ToolUseBlock("a", "find", {"q": "A"}, ODD, repaired=True),
    )
    assert isinstance(read(body).blocks[0], ToolUseError)


def test_truncated_call_is_not_repaired() -> None:
    two = [*call_block(ODD), *call_block(ODD, call_id="b", index=1)]
    first, second = read(sse(begin(), *two, *end("max_tokens")), LENIENT).blocks
    assert isinstance(first, ToolUseBlock)
    assert isinstance(second, ToolUseError)
    assert "before the arguments of this call were complete" in second.error


@pytest.mark.parametrize("cut", [0, 2])
async def test_content_before_error_is_shown(cut: int) -> None:
    failed = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    body = sse(begin(), *text_block("Hello"), failed)
    sink = CollectingSink.roomy()
    exchange = FakeExchange([body[: len(body) - cut]])
    with pytest.raises(ProviderInBandError, match="busy"):
        await AnthropicMessages(base_url="http://h", exchange=exchange).stream(REQUEST, sink)
    expected: list[ModelDelta] = [TextDelta("Hello")]
    assert [delta for delta in sink.deltas if isinstance(delta, TextDelta)] == expected


async def test_content_before_endless_line_is_shown() -> None:
    sink = CollectingSink.roomy()
    reads = [sse(begin(), *text_block("Hello")), b"data: " + b"x" * (9 * 1024 * 1024), b"x"]
    chat = AnthropicMessages(base_url="http://h", exchange=FakeExchange(reads))
    with pytest.raises(Exception, match="longer than"):
        await chat.stream(REQUEST, sink)
    assert TextDelta("Hello") in sink.deltas
