"""The bytes that a reply is rendered to."""

import json
from collections.abc import Iterable

import msgspec
import pytest
import trio

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.model import FinishReason
from agent_actors.testing._wire import Segment, render
from agent_actors.testing.replies import (
    Disconnect,
    EndpointRequest,
    Newline,
    Reply,
    ReplyStep,
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


def request(*, stream: bool = True, include_usage: bool = False) -> EndpointRequest:
    sent: JsonObject = {
        "model": "m",
        "stream": stream,
        "stream_options": {"include_usage": include_usage},
        "messages": [{"role": "user", "content": "Hello?"}],
    }
    content = json.dumps(sent).encode()
    return EndpointRequest(3, 0, "POST", "/v1/chat/completions", {}, sent, content)


def events(segments: Iterable[Segment]) -> list[JsonValue]:
    """Return the JSON of the events; `[DONE]` is returned as text."""
    data = b"".join(segment for segment in segments if isinstance(segment, bytes))
    found: list[JsonValue] = []
    for block in data.decode().split("\n\n")[:-1]:
        if not block.startswith(":"):
            text = block.removeprefix("data: ")
            found.append(text if text == "[DONE]" else msgspec.json.decode(text))
    return found


class Choice(msgspec.Struct):
    delta: dict[str, object]


class Event(msgspec.Struct):
    choices: list[Choice]


def deltas(*steps: str | ReplyStep) -> list[dict[str, object]]:
    """Return the deltas of the chunks between the first chunk and the finish reason."""
    found = msgspec.convert(events(render(reply(*steps), request()))[1:-2], list[Event])
    return [choice.delta for event in found for choice in event.choices]


def test_stream_has_the_api_shape() -> None:
    found = events(render(reply("Hello"), request()))

    def shape(delta: JsonObject, finish_reason: str | None = None) -> JsonObject:
        return {
            "id": "chatcmpl-3",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": "m",
            "choices": [
                {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
            ],
        }

    assert found == [
        shape({"role": "assistant", "content": ""}),
        shape({"content": "Hello"}),
        shape({}, "stop"),
        "[DONE]",
    ]


def test_call_is_named_once() -> None:
    assert deltas(call("t", {"a": 1}, id="x", split=[3]), call("u", id="")) == [
        {
            "tool_calls": [
                {
                    "index": 0,
                    "id": "x",
                    "type": "function",
                    "function": {"name": "t", "arguments": '{"a'},
                }
            ]
        },
        {"tool_calls": [{"index": 0, "function": {"arguments": '":1}'}}]},
        {
            "tool_calls": [
                {"index": 1, "type": "function", "function": {"name": "u", "arguments": "{}"}}
            ]
        },
    ]


def test_thoughts_are_reasoning_content() -> None:
    assert deltas(think("hm")) == [{"reasoning_content": "hm"}]


def test_generated_ids_depend_on_history() -> None:
    first = deltas(interleave(call("t"), call("u")))

    assert [json.dumps(delta).count('"id": "call_1_') for delta in first] == [1, 1]


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("stop", ["stop"]),
        ("length", ["length"]),
        ("refused", ["content_filter"]),
        ("tool_calls", ["tool_calls"]),
        ("unknown", []),
    ],
)
def test_finish_uses_api_words(reason: FinishReason, expected: list[str]) -> None:
    data = json.dumps(events(render(reply(finish(reason)), request())))

    assert [word for word in expected if f'"finish_reason": "{word}"' in data] == expected
    assert data.count('"finish_reason": "') == len(expected)


def test_usage_appears_on_request() -> None:
    counts = {
        "prompt_tokens": 5,
        "completion_tokens": 7,
        "total_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    scripted = events(
        render(reply(usage(5, 7, cache_read_tokens=2, reasoning_tokens=3)), request())
    )
    wanted = events(render(reply("12345678"), request(include_usage=True)))

    assert isinstance(scripted[-2], dict)
    assert (scripted[-2]["choices"], scripted[-2]["usage"]) == ([], counts)
    assert '"completion_tokens": 2' in json.dumps(wanted[-2])
    assert "usage" not in json.dumps(events(render(reply("a"), request())))


def test_steps_without_pause_share_a_write() -> None:
    segments = render(reply("a", "b", pause(1), "c", comment(), "d"), request())

    assert [type(segment) for segment in segments] == [bytes, Pause, bytes]


async def test_waits_and_hangs_keep_their_position() -> None:
    waited = wait(trio.Event())

    segments = render(reply("a", waited, "b", hang(), "never"), request())

    assert [type(segment) for segment in segments] == [bytes, Wait, bytes, Hang]
    assert b"never" not in b"".join(s for s in segments if isinstance(s, bytes))
    assert b"[DONE]" not in b"".join(s for s in segments if isinstance(s, bytes))


def test_wire_steps_keep_their_position() -> None:
    segments = render(reply("a", comment(" ping"), raw(b"!!"), chunk([1]), "b"), request())

    data = b"".join(segment for segment in segments if isinstance(segment, bytes))
    assert b"\n\n: ping\n\n!!data: [1]\n\ndata: {" in data


def test_nothing_follows_a_disconnect_or_an_error() -> None:
    cut = render(reply("a", disconnect(reset=True), "b"), request())
    failed = events(render(reply("a", in_band_error("too much", code=7), "b"), request()))

    assert cut[-1] == Disconnect(reset=True)
    assert failed[2:] == [{"error": {"message": "too much", "type": "server_error", "code": 7}}]


def test_done_may_be_left_out() -> None:
    assert events(render(reply("a", done=False), request()))[-1] != "[DONE]"


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
def test_lines_may_end_otherwise(newline: Newline) -> None:
    def data(answer: Reply) -> bytes:
        return b"".join(s for s in render(answer, request()) if isinstance(s, bytes))

    steps: list[str | ReplyStep] = ["a", comment()]
    assert data(reply(*steps, newline=newline)) == data(reply(*steps)).replace(
        b"\n", newline.encode()
    )


def test_half_a_surrogate_pair_is_escaped() -> None:
    segments = render(reply(say("\ud83d", "\ude00")), request())

    data = b"".join(segment for segment in segments if isinstance(segment, bytes))
    assert b'"\\ud83d"' in data
    assert b'"\\ude00"' in data


def test_a_transform_changes_the_list_of_chunks() -> None:
    def quirk(chunks: list[JsonObject]) -> list[JsonValue]:
        assert len(chunks) == 4
        return [None, *chunks[1:3], {"more": True}]

    found = events(render(reply("a", "b", transform=quirk), request()))

    assert [type(event) for event in found] == [type(None), dict, dict, dict, str]
    assert found[3] == {"more": True}


def test_events_keep_their_chunk_position() -> None:
    def double(chunks: list[JsonObject]) -> list[JsonObject]:
        return [one for one in chunks for _ in range(2)]

    def few(chunks: list[JsonObject]) -> list[JsonObject]:
        return chunks[:1]

    steps: list[str | ReplyStep] = ["a", pause(1), "b", pause(2), chunk(None), comment()]
    doubled = render(reply(*steps, transform=double), request())
    cut = render(reply(*steps, transform=few), request())

    counts = [s.count(b"object") if isinstance(s, bytes) else s for s in doubled]
    assert counts == [2, Pause(1), 1, Pause(2), 5]
    assert [s for s in cut if isinstance(s, Pause)] == [Pause(1), Pause(2)]
    assert isinstance(cut[-1], bytes)
    assert cut[-1] == b"data: null\n\n: keep-alive\n\ndata: [DONE]\n\n"


def test_non_streaming_request_gets_object() -> None:
    steps: list[str | ReplyStep] = [
        think("hm"),
        "Let me ",
        pause(1),
        "look.",
        comment(),
        chunk(None),
        call("t", {"a": 1}, chunks=2),
        usage(5, 7),
    ]
    happened, content = render(reply(*steps), request(stream=False))

    assert happened == Pause(1)
    assert isinstance(content, bytes)
    assert msgspec.json.decode(content) == {
        "id": "chatcmpl-3",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "Let me look.",
                    "reasoning_content": "hm",
                    "tool_calls": [
                        {
                            "id": "call_1_0",
                            "type": "function",
                            "function": {"name": "t", "arguments": '{"a":1}'},
                        }
                    ],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {
            "prompt_tokens": 5,
            "completion_tokens": 7,
            "total_tokens": 12,
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0},
        },
    }


def test_faults_of_non_streaming_response() -> None:
    def whole(answer: Reply) -> list[Segment]:
        return render(answer, request(stream=False))

    assert whole(reply("a", disconnect())) == [Disconnect(reset=False)]
    assert whole(reply("a", in_band_error("no"))) == [
        b'{"error":{"message":"no","type":"server_error","code":null}}'
    ]
    assert whole(reply(raw(b"\n\n"), "a"))[0] == b"\n\n"
    assert whole(reply("a", transform=lambda _: [1, 2])) == [b"12"]
    assert b'"content":null' in b"".join(s for s in whole(reply()) if isinstance(s, bytes))
