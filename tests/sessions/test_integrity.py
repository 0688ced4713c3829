"""Invalid records of a session are reported, and valid ones cause no report."""

import pytest
from hypothesis import given

from agent_actors.codec.events import encode_event
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import (
    AnyEvent,
    AssistantDelta,
    AssistantMessage,
    Event,
    EventScope,
    Notification,
    ToolResult,
    UnknownEvent,
    UserMessage,
)
from agent_actors.sessions.integrity import faults_of
from tests.sessions.test_state import numbered, records

SCOPE = EventScope("s", "r", "q")


def note(seq: int | None, *, ts: float = 1.0, scope: EventScope = SCOPE) -> Event:
    return Notification(scope, "id", ts, "text", seq=seq)


def faults(*events: AnyEvent) -> list[str]:
    return [fault for _, fault in faults_of("s", [encode_event(event) for event in events])]


@given(records)
def test_recorded_events_are_valid(events: list[Event]) -> None:
    found = faults(*numbered(*events))
    assert [one for one in found if not one.startswith("the conversation")] == []


def test_open_call_is_valid() -> None:
    call = ToolUseBlock("c", "t", {})
    assert faults(AssistantMessage(SCOPE, "id", 1.0, (call,), seq=1)) == []
    assert faults() == []


@pytest.mark.parametrize(
    ("events", "fault"),
    [
        ([note(2)], "record 1 has the number 2"),
        ([note(None)], "record 1 has the number None"),
        ([note(1, ts=2.0), note(2, ts=1.0)], "record 2 is older than the previous record"),
        ([note(1, scope=EventScope("t", "", ""))], "record 1 belongs to session 't'"),
        (
            [AssistantDelta(SCOPE, "id", 1.0, "a", seq=1)],
            "record 1 (assistant.delta) is only streamed",
        ),
        (
            [UserMessage(SCOPE, "id", 1.0, "", seq=1)],
            "the conversation is invalid: message 0: a user",
        ),
        ([UnknownEvent({"type": "x", "seq": 3})], "record 1 has the number 3"),
    ],
)
def test_invalid_record_is_reported_by_number(events: list[Event], fault: str) -> None:
    (found,) = faults(*events)
    assert found.startswith(fault)


def test_invalid_line_hides_no_later_one() -> None:
    lines = [b"{", b'{"type":"tool.result","seq":1}', encode_event(note(9))]
    first, second, third = [fault for _, fault in faults_of("s", lines)]
    assert first.startswith("record 1: expected an event as JSON")
    assert second.startswith("record 2: tool.result event")
    assert third.startswith("record 3 has the number 9")
    result = ToolResult(SCOPE, "id", 1.0, "c", "t", "no call", seq=1)
    assert faults(result) == [], "the fold skips the record"
