"""Which parts of a message are counted, and how large the error of the naive counter is."""

import pytest
from hypothesis import given

from agent_actors.domain.blocks import (
    ContentBlock,
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.json import JsonObject
from agent_actors.domain.messages import Message, Messages
from agent_actors.errors import ConfigError
from agent_actors.protocol.token_estimate import message_tokens, naive_tokens, rough_tokens
from agent_actors.testing import strategies

# The counts of OpenAI's own tokenizers, the larger of cl100k_base and r50k_base, from its published
# guide to counting tokens.
KNOWN = {
    "antidisestablishmentarianism": 6,
    "2 + 2 = 4": 7,
    "お誕生日おめでとう": 14,
    "tiktoken is great!": 6,
}


@pytest.mark.feature("ASDK-045")
@pytest.mark.parametrize("text", KNOWN)
def test_naive_count_never_underestimates(text: str) -> None:
    assert KNOWN[text] <= naive_tokens(text) <= 2 * KNOWN[text]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("a", 1),
        ("abc", 1),
        ("abcd", 2),
        ("one two", 2),
        ("(one, two)", 5),
        ("12 345", 6),
        ("a\n\n\n    b", 6),
        ("é", 1),
        ("語", 2),
        ("🦊", 4),
        ("\ud800", 2),
        ("\x00", 1),
        (" ", 1),
    ],
)
def test_naive_count_depends_on_character_kinds(text: str, count: int) -> None:
    assert naive_tokens(text) == count


@given(strategies.texts(), strategies.texts())
def test_naive_count_is_almost_additive(one: str, two: str) -> None:
    together = naive_tokens(one + two)
    assert max(naive_tokens(one), naive_tokens(two)) - 1 <= together
    assert together <= naive_tokens(one) + naive_tokens(two) + 1


def characters(text: str, /) -> int:
    return len(text)


IMAGE: JsonObject = {"type": "image", "source": "https://host/x.png"}


@pytest.mark.parametrize(
    ("block", "texts", "media"),
    [
        (TextBlock("Hello"), 5, 0),
        (ThinkingBlock("Hm"), 0, 0),
        (ThinkingBlock("Hm", "sealed"), 2, 0),
        (ThinkingBlock("Hm", extra={"reasoning_content": "Hm"}), 2, 0),
        (ToolUseBlock("1", "add", {}, '{"a": 1}'), 11, 0),
        (ToolUseBlock("1", "add", {"a": 1}), 11, 0),
        (ToolUseError("no JSON", "{", name="add"), 5, 0),
        (ToolUseError("no name", "{"), 19, 0),
        (ToolResultBlock("1", "done"), 4, 0),
        (ToolResultBlock("1", {"a": 1}), 8, 0),
        (ToolResultBlock("1", [IMAGE, 1, "x"]), 19, 1000),
        (ImageBlock("https://host/x.png"), 0, 1000),
        (FileBlock("https://host/x.pdf", name="x.pdf"), 5, 1000),
        (FileBlock.from_text("four", name="x.txt"), 9, 0),
        (OpaqueBlock({"type": "sealed"}, "anthropic"), 18, 0),
    ],
)
def test_blocks_count_as_the_model_reads(block: ContentBlock, texts: int, media: int) -> None:
    message = Message("user", (block,))
    assert message_tokens(message, characters) == 4 + texts + media
    assert rough_tokens([message]) == texts // 4 + media


@pytest.mark.feature("OAS-082")
@given(strategies.messages())
def test_rough_count_is_quarter_of_characters(messages: Messages) -> None:
    counted = sum(message_tokens(one, characters) - 4 for one in messages)
    assert rough_tokens(messages) == counted // 4


@pytest.mark.parametrize("count", [-1, 1.5, True, None, "3"])
def test_invalid_counter_result_is_an_error(count: object) -> None:
    def broken(text: str, /) -> int:
        return count  # type: ignore[return-value]  # pyright: ignore[reportReturnType]

    with pytest.raises(ConfigError, match="a token counter must return an int of at least 0"):
        message_tokens(Messages().user("Hi")[0], broken)
