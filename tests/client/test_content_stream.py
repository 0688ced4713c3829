"""The blocks that each event produces, at any position of a stream."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.client.content_stream import AnswerRestarted, BlockReader, StreamBlock
from agent_actors.domain.blocks import (
    AssistantBlock,
    ImageBlock,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.events import (
    AssistantDelta,
    AssistantMessage,
    AssistantThinking,
    AttemptRestarted,
    Event,
    EventScope,
    Notification,
    ToolResult,
)
from agent_actors.runs.tools.deferred_calls import error_text

SCOPE = EventScope("s", "r", "q")
USE = ToolUseBlock("a", "add", {"n": 1}, '{"n":1}')
BROKEN = ToolUseError("cut short", "{", "b", "add")


def delta(text: str) -> Event:
    return AssistantDelta(SCOPE, "", 0.0, text)


def thinking(text: str) -> Event:
    return AssistantThinking(SCOPE, "", 0.0, text)


def answer(*blocks: AssistantBlock) -> Event:
    return AssistantMessage(SCOPE, "", 0.0, blocks)


def result(call_id: str, *, is_error: bool = False) -> Event:
    return ToolResult(SCOPE, "", 0.0, call_id, "add", "done", is_error)


def blocks_of(events: Iterable[Event], *, client_side_tools: bool = False) -> list[StreamBlock]:
    reader = BlockReader(client_side_tools=client_side_tools)
    return [block for event in events for block in reader.take(event)]


def test_streamed_content_is_not_repeated() -> None:
    events = [
        thinking("Hm."),
        delta("Yes"),
        delta("."),
        answer(ThinkingBlock("Hm."), TextBlock("Yes.")),
    ]
    assert blocks_of(events) == [ThinkingBlock("Hm."), TextBlock("Yes"), TextBlock(".")]


def test_unstreamed_content_comes_with_response() -> None:
    image = ImageBlock("https://x/y.png")
    whole = (ThinkingBlock("Hm."), ThinkingBlock("", "sealed"), TextBlock("Yes."), image)
    assert blocks_of([answer(*whole)]) == [whole[0], whole[2], image]
    two_answers = [delta("One."), answer(TextBlock("One.")), answer(TextBlock("Two."))]
    assert blocks_of(two_answers) == [TextBlock("One."), TextBlock("Two.")]


def test_restarted_response_announces_itself() -> None:
    events = [delta("Hel"), AttemptRestarted(SCOPE, "", 0.0, 2, "it broke"), delta("Hello.")]
    assert blocks_of([*events, answer(TextBlock("Hello."))]) == [
        TextBlock("Hel"),
        AnswerRestarted("it broke"),
        TextBlock("Hello."),
    ]


@pytest.mark.parametrize("client_side_tools", [False, True])
def test_broken_call_is_one_error(client_side_tools: bool) -> None:
    events = [answer(BROKEN), result("b", is_error=True)]
    assert blocks_of(events, client_side_tools=client_side_tools) == [BROKEN]


def test_automatic_call_is_followed_by_result() -> None:
    assert blocks_of([answer(USE), result("a")]) == [USE, ToolResultBlock("a", "done", name="add")]
    failed = blocks_of([answer(USE), result("a", is_error=True)])
    assert failed[1:] == [
        ToolUseError("done", '{"n":1}', "a", "add"),
        ToolResultBlock("a", "done", is_error=True, name="add"),
    ]


def test_yielded_call_shows_only_denials() -> None:
    assert blocks_of([answer(USE)], client_side_tools=True) == []
    assert blocks_of([answer(USE), result("a")], client_side_tools=True) == []
    refused = blocks_of([answer(USE), result("a", is_error=True)], client_side_tools=True)
    assert refused == [ToolUseError("done", '{"n":1}', "a", "add")]


def test_irrelevant_events_yield_no_blocks() -> None:
    opaque = OpaqueBlock({"type": "search"}, "somebody")
    assert (
        blocks_of([Notification(SCOPE, "", 0.0, "x"), answer(opaque), result("of another run")])
        == []
    )


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        ({"error": "said", "tool": "t"}, "said"),
        ({"error": 7}, '{"error": 7}'),
        ([1], "[1]"),
    ],
)
def test_errors_are_described_in_words(content: object, text: str) -> None:
    assert error_text(content) == text  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


@given(st.lists(st.text(min_size=1), min_size=1))
def test_text_is_shown_once_for_any_split(pieces: list[str]) -> None:
    whole = "".join(pieces)
    blocks = blocks_of([*map(delta, pieces), answer(TextBlock(whole))])
    assert "".join(block.text for block in blocks if isinstance(block, TextBlock)) == whole
    assert len(blocks) == len(pieces)
