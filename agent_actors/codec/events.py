"""Events to and from JSON: one flat object, tagged by `type`.

The header's fields (`type, version, id, ts, session_id, run_id, request_id, iteration`, and where
they apply `seq, parent_tool_use_id, agent_name`) stand beside the event's own. Reading is one pass
of msgspec over a union of mirrors; only what that refuses is looked at a second time, to tell an
event of a type from the future from what is no event.
"""

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, Final, Union, cast, get_args, get_origin

import attrs
import msgspec

from agent_actors.codec.blocks import dump_block, mirrored_union, unmirrored
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
)
from agent_actors.domain.json import MAX_DOCUMENT_DEPTH, JsonObject, is_deeper, nests_deeper
from agent_actors.errors import InvalidEventError, UnknownEventTypeError

# Longest piece of a bad type that a message repeats.
_SHOWN_CHARACTERS: Final = 80
_TOO_DEEP: Final = f"expected an event of at most {MAX_DOCUMENT_DEPTH} nested levels"


class _EventMirror(Mirror, kw_only=True):
    """The header. Absent ids are no events of ours; `version` is read for its shape only."""

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
    """Blocks are read as their mirrors."""
    return _MIRROR_HINTS.get(hint, hint) if get_origin(hint) is tuple else hint


_HEADER: Final = frozenset(field.name for field in attrs.fields(Event))
_MIRRORS: Final[tuple[Any, ...]] = tuple(
    mirror_of(cls, base=_EventMirror, leave=_HEADER, replace=_mirror_hint)
    for cls in EVENT_TYPES.values()
)
_DECODER: Final[msgspec.json.Decoder[_EventMirror]] = msgspec.json.Decoder(
    Union[_MIRRORS]  # noqa: UP007 - built, not written
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


# The scope's fields in the order of its constructor; and, for each class, those that follow the
# scope in its own, with the place of its blocks. To take them by one call makes long logs quick.
_SCOPE_OF: Final = attrgetter(*(field.name for field in attrs.fields(EventScope)))
_READERS: Final[Mapping[Any, tuple[Callable[[Any], tuple[Any, ...]], int | None]]] = {
    mirror.mirrored: (
        attrgetter("id", "ts", *mirror.names),
        2 + mirror.names.index("blocks") if "blocks" in mirror.names else None,
    )
    for mirror in _MIRRORS
}


def dumps_event(event: AnyEvent) -> str:
    """The event as one line of JSON text.

    Lone surrogates, which cut-up emojis leave in text, are replaced: no JSON could carry them.
    """
    return encode_event(event).decode()


def encode_event(event: AnyEvent) -> bytes:
    """Like `dumps_event`, as UTF-8.

    Raises:
        InvalidEventError: The event is nested on more than `MAX_DOCUMENT_DEPTH` levels: no reader
            would take such a record.
    """
    flat = _flat(event)
    try:
        line = msgspec.json.encode(flat)
    except UnicodeEncodeError:
        if is_deeper(flat, MAX_DOCUMENT_DEPTH):
            raise InvalidEventError(_TOO_DEEP) from None
        line = msgspec.json.encode(to_json(flat, levels=MAX_DOCUMENT_DEPTH))
    except RecursionError:  # the encoder's own bound, which is never below MAX_DOCUMENT_DEPTH
        raise InvalidEventError(_TOO_DEEP) from None
    if nests_deeper(line, MAX_DOCUMENT_DEPTH):
        raise InvalidEventError(_TOO_DEEP)
    return line


def event_to_json(event: AnyEvent) -> JsonObject:
    """The event as plain JSON values, sharing nothing with it."""
    return cast(JsonObject, to_json(_flat(event), levels=MAX_DOCUMENT_DEPTH))


def _flat(event: AnyEvent) -> dict[str, Any]:
    if isinstance(event, UnknownEvent):
        return dict(event.raw)
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


def loads_event(text: str | bytes, *, strict: bool = False) -> AnyEvent:
    """Read an event back. Unknown fields are ignored.

    Args:
        text: JSON text, or its UTF-8.
        strict: Refuse an event of an unknown type instead of keeping it as `UnknownEvent`.

    Raises:
        UnknownEventTypeError: Strict, and the type is unknown.
        InvalidEventError: Not JSON, not an object, without a type, or with a field that is
            missing or has the wrong shape.
    """
    if nests_deeper(text, MAX_DOCUMENT_DEPTH):
        raise InvalidEventError(_TOO_DEEP)
    try:
        mirror = _DECODER.decode(text)
    except ValueError as error:
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


def loads_events(lines: Iterable[bytes]) -> list[AnyEvent]:
    """Read the events of a session back, a line each. Neighbours share what they have in common.

    Raises:
        InvalidEventError: A line is no event.
    """
    decode, readers, scope_of = _DECODER.decode, _READERS, _SCOPE_OF
    known: tuple[object, ...] = ()
    scope: EventScope | None = None
    events: list[AnyEvent] = []
    for line in lines:
        if nests_deeper(line, MAX_DOCUMENT_DEPTH):
            raise InvalidEventError(_TOO_DEEP)
        try:
            mirror = decode(line)
        except ValueError as error:
            events.append(_of_unknown_type(line, error, strict=False))
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


def _of_unknown_type(text: str | bytes, fault: Exception, *, strict: bool) -> AnyEvent:
    try:
        raw = msgspec.json.decode(text)
    except ValueError as error:
        raise InvalidEventError(f"expected the JSON of an event: {error}") from None
    kind = cast(JsonObject, raw).get("type") if isinstance(raw, dict) else None
    if not isinstance(kind, str) or not kind:
        raise InvalidEventError("expected a JSON object with a type, and this has none") from None
    if kind in EVENT_TYPES:
        raise InvalidEventError(f"{kind} event: {fault}") from None
    if strict:
        raise UnknownEventTypeError(kind[:_SHOWN_CHARACTERS]) from None
    return UnknownEvent(cast(JsonObject, raw))
