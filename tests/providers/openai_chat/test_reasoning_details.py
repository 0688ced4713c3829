"""OpenRouter's `reasoning_details` are shown if they are alone, merged, and sent back unchanged."""

import json

import pytest

from agent_actors.domain.blocks import ThinkingBlock, ToolResultBlock
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.messages import Message, Messages
from agent_actors.domain.model import (
    ModelCompleted,
    ModelRequest,
    ModelSettings,
    ProgressDelta,
    ThinkingDelta,
)
from agent_actors.domain.provenance import Origin, marked
from agent_actors.profiles.dialect import ChatDialect
from agent_actors.providers.anthropic.encode import EncodeOptions
from agent_actors.providers.anthropic.encode import encode_request as encode_messages
from agent_actors.providers.openai_chat.encode import encode_request
from tests.providers.openai_chat.answers import (
    answer,
    calls,
    chunk,
    entry,
    read,
    read_all,
    sse,
    text,
)

HERE = Origin("openai", "https://openrouter.ai/api/v1", "anthropic/claude")
CLAUDE: JsonObject = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}
SUMMARY: JsonObject = {"type": "reasoning.summary", "format": "openai-responses-v1", "index": 0}
SECRET: JsonObject = {"type": "reasoning.encrypted", "data": "gAAA", "id": "rs_1", "index": 0}
CALL = calls(entry(0, "a", "find", "{}"), finish="tool_calls")


def piece(*details: JsonValue, **more: object) -> dict[str, object]:
    return chunk({"role": "assistant", "content": "", "reasoning_details": list(details), **more})


def details_of(found: ModelCompleted) -> JsonValue:
    [value] = [block.extra["reasoning_details"] for block in found.blocks if block.extra]
    return value


def thinking(found: ModelCompleted) -> str:
    return "".join(block.thinking for block in found.blocks if isinstance(block, ThinkingBlock))


def test_fragments_become_signed_details() -> None:
    """The signature comes last, in a fragment without text."""
    found = answer(
        piece({**CLAUDE, "text": "Let", "signature": None}),
        piece({**CLAUDE, "text": " me"}),
        piece({**CLAUDE, "signature": "seal"}),
        piece({**CLAUDE, "text": "Again", "index": 1}, {**CLAUDE, "index": 1, "signature": "s2"}),
        CALL,
    )
    assert details_of(found) == [
        {**CLAUDE, "text": "Let me", "signature": "seal"},
        {**CLAUDE, "text": "Again", "signature": "s2", "index": 1},
    ]
    assert thinking(found) == "Let meAgain"


def test_other_reasoning_is_not_shown_twice() -> None:
    found = answer(
        piece({**CLAUDE, "text": "Let"}, reasoning="Let"),
        piece({**CLAUDE, "text": " me"}, reasoning=" me"),
        piece({**CLAUDE, "signature": "seal"}, reasoning=None),
        CALL,
    )
    assert thinking(found) == "Let me"
    assert details_of(found) == [{**CLAUDE, "text": "Let me", "signature": "seal"}]


def test_details_alone_are_shown_as_thinking() -> None:
    body = sse(piece({**SUMMARY, "summary": "**Plan**"}), piece(SECRET), text("Hi", "stop"))
    deltas = read_all([body])[0]
    assert [one for one in deltas if isinstance(one, ThinkingDelta)] == [ThinkingDelta("**Plan**")]
    assert ProgressDelta() in deltas
    assert details_of(read(body)) == [{**SUMMARY, "summary": "**Plan**"}, SECRET]


@pytest.mark.parametrize(
    ("second", "count"),
    [
        ({**CLAUDE, "text": "b"}, 2),  # after a signature
        ({**CLAUDE, "text": "b", "signature": "s"}, 1),  # each fragment repeats the signature
        ({**CLAUDE, "text": "b", "id": "other"}, 2),
        ({**CLAUDE, "text": "b", "index": None}, 2),
        ({**SUMMARY, "summary": "b"}, 2),
    ],
)
def test_fragment_may_begin_another_detail(second: JsonObject, count: int) -> None:
    first: JsonObject = {**CLAUDE, "text": "a", "signature": "s", "id": "one"}
    found = details_of(answer(piece(first), piece(second), CALL))
    assert isinstance(found, list)
    assert len(found) == count


def test_encrypted_data_is_never_joined() -> None:
    other = {**SECRET, "data": "gBBB", "id": "rs_2"}
    found = answer(piece(SECRET), piece(other), piece(other), piece("odd", 7), CALL)
    assert details_of(found) == [SECRET, other]
    assert isinstance(found.blocks[0], ThinkingBlock)


def test_details_of_whole_message_are_unchanged() -> None:
    listed: list[JsonValue] = [{**CLAUDE, "text": "a"}, {**CLAUDE, "text": "b"}, SECRET, SECRET]
    message = {"role": "assistant", "content": "Hi", "reasoning_details": listed}
    whole = {"choices": [{"message": message, "finish_reason": "stop"}]}
    found = read(json.dumps(whole).encode())
    assert (details_of(found), thinking(found)) == (listed, "ab")


def test_fragment_after_whole_message_is_kept() -> None:
    message = {"role": "assistant", "content": "Hi", "reasoning_details": [SECRET]}
    found = answer(
        piece({**CLAUDE, "text": "a"}),
        {"choices": [{"message": message}]},
        piece({**CLAUDE, "text": "b"}),
        text("", "stop"),
    )
    assert details_of(found) == [SECRET, {**CLAUDE, "text": "b"}]


def test_empty_details_make_no_block() -> None:
    found = answer(piece({"type": "reasoning.text", "text": "", "index": 0}), text("Hi", "stop"))
    assert [block.type for block in found.blocks] == ["text"]


def test_possibly_incomplete_details_are_dropped() -> None:
    parts = (piece({**CLAUDE, "text": "a"}), text("Hi"))
    assert not any(block.extra for block in answer(*parts, done=False).blocks)
    damaged = sse(*parts, done=False) + b"data: {no json\n\n" + sse(chunk({}, "stop"))
    assert not any(block.extra for block in read(damaged).blocks)
    lost = answer(chunk({"reasoning_details": "odd"}), text("Hi", "stop"))
    assert (lost.damaged_lines, lost.text) == (1, "Hi")


def sent_to(here: Origin, dialect: ChatDialect | None = None) -> list[JsonValue]:
    """Return the details in a request to an endpoint, after a response from OpenRouter."""
    found = marked(answer(piece({**CLAUDE, "text": "a", "signature": "s"}), CALL), HERE)
    asked = Messages().user("Go.").append(Message("assistant", found.blocks))
    asked = asked.append(Message("tool", (ToolResultBlock("a", "found"),)))
    request = ModelRequest(asked, ModelSettings(here.model))
    body: dict[str, list[JsonObject]] = json.loads(
        encode_request(request, dialect or ChatDialect(), here.endpoint)
    )
    return [one["reasoning_details"] for one in body["messages"] if "reasoning_details" in one]


def test_details_return_to_their_endpoint_only() -> None:
    details = [{**CLAUDE, "text": "a", "signature": "s"}]
    assert sent_to(HERE) == [details]
    assert sent_to(Origin("openai", HERE.endpoint, "openai/gpt-5")) == [details]
    elsewhere = Origin("openai", "https://other/v1", HERE.model)
    assert sent_to(elsewhere) == []
    assert sent_to(elsewhere, ChatDialect(refuses={"tools"})) == []


def test_messages_protocol_gets_no_details() -> None:
    found = answer(piece({**CLAUDE, "text": "a"}), text("Hi", "stop"))
    asked = Messages().user("Go.").append(Message("assistant", found.blocks)).user("And?")
    options = EncodeOptions(echo_unsigned_thinking=True)
    body = encode_messages(ModelRequest(asked, ModelSettings("m")), options)
    assert b"thinking" in body
    assert b"reasoning_details" not in body
