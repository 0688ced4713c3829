"""Functions that change the events and lines of Anthropic's Messages API, as endpoints do.

Pure functions of events or of frames, used by `quirks_messages`. A frame is the text of one event,
including its blank line.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Final, cast

from agent_actors.domain.json import JsonObject, JsonValue, copy_object
from agent_actors.testing._wire import encode_json
from agent_actors.testing.conformance.bodies import body_of
from agent_actors.testing.conformance.quirks import Events, Frames, Steps

Change = Callable[[Events], Events]

_TEXT_OF: Final = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "input_json_delta": "partial_json",
}
"""The field that contains the text, by type of delta."""


# ---- clean ----


def events_of(steps: Steps) -> Events:
    """Return the events of a clean stream, except its ping."""
    lines = body_of(steps, "messages").splitlines()
    found = [json.loads(line[6:]) for line in lines if line.startswith(b"data: ")]
    return [event for event in found if event != {"type": "ping"}]


def frames_of(events: Events) -> Frames:
    """Return the frames of these events."""
    return [
        b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), encode_json(event))
        for event in events
    ]


def document_of(steps: Steps) -> bytes:
    """Return the turn as one message document."""
    return body_of(steps, "messages", stream=False)


# ---- lines ----


def without_names(frames: Frames) -> Frames:
    """Remove the names of events."""
    return [one.partition(b"\n")[2] for one in frames]


def without_types(frames: Frames) -> Frames:
    """Remove the type from the data of events."""
    found: Frames = []
    for one in frames:
        name, _, data = one.partition(b"\ndata: ")
        event = {key: value for key, value in json.loads(data).items() if key != "type"}
        found.append(b"%b\ndata: %b\n\n" % (name, encode_json(event)))
    return found


def no_space(frames: Frames) -> Frames:
    """Remove the space after the name of each field."""
    return [
        (b"\n" + one).replace(b"\ndata: ", b"\ndata:").replace(b"\nevent: ", b"\nevent:")[1:]
        for one in frames
    ]


# ---- events ----


def each(change: Callable[[JsonObject], Iterable[JsonObject]]) -> Change:
    """Return a change that replaces each event by the events from `change`."""
    return lambda events: [new for event in events for new in change(event)]


def of_type(kind: str, change: Callable[[JsonObject], Iterable[JsonObject]]) -> Change:
    """Return a change that replaces each event of one type by the events from `change`."""
    return each(lambda event: change(event) if event["type"] == kind else (event,))


def without(kind: str) -> Change:
    """Return a change that removes the events of this type."""
    return of_type(kind, lambda _: ())


def twice(kind: str) -> Change:
    """Return a change that repeats each event of this type."""
    return of_type(kind, lambda event: (event, event))


def with_fields(event: JsonObject, key: str, **more: JsonValue) -> JsonObject:
    """Return the event with these fields in the object under `key`."""
    return {**event, key: {**cast(JsonObject, event[key]), **more}}


def _text_of(event: JsonObject) -> tuple[str, str] | None:
    """Return the key and the text of a delta with text; None for other events."""
    if event["type"] != "content_block_delta":
        return None
    delta = cast(JsonObject, event["delta"])
    key = _TEXT_OF.get(str(delta["type"]))
    text = delta.get(key) if key else None
    return (key, text) if key and isinstance(text, str) else None


def cut(pieces: Callable[[str], Iterable[str]]) -> Change:
    """Return a change that splits each delta with text into several."""

    def change(event: JsonObject) -> Iterable[JsonObject]:
        found = _text_of(event)
        if found is None:
            return (event,)
        key, text = found
        return (with_fields(event, "delta", **{key: piece}) for piece in pieces(text))

    return each(change)


def _calls(events: Events) -> dict[JsonValue, str]:
    """Return the text of each call's arguments, by its index."""
    texts: dict[JsonValue, str] = {}
    for event in events:
        found = _text_of(event)
        if found is not None and found[0] == "partial_json":
            texts[event["index"]] = texts.get(event["index"], "") + found[1]
    return texts


def arguments(at_start: Callable[[str], JsonValue], later: Callable[[str], JsonValue]) -> Change:
    """Send arguments in the start event of their block, in one delta after it, or in both."""

    def change(events: Events) -> Events:
        texts = _calls(events)
        changed: Events = []
        for event in events:
            found = _text_of(event)
            if event["type"] == "content_block_start" and event["index"] in texts:
                text = texts[event["index"]]
                changed.append(with_fields(event, "content_block", input=at_start(text)))
                piece = later(text)
                if piece is not None:
                    delta: JsonObject = {"type": "input_json_delta", "partial_json": piece}
                    index = event["index"]
                    changed.append({"type": "content_block_delta", "index": index, "delta": delta})
            elif found is None or found[0] != "partial_json":
                changed.append(event)
        return changed

    return change


def text_in_start(events: Events) -> Events:
    """Send the first text of each block in its start event."""
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


def renumbered(number: Callable[[int], JsonValue]) -> Change:
    """Change the index of each block."""
    return each(
        lambda event: (
            ({**event, "index": number(cast(int, event["index"]))} if "index" in event else event),
        )
    )


def no_prose_start(event: JsonObject) -> Iterable[JsonObject]:
    """Remove the start events of all blocks except calls."""
    block = cast(JsonObject, event["content_block"])
    return (event,) if block["type"] == "tool_use" else ()


def nulls(event: JsonObject) -> Iterable[JsonObject]:
    """Return the event with additional optional fields that are null."""
    if event["type"] == "content_block_start":
        event = with_fields(event, "content_block", citations=None, caller=None)
    elif event["type"] == "content_block_delta":
        event = with_fields(event, "delta", citation=None, signature_hint=None)
    return ({**event, "usage": event.get("usage"), "error": None},)


def reason(words: Mapping[str, str]) -> Change:
    """Replace finish reasons."""

    def change(event: JsonObject) -> Iterable[JsonObject]:
        word = str(cast(JsonObject, event["delta"]).get("stop_reason"))
        return (with_fields(event, "delta", stop_reason=words.get(word, word)),)

    return of_type("message_delta", change)


def state_at_start(events: Events) -> Events:
    """Send the fields from the end of the message in its start event as well."""
    ends = [cast(JsonObject, one["delta"]) for one in events if one["type"] == "message_delta"]
    return of_type("message_start", lambda one: (with_fields(one, "message", **ends[0]),))(events)


def signature_late(events: Events) -> Events:
    """Send a signature after the end of its block."""
    found: Events = []
    late: Events = []
    for event in events:
        delta = cast(JsonObject, event.get("delta") or {})
        if delta.get("type") == "signature_delta":
            late.append(event)
            continue
        found.append(event)
        if event["type"] == "content_block_stop":
            found += late
            late = []
    return found


def no_counts_at_start(event: JsonObject) -> Iterable[JsonObject]:
    """Remove the token counts from the start event of the message."""
    message = cast(JsonObject, event["message"])
    kept = {key: value for key, value in message.items() if key != "usage"}
    return ({**event, "message": kept},)


def ends_with(value: JsonObject) -> Change:
    """Replace the end of the response with this event."""

    def changed(events: Events) -> Events:
        ends = {"message_delta", "message_stop"}
        return [*(event for event in events if event["type"] not in ends), value]

    return changed
