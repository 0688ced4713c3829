"""Events without a header, for tests and imports."""

import pytest

from agent_actors.codec.events import dumps_event, loads_event, read_event
from agent_actors.domain.events import (
    EVENT_TYPES,
    Event,
    Notification,
    RunSuspended,
    ToolUse,
    UnreadableEvent,
    UserMessage,
    bare_event,
)
from agent_actors.errors import InvalidEventError


def test_bare_event_has_empty_header() -> None:
    event = UserMessage(text="hi")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue] - see `bare_event`
    assert event == bare_event(UserMessage, text="hi")
    assert (event.session_id, event.run_id, event.request_id) == ("", "", "")
    assert (event.id, event.ts, event.seq, event.text) == ("", 0.0, None, "hi")
    assert loads_event(dumps_event(event)) == event


@pytest.mark.parametrize("cls", [cls for cls in EVENT_TYPES.values() if cls is not RunSuspended])
def test_missing_field_is_type_error(cls: type[Event]) -> None:
    with pytest.raises(TypeError, match=r"\(\) needs a value for '[a-z_]+'"):
        bare_event(cls)


def test_invalid_bare_fields_are_type_errors() -> None:
    with pytest.raises(TypeError, match=r"ToolUse\(\) needs a value for 'name'"):
        bare_event(ToolUse, tool_use_id="a", input={})
    with pytest.raises(TypeError, match="nexpected keyword argument 'txt'"):
        bare_event(Notification, txt="a")


def test_line_with_type_and_text_is_read() -> None:
    line = b'{"type":"user.message","text":"hi"}'
    assert loads_event(line) == bare_event(UserMessage, text="hi")
    partly = loads_event('{"type":"user.message","text":"hi","session_id":"s","seq":3}')
    assert isinstance(partly, UserMessage)
    assert (partly.session_id, partly.seq, partly.id) == ("s", 3, "")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{}", "has none"),
        ("[]", "has none"),
        ('{"type":[]}', "has none"),
        ('{"type":"user.message"}', "missing required field `text`"),
        ('{"type":"user.message","text":1}', "Expected `str`, got `int`"),
        ('{"type":"user.message","text":"hi","id":1}', "Expected `str`, got `int`"),
    ],
)
def test_invalid_bare_line_is_refused(line: str, expected: str) -> None:
    with pytest.raises(InvalidEventError, match=expected):
        loads_event(line)


def test_record_of_log_needs_header() -> None:
    found = read_event(b'{"type":"user.message","text":"hi"}', "s", 1)
    assert isinstance(found, UnreadableEvent)
    assert "missing required field `session_id`" in found.reason
