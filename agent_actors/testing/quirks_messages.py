"""What endpoints make of Anthropic's protocol, one quirk at a time, to be mixed at will.

Each quirk was seen at an endpoint or a gateway, or is one small step from one that was. All of them
leave the answer what it was: whoever reads a distorted stream must find the blocks of the clean
one. `EXCLUDED` holds the pairs that would lose something, each with the reason.

A quirk changes the events of a stream (`_EVENTS`, applied in the order of that table) or the way in
which they are written (`_WRITTEN`).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations
from typing import Final, TypeAlias, cast

import attrs

from agent_actors.domain.json import JsonObject, JsonValue, copy_object
from agent_actors.testing._wire import encode_json
from agent_actors.testing.bodies import body_of
from agent_actors.testing.script import Interleave, Step, Turn, steps_of

Events: TypeAlias = list[JsonObject]

_TEXT_OF: Final = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "input_json_delta": "partial_json",
}
"""Where a delta of each type has its text."""


def distorted(turn: Turn, quirks: Iterable[str] = ()) -> bytes:
    """The body of an answer that says this turn, with these quirks.

    Calls without an id get `call_0_<slot>`. Pauses and the like are left out.

    Args:
        turn: What is said.
        quirks: Names out of `QUIRKS`.

    Raises:
        ValueError: A quirk is unknown, or a pair of them is in `EXCLUDED`.
    """
    chosen = frozenset(quirks)
    if unknown := chosen - QUIRKS:
        raise ValueError(f"unknown quirks {sorted(unknown)}; expected some of {sorted(QUIRKS)}")
    for pair, reason in EXCLUDED.items():
        if pair <= chosen:
            raise ValueError(f"{' and '.join(sorted(pair))} do not go together: {reason}")
    steps = steps_of(turn)
    if chosen & _NEED_ORDER:
        steps = tuple(_in_order(steps))
    if "whole_document" in chosen:
        return body_of(steps, "messages", stream=False)
    events = _events_of(steps)
    for name, change in _EVENTS.items():
        if name in chosen:
            events = change(events)
    return _written(events, chosen)


def compatible(quirks: Iterable[str]) -> frozenset[str]:
    """As many of these quirks as go together, the first ones first."""
    kept: list[str] = []
    for quirk in quirks:
        if all(frozenset((quirk, other)) not in EXCLUDED for other in kept):
            kept.append(quirk)
    return frozenset(kept)


def _in_order(steps: Iterable[Step]) -> Iterator[Step]:
    """The steps without calls whose fragments come in turns."""
    for step in steps:
        if isinstance(step, Interleave):
            yield from step.calls
        else:
            yield step


def _events_of(steps: tuple[Step, ...]) -> Events:
    lines = body_of(steps, "messages").splitlines()
    found = [json.loads(line[6:]) for line in lines if line.startswith(b"data: ")]
    return [event for event in found if event != {"type": "ping"}]


# ---- what is written ----


def _written(events: Events, quirks: frozenset[str]) -> bytes:
    lines = [_frame(event, quirks) for event in events]
    if "junk_lines" in quirks:
        lines = [line for one in lines for line in (b"data: {no json\n\n", one)]
    if "comments" in quirks:
        lines = [line for one in lines for line in (b": keep-alive\n\n", one)]
    body = b"".join(lines)
    if "done_marker" in quirks:
        body += b"data: [DONE]\n\n"
    if "no_last_blank_line" in quirks:
        body = body.rstrip(b"\n")
    if "blanks_first" in quirks:
        body = b"\xef\xbb\xbf\n\n" + body
    if "no_space" in quirks:
        body = body.replace(b"\ndata: ", b"\ndata:")
    if "crlf" in quirks:
        body = body.replace(b"\n", b"\r\n")
    return body.replace(b"\n", b"\r") if "cr" in quirks else body


def _frame(event: JsonObject, quirks: frozenset[str]) -> bytes:
    name = b"" if "no_event_names" in quirks else b"event: %b\n" % str(event["type"]).encode()
    if "no_types" in quirks:
        event = {key: value for key, value in event.items() if key != "type"}
    return b"%bdata: %b\n\n" % (name, encode_json(event))


_WRITTEN: Final = frozenset(
    {
        "no_event_names",
        "no_types",
        "junk_lines",
        "comments",
        "done_marker",
        "no_last_blank_line",
        "blanks_first",
        "no_space",
        "crlf",
        "cr",
        "whole_document",
    }
)


# ---- what is changed in the events ----


def _each(change: Callable[[JsonObject], Iterable[JsonObject]]) -> Callable[[Events], Events]:
    """A change of the events one by one, into any number each."""
    return lambda events: [new for event in events for new in change(event)]


def _of_type(
    kind: str, change: Callable[[JsonObject], Iterable[JsonObject]]
) -> Callable[[Events], Events]:
    return _each(lambda event: change(event) if event["type"] == kind else (event,))


def _without(kind: str) -> Callable[[Events], Events]:
    return _of_type(kind, lambda _: ())


def _twice(kind: str) -> Callable[[Events], Events]:
    return _of_type(kind, lambda event: (event, event))


def _with(event: JsonObject, key: str, **more: JsonValue) -> JsonObject:
    """The event with these fields in the object under `key`."""
    return {**event, key: {**cast(JsonObject, event[key]), **more}}


def _text_of(event: JsonObject) -> tuple[str, str] | None:
    """The key and the text of a delta that has some."""
    if event["type"] != "content_block_delta":
        return None
    delta = cast(JsonObject, event["delta"])
    key = _TEXT_OF.get(str(delta["type"]))
    text = delta.get(key) if key else None
    return (key, text) if key and isinstance(text, str) else None


def _cut(cut: Callable[[str], Iterable[str]]) -> Callable[[Events], Events]:
    """Deltas with text, cut into several."""

    def change(event: JsonObject) -> Iterable[JsonObject]:
        found = _text_of(event)
        if found is None:
            return (event,)
        key, text = found
        return (_with(event, "delta", **{key: piece}) for piece in cut(text))

    return _each(change)


def _halves(text: str) -> Iterator[str]:
    """The text, cut in the middle of each character that UTF-16 has two units for."""
    units = text.encode("utf-16-le", "surrogatepass")
    piece = ""
    for at in range(0, len(units), 2):
        unit = units[at : at + 2].decode("utf-16-le", "surrogatepass")
        if "\udc00" <= unit <= "\udfff":
            yield piece
            piece = ""
        piece += unit
    yield piece


def _calls(events: Events) -> dict[JsonValue, str]:
    """The argument text of each call, by its index."""
    texts: dict[JsonValue, str] = {}
    for event in events:
        found = _text_of(event)
        if found is not None and found[0] == "partial_json":
            texts[event["index"]] = texts.get(event["index"], "") + found[1]
    return texts


def _arguments(
    at_start: Callable[[str], JsonValue], later: Callable[[str], JsonValue]
) -> Callable[[Events], Events]:
    """Arguments that stand at the start of their block, or in one piece after it, or both."""

    def change(events: Events) -> Events:
        texts = _calls(events)
        changed: Events = []
        for event in events:
            found = _text_of(event)
            if event["type"] == "content_block_start" and event["index"] in texts:
                text = texts[event["index"]]
                changed.append(_with(event, "content_block", input=at_start(text)))
                piece = later(text)
                if piece is not None:
                    delta: JsonObject = {"type": "input_json_delta", "partial_json": piece}
                    index = event["index"]
                    changed.append({"type": "content_block_delta", "index": index, "delta": delta})
            elif found is None or found[0] != "partial_json":
                changed.append(event)
        return changed

    return change


def _loaded(text: str) -> JsonValue:
    return cast(JsonValue, json.loads(text))


def _text_in_start(events: Events) -> Events:
    """The first text of each block stands in its beginning."""
    begun: dict[JsonValue, JsonObject] = {}
    changed: Events = []
    for event in events:
        found = _text_of(event)
        start = begun.pop(event.get("index"), None) if found else None
        if found is not None and start is not None:
            start[found[0]] = found[1]
            continue
        copy = copy_object(event)
        if event["type"] == "content_block_start":
            block = cast(JsonObject, copy["content_block"])
            if block["type"] != "tool_use":
                begun[event["index"]] = block
        changed.append(copy)
    return changed


def _renumbered(number: Callable[[int], JsonValue]) -> Callable[[Events], Events]:
    return _each(
        lambda event: (
            ({**event, "index": number(cast(int, event["index"]))} if "index" in event else event),
        )
    )


def _no_prose_start(event: JsonObject) -> Iterable[JsonObject]:
    block = cast(JsonObject, event["content_block"])
    return (event,) if block["type"] == "tool_use" else ()


def _nulls(event: JsonObject) -> Iterable[JsonObject]:
    if event["type"] == "content_block_start":
        event = _with(event, "content_block", citations=None, caller=None)
    elif event["type"] == "content_block_delta":
        event = _with(event, "delta", citation=None, signature_hint=None)
    return ({**event, "usage": event.get("usage"), "error": None},)


def _reason(words: Mapping[str, str]) -> Callable[[Events], Events]:
    def change(event: JsonObject) -> Iterable[JsonObject]:
        word = str(cast(JsonObject, event["delta"]).get("stop_reason"))
        return (_with(event, "delta", stop_reason=words.get(word, word)),)

    return _of_type("message_delta", change)


def _state_at_start(events: Events) -> Events:
    """What ends the answer is told at its beginning too."""
    ends = [cast(JsonObject, one["delta"]) for one in events if one["type"] == "message_delta"]
    return _of_type("message_start", lambda one: (_with(one, "message", **ends[0]),))(events)


_EVENTS: Final[Mapping[str, Callable[[Events], Events]]] = {
    # Arguments: where they stand, and in what form.
    "input_in_start": _arguments(_loaded, lambda _: None),
    "input_twice": _arguments(_loaded, lambda text: text),
    "input_wrapped": _arguments(lambda _: {}, json.dumps),
    "input_as_object": _arguments(lambda _: {}, _loaded),
    "input_after_empty": _arguments(lambda _: {}, lambda text: "{}" + text),
    # Texts: in what pieces.
    "small_pieces": _cut(lambda text: list(text) or [""]),
    "split_characters": _cut(_halves),
    "empty_pieces": _cut(lambda text: ["", text, ""]),
    "text_in_start": _text_in_start,
    # Numbers of blocks.
    "index_from_one": _renumbered(lambda index: index + 1),
    "index_as_text": _renumbered(str),
    "index_as_float": _renumbered(float),
    "same_index": _renumbered(lambda _: 0),
    "no_index": _each(lambda one: ({k: v for k, v in one.items() if k != "index"},)),
    # Beginnings and ends.
    "no_prose_start": _of_type("content_block_start", _no_prose_start),
    "start_twice": _twice("content_block_start"),
    "no_block_stop": _without("content_block_stop"),
    "block_stop_twice": _twice("content_block_stop"),
    "message_start_twice": _twice("message_start"),
    "no_message_start": _without("message_start"),
    "message_delta_twice": _twice("message_delta"),
    "no_message_delta": _without("message_delta"),
    "no_message_stop": _without("message_stop"),
    "state_at_start": _state_at_start,
    "reason_end_turn": _reason({"tool_use": "end_turn"}),
    "reason_of_openai": _reason({"end_turn": "stop", "tool_use": "tool_calls"}),
    # What is in between.
    "nulls": _each(_nulls),
    "no_delta_types": _of_type(
        "content_block_delta", lambda one: (_with(one, "delta", type=None),)
    ),
    "pings": _each(lambda one: (one, {"type": "ping"})),
    "unknown_events": _each(lambda one: ({"type": "vendor_metrics", "index": 0, "n": 1}, one)),
}

QUIRKS: Final = frozenset(_EVENTS) | _WRITTEN
"""The names of all quirks."""

_NEED_ORDER: Final = frozenset({"same_index", "no_index"})
"""Quirks that cannot tell apart calls whose fragments come in turns."""


def _pairs(reason: str, *groups: Iterable[str]) -> dict[frozenset[str], str]:
    """Each pair out of two different groups."""
    return {
        frozenset((one, other)): reason
        for left, right in combinations([list(group) for group in groups], 2)
        for one in left
        for other in right
    }


_ARGUMENTS: Final = (
    "input_in_start",
    "input_twice",
    "input_wrapped",
    "input_as_object",
    "input_after_empty",
)
_INDEXES: Final = ("index_from_one", "index_as_text", "index_as_float", "same_index", "no_index")

EXCLUDED: Final[Mapping[frozenset[str], str]] = {
    **_pairs("arguments stand in one place", *([one] for one in _ARGUMENTS)),
    **_pairs("an index has one form", *([one] for one in _INDEXES)),
    **_pairs("a line has one end", ["crlf"], ["cr"]),
    **_pairs("there is one reason", ["reason_end_turn"], ["reason_of_openai"]),
    **_pairs("nothing would tell what an event is", ["no_types"], ["no_event_names"]),
    **_pairs("nothing would tell that it ended", ["no_message_delta"], ["no_message_stop"]),
    **_pairs("what stands in the start would be lost", ["no_prose_start"], ["text_in_start"]),
    **_pairs("nothing would part two thoughts in a row", ["no_prose_start"], _NEED_ORDER),
    **_pairs(
        "two equal blocks in a row could not be told from one that is begun twice",
        ["no_block_stop"],
        _NEED_ORDER,
    ),
    **_pairs("it needs the end that it copies", ["state_at_start"], ["no_message_delta"]),
    **_pairs("there is no stream to be odd", ["whole_document"], QUIRKS - {"whole_document"}),
}
"""Pairs of quirks that lose what the turn was, or say two things of one, and why."""


@attrs.frozen
class DistortedTurn:
    """A turn as an odd endpoint sends it.

    Attributes:
        turn: What is said.
        quirks: How the endpoint is odd.
        body: The body of its answer.
    """

    turn: tuple[Step, ...]
    quirks: frozenset[str]
    body: bytes
