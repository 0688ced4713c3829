"""Assertions on the events of a run, with messages that show the events."""

from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from agent_actors.domain.events import AnyEvent, Event

# The fields of the header, which have new values in each run.
_HEADER: Final = frozenset({"scope", "id", "ts", "seq"})
# Characters of a value in a message.
_VALUE: Final = 60


@attrs.frozen
class Like:
    """The expected type and fields of an event; made by `like`."""

    event_type: type[Event]
    fields: dict[str, object]

    def matches(self, event: AnyEvent) -> bool:
        """Return whether the event has this type and these fields."""
        return isinstance(event, self.event_type) and all(
            getattr(event, name) == value for name, value in self.fields.items()
        )

    def __str__(self) -> str:
        return _line(self.event_type.type, self.fields.items())


def like(event_type: type[Event], **fields: object) -> Like:
    """Describe an expected event, for `check_events`.

    Args:
        event_type: The class of the event.
        fields: The expected values of some of its fields and properties. Other fields may have any
            value.

    Raises:
        TypeError: The events of this class have no such field.

    Example:
        `like(ToolResult, name="get_weather", is_error=False)`
    """
    unknown = sorted(name for name in fields if name not in _names_of(event_type))
    if unknown:
        raise TypeError(
            f"{event_type.__name__} has no field {unknown[0]!r}; its fields are "
            f"{', '.join(_own_names(event_type))}"
        )
    return Like(event_type, dict(fields))


def check_events(events: Iterable[AnyEvent], *expected: Like) -> None:
    """Check that the expected events occur in this order; other events may be between them.

    Args:
        events: The events of a run, for example `[event async for event in stream]`.
        expected: The expected events; see `like`.

    Raises:
        AssertionError: An expected event is missing. The message lists all events, one a line, and
            marks those that were found.

    Example:
        ```python
        check_events(
            events,
            like(ToolUse, name="slow_add"),
            like(ToolResult, content="3"),
            like(ResultEvent, stop_reason="completed"),
        )
        ```
    """
    seen = tuple(events)
    found: set[int] = set()
    start = 0
    for number, one in enumerate(expected, 1):
        places = range(start, len(seen))
        place = next((place for place in places if one.matches(seen[place])), None)
        if place is None:
            raise AssertionError(_message(seen, found, number, one))
        found.add(place)
        start = place + 1


def _message(seen: tuple[AnyEvent, ...], found: set[int], number: int, missing: Like) -> str:
    after = f" after event {max(found) + 1}" if found else ""
    lines = [f"expected event {number} is missing{after}: {missing}", "the events were:"]
    for place, event in enumerate(seen):
        names = _own_names(type(event))
        fields = ((name, getattr(event, name)) for name in names)
        mark = "+" if place in found else " "
        shown = [(name, value) for name, value in fields if value not in (None, "", ())]
        lines.append(f"{mark}{place + 1:4}  {_line(event.type, shown)}")
    if not seen:
        lines.append("      none")
    return "\n".join(lines)


def _own_names(event_type: type[AnyEvent]) -> list[str]:
    return [field.name for field in attrs.fields(event_type) if field.name not in _HEADER]


def _names_of(event_type: type[Event]) -> Iterator[str]:
    yield from _own_names(event_type)
    yield from (name for name in dir(event_type) if not name.startswith("_"))


def _line(event_type: str, fields: Iterable[tuple[str, object]]) -> str:
    values = " ".join(f"{name}={_short(value)}" for name, value in fields)
    return f"{event_type:18} {values}".rstrip()


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _VALUE else f"{text[: _VALUE - 1]}…"
