"""Functions that change the lines and texts of a stream in the same way for every protocol."""

import json
from collections.abc import Callable, Iterator
from typing import cast

from agent_actors.domain.json import JsonValue
from agent_actors.testing.conformance.quirks import Frames

Write = Callable[[Frames], Frames]


def before_each(text: bytes) -> Write:
    """Insert this text before each event."""
    return lambda frames: [new for one in frames for new in (text, one)]


def replaced(old: bytes, new: bytes) -> Write:
    """Replace bytes in each event."""
    return lambda frames: [one.replace(old, new) for one in frames]


def no_last_blank_line(frames: Frames) -> Frames:
    """Remove the blank line after the last event."""
    return [*frames[:-1], frames[-1].rstrip(b"\n")]


def halves(text: str) -> Iterator[str]:
    """Split the text inside each character that takes two UTF-16 code units."""
    units = text.encode("utf-16-le", "surrogatepass")
    piece = ""
    for at in range(0, len(units), 2):
        unit = units[at : at + 2].decode("utf-16-le", "surrogatepass")
        if "\udc00" <= unit <= "\udfff":
            yield piece
            piece = ""
        piece += unit
    yield piece


def loaded(text: str) -> JsonValue:
    """Parse this JSON text."""
    return cast(JsonValue, json.loads(text))
