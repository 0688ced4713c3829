"""What endpoints make of text, thoughts, ends and counts of chat completions, and of their lines.

Pure functions of chunks or of frames, put to use by `quirks_chat`. A frame is the text of one
event, blank line included; the last one is `data: [DONE]` until a quirk takes it away.
"""

import json
from collections.abc import Callable, Iterable, Iterator
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
from agent_actors.testing.conformance.quirks import ERROR_MESSAGE, Events, Frames, Steps

Write = Callable[[Frames], Frames]

DONE: Final = b"data: [DONE]\n\n"
THOUGHT: Final = "reasoning_content"


# ---- clean ----


def events_of(steps: Steps) -> Events:
    """The chunks of a clean stream: the head of each call apart, as OpenAI sends it."""
    lines = body_of(steps, "chat").split(b"\n\n")[:-2]
    return heads_apart([cast(JsonObject, json.loads(line[6:])) for line in lines])


def frames_of(events: Events) -> Frames:
    """The frames of these chunks, and the end."""
    return [*map(frame, events), DONE]


def frame(value: JsonValue) -> bytes:
    """One event of the stream."""
    return b"data: %b\n\n" % encode_json(value)


def document_of(steps: Steps) -> bytes:
    """The turn as one completion."""
    return body_of(steps, "chat", stream=False)


# ---- text and thoughts ----


def on_prose(key: str, change: Callable[[str], Iterable[JsonObject]]) -> Change:
    """A change of deltas that bring text under this key; it gives whole deltas."""

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
    """Texts and thoughts cut into several pieces."""
    texts = on_prose("content", lambda text: [{"content": one} for one in change(text)])
    thoughts = on_prose(THOUGHT, lambda text: [{THOUGHT: one} for one in change(text)])
    return lambda events: thoughts(texts(events))


def halves(text: str) -> Iterator[str]:
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


def letters(text: str) -> Iterable[str]:
    """The text, a character at a time."""
    return list(text) or [""]


def text_in_parts(text: str) -> Iterable[JsonObject]:
    """Text as a list of typed parts."""
    part: JsonObject = {"type": "text", "text": text}
    return ({"content": [part]},)


def thought_in_parts(text: str) -> Iterable[JsonObject]:
    """A thought as a part of the content."""
    inner: JsonObject = {"type": "text", "text": text}
    return ({"content": [{"type": "thinking", "thinking": [inner]}]},)


def cumulative(events: Events) -> Events:
    """Each delta repeats all the text of its kind so far."""
    for key in ("content", THOUGHT):
        so_far: list[str] = []

        def repeated(text: str, key: str = key, so_far: list[str] = so_far) -> list[JsonObject]:
            so_far.append(text)
            return [{key: "".join(so_far) if text else ""}]

        events = on_prose(key, repeated)(events)
    return events


def text_again(events: Events) -> Events:
    """The last delta repeats the complete text."""
    text = _all_text(events)
    at = place_of_end(events)
    again = with_choice(_plain_choice(events), delta={"content": text}, finish_reason=None)
    return [*events[:at], *([again] if text else []), *events[at:]]


def message_beside(events: Events) -> Events:
    """Each chunk also has the message so far."""
    so_far = ""
    found: Events = []
    for event in events:
        so_far += str(delta_of(event).get("content") or "")
        message: JsonObject = {"role": "assistant", "content": so_far}
        found.append(with_choice(event, message=message) if event["choices"] else event)
    return found


def text_beside_calls(events: Events) -> Events:
    """Text or a thought right before a call stands in one delta with it."""
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
    """Deltas that bring no call have these fields too."""

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


# ---- how it ends ----


def place_of_end(events: Events) -> int:
    """Where the chunk with the reason stands, or would."""
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
    """Another word for the end."""

    def changed(events: Events) -> Events:
        at = place_of_end(events)
        if only and _reason_at(events) != only:
            return events
        ends = [with_choice(event, finish_reason=word) for event in events[at:][:1]]
        return [*events[:at], *ends, *events[at + 1 :]]

    return changed


def every_reason(word: JsonValue, *, end_too: bool) -> Change:
    """Every chunk has this reason; the one that ends the answer too, or not."""

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
    """No field for the reason until there is one."""
    at = place_of_end(events)
    return [*map(_without_reason, events[:at]), *events[at:]]


def _without_reason(event: JsonObject) -> JsonObject:
    choices = cast("list[JsonObject]", event["choices"])
    kept = [{key: one[key] for key in one if key != "finish_reason"} for one in choices]
    return {**event, "choices": cast(JsonValue, kept)}


def reason_early(events: Events) -> Events:
    """The reason stands on the first chunk already, and again at the end."""
    return [
        with_choice(event, finish_reason=_reason_at(events)) if place == 0 else event
        for place, event in enumerate(events)
    ]


def reason_twice(events: Events) -> Events:
    """The chunk with the finish reason is sent twice."""
    at = place_of_end(events)
    return [*events[: at + 1], *events[at:]]


def reason_with_last(events: Events) -> Events:
    """The last chunk with content has the finish reason."""
    at = place_of_end(events)
    if at == len(events):
        return events  # nobody tells a reason
    last = with_choice(events[at - 1], finish_reason=_reason_at(events))
    return [*events[: at - 1], last, *events[at + 1 :]]


def no_reason(events: Events) -> Events:
    """No chunk has a finish reason."""
    return [event for place, event in enumerate(events) if place != place_of_end(events)]


def ends_with_error(*value: JsonObject) -> Change:
    """In place of its end the answer has this."""
    return lambda events: [*events[: place_of_end(events)], *value]


def error_frame(text: bytes) -> Write:
    """Before the word that ends the stream comes this text."""
    return lambda frames: [*frames[:-1], text, frames[-1]]


def error_document(_frames: Frames) -> Frames:
    """The body is an error and no stream."""
    return [encode_json({"error": {"message": ERROR_MESSAGE, "code": 500}})]


# ---- counts ----


def _counts(events: Events) -> JsonValue:
    return events[-1]["usage"]


def without_counts(events: Events) -> Events:
    """No token counts are sent."""
    return [event for event in events if event["choices"]]


def counts_everywhere(events: Events) -> Events:
    """Every chunk has the counts."""
    return [{**event, "usage": _counts(events)} for event in events]


def counts_then_empty(events: Events) -> Events:
    """Empty token counts follow the real ones."""
    return [*events, {**events[-1], "usage": None}, {**events[-1], "usage": {"prompt_tokens": 0}}]


def counts_in_choice(events: Events) -> Events:
    """The last choice has the token counts."""
    *others, _ = events
    return [*others[:-1], with_choice(others[-1], usage=_counts(events))]


# ---- chunks beside ----


def first(value: JsonObject) -> Change:
    """This chunk comes before all others."""
    return lambda events: [value, *events]


def between(value: JsonValue) -> Change:
    """Before each chunk comes one that is nearly empty."""
    made: JsonObject = {"id": "", "choices": [value]}
    return lambda events: [new for event in events for new in (made, event)]


def tools_in_choice_one(events: Events) -> Events:
    """Tool calls stand in a choice with another index than the text's."""
    return [
        with_choice(event, index=1) if "tool_calls" in delta_of(event) else event
        for event in events
    ]


# ---- lines ----


def before_each(text: bytes) -> Write:
    """This stands before each event."""
    return lambda frames: [new for one in frames for new in (text, one)]


def replaced(old: bytes, new: bytes) -> Write:
    """Other bytes for these, in each event."""
    return lambda frames: [one.replace(old, new) for one in frames]


def no_space(frames: Frames) -> Frames:
    """No blank behind the name of a field."""
    return [(b"\n" + one).replace(b"\ndata: ", b"\ndata:")[1:] for one in frames]


def named_events(frames: Frames) -> Frames:
    """Each event has a name."""
    return [b"event: completion.chunk\n" + one for one in frames]


def no_done(frames: Frames) -> Frames:
    """Nothing says that the stream ended."""
    return [one for one in frames if one != DONE]


def spaced_done(frames: Frames) -> Frames:
    """There are blanks around the word that ends the stream."""
    return [b"data:  [DONE] \n\n" if one == DONE else one for one in frames]


def over_lines(frames: Frames) -> Frames:
    """The JSON of an event stands on several lines."""
    return [_over_lines(one) if one.startswith(b"data: {") else one for one in frames]


def _over_lines(one: bytes) -> bytes:
    lines = json.dumps(json.loads(one[6:]), indent=1).splitlines()
    return b"".join(b"data: %b\n" % line.encode() for line in lines) + b"\n"


def in_arrays(frames: Frames) -> Frames:
    """Each event's data is a list of one chunk."""
    return [b"data: [%b]\n\n" % one[6:-2] if one.startswith(b"data: {") else one for one in frames]


def no_last_blank_line(frames: Frames) -> Frames:
    """No blank line follows the last event."""
    return [*frames[:-1], frames[-1].rstrip(b"\n")]


def marked_first(frames: Frames) -> Frames:
    """A byte order mark and a blank line come first."""
    return [b"\xef\xbb\xbf\n\n", *frames]
