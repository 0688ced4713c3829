"""Images, files and foreign parts in OpenAI's dicts: conversion in both directions."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.codec.openai_messages import (
    message_to_openai,
    messages_from_openai,
    messages_to_openai,
)
from agent_actors.domain.blocks import (
    ContentBlock,
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    TextBlock,
    ToolResultBlock,
)
from agent_actors.domain.json import JsonObject
from agent_actors.domain.messages import Message, Messages, Role
from agent_actors.errors import MessageError
from tests.codec.values import texts

AUDIO: JsonObject = {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}}
PARTS: list[tuple[ContentBlock, dict[str, Any]]] = [
    (
        ImageBlock("https://x/y.png", detail="low"),
        {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}},
    ),
    (ImageBlock("data:,x"), {"type": "image_url", "image_url": {"url": "data:,x"}}),
    (
        FileBlock("data:application/pdf;base64,aGk=", name="a.pdf"),
        {
            "type": "file",
            "file": {"file_data": "data:application/pdf;base64,aGk=", "filename": "a.pdf"},
        },
    ),
    (FileBlock("https://x"), {"type": "file", "file": {"file_data": "https://x"}}),
    (OpaqueBlock(AUDIO, "openai"), dict(AUDIO)),
    (
        OpaqueBlock({"type": "file", "file": {"file_id": "f"}}, "openai"),
        {"type": "file", "file": {"file_id": "f"}},
    ),
]


@pytest.mark.parametrize("role", ["user", "tool"])
@pytest.mark.parametrize(("block", "part"), PARTS)
def test_blocks_and_parts_are_equivalent(
    block: ContentBlock, part: dict[str, Any], role: Role
) -> None:
    said = {"type": "text", "text": "Look:"}
    wire: dict[str, Any] = {"role": role, "content": [said, part]}
    if role == "tool":
        wire |= {"tool_call_id": "a", "name": "look"}
    messages = messages_from_openai([wire])
    assert messages_to_openai(messages) == [wire]
    if role == "user":
        assert messages == Messages().user([TextBlock("Look:"), block])


def test_tool_blocks_round_trip_as_dicts() -> None:
    part = {"type": "image_url", "image_url": {"url": "data:,x"}}
    wire = {"role": "tool", "tool_call_id": "a", "content": [part]}
    (message,) = messages_from_openai([wire])
    assert message.blocks == (ToolResultBlock("a", [{"type": "image", "source": "data:,x"}]),)


def test_bare_base64_becomes_a_data_url() -> None:
    wire = {"role": "user", "content": [{"type": "file", "file": {"file_data": "aGk="}}]}
    (message,) = messages_from_openai([wire])
    assert message.blocks == (FileBlock("data:;base64,aGk="),)


def test_unknown_fields_of_media_are_ignored() -> None:
    parts = [
        {"type": "image_url", "image_url": {"url": "data:,x", "detail": 1}},
        {"type": "file", "file": {"file_data": "data:,x", "filename": None}},
    ]
    (message,) = messages_from_openai([{"role": "user", "content": parts}])
    assert message.blocks == (ImageBlock("data:,x"), FileBlock("data:,x"))


@pytest.mark.parametrize(
    "part", [{"type": "odd"}, {"type": "image_url", "image_url": {"url": 1}}, {"type": 1}, {}]
)
def test_other_parts_are_refused_by_their_type(part: dict[str, Any]) -> None:
    with pytest.raises(MessageError, match="a content part of type"):
        messages_from_openai([{"role": "user", "content": [part]}])


def test_foreign_opaque_blocks_are_left_out() -> None:
    blocks = (TextBlock("Hi"), OpaqueBlock({"type": "x"}, "anthropic"))
    assert message_to_openai(Message("user", blocks)) == [{"role": "user", "content": "Hi"}]


_urls = st.builds("{}{}".format, st.sampled_from(["https://", "data:"]), texts)
_parts = st.one_of(
    st.builds(ImageBlock, _urls, detail=texts),
    st.builds(FileBlock, _urls, name=texts),
    st.just(OpaqueBlock(AUDIO, "openai")),
)


@given(st.lists(_parts | st.builds(TextBlock, texts), min_size=1, max_size=4), _parts)
def test_conversation_with_parts_round_trips(
    blocks: list[ContentBlock], part: ContentBlock
) -> None:
    messages = Messages().user([*blocks, part])
    assert messages_from_openai(messages_to_openai(messages)) == messages
