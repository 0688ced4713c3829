"""Images and files in chat completions, including those in tool results."""

import base64
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.domain.blocks import (
    ContentBlock,
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.encoded_message_cache import EncodedMessageCache
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.messages import Message, Messages, Role
from agent_actors.domain.model import ModelRequest, ModelSettings
from agent_actors.providers.openai_chat.encode import encode_request

IMAGE = ImageBlock("data:image/png;base64,aGk=", "image/png")
IMAGE_PART = {"type": "image_url", "image_url": {"url": IMAGE.source}}
IMAGE_DICT: JsonObject = {"type": "image", "source": IMAGE.source}
HEADING = {"type": "text", "text": "The tool look returned:"}
SHOWN = {"role": "user", "content": [HEADING, IMAGE_PART]}


def sent(*messages: Message, memo: EncodedMessageCache | None = None) -> list[Any]:
    request = ModelRequest(
        Messages(messages), ModelSettings("m"), memo=memo or EncodedMessageCache()
    )
    found: list[Any] = json.loads(encode_request(request))["messages"]
    return found


def message(role: Role, *blocks: ContentBlock) -> Message:
    return Message(role, blocks)


def result(id_: str, *content: JsonValue) -> Message:
    return message("tool", ToolResultBlock(id_, list(content), name="look"))


def as_tool(id_: str, content: str) -> JsonObject:
    return {"role": "tool", "tool_call_id": id_, "name": "look", "content": content}


# --- parts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (IMAGE, IMAGE_PART),
        (
            ImageBlock("https://x/y.png", detail="low"),
            {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}},
        ),
        (
            FileBlock("data:application/pdf;base64,aGk=", name="a.pdf"),
            {
                "type": "file",
                "file": {"file_data": "data:application/pdf;base64,aGk=", "filename": "a.pdf"},
            },
        ),
        (
            FileBlock("data:application/pdf;base64,aGk="),
            {
                "type": "file",
                "file": {"file_data": "data:application/pdf;base64,aGk=", "filename": "file.pdf"},
            },
        ),
        (
            FileBlock("https://x/y"),
            {"type": "file", "file": {"file_data": "https://x/y", "filename": "file"}},
        ),
        (
            FileBlock("https://x/y", "image/png", "y.png"),
            {"type": "image_url", "image_url": {"url": "https://x/y"}},
        ),
        (OpaqueBlock({"type": "input_audio"}, "openai"), {"type": "input_audio"}),
    ],
)
def test_block_is_a_content_part(block: ContentBlock, part: JsonObject) -> None:
    said = {"type": "text", "text": "Look:"}
    assert sent(message("user", TextBlock("Look:"), block)) == [
        {"role": "user", "content": [said, part]}
    ]
    assert sent(message("system", block)) == [{"role": "system", "content": [part]}]
    assert sent(message("assistant", block)) == [{"role": "assistant", "content": [part]}]


def test_blocks_of_other_providers_are_left_out() -> None:
    foreign = OpaqueBlock({"type": "document"}, "anthropic")
    assert sent(message("user", TextBlock("Hi"), foreign)) == [{"role": "user", "content": "Hi"}]


NOTES = FileBlock.from_text("# Notes\n", "text/markdown", name="n.md")
AS_TEXT = "[file n.md]\n# Notes\n\n[end of file]"


def test_text_file_is_inlined_between_markers() -> None:
    assert sent(message("user", TextBlock("Read:"), NOTES)) == [
        {"role": "user", "content": f"Read:\n\n{AS_TEXT}"}
    ]
    assert sent(message("user", NOTES, TextBlock("Well?"))) == [
        {"role": "user", "content": f"{AS_TEXT}\n\nWell?"}
    ]
    (found,) = sent(message("user", NOTES, IMAGE))
    assert found["content"] == [{"type": "text", "text": f"\n\n{AS_TEXT}\n\n"}, IMAGE_PART]


def test_plain_text_keeps_its_own_newlines() -> None:
    assert sent(message("user", TextBlock("\nHi\n")))[0]["content"] == "\nHi\n"
    (found,) = sent(result("a", {"type": "text", "text": "\nHi\n"}))
    assert found["content"] == "\nHi\n"


# --- results --------------------------------------------------------------------------------------


def test_tool_image_follows_as_user_message() -> None:
    found = sent(result("a", {"type": "text", "text": "A cat: "}, IMAGE_DICT))
    assert found == [as_tool("a", "A cat: [image]"), SHOWN]
    pdf: JsonObject = {"type": "file", "source": "https://x/y", "name": "y.pdf"}
    found = sent(message("tool", ToolResultBlock("a", [pdf])))
    assert found[0]["content"] == "[file y.pdf]"
    assert found[1]["content"] == [
        {"type": "text", "text": "A tool returned:"},
        {"type": "file", "file": {"file_data": "https://x/y", "filename": "y.pdf"}},
    ]
    own: JsonObject = {"type": "opaque", "data": {"type": "input_audio"}, "provider": "openai"}
    found = sent(result("a", own))
    assert found[0]["content"] == "[input_audio]"
    assert found[1]["content"][1] == {"type": "input_audio"}


def test_the_results_of_one_answer_stay_together() -> None:
    calls = message("assistant", *(ToolUseBlock(id_, "look", {}) for id_ in "abc"))
    results = [result("a", IMAGE_DICT), result("b", "x"), result("c", IMAGE_DICT)]
    found = sent(calls, *results, message("assistant", TextBlock("Two cats.")))
    assert [one["role"] for one in found[1:]] == ["tool", "tool", "tool", "user", "assistant"]
    assert found[4]["content"] == [HEADING, IMAGE_PART, HEADING, IMAGE_PART]


def test_next_prompt_joins_the_same_message() -> None:
    found = sent(result("a", IMAGE_DICT), message("user", TextBlock("Which breed?")))
    said = {"type": "text", "text": "Which breed?"}
    assert found == [
        as_tool("a", "[image]"),
        {"role": "user", "content": [HEADING, IMAGE_PART, said]},
    ]
    found = sent(result("a", IMAGE_DICT), message("system", TextBlock("Hm")))
    assert [one["role"] for one in found] == ["tool", "user", "system"]
    found = sent(result("a", IMAGE_DICT), message("user"), message("user", TextBlock("?")))
    assert [one["role"] for one in found] == ["tool", "user"]


def test_results_and_words_in_one_message() -> None:
    one = message("user", ToolResultBlock("a", [IMAGE_DICT], name="look"), TextBlock("Well?"))
    said = {"type": "text", "text": "Well?"}
    assert sent(one) == [
        as_tool("a", "[image]"),
        {"role": "user", "content": [HEADING, IMAGE_PART, said]},
    ]


def test_text_file_of_tool_stays_inside() -> None:
    csv: JsonObject = {"type": "file", "source": "data:text/csv,a%2Cb", "name": "t.csv"}
    assert sent(result("a", csv)) == [as_tool("a", "[file t.csv]\na,b\n[end of file]")]


@pytest.mark.parametrize(
    "odd",
    [1, {"type": "odd"}, {"type": "image"}, {"type": "opaque", "data": {}, "provider": "other"}],
)
def test_mixed_result_is_json_without_base64(odd: JsonValue) -> None:
    assert sent(result("a", IMAGE_DICT, odd)) == [as_tool("a", json.dumps(["[image]", odd]))]


# --- from turn to turn ----------------------------------------------------------------------------


def test_message_with_image_is_not_cached() -> None:
    memo = EncodedMessageCache()
    text = message("user", TextBlock("a" * 50))
    said = [text, message("user", IMAGE), result("a", IMAGE_DICT), text]
    first = sent(*said, memo=memo)
    assert sent(*said, memo=memo) == first

    def never(_: Message) -> bytes:
        raise AssertionError

    ((key, kept),) = memo._kept.items()
    assert [len(value) > 50 for value in memo.map(key, said, never)] == [True, False, False, True]
    assert IMAGE.source.encode() not in b"".join(kept.values)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def test_images_are_sent_for_failed_calls() -> None:
    error = message("assistant", ToolUseError("bad", "{x", "a", "look"))
    found = sent(message("user", IMAGE), error, result("a", IMAGE_DICT))
    assert [one["role"] for one in found] == ["user", "assistant", "tool", "user"]
    assert (found[0]["content"], found[3]) == ([IMAGE_PART], SHOWN)


def test_lone_surrogate_next_to_image_is_replaced() -> None:
    (found,) = sent(message("user", TextBlock("\ud83d"), IMAGE))
    assert found["content"][0]["text"] == "�"


_blocks = st.one_of(
    st.builds(TextBlock, st.text(max_size=3)),
    st.binary(min_size=1, max_size=9).map(lambda data: FileBlock.from_bytes(data, name="f")),
    st.just(IMAGE),
)
_messages = st.one_of(
    st.lists(_blocks, max_size=3).map(lambda blocks: Message("user", tuple(blocks))),
    st.sampled_from([result("a", IMAGE_DICT), result("b", "x")]),
    st.just(message("assistant", TextBlock("Hm"))),
)


@given(st.lists(_messages, max_size=6), st.integers(0, 6))
def test_cached_conversation_is_sent_identically(messages: list[Message], cut: int) -> None:
    memo = EncodedMessageCache()
    sent(*messages[:cut], memo=memo)
    found = sent(*messages, memo=memo)
    assert found == sent(*messages)
    wanted = sum(message.role == "tool" for message in messages)
    assert sum(one["role"] == "tool" for one in found) == wanted
    images = json.dumps(found).count(base64.b64encode(b"hi").decode())
    assert images >= sum(block is IMAGE for message in messages for block in message.blocks)
    for before, after in pairwise(found):
        shows = after["role"] == "user" and HEADING in list(after["content"])
        assert not shows or before["role"] == "tool"
