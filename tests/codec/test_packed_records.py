"""Packed records: read back unchanged, or not packed at all."""

import math
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.codec.packed_records import pack_records, unpack_records
from agent_actors.domain.blocks import TextBlock, ToolUseBlock
from agent_actors.domain.events import (
    AnyEvent,
    AssistantMessage,
    EventScope,
    Notification,
    ResultEvent,
    ToolResult,
    UserMessage,
)
from agent_actors.domain.usage import Usage
from agent_actors.testing.strategies import assistant_blocks, call_ids, json_values, texts

if TYPE_CHECKING:
    from agent_actors.domain.json import JsonValue

SCOPE = EventScope("s", "run", "request")


def notification(seq: int, data: object) -> Notification:
    return Notification(SCOPE, f"id-{seq}", 1.5, "a text", cast("JsonValue", data), seq=seq)


@st.composite
def records(draw: st.DrawFn) -> AnyEvent:
    text = draw(texts())
    match draw(st.sampled_from(["user", "answer", "notice", "tool", "result"])):
        case "user":
            return UserMessage(SCOPE, "id", 1.0, text, seq=1)
        case "answer":
            blocks = draw(st.lists(assistant_blocks(ids=call_ids()), max_size=3))
            return AssistantMessage(SCOPE, "id", 1.0, tuple(blocks), seq=2)
        case "notice":
            return notification(3, draw(json_values()))
        case "tool":
            return ToolResult(SCOPE, "id", 1.0, "call", "work", text, seq=4)
        case _:
            output = draw(json_values())
            return ResultEvent(
                SCOPE, "id", 1.0, text, "completed", Usage(1, 2), 1, 0.5, output=output, seq=5
            )


@given(st.lists(records(), min_size=1, max_size=6))
def test_packed_records_are_read_back_unchanged(written: list[AnyEvent]) -> None:
    data = pack_records(written)
    assert data is not None
    assert list(unpack_records(data)) == written


@pytest.mark.parametrize(
    "record",
    [
        notification(1, ("a", "tuple")),
        notification(1, math.nan),
        notification(1, {1, 2}),
        UserMessage(SCOPE, "id", 1.0, "half an emoji \ud83d", seq=1),
        AssistantMessage(
            SCOPE,
            "id",
            1.0,
            (ToolUseBlock("call", "work", {"pair": (1, 2)}),),
            seq=1,
        ),
        AssistantMessage(SCOPE, "id", 1.0, (TextBlock("a", extra={"pair": (1, 2)}),), seq=1),
    ],
    ids=["tuple", "nan", "set", "surrogate", "argument", "extra"],
)
def test_record_that_json_changes_is_refused(record: AnyEvent) -> None:
    assert pack_records([record]) is None


def test_record_without_json_form_is_not_packed() -> None:
    assert pack_records([notification(1, object())]) is None
