"""The events of a message in their wire format.

`read_events` parses a data line into `Event`s. The fast path works if every field has the type that
Anthropic documents, which is almost always the case. Otherwise the fields are parsed one by one, so
that only the invalid fields are lost. Blocks remain plain objects, because blocks of any type must
be kept unchanged. The same applies to deltas of unknown types. `decode` interprets the fields.
"""

from typing import Final

import msgspec

from agent_actors.codec.json_text import check_depth, read_json
from agent_actors.providers.wire_json import FieldReader, WireObject, json_in, object_in, text_in


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
    check_depth(data)
    try:
        event = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeError):
        pass
    else:
        delta = event.delta
        if event.type not in {None, "message"} and (delta is None or delta.type in _KNOWN_DELTAS):
            return [event]
    reader = _EventReader(lost)
    return [reader.event(raw) for raw in reader.objects(read_json(data), "the line")]


class _EventReader(FieldReader):
    """Reads the fields of events."""

    def event(self, raw: WireObject) -> Event:
        kind = text_in(raw, "type") or None
        delta, message = self.object(raw, "delta"), self._object_if(raw, "message", kind)
        if kind == "message" or (kind is None and "content" in raw):
            kind, message = "message", raw
        return Event(
            type=kind,
            index=self.number(raw, "index"),
            delta=None if delta is None else self._delta(delta),
            content_block=self.object(raw, "content_block"),
            message=None if message is None else self._message(message),
            usage=object_in(raw, "usage"),
            error=raw.get("error"),
        )

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
            stop_details=object_in(raw, "stop_details"),
            usage=object_in(raw, "usage"),
        )

    def _delta(self, raw: WireObject) -> Delta:
        kind = text_in(raw, "type") or None
        if kind not in _KNOWN_DELTAS:
            if "partial_json" in raw:  # arguments of a call, with an unknown delta type
                self.lost.append("type")
            return OddDelta(type=kind, raw=raw)
        return Delta(
            type=kind,
            text=self._text(raw, "text"),
            partial_json=json_in(raw, "partial_json"),
            thinking=self._text(raw, "thinking"),
            signature=self._text(raw, "signature"),
            citation=object_in(raw, "citation"),
            stop_reason=self._text(raw, "stop_reason"),
            stop_details=object_in(raw, "stop_details"),
        )

    def _text(self, raw: WireObject, key: str) -> str | None:
        value = raw.get(key)
        return self.checked(raw, key, value if isinstance(value, str) else None)

    def _object_if(self, raw: WireObject, key: str, kind: str | None) -> WireObject | None:
        """Return an object in an event; the object is required in `message_start` only."""
        return self.object(raw, key) if kind == "message_start" else object_in(raw, key)
