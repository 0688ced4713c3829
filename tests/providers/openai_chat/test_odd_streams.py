"""In a stream with irregular parts, all content that arrives is shown."""

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.codec.events import encode_event, loads_event
from agent_actors.domain.blocks import TextBlock, ThinkingBlock, ToolUseBlock, ToolUseError
from agent_actors.domain.events import AssistantMessage, EventScope
from agent_actors.domain.messages import Message, Messages
from agent_actors.domain.model import (
    ModelDelta,
    ModelRequest,
    ModelSettings,
    NoticeDelta,
    TextDelta,
    ThinkingDelta,
)
from agent_actors.errors import ProviderError, ProviderInBandError, ProviderProtocolError
from agent_actors.providers.openai_chat import OpenAIChat
from agent_actors.providers.openai_chat.encode import encode_request
from agent_actors.providers.openai_chat.response import ChatResponseParser
from tests.providers.openai_chat.answers import (
    DONE,
    ENDPOINT,
    REQUEST,
    answer,
    calls,
    chunk,
    entry,
    read_all,
    sse,
    text,
)
from tests.providers.openai_chat.fake_exchange import FakeExchange
from tests.providers.sinks import CollectingSink

if TYPE_CHECKING:
    from agent_actors.domain.json import JsonObject

HELLO = (text("Hel"), text("lo"), chunk({}, "stop"))
ERROR = {"error": {"message": "overloaded"}}

# --- lines that are not JSON ----------------------------------------------------------------------


@pytest.mark.feature("OAS-072")
def test_invalid_json_line_is_skipped_and_reported() -> None:
    body = sse(text("Hel"), done=False) + b"data: not json\n\n" + sse(text("lo", "stop"))
    shown, found = read_all([body])
    assert found.text == "Hello"
    expected: list[ModelDelta] = [
        TextDelta("Hel"),
        NoticeDelta("a data line that is not JSON was skipped: 'not json'"),
        TextDelta("lo"),
    ]
    assert shown == expected


def test_only_some_invalid_lines_are_reported() -> None:
    shown, found = read_all([b"data: {broken\xff%b\n\n" % (b"x" * 1000) * 50 + sse(*HELLO)])
    notices = [one.text for one in shown if isinstance(one, NoticeDelta)]
    assert found.text == "Hello"
    assert len(notices) == 8
    assert "{broken\ufffdx" in notices[0]
    assert "further damaged lines are not reported" in notices[-1]
    assert max(map(len, notices)) < 300


# --- errors after some content --------------------------------------------------------------------


@pytest.mark.parametrize(
    "end",
    [
        sse(ERROR),
        b"event: error\ndata: overloaded\n\n",
        b'error: {"message": "overloaded"}\n\n',
        b"data: " + json.dumps(ERROR).encode(),
    ],
    ids=["data", "event", "field", "unfinished"],
)
async def test_quirk_45_content_before_error_is_shown(end: bytes) -> None:
    body = sse(chunk({"reasoning": "Hm"}), text("so"), text("so on"), done=False) + end
    sink = CollectingSink.roomy()
    chat = OpenAIChat(base_url=ENDPOINT, exchange=FakeExchange([body, sse(text("more"))]))
    if not end.endswith(b"\n"):
        chat = OpenAIChat(base_url=ENDPOINT, exchange=FakeExchange([body]))
    with pytest.raises(ProviderInBandError, match="overloaded"):
        await chat.stream(REQUEST, sink)
    expected: list[ModelDelta] = [ThinkingDelta("Hm"), TextDelta("so"), TextDelta("so on")]
    assert sink.deltas == expected


def test_content_before_endless_line_is_shown() -> None:
    reader = ChatResponseParser(REQUEST, endpoint=ENDPOINT)
    shown = [*reader.feed(sse(text("Hi"), done=False) + b"data: " + b"x" * (9 * 1024 * 1024))]
    shown += [*reader.feed(b"x"), *reader.close()]
    assert (shown, reader.done) == ([TextDelta("Hi")], True)
    with pytest.raises(ProviderProtocolError, match="longer than"):
        reader.finish()


# --- split characters -----------------------------------------------------------------------------

HALF = st.sampled_from(["\ud83d", "\ude00", "a", "é", "", '"', "\\", "{", "}", "\ud83d\ude00"])
TORN = st.lists(HALF, max_size=4).map("".join)


@st.composite
def deltas(draw: st.DrawFn) -> dict[str, object]:
    one, seal = draw(TORN), draw(TORN)
    kind = draw(st.sampled_from(["content", "reasoning_content", "reasoning", "extra", "call"]))
    if kind in {"content", "reasoning_content"}:
        return {kind: one}
    if kind == "reasoning":
        return {"reasoning": {"text": one, "signature": seal}}
    if kind == "extra":
        return {"content": one, "extra_content": {seal: [seal, 1]}}
    index = draw(st.integers(0, 1))
    arguments: object = draw(TORN)
    if draw(st.booleans()):
        arguments = {seal: arguments}
    function = {"name": one, "arguments": arguments}
    call = {"index": index, "id": f"{one}{index}", "function": function}
    return {"tool_calls": [{**call, "extra_content": {"seal": (seal,)}}]}


@given(st.lists(deltas(), max_size=6), TORN)
def test_quirk_48_history_is_always_encodable(pieces: list[dict[str, object]], model: str) -> None:
    chunks = [{**chunk(delta), "model": model, "id": model} for delta in pieces]
    shown, found = read_all([sse(*chunks, chunk({}, "stop"))])
    for one in shown:
        str(one).encode()
    event = AssistantMessage(
        EventScope("s", "r", "q"),
        "e",
        1.0,
        found.blocks,
        found.finish_reason,
        found.usage,
        found.model,
    )
    assert (
        loads_event(encode_event(event)) == event
    )  # the event has no lone surrogates, so encoding replaces nothing
    found.response_id.encode()
    history = Messages([Message("assistant", found.blocks)])
    encode_request(ModelRequest(history, ModelSettings("m"))).decode()


def test_quirk_48_surrogate_halves_are_joined() -> None:
    found = answer(
        chunk({"reasoning": "a\ud83d"}),
        chunk({"reasoning": "\ude00\ud83d"}),
        calls({**entry(0, "i\ud83d", "f\ud83d"), "extra_content": {"k": "\ud83d"}}),
        calls(entry(0, None, "\ude00")),
        calls(entry(0, None, None, '{"x":"\\ud83d')),
        calls(entry(0, None, None, '\\ude00\\ud83d"}')),
        calls(entry(1, "b", None, "\ud83d")),
        chunk({}, "stop"),
    )
    grin = "\N{GRINNING FACE}"
    extra: JsonObject = {"extra_content": {"k": "\ufffd"}}
    assert found.blocks[:2] == (
        ThinkingBlock(f"a{grin}\ufffd"),
        ToolUseBlock("i\ufffd", f"f{grin}", {"x": f"{grin}\ufffd"}, extra=extra),
    )
    assert isinstance(found.blocks[2], ToolUseError)
    assert found.blocks[2].raw_data == "\ufffd"


def test_quirk_48_stream_error_is_encodable() -> None:
    with pytest.raises(ProviderError) as caught:
        read_all([sse({"error": {"message": "a\ud83d", "code": "\ud83d"}}), DONE])
    str(caught.value).encode()


def test_text_before_a_tear_is_one_block() -> None:
    assert answer(text("a\ud83d"), text("b", "stop")).blocks == (TextBlock("a\ufffdb"),)
