"""The bytes that a reply is rendered to in Anthropic's protocol."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
import trio

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.model import FinishReason
from agent_actors.domain.usage import Usage
from agent_actors.testing._wire import Segment
from agent_actors.testing._wire_messages import counted, render_messages
from agent_actors.testing.replies import (
    Disconnect,
    EndpointRequest,
    Reply,
    ReplyStep,
    body,
    chunk,
    comment,
    disconnect,
    in_band_error,
    raw,
    reply,
)
from agent_actors.testing.script import (
    Hang,
    Pause,
    Used,
    Wait,
    call,
    finish,
    hang,
    interleave,
    pause,
    say,
    think,
    usage,
    wait,
)


def asked(*, stream: bool = True) -> EndpointRequest:
    sent: JsonObject = {"model": "m", "stream": stream, "messages": [{"role": "user"}]}
    return EndpointRequest(7, 0, "POST", "/v1/messages", {}, sent, b"x" * 40)


def written(answer: Reply, *, stream: bool = True) -> bytes:
    segments = render_messages(answer, asked(stream=stream))
    return b"".join(one for one in segments if isinstance(one, bytes))


def events(*steps: str | ReplyStep) -> list[Any]:
    lines = written(reply(*steps)).decode().splitlines()
    names = [line[7:] for line in lines if line.startswith("event: ")]
    found = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    assert names == [one["type"] for one in found]
    return found


def middle(*steps: str | ReplyStep) -> list[tuple[object, ...]]:
    """Return a short form of the starts, deltas and stops of the blocks."""
    short: list[tuple[object, ...]] = []
    for event in events(*steps):
        kind = event["type"].removeprefix("content_block_")
        if kind == "start":
            short.append((kind, event["index"], event["content_block"]))
        elif kind == "delta":
            *_, value = event["delta"].values()
            short.append((kind, event["index"], value))
        elif kind == "stop":
            short.append((kind, event["index"]))
    return short


TEXT = {"type": "text", "text": ""}
THINKING = {"type": "thinking", "thinking": "", "signature": ""}


def test_response_follows_the_protocol() -> None:
    first, ping, *_, delta, last = events("Hi", usage(20, 4, cache_read_tokens=5))
    counts = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 5}
    assert first == {
        "type": "message_start",
        "message": {
            "id": "msg_7",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 15, "output_tokens": 1, **counts},
        },
    }
    assert ping == {"type": "ping"}
    assert delta == {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"input_tokens": 15, "output_tokens": 4, **counts},
    }
    assert last == {"type": "message_stop"}


def test_missing_usage_is_estimated() -> None:
    first, *_, delta, _ = events("x" * 12)
    assert first["message"]["usage"]["input_tokens"] == 10
    assert (delta["usage"]["input_tokens"], delta["usage"]["output_tokens"]) == (10, 3)
    (*_, delta, _) = events(Used(Usage(3, 9, reasoning_tokens=2, cache_creation_tokens=5)))
    assert delta["usage"]["output_tokens_details"] == {"thinking_tokens": 2}
    assert (delta["usage"]["input_tokens"], delta["usage"]["cache_creation_input_tokens"]) == (0, 5)


def test_adjacent_texts_share_a_block() -> None:
    assert middle(say("a", ""), usage(1, 1), "b", think("c", "d", signature="s"), think("e")) == [
        ("start", 0, TEXT),
        ("delta", 0, "a"),
        ("delta", 0, "b"),
        ("stop", 0),
        ("start", 1, THINKING),
        ("delta", 1, "c"),
        ("delta", 1, "d"),
        ("delta", 1, "s"),
        ("stop", 1),
        ("start", 2, THINKING),
        ("delta", 2, "e"),
        ("stop", 2),
    ]
    assert middle("a", think(""), "b")[1:3] == [("delta", 0, "a"), ("delta", 0, "b")]
    assert middle(think("", signature="s"))[1] == ("delta", 0, "s")


def test_call_fragments_may_interleave() -> None:
    one, two = call("f", {"a": 1}, id="x", chunks=2), call("g", "{}", id="", chunks=1)
    assert middle(interleave(one, two), call("h", "")) == [
        ("start", 0, {"type": "tool_use", "id": "x", "name": "f", "input": {}}),
        ("delta", 0, '{"a'),
        ("start", 1, {"type": "tool_use", "name": "g", "input": {}}),
        ("delta", 1, "{}"),
        ("delta", 0, '":1}'),
        ("stop", 0),
        ("stop", 1),
        ("start", 2, {"type": "tool_use", "id": "call_1_2", "name": "h", "input": {}}),
        ("delta", 2, ""),
        ("stop", 2),
    ]


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("stop", "end_turn"),
        ("tool_calls", "tool_use"),
        ("length", "max_tokens"),
        ("refused", "refusal"),
        ("unknown", None),
    ],
)
def test_reasons_have_the_protocols_words(reason: FinishReason, word: str | None) -> None:
    assert events("Hi", finish(reason))[-2]["delta"]["stop_reason"] == word


def test_waits_come_between_the_writes() -> None:
    event = trio.Event()
    segments = render_messages(reply("a", pause(1), "b", wait(event), hang()), asked())
    kinds = [type(segment) for segment in segments]
    assert kinds == [bytes, Pause, bytes, Wait, Hang]
    assert segments[1:5:2] == [Pause(1), Wait(event)]


def test_wire_steps_keep_their_position() -> None:
    steps = (chunk({"type": "odd"}), chunk([1]), comment(" hi"), raw(b"raw\n\n"), disconnect())
    segments = render_messages(reply(*steps, newline="\r\n"), asked())
    assert isinstance(segments[0], bytes)
    assert segments[0].endswith(
        b'event: odd\r\ndata: {"type":"odd"}\r\n\r\ndata: [1]\r\n\r\n: hi\r\n\r\nraw\n\n'
    )
    assert segments[1:] == [Disconnect(reset=False)]


@pytest.mark.parametrize(
    ("code", "kind"), [("overloaded_error", "overloaded_error"), (529, "api_error")]
)
def test_error_uses_protocol_form(code: str | int, kind: str) -> None:
    error = {"type": "error", "error": {"type": kind, "message": "busy"}}
    assert events("a", in_band_error("busy", code=code))[-1] == error
    whole = written(reply("a", in_band_error("busy", code=code)), stream=False)
    assert json.loads(whole) == error


def test_the_end_may_be_left_out() -> None:
    assert b"message_stop" not in written(reply("Hi", done=False))
    assert b"message_delta" not in written(reply("Hi", hang()))


def test_a_transform_changes_the_events() -> None:
    def change(found: list[JsonObject]) -> Iterable[JsonValue]:
        return [found[0], {"type": "odd"}]

    answer = reply("Hi", transform=change)
    assert written(answer).endswith(b'event: odd\ndata: {"type":"odd"}\n\n')
    assert written(answer, stream=False).endswith(b'{"type":"odd"}')


def test_body_is_written_unchanged() -> None:
    assert written(body(b"x")) == b"x"


def test_unstreamed_response_is_one_message() -> None:
    steps: list[ReplyStep] = [
        think("a", "b", signature="s"),
        say("c", "d"),
        comment(),
        chunk("odd"),
        call("f", {"q": 1}, id="x", chunks=3),
        call("g", "", id="y"),
        call("h", "{broken", id="z"),
        usage(3, 2),
    ]
    found = json.loads(written(reply(*steps), stream=False))
    assert found["content"] == [
        {"type": "thinking", "thinking": "ab", "signature": "s"},
        {"type": "text", "text": "cd"},
        {"type": "tool_use", "id": "x", "name": "f", "input": {"q": 1}},
        {"type": "tool_use", "id": "y", "name": "g", "input": {}},
        {"type": "tool_use", "id": "z", "name": "h", "input": "{broken"},
    ]
    assert (found["id"], found["type"], found["stop_reason"]) == ("msg_7", "message", "tool_use")
    assert found["usage"]["output_tokens"] == 2


def test_document_waits_and_breaks_too() -> None:
    def kinds(*steps: ReplyStep) -> list[Segment]:
        return render_messages(reply(*steps), asked(stream=False))

    paused = kinds(pause(1), raw(b"x"), say("a"))
    assert paused[:2] == [Pause(1), b"x"]
    assert len(paused) == 3
    assert kinds(say("a"), disconnect(reset=True)) == [Disconnect(reset=True)]


def test_tokens_are_counted_by_the_requests_size() -> None:
    assert counted(asked()) == {"input_tokens": 10}
