"""Events: their headers, which of them are recorded, and unknown events."""

from typing import Any

import attrs
import pytest

from agent_actors.domain.blocks import TextBlock, ThinkingBlock, ToolUseBlock
from agent_actors.domain.events import (
    EVENT_TYPES,
    EVENT_VERSION,
    OBSERVER_EVENTS,
    AssistantMessage,
    Event,
    EventScope,
    Notification,
    UnknownEvent,
)

SCOPE = EventScope("s1", "r1", "q1", 3, "scout", "c1")


@pytest.mark.feature("ASDK-079", "OAGS-006", "ASDK-060")
def test_header_is_the_same_for_every_event() -> None:
    event = Notification(SCOPE, "e1", 1.5, "hi", seq=7)
    assert (event.session_id, event.run_id, event.request_id) == ("s1", "r1", "q1")
    assert (event.iteration, event.agent_name, event.parent_tool_use_id) == (3, "scout", "c1")
    assert (event.id, event.ts, event.seq, event.version) == ("e1", 1.5, 7, EVENT_VERSION)


@pytest.mark.feature("ASDK-052")
def test_event_type_names_are_unique() -> None:
    assert set(EVENT_TYPES) == {
        "system.init",
        "user.message",
        "assistant.delta",
        "assistant.thinking",
        "assistant.message",
        "attempt.restarted",
        "output.delta",
        "tool.delta",
        "stream.notice",
        "tool.use",
        "tool.progress",
        "tool.result",
        "user.question",
        "hook.event",
        "skill.activated",
        "subagent.started",
        "todos.changed",
        "file.changed",
        "background.started",
        "background.ended",
        "background.lost",
        "workspace.checkpoint",
        "session.compacted",
        "session.rewind",
        "run.queued",
        "run.suspended",
        "usage",
        "notification",
        "result",
        "error",
    }
    # Only the library's own types, because other tests define types of their own.
    ours = [cls for cls in Event.__subclasses__() if cls.__module__ == Event.__module__]
    extra = {cls.type: cls for cls in OBSERVER_EVENTS}
    assert {cls.type: cls for cls in ours} == {**EVENT_TYPES, **extra}
    assert not any(cls.recorded for cls in OBSERVER_EVENTS)


def test_only_deltas_notices_and_progress_are_live() -> None:
    live = {name for name, cls in EVENT_TYPES.items() if not cls.recorded}
    assert live == {
        "output.delta",
        "assistant.delta",
        "assistant.thinking",
        "tool.delta",
        "tool.progress",
        "stream.notice",
        "run.queued",
    }


def test_numbering_an_event_makes_a_copy() -> None:
    event = Notification(SCOPE, "e1", 1.5, "hi")
    assert event.seq is None
    assert attrs.evolve(event, seq=1).scope is SCOPE


def test_message_text_joins_its_text_blocks() -> None:
    blocks = (TextBlock("a"), ThinkingBlock("x"), ToolUseBlock("c", "n", {}), TextBlock("b"))
    assert AssistantMessage(SCOPE, "e1", 1.0, blocks).text == "ab"


@pytest.mark.feature("OAGS-004")
@pytest.mark.parametrize(
    ("raw", "read"),
    [
        ({"type": "new", "seq": 3, "ts": 2}, ("new", 3, 2.0)),
        ({"type": "new", "seq": "3", "ts": "2"}, ("new", None, 0.0)),
        ({}, ("", None, 0.0)),
    ],
)
def test_unknown_event_exposes_known_fields(raw: Any, read: tuple[str, int | None, float]) -> None:
    event = UnknownEvent(raw)
    assert (event.type, event.seq, event.ts) == read
