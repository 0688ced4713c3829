"""The events of a message in their wire format.

`read_events` parses a data line into `Event`s. The fast path works if every field has the type that
Anthropic documents, which is almost always the case. Otherwise the fields are parsed one by one, so
that only the invalid fields are lost. Blocks remain plain objects, because blocks of any type must
be kept unchanged. The same applies to deltas of unknown types. `decode` interprets the fields.
"""

import json
from typing import Final, TypeAlias, TypeVar, cast

import msgspec

from agent_actors.domain.json import MAX_DOCUMENT_DEPTH, nests_deeper
from agent_actors.providers.openai_chat.wire import SAYS_NOTHING
from agent_actors.providers.wire_json import NotJsonError, read_json

# A JSON object. Its type is not recursive, because msgspec cannot decode a recursive type.
WireObject: TypeAlias = dict[str, object]

T = TypeVar("T")

_MAX_DIGITS: Final = 9
"""The maximum number of digits of an index that is sent as text; longer numbers are not indexes."""


class Delta(msgspec.Struct):
    """A `delta` of a block or of the message."""

    type: str | None = None
    text: str | None = None
    partial_json: str | WireObject | None = None
    thinking: str | None = None
    signature: str | None = None
    citation: WireObject | None = None
    stop_reason: str | None = None
    stop_details: WireObject | None = None


class OddDelta(Delta):
    """A delta of unknown type.

    Attributes:
        raw: The complete delta.
    """

    raw: WireObject = {}


class Message(msgspec.Struct):
    """A message: its beginning in a stream, or the complete message in a document."""

    id: str | None = None
    model: str | None = None
    content: list[WireObject] | None = None
    stop_reason: str | None = None
    stop_details: WireObject | None = None
    usage: WireObject | None = None


class Event(msgspec.Struct):
    """One data line of the stream, or a complete message (of type `message`)."""

    type: str | None = None
    index: int | None = None
    delta: Delta | None = None
    content_block: WireObject | None = None
    message: Message | None = None
    usage: WireObject | None = None
    error: object = None


_KNOWN_DELTAS: Final = frozenset(
    {
        "text_delta",
        "input_json_delta",
        "thinking_delta",
        "signature_delta",
        "citations_delta",
        None,  # the delta of a message has no type
    }
)
_DECODER: Final = msgspec.json.Decoder(Event)


def read_events(data: str | bytes, lost: list[str]) -> list[Event]:
    """Parse a data line into one event, no event (`null`), or one event per item of an array.

    Args:
        data: The line.
        lost: Receives the names of the fields whose values could not be read.

    Raises:
        NotJsonError: The line is not JSON.
    """
    if nests_deeper(data, MAX_DOCUMENT_DEPTH):
        raise NotJsonError(f"it is nested more than {MAX_DOCUMENT_DEPTH} levels deep")
    try:
        event = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeError):
        pass
    else:
        delta = event.delta
        if event.type not in {None, "message"} and (delta is None or delta.type in _KNOWN_DELTAS):
            return [event]
    hand = _ByHand(lost)
    return [hand.event(raw) for raw in hand.objects(read_json(data), "the line")]


def text_in(raw: WireObject, key: str) -> str:
    """Return the text or integer under this key as text; empty if there is none."""
    value = raw.get(key)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else ""


class _ByHand:
    """Parses events field by field.

    Args:
        lost: Receives the names of the fields whose values are dropped, because a part of the
            response is lost with them. Empty values (null, blanks) and token counts are not
            reported.
    """

    def __init__(self, lost: list[str]) -> None:
        self._lost = lost

    def event(self, raw: WireObject) -> Event:
        kind = text_in(raw, "type") or None
        delta, message = self._object(raw, "delta"), self._object_if(raw, "message", kind)
        if kind == "message" or (kind is None and "content" in raw):
            kind, message = "message", raw
        return Event(
            type=kind,
            index=self._number(raw, "index"),
            delta=None if delta is None else self._delta(delta),
            content_block=self._object(raw, "content_block"),
            message=None if message is None else self._message(message),
            usage=_object(raw, "usage"),
            error=raw.get("error"),
        )

    def objects(self, value: object, name: str) -> list[WireObject]:
        """Return the objects in a list, or a single object in its place."""
        if isinstance(value, dict):
            return [cast(WireObject, value)]
        items = cast("list[object]", value) if isinstance(value, list) else [value]
        if any(item is not None and not isinstance(item, dict) for item in items):
            self._lost.append(name)
        return [cast(WireObject, item) for item in items if isinstance(item, dict)]

    def _message(self, raw: WireObject) -> Message:
        content = raw.get("content")
        return Message(
            id=text_in(raw, "id") or None,
            model=text_in(raw, "model") or None,
            # The content may also be a string, as in the messages of a request.
            content=[{"type": "text", "text": content}]
            if isinstance(content, str)
            else self.objects(content, "content"),
            stop_reason=self._text(raw, "stop_reason"),
            stop_details=_object(raw, "stop_details"),
            usage=_object(raw, "usage"),
        )

    def _delta(self, raw: WireObject) -> Delta:
        kind = text_in(raw, "type") or None
        if kind not in _KNOWN_DELTAS:
            if "partial_json" in raw:  # arguments of a call, with an unknown delta type
                self._lost.append("type")
            return OddDelta(type=kind, raw=raw)
        return Delta(
            type=kind,
            text=self._text(raw, "text"),
            partial_json=_json(raw.get("partial_json")),
            thinking=self._text(raw, "thinking"),
            signature=self._text(raw, "signature"),
            citation=_object(raw, "citation"),
            stop_reason=self._text(raw, "stop_reason"),
            stop_details=_object(raw, "stop_details"),
        )

    def _text(self, raw: WireObject, key: str) -> str | None:
        value = raw.get(key)
        return self._checked(raw, key, value if isinstance(value, str) else None)

    def _number(self, raw: WireObject, key: str) -> int | None:
        return self._checked(raw, key, _number(raw, key))

    def _object(self, raw: WireObject, key: str) -> WireObject | None:
        return self._checked(raw, key, _object(raw, key))

    def _object_if(self, raw: WireObject, key: str, kind: str | None) -> WireObject | None:
        """Return an object in an event; the object is required in `message_start` only."""
        return self._object(raw, key) if kind == "message_start" else _object(raw, key)

    def _checked(self, raw: WireObject, key: str, found: T | None) -> T | None:
        if found is None and raw.get(key) not in SAYS_NOTHING:
            self._lost.append(key)
        return found


def _number(raw: WireObject, key: str) -> int | None:
    value = raw.get(key)
    if isinstance(value, str):
        return int(value) if value.isdecimal() and len(value) <= _MAX_DIGITS else None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _object(raw: WireObject, key: str) -> WireObject | None:
    value = raw.get(key)
    return cast(WireObject, value) if isinstance(value, dict) else None


def _json(value: object) -> str | WireObject | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dict):
        return cast(WireObject, value)
    # The value is neither text nor an object. It is kept as text, so that the resulting error shows
    # it.
    return json.dumps(value)
