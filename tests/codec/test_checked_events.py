"""An event that a user built is refused, or reads back exactly as it is recorded."""

from enum import Enum
from functools import partial
from typing import Any, Final, cast

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.codec.events import (
    check_line,
    checked_event,
    encode_event,
    loads_event,
    readable_line,
)
from agent_actors.domain.blocks import ImageBlock, TextBlock
from agent_actors.domain.events import (
    EVENT_TYPES,
    AssistantMessage,
    Event,
    EventScope,
    Notification,
    Todo,
    TodosChanged,
    ToolResult,
    UnreadableEvent,
    UsageEvent,
    UserMessage,
)
from agent_actors.domain.json import MAX_DEPTH
from agent_actors.domain.usage import Usage
from agent_actors.errors import InvalidEventError
from tests.codec.events import events
from tests.codec.values import json_values, texts

SCOPE: Final = EventScope("s", "r", "q")
note = partial(Notification, SCOPE, "id", 1.0)


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def endless() -> list[Any]:
    value: list[Any] = []
    value += [value, value]
    return value


anything: Final[st.SearchStrategy[Any]] = st.one_of(
    json_values,
    st.floats(),
    st.text(max_size=4),
    st.binary(max_size=4),
    st.integers(10**20, 10**5000),
    st.sets(st.integers(), max_size=2),
    st.dictionaries(st.integers() | st.tuples(texts), json_values, max_size=2),
    st.builds(Todo, texts, st.integers() | texts, st.just("finished") | texts),
    st.builds(Usage, texts | st.integers() | st.floats()),
    st.lists(st.builds(TextBlock, texts | st.integers()), max_size=2).map(tuple),
    st.builds(object),
    st.builds(endless),
    st.sampled_from([nested(MAX_DEPTH + 1), nested(5000), type, Enum("E", "a").a]),  # type: ignore[attr-defined]
)


@st.composite
def wrong_events(draw: st.DrawFn) -> Event:
    """Generate an event with arbitrary values in some of its fields."""
    cls = draw(st.sampled_from(sorted(EVENT_TYPES.values(), key=lambda one: one.type)))
    names = [field.name for field in attrs.fields(cls)][3:]
    return cls(SCOPE, "id", 1.0, **{name: draw(anything) for name in names if name != "seq"})


@given(wrong_events() | events)
def test_checked_event_reads_back_or_is_refused(event: Event) -> None:
    try:
        found = checked_event(event)
    except InvalidEventError as error:
        assert str(error).startswith(f"{event.type} event: ")  # noqa: PT017 - not all are refused
        return
    assert loads_event(encode_event(found)) == found
    assert found.type == event.type


@given(events)
def test_valid_event_is_unchanged(event: Event) -> None:
    assert checked_event(event) == event


class Mine(Notification):
    """An event class of a user."""


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (
            TodosChanged(SCOPE, "i", 1.0, (Todo("1", "x", cast(Any, "finished")),)),
            "todos.changed event: Invalid enum value 'finished' - at `$.todos[0].status`",
        ),
        (note(cast(Any, 3)), "notification event: Expected `str`, got `int` - at `$.text`"),
        (
            note("a", data=float("nan")),
            "notification event: nan is not a JSON number - at `$.data`",
        ),
        (
            note("a", data=cast(Any, {"b": [b"x"]})),
            "a value of type bytes cannot be converted to JSON (at b[0])",
        ),
        (note("a", data=nested(MAX_DEPTH + 1)), "at most 100 levels deep; got more"),
        (
            UserMessage(SCOPE, "i", 1.0, "a", (TextBlock("a", extra={"x": nested(200)}),)),
            "at most 100 levels deep; got more",
        ),
        (note("a", data=endless()), "or a value that contains itself - at `$.data`"),
        (note("a", data=10**5000), "cannot be a JSON number - at `$.data`"),
        (
            UserMessage(SCOPE, "i", 1.0, "a", cast(Any, ("text",))),
            "expected a tuple of content blocks, got ('text',) - at `$.blocks`",
        ),
        (
            AssistantMessage(SCOPE, "i", 1.0, (ImageBlock(cast(Any, 3)),)),
            "assistant.message event: Expected `str`, got `int` - at `$.blocks[0].source`",
        ),
        (
            UsageEvent(SCOPE, "i", 1.0, Usage(cast(Any, "3")), Usage()),
            "usage event: Expected `int`, got `str` - at `$.usage.input_tokens`",
        ),
        (ToolResult(SCOPE, "i", 1.0, "c", "t", cast(Any, 3)), "at `$.content`"),
        (Mine(SCOPE, "i", 1.0, "a"), "expected an event class from agent_actors.events"),
    ],
)
def test_error_names_type_field_and_value(event: Event, message: str) -> None:
    with pytest.raises(InvalidEventError) as caught:
        checked_event(event)
    assert message in str(caught.value)


def test_checked_event_shares_nothing() -> None:
    data: dict[str, Any] = {"a": [1]}
    found = checked_event(note("a\ud800", data=data))
    data["a"].append(2)
    assert isinstance(found, Notification)
    assert (found.text, found.data) == ("a\ufffd", {"a": [1]})


def test_wrong_header_is_refused() -> None:
    event = Notification(EventScope("s", "r", "q"), "id", cast(float, object()), text="x")
    with pytest.raises(InvalidEventError, match=r"notification event: .*object"):
        checked_event(event)


def test_blocks_must_be_a_tuple() -> None:
    event = AssistantMessage(EventScope("s", "r", "q"), "id", 1.0, blocks=cast(Any, 5))
    with pytest.raises(InvalidEventError, match="expected a tuple of content blocks"):
        checked_event(event)


def test_too_deep_line_is_refused() -> None:
    with pytest.raises(InvalidEventError, match="nested more than 256 levels"):
        check_line(b"[" * 300 + b"]" * 300, 1)


def test_invalid_utf8_makes_line_unreadable() -> None:
    good = encode_event(Notification(EventScope("s", "r", "q"), "id", 1.0, text="x", seq=1))
    bad = good[:-1] + b',"later":"\x80"}'
    assert readable_line(good, "s", 1) == good
    assert isinstance(loads_event(readable_line(bad, "s", 1)), UnreadableEvent)
