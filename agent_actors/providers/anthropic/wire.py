"""The events of a message as they stand on the wire.

`read_events` gives a data line as `Event`s: at once if every field has the type that Anthropic
documents, which is nearly always; else by hand, field by field, so that one odd field costs nothing
but itself. Blocks stay plain objects, since those of any kind must be kept as they came; so does a
delta of a kind that `Delta` has no field for. What the fields mean is decided in `decode`.
"""

import json
from typing import Final, TypeAlias, cast

import msgspec

from agent_actors.providers.wire_json import read_json

# JSON as these types name it: the decoder cannot be told of a type that contains itself.
WireObject: TypeAlias = dict[str, object]

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


def read_events(data: str | bytes) -> list[Event]:
    """The events of a data line: one; none if it holds another value; each of an array.

    Raises:
        NotJsonError: It is no JSON.
    """
    try:
        event = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    else:
        delta = event.delta
        if event.type not in {None, "message"} and (delta is None or delta.type in _KNOWN_DELTAS):
            return [event]
    return [_event(raw) for raw in _objects(read_json(data))]


def text_in(raw: WireObject, key: str) -> str:
    """The text under this key; empty if there is none. Numbers, as ids may be, become text."""
    value = raw.get(key)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else ""


def _event(raw: WireObject) -> Event:
    kind = text_in(raw, "type") or None
    delta, message = _object(raw, "delta"), _object(raw, "message")
    if kind == "message" or (kind is None and "content" in raw):
        kind, message = "message", raw
    return Event(
        type=kind,
        index=_number(raw, "index"),
        delta=None if delta is None else _delta(delta),
        content_block=_object(raw, "content_block"),
        message=None if message is None else _message(message),
        usage=_object(raw, "usage"),
        error=raw.get("error"),
    )


def _message(raw: WireObject) -> Message:
    return Message(
        id=text_in(raw, "id") or None,
        model=text_in(raw, "model") or None,
        content=_blocks(raw.get("content")),
        stop_reason=text_in(raw, "stop_reason") or None,
        usage=_object(raw, "usage"),
    )


def _blocks(content: object) -> list[WireObject]:
    if isinstance(content, str):  # as the caller's own messages may have it
        return [{"type": "text", "text": content}]
    return _objects(content)


def _delta(raw: WireObject) -> Delta:
    kind = text_in(raw, "type") or None
    if kind not in _KNOWN_DELTAS:
        return OddDelta(type=kind, raw=raw)
    return Delta(
        type=kind,
        text=_text(raw, "text"),
        partial_json=_json(raw.get("partial_json")),
        thinking=_text(raw, "thinking"),
        signature=_text(raw, "signature"),
        citation=_object(raw, "citation"),
        stop_reason=_text(raw, "stop_reason"),
    )


def _json(value: object) -> str | WireObject | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dict):
        return cast(WireObject, value)
    # Neither text nor an object: kept as text, which becomes an error that shows it.
    return json.dumps(value)


def _text(raw: WireObject, key: str) -> str | None:
    value = raw.get(key)
    return value if isinstance(value, str) else None


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


def _objects(value: object) -> list[WireObject]:
    """The objects in a list, or the one that stands in its place."""
    if isinstance(value, dict):
        return [cast(WireObject, value)]
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast(WireObject, item) for item in items if isinstance(item, dict)]
