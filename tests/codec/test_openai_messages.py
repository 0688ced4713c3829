"""The dicts of OpenAI's chat completions format: conversion in both directions."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.codec.openai_messages import (
    format_tools,
    message_to_openai,
    messages_from_openai,
    messages_to_openai,
    tool_to_openai,
)
from agent_actors.domain.blocks import (
    ContentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.json import JsonObject
from agent_actors.domain.messages import Message, Messages
from agent_actors.domain.model import ToolSpec
from agent_actors.errors import MessageError
from tests.codec.values import json_objects, texts

TALK = (
    Messages()
    .user("Weather in Paris?")
    .assistant("", [ToolUseBlock("c1", "weather", {"city": "Paris"})])
    .tool("c1", "weather", "sunny")
    .assistant("Sunny.")
)


@pytest.mark.feature("OAS-032", "WICK-081")
def test_system_prompt_comes_first() -> None:
    assert messages_to_openai(TALK, "Be brief.") == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Weather in Paris?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "weather", "arguments": '{"city": "Paris"}'},
                }
            ],
        },
        {"role": "tool", "content": "sunny", "tool_call_id": "c1", "name": "weather"},
        {"role": "assistant", "content": "Sunny."},
    ]
    assert [sent["role"] for sent in messages_to_openai(TALK)][:2] == ["user", "assistant"]


def test_each_tool_result_becomes_a_message() -> None:
    results = (ToolResultBlock("c1", {"n": 1}), ToolResultBlock("c2", [1], extra={"k": 2}))
    assert message_to_openai(Message("tool", results)) == [
        {"role": "tool", "content": '{"n": 1}', "tool_call_id": "c1"},
        {"role": "tool", "content": "[1]", "tool_call_id": "c2", "k": 2},
    ]


def test_result_blocks_are_sent_as_parts() -> None:
    text: JsonObject = {"type": "text", "text": "look"}
    image: JsonObject = {"type": "image", "source": "https://example.org/a.png"}
    call: JsonObject = {"type": "tool_use", "id": "c", "name": "n", "input": {}}

    def sent(content: Any) -> Any:
        (single,) = message_to_openai(Message("tool", (ToolResultBlock("c1", content),)))
        return single["content"]

    assert sent([text, text]) == "looklook"
    assert sent([text, image]) == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
    ]
    assert sent([text, 1]) == json.dumps([text, 1])
    assert sent([call]) == json.dumps([call])
    assert sent([]) == "[]"


def test_images_turn_content_into_parts() -> None:
    (sent,) = message_to_openai(Message("user", (TextBlock("see"), ImageBlock("data:,x"))))
    assert sent["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:,x"}},
    ]


def test_extras_return_to_their_source() -> None:
    blocks: tuple[ContentBlock, ...] = (
        ThinkingBlock("hm", extra={"reasoning_content": "hm"}),
        ToolUseBlock("c1", "t", {}, extra={"extra_content": {"seal": 1}}),
    )
    (sent,) = message_to_openai(Message("assistant", blocks))
    assert sent == {
        "role": "assistant",
        "content": None,
        "reasoning_content": "hm",
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "t", "arguments": "{}"},
                "extra_content": {"seal": 1},
            }
        ],
    }


def test_thinking_alone_has_empty_content() -> None:
    (sent,) = message_to_openai(Message("assistant", (ThinkingBlock("hm"),)))
    assert sent == {"role": "assistant", "content": ""}


@pytest.mark.parametrize(
    ("raw", "arguments"),
    [
        ('{"a":  1}', '{"a":  1}'),
        ("", '{"b": "ü"}'),
        ('{"a": ', '{"b": "ü"}'),
        ('"{\\"a\\": 1}"', '{"b": "ü"}'),
        ("[1]", '{"b": "ü"}'),
        ('{"a":' * 5000, '{"b": "ü"}'),
    ],
)
def test_only_object_arguments_are_sent_verbatim(raw: str, arguments: str) -> None:
    call = ToolUseBlock("c1", "t", {"b": "ü"}, raw)
    (sent,) = message_to_openai(Message("assistant", (call,)))
    assert sent["tool_calls"][0]["function"]["arguments"] == arguments  # pyright: ignore[reportTypedDictNotRequiredAccess]


def test_tool_use_error_sends_empty_arguments() -> None:
    (sent,) = message_to_openai(Message("assistant", (ToolUseError("bad", '{"a"', "c1", "t"),)))
    assert sent.get("tool_calls") == [
        {"id": "c1", "type": "function", "function": {"name": "t", "arguments": "{}"}}
    ]


# --- reading --------------------------------------------------------------------------------------

_named = texts.filter(bool)
_calls = st.builds(ToolUseBlock, _named, _named, json_objects)
_contents = st.lists(st.builds(ImageBlock, _named), max_size=2).map(tuple)
_said = _named.map(lambda text: (TextBlock(text),))


def _assistant(said: tuple[TextBlock, ...], calls: list[ToolUseBlock]) -> Message:
    return Message("assistant", (*said, *calls))


def _tool(call: str, content: str, name: str) -> Message:
    return Message("tool", (ToolResultBlock(call, content, name=name),))


_messages = st.one_of(
    st.builds(Message, st.just("system"), _said),
    st.builds(Message, st.just("user"), st.tuples(_said, _contents).map(lambda p: p[0] + p[1])),
    st.builds(_assistant, _said, st.lists(_calls, max_size=2)),
    st.builds(_tool, _named, texts, texts),
)


@pytest.mark.feature("WICK-083")
@given(st.lists(_messages, max_size=5))
def test_a_conversation_survives_the_wire(messages: list[Message]) -> None:
    sent = messages_to_openai(messages)
    back = messages_from_openai(sent)
    assert messages_to_openai(back) == sent
    for message, again in zip(messages, back, strict=True):
        assert again.role == message.role
        assert again.content == message.content
        assert [(c.id, c.name, c.input) for c in again.tool_calls] == [
            (c.id, c.name, c.input) for c in message.tool_calls
        ]
        assert (again.tool_call_id, again.name) == (message.tool_call_id, message.name)


@pytest.mark.feature("WICK-083", "WICK-005")
@pytest.mark.parametrize(
    ("call", "arguments", "raw"),
    [
        ({"function": {"name": "t", "arguments": '{"a": 1}'}}, {"a": 1}, '{"a": 1}'),
        ({"function": {"name": "t", "arguments": {"a": 1}}}, {"a": 1}, ""),
        ({"function": {"name": "t", "arguments": None}}, {}, ""),
        ({"function": {"name": "t"}}, {}, ""),
        ({"name": "t", "args": {"a": 1}}, {"a": 1}, ""),
        ({"name": "t", "args": '{"a": 1}'}, {"a": 1}, '{"a": 1}'),
        ({"name": "t", "arguments": '{"a"'}, {}, '{"a"'),
        ({"name": "t", "arguments": "[" * 5000}, {}, "[" * 5000),
        ({"name": "t", "arguments": ""}, {}, ""),
    ],
)
def test_all_argument_spellings_are_read(call: JsonObject, arguments: JsonObject, raw: str) -> None:
    (message,) = messages_from_openai(
        [{"role": "assistant", "content": None, "tool_calls": [{"id": "c1", **call}]}]
    )
    assert message.tool_calls == (ToolUseBlock("c1", "t", arguments, raw),)


def test_newer_roles_parts_and_nulls_are_read() -> None:
    read = messages_from_openai(
        [
            {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
            {"role": "user", "content": ({"type": "image_url", "image_url": {"url": "data:,"}},)},
            {"role": "assistant", "content": "", "tool_calls": None, "refusal": None},
            {"role": "tool", "tool_call_id": "c1", "content": None},
        ]
    )
    assert [message.role for message in read] == ["system", "user", "assistant", "tool"]
    assert read[0].content == "Be brief."
    assert read[1].blocks == (ImageBlock("data:,"),)
    assert read[2].blocks == ()
    assert read[3].blocks == (ToolResultBlock("c1", ""),)


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({}, "message 1: unknown role None; expected one of system, user"),
        ("hi", "message 1: expected a dict with role and content; got 'hi'"),
        (Message("user", ()), r"message 1: expected a dict .*; got Message\("),
        ({"role": "robot"}, "message 1: unknown role 'robot'"),
        ({"role": ["user"]}, r"message 1: unknown role \['user'\]"),
        ({"role": "user", "content": 3}, "message 1: content must be a list of objects"),
        ({"role": "user", "content": ["a"]}, "message 1: content must be a list of objects"),
        (
            {"role": "user", "content": [{"type": "audio"}]},
            "message 1: a content part of type 'audio' is not supported",
        ),
        ({"role": "assistant", "tool_calls": {}}, "message 1: tool_calls must be a list"),
        ({"role": "assistant", "tool_calls": [{"id": 3}]}, "message 1: id must be text; got 3"),
        ({"role": "tool", "tool_call_id": []}, "message 1: tool_call_id must be text"),
    ],
)
def test_invalid_message_is_refused_by_position(item: JsonObject, said: str) -> None:
    with pytest.raises(MessageError, match=said) as caught:
        messages_from_openai([{"role": "user", "content": "hi"}, item])
    assert caught.value.index == 1


# --- tools ----------------------------------------------------------------------------------------


@pytest.mark.feature("OAS-033")
def test_tools_are_formatted_in_order() -> None:
    schema: JsonObject = {"type": "object", "properties": {}}
    formatted = format_tools([ToolSpec("a", "First.", schema), ToolSpec("b", "Second.")])
    assert formatted == [
        {
            "type": "function",
            "function": {"name": "a", "description": "First.", "parameters": schema},
        },
        {
            "type": "function",
            "function": {"name": "b", "description": "Second.", "parameters": {"type": "object"}},
        },
    ]
    assert tool_to_openai(ToolSpec("a", "First.", schema)) == formatted[0]
