"""Lines of records are kept unchanged, and messages are measured in their stored form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.codec.events import encode_event, loads_event
from agent_actors.codec.session_lines import completed_line, moved_line, session_of, size_of
from agent_actors.domain.blocks import TextBlock, ToolUseBlock
from agent_actors.domain.events import AnyEvent
from agent_actors.domain.messages import Message
from agent_actors.errors import InvalidEventError
from tests.codec.events import events


def test_only_the_session_field_is_rewritten() -> None:
    line = (
        b'{"session_id":"a","x":1.50,"y":12345678901234567890123,"z":{"b" : [1e3]},"e":"\xc3\xa9"}'
    )
    assert session_of(line) == "a"
    assert moved_line(line, 'b"') == line.replace(b'"a"', b'"b\\""')


@given(events, st.text(max_size=5))
def test_moved_record_differs_only_in_session(event: AnyEvent, session_id: str) -> None:
    line = encode_event(event)
    moved = moved_line(line, session_id)
    assert session_of(moved) == session_id
    assert moved_line(moved, session_of(line)) == line
    assert loads_event(moved).type == loads_event(line).type


@pytest.mark.parametrize(
    "line", [b"[1]", b"{", b"\xff", b'{"session_id":' + b"[" * 5000, b"", b"null"]
)
def test_non_object_line_is_refused(line: bytes) -> None:
    with pytest.raises(InvalidEventError):
        session_of(line)
    with pytest.raises(InvalidEventError):
        moved_line(line, "s")


@pytest.mark.parametrize("line", [b"{}", b'{"session_id":1}'])
def test_a_record_without_a_session_names_none(line: bytes) -> None:
    with pytest.raises(InvalidEventError, match="session_id"):
        session_of(line)


def test_message_size_is_its_json_size() -> None:
    assert size_of(Message("user", (TextBlock("é"),))) == len(
        b'[{"type":"text","text":"\xc3\xa9"}]'
    )
    call = ToolUseBlock("c", "t", {"a": 1})
    assert size_of(Message("assistant", (call,))) == len(
        b'[{"type":"tool_use","id":"c","name":"t","input":{"a":1}}]'
    )
    assert size_of(Message("user", (TextBlock("\ud800"),))) > 0, "a lone surrogate"


def test_only_missing_fields_are_added() -> None:
    """A complete line stays the same bytes, whatever its spacing."""
    line = b'{ "type": "note", "ts": 1.50 }'
    assert completed_line(line, {"ts": 2.0}) is line
    assert completed_line(line, {"ts": 2.0, "id": "a"}) == b'{"type":"note","ts":1.50,"id":"a"}'
