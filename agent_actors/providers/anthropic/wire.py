"""The events of a message as they stand on the wire.

`read_events` gives a data line as `Event`s: at once if every field has the type that Anthropic
documents, which is nearly always; else by hand, field by field, so that one odd field costs nothing
but itself. Blocks stay plain objects, since those of any kind must be kept as they came; so does a
delta of a kind that `Delta` has no field for. What the fields mean is decided in `decode`.
"""

import json
from typing import Final, TypeAlias, TypeVar, cast

import msgspec

from agent_actors.domain.json import MAX_DOCUMENT_DEPTH, nests_deeper
from agent_actors.providers.openai_chat.wire import SAYS_NOTHING
from agent_actors.providers.wire_json import NotJsonError, read_json

# JSON as these types name it: the decoder cannot be told of a type that contains itself.
WireObject: TypeAlias = dict[str, object]

T = TypeVar("T")

_MAX_DIGITS: Final = 9
"""Digits of an index that came as text: a longer one numbers no block."""


class Delta(msgspec.Struct):
    """What is added to a block, or to the message."""

    type: str | None = None
    text: str | None = None
    partial_json: str | WireObject | None = None
    thinking: str | None = None
    signature: str | None = None
    citation: WireObject | None = None
    stop_reason: str | None = None
    stop_details: WireObject | None = None


class OddDelta(Delta):
    """A delta of a kind that is not known here.

    Attributes:
        raw: All of it.
    """

    raw: WireObject = {}


class Message(msgspec.Struct):
    """The message: its head where a stream begins, all of it where no stream came."""

    id: str | None = None
    model: str | None = None
    content: list[WireObject] | None = None
    stop_reason: str | None = None
    stop_details: WireObject | None = None
    usage: WireObject | None = None


class Event(msgspec.Struct):
    """One data line of the stream, or a whole message (then of the type `message`)."""

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
        None,  # that of a message has no type
    }
)
_DECODER: Final = msgspec.json.Decoder(Event)


def read_events(data: str | bytes, lost: list[str]) -> list[Event]:
    """The events of a data line: one; none if it is `null`; each of an array.

    Args:
        data: The line.
        lost: Gets the names of the fields whose values could not be read.

    Raises:
        NotJsonError: It is no JSON.
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
    """The text under this key; empty if there is none. Numbers, as ids may be, become text."""
    value = raw.get(key)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else ""


class _ByHand:
    """Reads events field by field.

    Args:
        lost: Gets the names of the fields whose values are dropped: something of the response is
            lost with them. Values that say nothing (null, blanks) and token counts are not named.
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
        """The objects in a list, or the one that stands in its place."""
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
            # Text, as the caller's own messages may have it.
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
            if "partial_json" in raw:  # more of a call, under a name that is not known
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
        """An object that only the beginning of a message has."""
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
    # Neither text nor an object: kept as text, which becomes an error that shows it.
    return json.dumps(value)
