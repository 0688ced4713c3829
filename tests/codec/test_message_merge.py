"""A conversation that is returned as dicts and read back: untouched messages stay the same."""

import copy
import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.codec import message_merge
from agent_actors.codec.message_merge import messages_rewritten
from agent_actors.codec.openai_messages import messages_to_openai
from agent_actors.domain.blocks import (
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agent_actors.domain.json import MAX_MESSAGE_DEPTH
from agent_actors.domain.messages import Message, Messages
from agent_actors.errors import MessageError

SEALED = Message(
    "assistant",
    (
        ThinkingBlock("Two calls.", "seal", origin="anthropic https://a m"),
        OpaqueBlock({"type": "redacted_thinking", "data": "x"}, "anthropic"),
        ToolUseBlock("c1", "look", {"at": 1}),
        ToolUseBlock("c2", "look", {"at": 2}),
    ),
)
BOTH = Message("tool", (ToolResultBlock("c1", "one"), ToolResultBlock("c2", "two")))
TALK = Messages([Message("user", (TextBlock("Look."),)), SEALED, BOTH])


def handed_out(messages: Messages) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", copy.deepcopy(messages_to_openai(messages)))


def test_unchanged_messages_round_trip() -> None:
    assert messages_rewritten(TALK, handed_out(TALK)) == TALK


def test_changed_message_is_read_alone() -> None:
    dicts = handed_out(TALK)
    dicts[0]["content"] = "Look again."
    dicts.insert(0, {"role": "system", "content": "Be brief."})
    rewritten = messages_rewritten(TALK, dicts)
    assert rewritten[0].content == "Be brief."
    assert rewritten[1].content == "Look again."
    assert list(rewritten[2:]) == [SEALED, BOTH]


def test_one_changed_result_leaves_others_alone() -> None:
    dicts = handed_out(TALK)
    dicts[3]["content"] = "cut"
    results = [block for message in messages_rewritten(TALK, dicts)[2:] for block in message.blocks]
    assert results == [ToolResultBlock("c1", "one"), ToolResultBlock("c2", "cut")]


def test_identical_looking_messages_keep_their_order() -> None:
    alike = [Message("assistant", (ThinkingBlock(name), TextBlock("Yes."))) for name in "ab"]
    dicts = handed_out(Messages(alike))
    assert list(messages_rewritten(Messages(alike), [*dicts, dicts[0]])) == [*alike, alike[1]]


def test_invalid_json_is_reported_or_read_literally() -> None:
    odd = "\ud800"
    talk = Messages([Message("user", (TextBlock(odd),)), Message("tool", ())])
    assert messages_rewritten(talk, [{"role": "user", "content": odd}])[0].content == odd
    with pytest.raises(MessageError, match="message 1"):
        messages_rewritten(TALK, [{"role": "user", "content": "a"}, {"role": "owl"}])


@given(st.data())
def test_any_subset_of_messages_round_trips(data: st.DataObject) -> None:
    said = st.sampled_from(["a", "b"])
    talk = [
        Message("assistant", (ThinkingBlock(str(number), "seal"), TextBlock(data.draw(said))))
        for number in range(data.draw(st.integers(0, 6)))
    ]
    chosen = [message for message in talk if data.draw(st.booleans())]
    rewritten = messages_rewritten(Messages(talk), handed_out(Messages(chosen)))
    assert [message.content for message in rewritten] == [message.content for message in chosen]
    assert all(message in talk for message in rewritten)


def test_too_deep_dict_is_never_unchanged() -> None:
    dicts = handed_out(TALK)
    dicts[0]["extra"] = json.loads("[" * 200 + "]" * 200)
    with pytest.raises(MessageError, match="message 0: expected at most 110 levels"):
        messages_rewritten(TALK, dicts)


def test_too_deep_dict_has_no_key() -> None:
    item: object = "x"
    for _ in range(MAX_MESSAGE_DEPTH + 1):
        item = [item]
    assert message_merge._key({"content": item}) is None
