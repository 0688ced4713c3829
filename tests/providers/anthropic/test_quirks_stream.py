"""Streams in Anthropic's protocol: complete, unusual, truncated or invalid; one test each."""

import json

import pytest

from agent_actors.domain.blocks import ToolUseError
from agent_actors.domain.model import (
    NoticeDelta,
    TextDelta,
    ToolCallDelta,
)
from agent_actors.domain.usage import Usage
from agent_actors.errors import (
    ProviderConnectError,
    ProviderInBandError,
    ProviderProtocolError,
)
from agent_actors.protocol.retry import judge
from agent_actors.providers.anthropic.response import MessageResponseParser
from tests.providers.anthropic.answers import (
    REQUEST,
    answer,
    begin,
    brief,
    call_block,
    end,
    frame,
    read,
    read_all,
    shown,
    sse,
    start,
    stop,
    text_block,
    thought,
    tool_use,
)

THINKING = {"type": "thinking", "thinking": "", "signature": ""}
HELLO = [begin(), *text_block("Hel", "lo"), *end()]

# --- the stream -----------------------------------------------------------------------------------


def test_a_stream_may_lack_its_last_event() -> None:
    assert brief(answer(*HELLO[:-1]).blocks) == ["Hello"]


def test_pings_after_reason_end_stream() -> None:
    reader = MessageResponseParser(REQUEST, endpoint="e")
    for event in (begin(), {"type": "ping"}, *HELLO[1:-1]):
        reader.feed(frame(event))
        assert not reader.done
    reader.feed(frame({"type": "ping"}))
    assert reader.done
    reader.close()
    assert brief(reader.finish().blocks) == ["Hello"]


def test_repeated_start_counts_once() -> None:
    found = answer(begin(), *text_block("Hi"), begin(), begin(""), *end())
    assert (brief(found.blocks), found.response_id) == (["Hi"], "msg_1")


def test_second_start_replaces_empty_first() -> None:
    assert answer(begin("a"), begin("b"), *HELLO[1:]).response_id == "b"


def test_two_responses_are_an_error() -> None:
    with pytest.raises(ProviderProtocolError, match=r"another response \(msg_2\) began"):
        answer(begin(), *text_block("Hi"), begin("msg_2"), *text_block("Hi"), *end())


def test_initial_blocks_count_without_deltas() -> None:
    content = [{"type": "text", "text": "Hi"}]
    assert brief(answer(begin(content=content), *end()).blocks) == ["Hi"]
    assert brief(answer(begin(content=content), *HELLO[1:]).blocks) == ["Hello"]


def test_events_of_unknown_types_are_passed_over() -> None:
    odd = {"type": "new_event", "index": 0, "delta": {"type": "text_delta", "text": "no"}}
    assert brief(answer(odd, begin(), {"x": 1}, *HELLO[1:], 7, None, "x").blocks) == ["Hello"]


def notices(body: bytes) -> list[str]:
    """Return the notices that are shown for a body's stream."""
    seen, found = read_all([body])
    assert brief(found.blocks) == ["Hello"]
    return [delta.text for delta in seen if isinstance(delta, NoticeDelta)]


@pytest.mark.feature("OAS-072")
def test_invalid_json_line_is_skipped_and_reported() -> None:
    first, rest = sse(HELLO[0]), sse(*HELLO[1:])
    assert notices(first + b"data: {broken\xff\n\n" + rest) == [
        "a data line that is not JSON was skipped: '{broken\ufffd'"
    ]
    assert notices(first + sse({"type": "new_event"}) + rest) == []


def test_only_some_invalid_lines_are_reported() -> None:
    found = notices(sse(HELLO[0]) + (b"data: {" + b"x" * 500 + b"\n\n") * 20 + sse(*HELLO[1:]))
    assert len(found) == 8
    assert "further damaged lines are not reported" in found[-1]
    assert "further" not in found[0]
    assert max(map(len, found)) < 300


def test_event_array_is_read_one_by_one() -> None:
    assert brief(read(b"data: " + json.dumps(HELLO).encode() + b"\n\n").blocks) == ["Hello"]


def test_surrogate_halves_are_joined_or_replaced() -> None:
    events = [
        begin(),
        *text_block("a\ud83d", "\ude00\ud83d"),
        *call_block('{"q":"\ud83d', '\ude00\ud83d"}', index=1),
        start(2, {"type": "new", "t\ud83d": ["\ud83d"]}),
        *end("tool_use"),
    ]
    found = answer(*events)
    assert brief(found.blocks) == [
        "a\U0001f600\ufffd",
        ("a", "find", {"q": "\U0001f600\ufffd"}),
        {"type": "new", "t\ufffd": ["\ufffd"]},
    ]
    for delta in shown(*events):
        if isinstance(delta, TextDelta | ToolCallDelta):
            str(getattr(delta, "text", "") or getattr(delta, "arguments", "")).encode()


# --- bodies of other kinds ------------------------------------------------------------------------


def whole(**fields: object) -> dict[str, object]:
    message = {"id": "w", "type": "message", "role": "assistant", "model": "m-2"}
    content = [{"type": "text", "text": "Hi"}, tool_use(given={"q": 1})]
    usage = {"input_tokens": 3, "output_tokens": 4}
    return {**message, "content": content, "stop_reason": "tool_use", "usage": usage, **fields}


@pytest.mark.parametrize("message", [whole(), whole(type=None), whole(id=5)])
def test_document_body_is_a_response(message: object) -> None:
    for body in (json.dumps(message).encode(), b"\n\n " + json.dumps([message]).encode()):
        found = read(body)
        assert brief(found.blocks) == ["Hi", ("a", "find", {"q": 1})]
        assert (found.finish_reason, found.usage) == ("tool_calls", Usage(3, 4))
        assert (found.model, found.response_id) in {("m-2", "w"), ("m-2", "5")}


def test_document_may_be_event_data() -> None:
    assert brief(answer(whole(stop_reason="end_turn")).blocks)[0] == "Hi"


def test_content_may_be_text() -> None:
    found = read(json.dumps(whole(content="Hi", stop_reason=None)).encode())
    assert (brief(found.blocks), found.finish_reason) == (["Hi"], "unknown")


@pytest.mark.parametrize(
    "body",
    [
        b'{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}',
        frame({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
        sse(*HELLO[:3])
        + b'event: error\ndata: {"type":"overloaded_error","message":"Overloaded"}\n\n',
        sse(*HELLO[:3], {"error": {"code": "overloaded_error", "message": "Overloaded"}}),
    ],
)
def test_in_band_errors_have_their_type(body: bytes) -> None:
    with pytest.raises(ProviderInBandError, match="Overloaded") as caught:
        read(body)
    assert caught.value.code == "overloaded_error"


@pytest.mark.parametrize(
    ("body", "message", "code"),
    [
        (b"event: error\ndata: gone away\n\n", "gone away", ""),
        (b'event: error\ndata: {"status": 529}\n\n', "without a message", "529"),
        (b'data: {"type": "error"}\n\n', "without a message", ""),
        (
            b'data: {"error": {"message": "no \\ud83d", "type": "\\ud83d"}}\n\n',
            "no \ufffd$",
            "\ufffd",
        ),
        (b"data: " + b'{"error":' * 255 + b"{}" + b"}" * 255 + b"\n\n", "without a message", ""),
    ],
)
def test_errors_may_have_any_shape(body: bytes, message: str, code: str) -> None:
    with pytest.raises(ProviderInBandError, match=message) as caught:
        read(body)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html><title>Log in</title>", r"got an HTML page .*: Log in"),
        (b'{"detail": "no such path"}', r"JSON that is not a message .*: no such path"),
        (b"[]", "JSON that is not a message"),
        (b"{", "JSON that is not a message"),
        (b"", "the stream contained neither a response"),
        (sse({"type": "ping"}), "the stream contained neither a response nor a finish reason"),
        (sse(begin(), {"type": "message_stop"}), "the stream contained neither a response"),
        (b"data: nonsense\n\ndata: [DONE]\n\n", r"1 data line\(s\) .* 'nonsense'"),
        (
            sse({"choices": [{"delta": {"content": "Hi"}}]}),
            r"expected an event stream of message events, but got an event stream of a chat",
        ),
    ],
)
def test_invalid_response_is_an_error(body: bytes, message: str) -> None:
    with pytest.raises(ProviderProtocolError, match=message):
        read(body, content_type="text/plain")


def test_bodies_without_bounds_are_refused() -> None:
    with pytest.raises(ProviderProtocolError, match="an HTML page"):
        read_all([b"<" + b"x" * 70_000, b"x"])
    with pytest.raises(ProviderProtocolError, match="longer than"):
        read_all([b"data: " + b"x" * (9 * 1024 * 1024)])


# --- truncated responses --------------------------------------------------------------------------


@pytest.mark.parametrize("stops", [0, 1])
@pytest.mark.parametrize("pieces", [[], ["{"], ["{}"], ['{"q": "a']])
def test_call_at_token_limit_never_runs(pieces: list[str], stops: int) -> None:
    events = call_block(*pieces)[: None if stops else -1]
    (block,) = answer(begin(), *events, *end("max_tokens")).blocks
    assert isinstance(block, ToolUseError)
    assert "cut off at its token limit before the arguments of this call" in block.error


def test_complete_calls_of_truncated_response_run() -> None:
    events = [*call_block("{}"), *call_block('{"q": 1}', index=1, call_id="b")]
    found = answer(begin(), *events, *end("max_tokens"))
    assert brief(found.blocks) == [
        ("a", "find", {}),
        ("b", "find", {"q": 1}),
    ]


@pytest.mark.parametrize(
    "events",
    [
        [],
        text_block("Hi"),
        call_block('{"q": 1}'),
        [start(0, THINKING), thought("Hm")],
        [*text_block("Hi"), {"type": "message_delta", "usage": {"output_tokens": 7}}],
    ],
)
def test_message_without_end_mark_is_incomplete(events: list[object]) -> None:
    """The body ends cleanly, as if a proxy had lost its connection to the model."""
    with pytest.raises(ProviderConnectError, match="ended without `message_stop`") as caught:
        answer(begin(), *events)
    assert judge(caught.value, now=0).again


@pytest.mark.parametrize(
    ("reason", "code", "again"),
    [
        ("error", "error", True),
        ("malformed_model_output", "malformed_model_output", True),
        ("missing_thought_signature", "missing_thought_signature", False),
    ],
)
def test_failure_reason_is_an_error(reason: str, code: str, *, again: bool) -> None:
    body = sse(begin(), *text_block("Hi"), *end(reason))
    with pytest.raises(ProviderInBandError) as caught:
        read(body)
    assert (caught.value.code, judge(caught.value, now=0).again) == (code, again)
    reader = MessageResponseParser(REQUEST, endpoint="e")
    assert TextDelta("Hi") in reader.feed(body)
    with pytest.raises(ProviderInBandError):
        read(json.dumps(whole(stop_reason=reason)).encode())


def test_refusal_cuts_its_call() -> None:
    (block,) = answer(begin(), *call_block("{"), *end("refusal")).blocks
    assert isinstance(block, ToolUseError)
    assert block.error.startswith("the response was refused")


def test_thinking_alone_is_a_response() -> None:
    events = [begin(), start(0, THINKING), thought("Hm"), stop(0)]
    counted = {"type": "message_delta", "usage": {"output_tokens": 7}}
    found = answer(*events, counted, {"type": "message_stop"})
    assert (brief(found.blocks), found.usage.output_tokens) == ([("thinking", "Hm", "")], 7)
