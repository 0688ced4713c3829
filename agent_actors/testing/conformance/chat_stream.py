"""Functions that change chat completion streams, as endpoints do.

They change text, thinking, the end of the response, usage and lines.

Pure functions of chunks or of frames, used by `quirks_chat`. A frame is the text of one event,
including its blank line. The last frame is `data: [DONE]`, unless a quirk removes it.
"""

import json
from collections.abc import Callable, Iterable
from typing import Final, cast

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.testing._wire import encode_json
from agent_actors.testing.conformance.bodies import body_of
from agent_actors.testing.conformance.chat_calls import (
    Change,
    delta_of,
    heads_apart,
    with_choice,
    with_delta,
)
from agent_actors.testing.conformance.lines import Write
from agent_actors.testing.conformance.quirks import ERROR_MESSAGE, Events, Frames, Steps

DONE: Final = b"data: [DONE]\n\n"
THOUGHT: Final = "reasoning_content"


# ---- clean ----


def events_of(steps: Steps) -> Events:
    """Return the chunks of a clean stream, in which the head of each call has no arguments."""
    lines = body_of(steps, "chat").split(b"\n\n")[:-2]
    return heads_apart([cast(JsonObject, json.loads(line[6:])) for line in lines])


def frames_of(events: Events) -> Frames:
    """Return the frames of these chunks, and the end of the stream."""
    return [*map(frame, events), DONE]


def frame(value: JsonValue) -> bytes:
    """Render one event of the stream."""
    return b"data: %b\n\n" % encode_json(value)


def document_of(steps: Steps) -> bytes:
    """Return the turn as one completion document."""
    return body_of(steps, "chat", stream=False)


# ---- text and thinking ----


def on_prose(key: str, change: Callable[[str], Iterable[JsonObject]]) -> Change:
    """Return a change that replaces deltas with text under this key by the deltas from `change`."""

    def changed(events: Events) -> Events:
        found: Events = []
        for event in events:
            delta = delta_of(event)
            text = delta.get(key)
            if isinstance(text, str) and "role" not in delta:
                found += [with_delta(event, new) for new in change(text)]
            else:
                found.append(event)
        return found

    return changed


def cut(change: Callable[[str], Iterable[str]]) -> Change:
    """Return a change that splits text and thinking into several pieces."""
    texts = on_prose("content", lambda text: [{"content": one} for one in change(text)])
    thoughts = on_prose(THOUGHT, lambda text: [{THOUGHT: one} for one in change(text)])
    return lambda events: thoughts(texts(events))


def letters(text: str) -> Iterable[str]:
    """Split the text into characters."""
    return list(text) or [""]


def text_in_parts(text: str) -> Iterable[JsonObject]:
    """Return text as a list of typed parts."""
    part: JsonObject = {"type": "text", "text": text}
    return ({"content": [part]},)


def thought_in_parts(text: str) -> Iterable[JsonObject]:
    """Return thinking as a part of the content."""
    inner: JsonObject = {"type": "text", "text": text}
    return ({"content": [{"type": "thinking", "thinking": [inner]}]},)


def thought_in_details(text: str) -> Iterable[JsonObject]:
    """Return thinking as an item of `reasoning_details`, in OpenRouter's format."""
    detail: JsonObject = {"type": "reasoning.text", "text": text, "index": 0}
    return ({"content": "", "reasoning_details": [detail]},)


def cumulative(events: Events) -> Events:
    """Make each delta repeat all text of the same kind so far."""
    for key in ("content", THOUGHT):
        so_far: list[str] = []

        def repeated(text: str, key: str = key, so_far: list[str] = so_far) -> list[JsonObject]:
            so_far.append(text)
            return [{key: "".join(so_far) if text else ""}]

        events = on_prose(key, repeated)(events)
    return events


def text_again(events: Events) -> Events:
    """Repeat the complete text in the last delta."""
    text = _all_text(events)
    at = place_of_end(events)
    again = with_choice(_plain_choice(events), delta={"content": text}, finish_reason=None)
    return [*events[:at], *([again] if text else []), *events[at:]]


def message_beside(events: Events) -> Events:
    """Add the complete message so far to each chunk."""
    so_far = ""
    found: Events = []
    for event in events:
        so_far += str(delta_of(event).get("content") or "")
        message: JsonObject = {"role": "assistant", "content": so_far}
        found.append(with_choice(event, message=message) if event["choices"] else event)
    return found


def text_beside_calls(events: Events) -> Events:
    """Merge text or thinking that directly precedes a call into the delta of the call."""
    found: Events = []
    for event in events:
        delta = delta_of(event)
        before = delta_of(found[-1]) if found else {}
        prose = before.keys() & {"content", THOUGHT} and "role" not in before
        if "tool_calls" in delta and prose and "tool_calls" not in before:
            found[-1] = with_delta(found[-1], {**before, **delta})
        else:
            found.append(event)
    return found


def on_deltas(**fields: JsonValue) -> Change:
    """Add these fields to deltas that contain no call."""

    def changed(events: Events) -> Events:
        return [
            with_delta(event, {**fields, **delta})
            if (delta := delta_of(event)) and "tool_calls" not in delta
            else event
            for event in events
        ]

    return changed


def _all_text(events: Events) -> str:
    return "".join(str(delta_of(event).get("content") or "") for event in events)


def _plain_choice(events: Events) -> JsonObject:
    return next(event for event in events if event["choices"])


# ---- the end of the response ----


def place_of_end(events: Events) -> int:
    """Return the position of the chunk with the finish reason, or the end if there is none."""
    for place, event in enumerate(events):
        if event["choices"] and not delta_of(event):
            return place
    return len(events)


def _reason_at(events: Events) -> JsonValue:
    at = place_of_end(events)
    if at == len(events):
        return None
    return cast("list[JsonObject]", events[at]["choices"])[0]["finish_reason"]


def reason_becomes(word: str, *, only: str = "") -> Change:
    """Replace the finish reason; with `only`, replace only this reason."""

    def changed(events: Events) -> Events:
        at = place_of_end(events)
        if only and _reason_at(events) != only:
            return events
        ends = [with_choice(event, finish_reason=word) for event in events[at:][:1]]
        return [*events[:at], *ends, *events[at + 1 :]]

    return changed


def every_reason(word: JsonValue, *, end_too: bool) -> Change:
    """Set this finish reason in every chunk, including the last one if `end_too`."""

    def changed(events: Events) -> Events:
        at = place_of_end(events)
        return [
            with_choice(event, finish_reason=word)
            if event["choices"] and (end_too or place != at)
            else event
            for place, event in enumerate(events)
        ]

    return changed


def no_reason_between(events: Events) -> Events:
    """Remove the field for the finish reason from all chunks before the end."""
    at = place_of_end(events)
    return [*map(_without_reason, events[:at]), *events[at:]]


def _without_reason(event: JsonObject) -> JsonObject:
    choices = cast("list[JsonObject]", event["choices"])
    kept = [{key: one[key] for key in one if key != "finish_reason"} for one in choices]
    return {**event, "choices": cast(JsonValue, kept)}


def reason_early(events: Events) -> Events:
    """Send the finish reason in the first chunk as well."""
    return [
        with_choice(event, finish_reason=_reason_at(events)) if place == 0 else event
        for place, event in enumerate(events)
    ]


def reason_twice(events: Events) -> Events:
    """Send the chunk with the finish reason twice."""
    at = place_of_end(events)
    return [*events[: at + 1], *events[at:]]


def reason_with_last(events: Events) -> Events:
    """Send the finish reason in the last chunk with content."""
    at = place_of_end(events)
    if at == len(events):
        return events  # there is no finish reason
    last = with_choice(events[at - 1], finish_reason=_reason_at(events))
    return [*events[: at - 1], last, *events[at + 1 :]]


def no_reason(events: Events) -> Events:
    """Remove the chunk with the finish reason."""
    return [event for place, event in enumerate(events) if place != place_of_end(events)]


def ends_with_error(*value: JsonObject) -> Change:
    """Replace the end of the response with these chunks."""
    return lambda events: [*events[: place_of_end(events)], *value]


def error_frame(text: bytes) -> Write:
    """Insert this text before the end of the stream."""
    return lambda frames: [*frames[:-1], text, frames[-1]]


def error_document(_frames: Frames) -> Frames:
    """Replace the stream with an error document."""
    return [encode_json({"error": {"message": ERROR_MESSAGE, "code": 500}})]


# ---- usage ----


def _counts(events: Events) -> JsonValue:
    return events[-1]["usage"]


def without_counts(events: Events) -> Events:
    """Remove the token counts."""
    return [event for event in events if event["choices"]]


def counts_everywhere(events: Events) -> Events:
    """Add the token counts to every chunk."""
    return [{**event, "usage": _counts(events)} for event in events]


def counts_then_empty(events: Events) -> Events:
    """Send empty token counts after the real ones."""
    return [*events, {**events[-1], "usage": None}, {**events[-1], "usage": {"prompt_tokens": 0}}]


def counts_in_groq(events: Events) -> Events:
    """Send the token counts in Groq's own field."""
    *others, last = events
    kept = {key: value for key, value in last.items() if key != "usage"}
    return [*others, {**kept, "x_groq": {"id": "r", "usage": _counts(events)}}]


def counts_in_choice(events: Events) -> Events:
    """Send the token counts in the last choice."""
    *others, _ = events
    return [*others[:-1], with_choice(others[-1], usage=_counts(events))]


# ---- additional chunks ----


def first(value: JsonObject) -> Change:
    """Insert this chunk before all others."""
    return lambda events: [value, *events]


def between(value: JsonValue) -> Change:
    """Insert a nearly empty chunk before each chunk."""
    made: JsonObject = {"id": "", "choices": [value]}
    return lambda events: [new for event in events for new in (made, event)]


def tools_in_choice_one(events: Events) -> Events:
    """Send tool calls in a choice with a different index than the text."""
    return [
        with_choice(event, index=1) if "tool_calls" in delta_of(event) else event
        for event in events
    ]


# ---- lines ----


def no_space(frames: Frames) -> Frames:
    """Remove the space after the name of each field."""
    return [(b"\n" + one).replace(b"\ndata: ", b"\ndata:")[1:] for one in frames]


def named_events(frames: Frames) -> Frames:
    """Add a name to each event."""
    return [b"event: completion.chunk\n" + one for one in frames]


def no_done(frames: Frames) -> Frames:
    """Remove the `[DONE]` at the end of the stream."""
    return [one for one in frames if one != DONE]


def spaced_done(frames: Frames) -> Frames:
    """Put spaces around `[DONE]`."""
    return [b"data:  [DONE] \n\n" if one == DONE else one for one in frames]


def over_lines(frames: Frames) -> Frames:
    """Spread the JSON of each event over several lines."""
    return [_over_lines(one) if one.startswith(b"data: {") else one for one in frames]


def _over_lines(one: bytes) -> bytes:
    lines = json.dumps(json.loads(one[6:]), indent=1).splitlines()
    return b"".join(b"data: %b\n" % line.encode() for line in lines) + b"\n"


def in_arrays(frames: Frames) -> Frames:
    """Send the data of each event as a list with one chunk."""
    return [b"data: [%b]\n\n" % one[6:-2] if one.startswith(b"data: {") else one for one in frames]


def marked_first(frames: Frames) -> Frames:
    """Insert a byte order mark and a blank line at the beginning."""
    return [b"\xef\xbb\xbf\n\n", *frames]
