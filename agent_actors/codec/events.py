"""Conversion of events to and from JSON: one flat object, tagged by `type`.

The object has the header's fields and the event's own fields. The header's fields are `type,
version, id, ts, session_id, run_id, request_id, iteration` and, if set, `seq, parent_tool_use_id,
agent_name`. msgspec decodes the object in one pass, as a member of a union of mirror classes (see
`codec/mirrors.py`). Only if that fails is the object examined again, to distinguish an unknown
event type from invalid text.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, Final, Union, cast, get_args, get_origin

import attrs
import msgspec

from agent_actors.codec.blocks import BLOCK_TYPES, dump_block, mirrored_union, unmirrored
from agent_actors.codec.json_values import to_json
from agent_actors.codec.mirrors import Mirror, mirror_of
from agent_actors.domain.blocks import AssistantBlock, ContentBlock
from agent_actors.domain.events import (
    EVENT_TYPES,
    EVENT_VERSION,
    AnyEvent,
    Event,
    EventScope,
    UnknownEvent,
    UnreadableEvent,
)
from agent_actors.domain.json import (
    MAX_DEPTH,
    MAX_DOCUMENT_DEPTH,
    JsonObject,
    is_deeper,
    nests_deeper,
)
from agent_actors.errors import InvalidEventError, UnknownEventTypeError

# Maximum number of characters of an invalid type in an error message.
_SHOWN_CHARACTERS: Final = 80
_TOO_DEEP: Final = f"the event is nested more than {MAX_DOCUMENT_DEPTH} levels deep"

_CONTAINERS: Final = (Mapping, list, tuple, set, frozenset)


class _EventMirror(Mirror, kw_only=True):
    """The header. All ids are required. Only the shape of `version` is checked."""

    session_id: str
    run_id: str
    request_id: str
    id: str
    ts: float
    iteration: int = 0
    seq: int | None = None
    agent_name: str | None = None
    parent_tool_use_id: str | None = None
    version: int = EVENT_VERSION


def _tuple_of(hint: Any) -> Any:
    return cast(Any, tuple)[(hint, ...)]


_MIRROR_HINTS: Final[Mapping[Any, Any]] = {
    tuple[ContentBlock, ...]: _tuple_of(mirrored_union(get_args(ContentBlock))),
    tuple[AssistantBlock, ...]: _tuple_of(mirrored_union(get_args(AssistantBlock))),
}


def _mirror_hint(hint: Any) -> Any:
    """Return a field's type in the mirror, where tuples of blocks become tuples of mirrors."""
    return _MIRROR_HINTS.get(hint, hint) if get_origin(hint) is tuple else hint


_EMPTY_HEADER: Final[Mapping[str, msgspec.Raw]] = {
    **dict.fromkeys(("session_id", "run_id", "request_id", "id"), msgspec.Raw(b'""')),
    "ts": msgspec.Raw(b"0"),
}

_HEADER: Final = frozenset(field.name for field in attrs.fields(Event))
_MIRRORS: Final[tuple[Any, ...]] = tuple(
    mirror_of(cls, base=_EventMirror, leave=_HEADER, replace=_mirror_hint)
    for cls in EVENT_TYPES.values()
)
_DECODER: Final[msgspec.json.Decoder[_EventMirror]] = msgspec.json.Decoder(
    Union[_MIRRORS]  # noqa: UP007 - built at run time
)


def _same(value: Any) -> Any:
    return value


def _dump_blocks(blocks: tuple[ContentBlock, ...]) -> list[JsonObject]:
    return [dump_block(block) for block in blocks]


def _load_blocks(mirrors: tuple[Mirror, ...]) -> tuple[ContentBlock, ...]:
    return tuple(unmirrored(mirror) for mirror in mirrors)


_Convert = Callable[[Any], Any]
_OWN_FIELDS: Final[Mapping[Any, tuple[tuple[str, _Convert, _Convert], ...]]] = {
    mirror.mirrored: tuple(
        (name, _dump_blocks, _load_blocks) if name == "blocks" else (name, _same, _same)
        for name in mirror.names
    )
    for mirror in _MIRRORS
}


# The scope's fields, in the order of its constructor; and for each class, the fields after the
# scope and the index of its blocks. Reading all fields with one call speeds up the decoding of long
# logs.
_SCOPE_OF: Final = attrgetter(*(field.name for field in attrs.fields(EventScope)))
_READERS: Final[Mapping[Any, tuple[Callable[[Any], tuple[Any, ...]], int | None]]] = {
    mirror.mirrored: (
        attrgetter("id", "ts", *mirror.names),
        2 + mirror.names.index("blocks") if "blocks" in mirror.names else None,
    )
    for mirror in _MIRRORS
}


def dumps_event(event: AnyEvent) -> str:
    """Encode the event as one line of JSON text.

    Lone surrogates, which remain in text if an emoji is split, are replaced, because JSON text
    cannot contain them.
    """
    return encode_event(event).decode()


def encode_event(event: AnyEvent) -> bytes:
    """Encode the event as one line of JSON in UTF-8 (see `dumps_event`).

    Raises:
        InvalidEventError: The event is nested more than `MAX_DOCUMENT_DEPTH` levels deep, so it
            could not be decoded again.
    """
    flat = _flat(event)
    try:
        line = msgspec.json.encode(flat)
    except UnicodeEncodeError:
        if is_deeper(flat, MAX_DOCUMENT_DEPTH):
            raise InvalidEventError(_TOO_DEEP) from None
        line = msgspec.json.encode(to_json(flat, levels=MAX_DOCUMENT_DEPTH))
    except RecursionError:  # the encoder's own limit, which is never below MAX_DOCUMENT_DEPTH
        raise InvalidEventError(_TOO_DEEP) from None
    if nests_deeper(line, MAX_DOCUMENT_DEPTH):
        raise InvalidEventError(_TOO_DEEP)
    return line


def event_to_json(event: AnyEvent) -> JsonObject:
    """Return the event as plain JSON values that share nothing with the event."""
    return cast(JsonObject, to_json(_flat(event), levels=MAX_DOCUMENT_DEPTH))


def checked_event(event: Event) -> Event:
    """Return the event as it will be decoded: validated, and sharing nothing with the argument.

    Raises:
        InvalidEventError: The event could not be decoded again, because a field has the wrong type
            or a value that JSON cannot represent, or because the class is not one of this package's
            event classes.
    """
    kind = _kind_of(event)
    for name, dump, _load in _OWN_FIELDS[type(event)]:
        value = getattr(event, name)
        if dump is _dump_blocks and _are_blocks(value):
            value = dump(value)
        _check_depth(value, kind, name)
    try:
        line = msgspec.json.encode(event_to_json(event))
    except (TypeError, AttributeError, KeyError, OverflowError) as error:
        raise InvalidEventError(f"{kind} event: {_field_fault(event, error)}") from None
    return cast(Event, loads_event(line))


def checked_fields(event: Event) -> tuple[type[Event], dict[str, Any]]:
    """Return an event's class and its own fields (without the header) as they will be decoded.

    Raises:
        InvalidEventError: The event could not be decoded again (see `checked_event`).
    """
    found = checked_event(event)
    return type(found), {name: getattr(found, name) for name, *_ in _OWN_FIELDS[type(found)]}


def _kind_of(event: object) -> str:
    cls = type(event)
    if cls not in _OWN_FIELDS:
        raise InvalidEventError(
            f"expected an event class from agent_actors.events; got {cls.__name__}, which "
            "could not be read back from a log"
        )
    return cast(Event, event).type


def _check_depth(value: object, kind: str, name: str) -> None:
    # Visit containers level by level and only once, because a value may contain itself or be nested
    # more deeply than the stack allows.
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        inner = [item for one in level for item in _containers_in(one)]
        level = list({id(item): item for item in inner}.values())
        if not level:
            return
    raise InvalidEventError(
        f"{kind} event: expected lists and objects that are at most {MAX_DEPTH} levels deep; got "
        f"more, or a value that contains itself - at `$.{name}`"
    )


def _containers_in(value: Any) -> list[Any]:
    if not isinstance(value, _CONTAINERS):
        return []
    items = cast(Any, value).values() if isinstance(value, Mapping) else cast("list[Any]", value)
    return [item for item in items if isinstance(item, _CONTAINERS)]


def _field_fault(event: Event, error: Exception) -> str:
    """Return the validation error of the first field that cannot be represented in JSON."""
    for name, dump, _load in _OWN_FIELDS[type(event)]:
        value = getattr(event, name)
        if dump is _dump_blocks and not _are_blocks(value):
            return f"expected a tuple of content blocks, got {value!r:.80} - at `$.{name}`"
        try:
            to_json(dump(value))
        except TypeError as fault:
            return f"{fault} - at `$.{name}`"
    return str(error)


def _are_blocks(value: object) -> bool:
    if not isinstance(value, tuple | list):
        return False
    return all(type(block) in BLOCK_TYPES for block in cast("Iterable[object]", value))


def _flat(event: AnyEvent) -> dict[str, Any]:
    if isinstance(event, UnknownEvent):
        return dict(event.raw)
    if isinstance(event, UnreadableEvent):
        return {
            "type": event.type,
            "version": EVENT_VERSION,
            "session_id": event.session_id,
            "seq": event.seq,
            "reason": event.reason,
            "raw": b64encode(event.raw).decode(),
        }
    scope = event.scope
    flat: dict[str, Any] = {
        "type": event.type,
        "version": event.version,
        "id": event.id,
        "ts": event.ts,
        "session_id": scope.session_id,
        "run_id": scope.run_id,
        "request_id": scope.request_id,
        "iteration": scope.iteration,
    }
    if event.seq is not None:
        flat["seq"] = event.seq
    if scope.parent_tool_use_id is not None:
        flat["parent_tool_use_id"] = scope.parent_tool_use_id
    if scope.agent_name is not None:
        flat["agent_name"] = scope.agent_name
    for name, dump, _load in _OWN_FIELDS[type(event)]:
        flat[name] = dump(getattr(event, name))
    return flat


def loads_event(text: str | bytes, *, strict: bool = False, header: bool = False) -> AnyEvent:
    """Decode an event from JSON text, ignoring unknown fields.

    Text without a header, for example `{"type": "user.message", "text": "hi"}`, is a bare event. In
    contrast, a record in a session's log must have a complete header (see `read_event`).

    Args:
        text: JSON text, as str or UTF-8.
        strict: True to raise an error for an unknown event type instead of returning an
            `UnknownEvent`.
        header: True to raise an error if the header is incomplete.

    Raises:
        UnknownEventTypeError: The type is unknown and `strict` is True.
        InvalidEventError: The text is not a JSON object with a type, or a field is missing or has
            the wrong shape.
    """
    if nests_deeper(text, MAX_DOCUMENT_DEPTH):
        raise InvalidEventError(_TOO_DEEP)
    try:
        mirror = _DECODER.decode(text)
    except ValueError as error:
        filled = None if header else _with_header(text)
        if filled is not None:
            return loads_event(filled, strict=strict, header=True)
        return _of_unknown_type(text, error, strict=strict)
    own = _OWN_FIELDS[mirror.mirrored]
    return cast(
        Event,
        mirror.mirrored(
            EventScope(
                mirror.session_id,
                mirror.run_id,
                mirror.request_id,
                mirror.iteration,
                mirror.agent_name,
                mirror.parent_tool_use_id,
            ),
            mirror.id,
            mirror.ts,
            seq=mirror.seq,
            **{name: load(getattr(mirror, name)) for name, _dump, load in own},
        ),
    )


def _with_header(text: str | bytes) -> bytes | None:
    """Return the event with missing header fields filled in as empty; None if none is missing."""
    try:
        raw = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        known = msgspec.json.decode(raw.get("type", b"0")) in EVENT_TYPES
    except (ValueError, TypeError):
        return None
    if not known:
        return None
    missing = {name: value for name, value in _EMPTY_HEADER.items() if name not in raw}
    return msgspec.json.encode({**missing, **raw}) if missing else None


def read_event(line: bytes, session_id: str, seq: int) -> AnyEvent:
    """Decode the record at a log position; an `UnreadableEvent` if it is not a valid event."""
    try:
        return loads_event(line, header=True)
    except InvalidEventError as error:
        return UnreadableEvent(session_id, seq, str(error), bytes(line))


def check_line(line: bytes, seq: int) -> None:
    """Check that a line can be decoded as the record at this position.

    Raises:
        InvalidEventError: The line cannot be decoded, or has another position.
    """
    if nests_deeper(line, MAX_DOCUMENT_DEPTH):
        raise InvalidEventError(_TOO_DEEP)
    try:
        found = _DECODER.decode(line).seq
    except ValueError:
        found = loads_event(line, header=True).seq
    if found != seq:
        raise InvalidEventError(f"the record at position {seq} has seq {found}")


def readable_line(line: bytes, session_id: str, seq: int) -> bytes:
    """Return the line at a log position, or an `UnreadableEvent` line if the line is not valid."""
    event = read_event(line, session_id, seq)
    try:
        line.decode()  # msgspec does not check the UTF-8 of unknown fields
    except UnicodeDecodeError as error:
        event = UnreadableEvent(session_id, seq, str(error), bytes(line))
    return encode_event(event) if isinstance(event, UnreadableEvent) else line


def loads_events(
    lines: Iterable[bytes], session_id: str = "", *, after_seq: int = 0
) -> list[AnyEvent]:
    """Decode the records in a session's log, one per line.

    Consecutive events with the same header share one scope. A line that is not a valid event
    becomes an `UnreadableEvent`.

    Args:
        lines: The lines.
        session_id: The session, used for records that cannot be decoded.
        after_seq: The `seq` of the record before the first line.
    """
    decode, readers, scope_of = _DECODER.decode, _READERS, _SCOPE_OF
    known: tuple[object, ...] = ()
    scope: EventScope | None = None
    events: list[AnyEvent] = []
    for line in lines:
        if nests_deeper(line, MAX_DOCUMENT_DEPTH):
            events.append(read_event(line, session_id, after_seq + len(events) + 1))
            continue
        try:
            mirror = decode(line)
        except ValueError:
            events.append(read_event(line, session_id, after_seq + len(events) + 1))
            continue
        header = scope_of(mirror)
        if scope is None or header != known:
            scope, known = EventScope(*header), header
        cls = mirror.mirrored
        values, blocks = readers[cls]
        own = values(mirror)
        if blocks is not None:
            own = (*own[:blocks], _load_blocks(own[blocks]), *own[blocks + 1 :])
        events.append(cls(scope, *own, seq=mirror.seq))
    return events


class _Unreadable(msgspec.Struct):
    session_id: str
    seq: int
    reason: str
    raw: str = ""


def _unreadable(text: str | bytes) -> UnreadableEvent:
    try:
        found = msgspec.json.decode(text, type=_Unreadable)
        raw = b64decode(found.raw, validate=True)
    except ValueError as error:
        raise InvalidEventError(f"{UnreadableEvent.type} event: {error}") from None
    return UnreadableEvent(found.session_id, found.seq, found.reason, raw)


def _of_unknown_type(text: str | bytes, fault: Exception, *, strict: bool) -> AnyEvent:
    try:
        raw = msgspec.json.decode(text)
    except ValueError as error:
        raise InvalidEventError(f"expected an event as JSON: {error}") from None
    kind = cast(JsonObject, raw).get("type") if isinstance(raw, dict) else None
    if not isinstance(kind, str) or not kind:
        raise InvalidEventError(
            "expected a JSON object with a type, but this one has none"
        ) from None
    if kind == UnreadableEvent.type:
        return _unreadable(text)
    if kind in EVENT_TYPES:
        raise InvalidEventError(f"{kind} event: {fault}") from None
    if strict:
        raise UnknownEventTypeError(kind[:_SHOWN_CHARACTERS]) from None
    return UnknownEvent(cast(JsonObject, raw))
