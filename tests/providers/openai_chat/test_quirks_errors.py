"""Quirks 45 to 47: errors and other bodies inside a response with status 200."""

import json

import pytest

from agent_actors.domain.blocks import TextBlock, ThinkingBlock
from agent_actors.domain.model import TextDelta
from agent_actors.domain.usage import Usage
from agent_actors.errors import ProviderInBandError, ProviderProtocolError
from agent_actors.protocol.retry import judge
from agent_actors.providers.error_body import code_of, message_of_body
from agent_actors.providers.openai_chat.response import ChatResponseParser
from tests.providers.openai_chat.answers import (
    DONE,
    ENDPOINT,
    REQUEST,
    answer,
    chunk,
    entry,
    made,
    read,
    read_all,
    sse,
    text,
)

HELLO = (text("Hel"), text("lo"), chunk({}, "stop"))
USAGE = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}


def in_band(body: bytes) -> ProviderInBandError:
    with pytest.raises(ProviderInBandError) as caught:
        read_all([body])
    with pytest.raises(ProviderInBandError) as in_pieces:
        read_all([body[at : at + 1] for at in range(len(body))])
    assert str(in_pieces.value) == str(caught.value)
    assert caught.value.endpoint == ENDPOINT
    return caught.value


def protocol_error(body: bytes, content_type: str = "") -> str:
    with pytest.raises(ProviderProtocolError) as caught:
        read_all([body], content_type=content_type)
    return str(caught.value)


def test_quirk_43_error_event() -> None:
    error = in_band(b'event:error\ndata:{"error":{"message":"overloaded","code":529}}\n\n')
    assert (str(error), error.code) == (f"{ENDPOINT}: overloaded", "529")
    assert "plain words" in str(in_band(b"event: error\ndata: plain words\n\n"))
    torn = in_band(b'event: error\ndata: {"message": "no \\ud83d", "code": "\\ud83d"}\n\n')
    assert (str(torn), torn.code) == (f"{ENDPOINT}: no \ufffd", "\ufffd")
    assert message_of_body(b'{"error": "no \\ud83d"}') == "no \ufffd"
    assert "without a message" in str(in_band(b"event: error\ndata: \n\n"))


@pytest.mark.parametrize(
    ("value", "message", "code"),
    [
        ({"error": {"message": "no credit", "code": 402}}, "no credit", "402"),
        ({"error": "no credit"}, "no credit", ""),
        ({"choices": [], "error": {"message": "no credit", "type": "quota"}}, "no credit", "quota"),
        ({"object": "error", "message": "no credit", "code": 400}, "no credit", ""),
        ({"detail": "no credit"}, "no credit", ""),
        ({"message": "no credit"}, "no credit", ""),
        ({"detail": [{"loc": ["body"], "msg": "no credit"}]}, "no credit", ""),
        ({"error": {"code": "x"}}, "the endpoint reported an error without a message", "x"),
        ([{"error": {"message": "no credit", "status": "DENIED"}}], "no credit", "DENIED"),
    ],
)
def test_quirk_45_error_in_the_stream(value: object, message: str, code: str) -> None:
    error = in_band(sse(text("Hi"), value))
    assert (str(error), error.code) == (f"{ENDPOINT}: {message}", code)


def test_quirk_45_failed_generation_is_reported() -> None:
    value = {
        "error": {
            "message": "Failed to call a function.",
            "code": "tool_use_failed",
            "failed_generation": "<function=f{",
        }
    }
    error = in_band(sse(value))
    assert "Failed to call a function. (the model wrote: <function=f{)" in str(error)
    assert error.code == "tool_use_failed"


@pytest.mark.parametrize(
    ("reason", "code", "again"),
    [
        ("insufficient_system_resource", "insufficient_system_resource", True),
        ("error", "error", True),
        ("abort", "abort", True),
        ("MALFORMED_FUNCTION_CALL", "malformed_function_call", True),
        ("function_call_filter: MALFORMED_FUNCTION_CALL", "malformed_function_call", True),
        ("too_many_tool_calls", "too_many_tool_calls", False),
    ],
)
def test_failure_reason_is_an_error(reason: str, code: str, *, again: bool) -> None:
    """The content of the same chunk is still shown, and a later end mark changes nothing."""
    body = sse(text("Hi"), text("!", reason), chunk({}, "stop"))
    error = in_band(body)
    assert (error.code, judge(error, now=0).again) == (code, again)
    shown = ChatResponseParser(REQUEST, endpoint=ENDPOINT).feed(body)
    assert [delta.text for delta in shown if isinstance(delta, TextDelta)] == ["Hi", "!"]
    whole = {"choices": [{"message": {"content": "Hi"}, "finish_reason": reason}]}
    assert in_band(json.dumps(whole).encode()).code == code


def test_category_of_reason_is_cut_off() -> None:
    assert answer(text("Hi", "content_filter: RECITATION")).finish_reason == "content_filter"
    assert answer(text("Hi", "odd: thing")).finish_reason == "unknown"


@pytest.mark.parametrize(
    ("error", "code"),
    [({"message": "lost", "code": 502}, "502"), ("lost", "error"), ({"type": "error"}, "error")],
)
def test_error_of_a_choice_is_raised(error: object, code: str) -> None:
    failed = {"choices": [{"delta": {"content": ""}, "finish_reason": "error", "error": error}]}
    assert in_band(sse(text("Hi"), failed)).code == code


@pytest.mark.parametrize("more", [{}, {"choices": None}])
def test_early_stop_of_groq_is_an_error(more: dict[str, object]) -> None:
    stopped = {**text("Hi"), "x_groq": {"id": "req_1", "error": "over capacity"}, **more}
    error = in_band(sse(text("Hel"), stopped))
    assert (str(error), error.code) == (f"{ENDPOINT}: over capacity", "x_groq.error")
    assert judge(error, now=0).again


@pytest.mark.parametrize("nothing", [None, "", {}, False])
def test_empty_error_field_is_no_error(nothing: object) -> None:
    assert answer({**text("Hello"), "error": nothing}, chunk({}, "stop")).text == "Hello"


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_quirk_46_error_field_alongside_data(end: bytes) -> None:
    body = b'error: {"code":400,"message":"context overflow"}\n\n' + DONE
    error = in_band((sse(text("Hi"), done=False) + body).replace(b"\n", end))
    assert (str(error), error.code) == (f"{ENDPOINT}: context overflow", "400")


def test_quirk_46_error_field_starts_a_line() -> None:
    found = answer(text("error: {not one}\nerror: no"), chunk({}, "stop"))
    assert found.text == "error: {not one}\nerror: no"
    assert read(b"errata: x\n" + sse(*HELLO)).text == "Hello"
    # A read may end anywhere in a line that is not an error line.
    body = sse(*HELLO, done=False)
    assert read_all([body[:9], b"".join((body[9:], b": error: x\n")), DONE])[1].text == "Hello"


@pytest.mark.parametrize("content_type", ["text/event-stream", "application/json"])
def test_quirk_47_error_document_at_200(content_type: str) -> None:
    body = b'\n\n{"error":{"message":"no such model","code":"model_not_found"}}'
    with pytest.raises(ProviderInBandError) as caught:
        read(body, content_type=content_type)
    assert caught.value.code == "model_not_found"


@pytest.mark.feature("OAGS-041", "WICK-079")
def test_quirk_47_document_instead_of_stream() -> None:
    whole = {
        "id": "r",
        "object": "chat.completion",
        "model": "m-1",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "reasoning_content": "Hm",
                    "content": "Hello",
                    "tool_calls": [entry(None, "a", "f", '{"x":1}'), entry(None, "b", "now", "")],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": USAGE,
    }
    body = b"\n\n" + json.dumps(whole, indent=2).encode()
    found = read(body, content_type="text/event-stream")
    assert found.blocks[:2] == (ThinkingBlock("Hm"), TextBlock("Hello"))
    assert made(found) == [("a", "f", {"x": 1}), ("b", "now", {})]
    assert (found.usage, found.finish_reason) == (Usage(12, 3), "tool_calls")
    shown, _ = read_all([body])
    assert TextDelta("Hello") in shown


@pytest.mark.parametrize("body", [b'{"choices": []}', b'{"models": []}', b"[]", b'{"choices": [{'])
def test_foreign_document_is_no_response(body: bytes) -> None:
    message = protocol_error(body, "application/json")
    assert "got JSON that is not a chat completion (content type 'application/json')" in message


def test_empty_document_is_empty_response() -> None:
    whole = {"choices": [{"message": {"content": None}, "finish_reason": "stop"}]}
    assert read(json.dumps(whole).encode()).blocks == ()


@pytest.mark.parametrize(
    "body",
    [
        b"<!DOCTYPE html><html><head><title>Log\n in</title></head><body>x</body></html>",
        b"\n <html><style>a{}</style><body><h1>Log</h1> in<script>x()</script></body></html>",
    ],
)
def test_html_page_is_an_error(body: bytes) -> None:
    message = protocol_error(body, "text/html")
    assert message.endswith("got an HTML page (content type 'text/html'): Log in")


def test_endless_page_is_read_in_part() -> None:
    reader = ChatResponseParser(REQUEST, endpoint=ENDPOINT)
    for _ in range(63):
        reader.feed(b"<" * 1024)
    with pytest.raises(ProviderProtocolError, match="got an HTML page"):
        reader.feed(b"x" * 1024)


def test_endless_line_is_an_error() -> None:
    with pytest.raises(ProviderProtocolError, match="longer than"):
        read_all([b"data: " + b"x" * (9 * 1024 * 1024)])


@pytest.mark.parametrize("depth", [15, 300, 900, pytest.param(50_000, marks=pytest.mark.no_cover)])
def test_nested_error_is_found(depth: int) -> None:
    body = '{"error":' * depth + '{"message":"no credit","code":402}' + "}" * depth
    # A line nested too deeply to be parsed counts as invalid JSON and is skipped; an error event is
    # not.
    error = in_band(b"event: error\ndata: " + body.encode() + b"\n\n")
    if depth == 15:
        assert (str(error), error.code) == (f"{ENDPOINT}: no credit", "402")
    assert message_of_body(body.encode())
    assert code_of({"error": 0, "code": 7}) == "7"
