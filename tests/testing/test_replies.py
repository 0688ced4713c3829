import pytest

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.testing.replies import (
    EndpointRequest,
    body,
    disconnect_after,
    reply,
    status,
)
from agent_actors.testing.script import fail, say


def request(body: JsonObject) -> EndpointRequest:
    return EndpointRequest(0, 0, "POST", "/v1/chat/completions", {}, body, b"")


def test_text_is_a_say_step() -> None:
    assert reply("a") == reply(say("a"))


def test_step_without_wire_form_is_refused() -> None:
    with pytest.raises(TypeError, match="use status"):
        reply(fail(ValueError("x")))


def test_non_step_is_refused() -> None:
    with pytest.raises(TypeError, match="expected a step or a text, got 3"):
        reply(3)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def test_meaningless_options_are_refused() -> None:
    with pytest.raises(ValueError, match="newline"):
        reply(newline="\n\n")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="framing"):
        reply(framing="none")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="at least 1"):
        reply(split=[1, 0])
    with pytest.raises(ValueError, match="at least 1"):
        body(b"", split=[-1])
    with pytest.raises(ValueError, match="negative"):
        disconnect_after(-1, reply())


@pytest.mark.parametrize(
    ("content", "sent", "kind"),
    [
        (
            None,
            b'{"error":{"message":"Too Many Requests","type":"error","code":429}}',
            "application/json",
        ),
        ({"a": 1}, b'{"a":1}', "application/json"),
        ("slow down", b"slow down", "text/plain"),
        (b"\x00", b"\x00", "application/json"),
    ],
)
def test_status_keeps_given_body(content: JsonValue | bytes, sent: bytes, kind: str) -> None:
    answer = status(429, content, headers={"retry-after": "2"})

    assert answer.content == sent
    assert answer.headers == {"content-type": kind, "retry-after": "2"}


def test_unnamed_status_uses_its_number() -> None:
    assert b"Status 599" in (status(599).content or b"")


def test_request_exposes_what_scripts_need() -> None:
    asked = request(
        {
            "model": "m",
            "stream": True,
            "stream_options": {"include_usage": True},
            "tools": [{"type": "function", "function": {"name": "t"}}, {"function": None}, 3],
            "messages": [
                {"role": "tool", "content": "old"},
                {"role": "assistant", "content": None},
                {"role": "tool", "content": "a"},
                {"role": "tool", "content": "b"},
            ],
        }
    )

    assert (asked.model, asked.streams, asked.wants_usage) == ("m", True, True)
    assert asked.tool_names == ["t"]
    assert [message["content"] for message in asked.new_results] == ["a", "b"]
    assert asked.last_content == "b"


def test_empty_request_is_readable() -> None:
    empty = request({})

    assert (empty.model, empty.streams, empty.wants_usage, empty.last_content) == (
        "",
        False,
        False,
        "",
    )
    assert not empty.tool_names
    assert empty.new_results == empty.messages == []
    assert request({"messages": [{"role": "tool", "content": []}]}).last_content == ""
    assert len(request({"messages": [{"role": "tool"}]}).new_results) == 1


def messages_request(**fields: JsonValue) -> EndpointRequest:
    return EndpointRequest(0, 0, "POST", "/v1/messages?beta=true", {}, fields, b"")


def test_anthropic_request_exposes_same_fields() -> None:
    result: JsonObject = {"type": "tool_result", "tool_use_id": "a", "content": "1"}
    parts: JsonObject = {
        "type": "tool_result",
        "tool_use_id": "b",
        "content": [{"type": "text", "text": "2"}, {"type": "image"}],
    }
    asked = messages_request(
        tools=[{"name": "t", "input_schema": {}}, {"type": "web_search", "name": "w"}, 3],
        messages=[{"role": "user", "content": "x"}, {"role": "user", "content": [result, parts]}],
    )
    assert (asked.protocol, request({}).protocol) == ("messages", "chat")
    assert asked.tool_names == ["t", "w"]
    assert asked.new_results == [
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
    ]
    assert asked.last_content == "2"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("Hi", "Hi"),
        ([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}], "ab"),
        ([{"type": "tool_result", "content": "1"}, {"type": "text", "text": "and"}], "and"),
        ([{"type": "tool_result"}], ""),
        (None, ""),
    ],
)
def test_last_content_of_anthropic_request(content: JsonValue, text: str) -> None:
    assert messages_request(messages=[{"role": "user", "content": content}]).last_content == text
    assert messages_request(messages=[]).last_content == ""
    assert messages_request(messages=[]).new_results == []
