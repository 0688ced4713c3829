"""Conversion of events to and from tagged JSON."""

import contextlib
import json
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_actors.codec.events import (
    dumps_event,
    encode_event,
    event_to_json,
    loads_event,
    loads_events,
)
from agent_actors.domain.blocks import TextBlock, ToolUseBlock
from agent_actors.domain.events import (
    EVENT_TYPES,
    AnyEvent,
    AssistantDelta,
    AssistantMessage,
    Event,
    EventScope,
    Notification,
    ResultEvent,
    RunSuspended,
    SkillActivated,
    SystemInit,
    ToolResult,
    UnknownEvent,
    UnreadableEvent,
    UserMessage,
)
from agent_actors.domain.usage import Usage
from agent_actors.errors import EventError, InvalidEventError, UnknownEventTypeError
from tests.codec.events import events
from tests.codec.values import json_values

SCOPE = EventScope("s1", "r1", "q1", 2)


def read(event: AnyEvent) -> Any:
    return json.loads(dumps_event(event))


@pytest.mark.feature("OAGS-011")
@given(events)
def test_every_event_survives_its_json(event: Event) -> None:
    text = dumps_event(event)
    assert "\n" not in text
    assert loads_event(text) == event
    assert loads_event(encode_event(event), strict=True) == event
    assert event_to_json(event) == json.loads(text)


@pytest.mark.feature("OAGS-006", "ASDK-060")
@given(events)
def test_every_event_carries_the_header(event: Event) -> None:
    flat = read(event)
    assert flat["type"] == event.type
    assert flat["version"] == 1
    assert (flat["id"], flat["ts"]) == (event.id, event.ts)
    for name in ("session_id", "run_id", "request_id", "iteration"):
        assert flat[name] == getattr(event, name)
    for name in ("seq", "parent_tool_use_id", "agent_name"):
        assert flat.get(name) == getattr(event, name)
        assert (name in flat) == (getattr(event, name) is not None)


def test_no_field_collides_with_the_header() -> None:
    header = {*attrs.fields_dict(EventScope), *attrs.fields_dict(Event), "type", "version"}
    for cls in EVENT_TYPES.values():
        own = set(attrs.fields_dict(cls)) - set(attrs.fields_dict(Event))
        assert not own & header, cls


@pytest.mark.feature("OAGS-010")
def test_first_event_has_directory_and_version() -> None:
    flat = read(SystemInit(SCOPE, "e1", 1.0, cwd="/srv", sdk_version="0.1.0"))
    assert (flat["type"], flat["session_id"]) == ("system.init", "s1")
    assert (flat["cwd"], flat["sdk_version"]) == ("/srv", "0.1.0")


@pytest.mark.feature("OAGS-012")
def test_user_message_names_its_parent_call() -> None:
    child = attrs.evolve(SCOPE, parent_tool_use_id="c1", agent_name="scout")
    flat = read(UserMessage(child, "e1", 1.0, text="hi", blocks=(TextBlock("hi"),)))
    assert (flat["text"], flat["parent_tool_use_id"], flat["agent_name"]) == ("hi", "c1", "scout")
    assert flat["blocks"] == [{"type": "text", "text": "hi"}]
    assert "agent_name" not in read(UserMessage(SCOPE, "e1", 1.0, text="hi"))


@pytest.mark.feature("OAGS-048")
def test_deltas_messages_and_results_differ_by_type() -> None:
    delta = AssistantDelta(SCOPE, "e1", 1.0, text="hel")
    blocks = (TextBlock("hello"), ToolUseBlock("c1", "t", {"a": 1}))
    message = AssistantMessage(SCOPE, "e2", 1.0, blocks=blocks)
    result = ResultEvent(SCOPE, "e3", 1.0, "hello", "completed", Usage(1, 2), 1, 0.5)
    assert [read(event)["type"] for event in (delta, message, result)] == [
        "assistant.delta",
        "assistant.message",
        "result",
    ]
    assert read(message)["blocks"][1]["type"] == "tool_use"


@pytest.mark.feature("OAGS-059")
def test_an_activated_skill_is_an_event() -> None:
    event = SkillActivated(SCOPE, "e1", 1.0, name="review", seq=4)
    assert read(event)["type"] == "skill.activated"
    assert loads_event(dumps_event(event)) == event


# --- reading events of other writers --------------------------------------------------------------

NOTE = Notification(SCOPE, "e1", 1.0, "hi", seq=3)


@pytest.mark.feature("OAGS-014")
def test_unknown_fields_are_ignored() -> None:
    flat = {**read(NOTE), "later": {"a": [1]}, "version": 9}
    assert loads_event(json.dumps(flat)) == NOTE


@pytest.mark.feature("OAGS-004")
def test_unknown_event_type_survives() -> None:
    raw: Any = {"type": "dream.began", "seq": 7, "ts": 2.5, "depth": {"a": 1}}
    event = loads_event(json.dumps(raw))
    assert event == UnknownEvent(raw)
    assert (event.type, event.seq, event.ts) == ("dream.began", 7, 2.5)
    assert read(event) == raw
    assert event_to_json(event) == raw


@pytest.mark.feature("OAGS-004")
def test_strict_reading_refuses_unknown_type() -> None:
    with pytest.raises(UnknownEventTypeError, match=r"unknown event type 'dream\.began'") as caught:
        loads_event('{"type":"dream.began"}', strict=True)
    assert caught.value.type == "dream.began"


def broken(**changes: Any) -> str:
    return json.dumps({**read(NOTE), **changes})


# Inside an event, this value is a level too deep.
DEEPEST = json.loads("[" * 256 + "]" * 256)


@pytest.mark.feature("OAGS-005")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected an event as JSON"),
        ("nonsense", "expected an event as JSON"),
        ('{"type":"result"', "expected an event as JSON"),
        (b"\xff\xfe", "expected an event as JSON"),
        ("\ud800", "expected an event as JSON"),
        ('{"type":"notification","text":"\\ud800"}', "expected an event as JSON"),
        ('{"type":"notification","ts":NaN}', "expected an event as JSON"),
        ("[" * 100_000, "the event is nested more than 256 levels"),
        (b'{"a":' * 257, "the event is nested more than 256 levels"),
        (broken(x=DEEPEST), "the event is nested more than 256 levels"),
        ("null", "expected a JSON object with a type"),
        ("[]", "expected a JSON object with a type"),
        ("{}", "expected a JSON object with a type"),
        ('{"type":""}', "expected a JSON object with a type"),
        ('{"type":["result"]}', "expected a JSON object with a type"),
        ('{"type":"notification"}', "notification event: Object missing required field"),
        (broken(text=3), r"notification event: Expected `str`, got `int` - at `\$\.text`"),
        (broken(ts="now"), r"Expected `float`, got `str` - at `\$\.ts`"),
        (broken(seq=1.5), r"\$\.seq"),
        (broken(iteration=None), r"\$\.iteration"),
        (broken(session_id=None), r"\$\.session_id"),
        (broken(version="1"), r"\$\.version"),
        (broken(type="assistant.message", blocks=[{"type": "dream"}]), r"\$\.blocks\[0\]\.type"),
        (broken(type="assistant.message", blocks=[{"type": "tool_result"}]), r"blocks\[0\]\.type"),
        (broken(type="usage", usage={"input_tokens": "many"}, total={}), r"usage\.input_tokens"),
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_invalid_event_is_refused_with_reason(text: str | bytes, said: str, strict: bool) -> None:
    with pytest.raises(InvalidEventError, match=said):
        loads_event(text, strict=strict)


def test_deepest_event_is_written_and_read() -> None:
    """Every written event can be read: both directions have the same limit, on any interpreter."""
    raw = {**read(NOTE), "type": "future", "x": DEEPEST[0]}
    for event in (UnknownEvent(raw), UnknownEvent({**raw, "y": "\ud800"})):
        assert loads_event(dumps_event(event)).type == "future"
        assert len(loads_events([encode_event(event)])) == 1
    past_stack: list[Any] = []  # deeper than the encoder's own limit
    for _ in range(100_000):
        past_stack = [past_stack]
    for deeper in (DEEPEST, json.loads("[" * 700 + "]" * 700), past_stack):
        for more in ("", "\ud800"):
            with pytest.raises(InvalidEventError, match="nested more than 256 levels"):
                encode_event(UnknownEvent({**raw, "x": deeper, "y": more}))
    (unreadable,) = loads_events([broken(x=DEEPEST).encode()])
    assert isinstance(unreadable, UnreadableEvent)
    assert "nested more than 256 levels" in unreadable.reason


@pytest.mark.feature("OAGS-005")
@given(st.binary(max_size=40) | st.text(st.characters(), max_size=40), st.booleans())
@example('{"type":"x' + "y" * 500 + '"}', True)
def test_any_text_raises_only_event_errors(text: str | bytes, strict: bool) -> None:
    try:
        read_back = loads_event(text, strict=strict)
    except EventError as refused:
        said = str(refused)
    else:
        said = read_back.type
    assert len(said) < 300


@pytest.mark.feature("OAGS-005")
@given(events, st.data())
def test_mutated_event_is_read_or_refused(event: Event, data: Any) -> None:
    flat = read(event)
    flat[data.draw(st.sampled_from(sorted(flat)))] = data.draw(json_values)
    with contextlib.suppress(EventError):
        loads_event(json.dumps(flat))


# --- special characters ---------------------------------------------------------------------------


def test_invalid_text_is_repaired() -> None:
    event = ToolResult(
        SCOPE, "e1", 1.0, tool_use_id="c1", name="t", content={"\ud83d": ["a\udc00"]}
    )
    mended = loads_event(dumps_event(event))
    assert isinstance(mended, ToolResult)
    assert mended.content == {"�": ["a�"]}


def test_integers_beyond_64_bits_stay_exact() -> None:
    event = Notification(SCOPE, "e1", 1.0, "big", data=[10**30, -(10**30)])
    assert loads_event(dumps_event(event)) == event


@given(st.lists(events, max_size=8))
def test_lines_are_read_one_by_one(some: list[Event]) -> None:
    lines = [encode_event(event) for event in some]
    assert loads_events(lines) == [loads_event(line) for line in lines] == some


def test_neighbouring_events_share_their_scope() -> None:
    scopes = [EventScope("s", "r1", "q"), EventScope("s", "r1", "q"), EventScope("s", "r2", "q")]
    some = [Notification(scope, "e", 1.0, "x") for scope in scopes]
    one, two, three = loads_events([encode_event(event) for event in some])
    assert [event.scope for event in (one, two, three) if isinstance(event, Event)] == scopes
    assert isinstance(one, Event)
    assert isinstance(two, Event)
    assert one.scope is two.scope


def test_lines_of_other_kinds_keep_their_places() -> None:
    known = encode_event(Notification(SCOPE, "e", 1.0, "x"))
    read_back = loads_events([known, b'{"type":"new","n":1}', b"{}", known], "s", after_seq=4)
    types = [Notification, UnknownEvent, UnreadableEvent, Notification]
    assert [type(event) for event in read_back] == types
    reason = "expected a JSON object with a type, but this one has none"
    assert read_back[2] == UnreadableEvent("s", 7, reason, b"{}")


def test_old_suspended_run_is_read() -> None:
    text = dumps_event(RunSuspended(SCOPE, "e", 1.0, ("q",)))
    old = text.replace(',"external_calls":{}', "")
    assert old != text
    assert loads_event(old) == RunSuspended(SCOPE, "e", 1.0, ("q",))


@pytest.mark.parametrize("raw", ["%", "Zg=", 1])
def test_malformed_unreadable_event_is_refused(raw: object) -> None:
    line = {"type": UnreadableEvent.type, "session_id": "s", "seq": 1, "reason": "r", "raw": raw}
    with pytest.raises(InvalidEventError, match=f"{UnreadableEvent.type} event: "):
        loads_event(json.dumps(line))
