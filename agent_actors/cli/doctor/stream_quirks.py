"""Finds quirks in the bytes of one chat completions response. Pure.

It parses the raw lines itself, because the provider's decoder hides quirks. It skips what it cannot
parse.
"""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final, cast

import attrs

from agent_actors.cli.doctor.call_quirks import CallWatch
from agent_actors.cli.doctor.findings import Findings, ObservedQuirk
from agent_actors.domain.json import MAX_DOCUMENT_DEPTH, JsonObject, JsonValue, nests_deeper

_LINE_END: Final = re.compile(r"\r\n|\n|\r")
_CALL_IN_TEXT: Final = re.compile(r"<tool_call>|\bto=functions\.|<\|channel\|>commentary")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_DONE: Final = "[DONE]"
_JUNK: Final = object()
"""Placeholder for a data line that is not JSON."""

_IN_DOCUMENTS: Final = frozenset({15, 16, 17, 18, 22, 23, 24, 25, 26, 28, 37, 38, 39, 40, 45, 50})
"""Quirks that a complete document can also have; all others exist only in a stream."""

_CUT_OFF: Final = frozenset({"length", "max_tokens", "model_length"})
"""Finish reasons of a response that reached its token limit."""

_OFTEN: Final = 2
"""The number of texts that must repeat the text before them; a single repetition may be a
coincidence.
"""


@attrs.frozen
class ResponseFindings:
    """The findings in one response.

    Attributes:
        observed_quirks: The quirks, by number.
        call_ids: The ids of the calls.
        reasoning_field: The field that contained thinking; empty: there was none.
        events: The number of events with data.
        cumulative: True if each text repeats the text before it.
    """

    observed_quirks: tuple[ObservedQuirk, ...] = ()
    call_ids: tuple[str, ...] = ()
    reasoning_field: str = ""
    events: int = 0
    cumulative: bool = False


def read_answer(
    body: bytes, *, known_ids: Iterable[str] = (), ended: bool = True
) -> ResponseFindings:
    """Examine a response to a request for a stream.

    Args:
        body: The body, or its beginning.
        known_ids: The ids of calls in earlier responses.
        ended: True if the endpoint ended the response. If the response broke off, its end is not
            examined.
    """
    notes = Findings()
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    if text.lstrip()[:1] in {"{", "["}:
        return _read_document(text.lstrip(), notes, known_ids)
    watch = _Watch(notes, CallWatch(notes, known_ids))
    events = list(_events(text, notes))
    done = any(event.strip() == _DONE for event in events)
    data = [event for event in events if event.strip() != _DONE]
    for event in data:
        watch.take(_loaded(event))
    watch.close(done=done, ended=ended)
    return ResponseFindings(
        notes.observed_quirks(),
        tuple(watch.calls.ids),
        watch.reasoning_field,
        len(data),
        watch.cumulative,
    )


def _read_document(text: str, notes: Findings, known_ids: Iterable[str]) -> ResponseFindings:
    inside = Findings()
    watch = _Watch(inside, CallWatch(inside, known_ids))
    watch.document(_loaded(text))
    notes.note(47, text)
    for one in inside.observed_quirks():
        if one.number in _IN_DOCUMENTS:
            notes.note(one.number, one.seen)
    return ResponseFindings(notes.observed_quirks(), tuple(watch.calls.ids), watch.reasoning_field)


def _loaded(text: str) -> object:
    if nests_deeper(text, MAX_DOCUMENT_DEPTH):
        return _JUNK
    try:
        return json.loads(text)
    except ValueError:
        return _JUNK


def _events(text: str, notes: Findings) -> Iterator[str]:
    """Yield the data of each event, and record quirks of the lines."""
    if "\r" in text:
        notes.note(44, "CR LF" if "\r\n" in text else "CR")
    data: list[str] = []
    blank = 1  # treat the beginning like a position after a blank line
    for line in (*_LINE_END.split(text), ""):
        if not line:
            if data:
                yield "\n".join(data)
                data = []
            blank += 1
            continue
        if blank > 1:
            notes.note(42, "more than one blank line between two events")
        blank = 0
        _note_line(line, notes)
        if line.startswith("data:"):
            data.append(line.removeprefix("data:").removeprefix(" "))


def _note_line(line: str, notes: Findings) -> None:
    if line.startswith(":"):
        notes.note(42, line)
    elif line.startswith("error:"):
        notes.note(46, line)
    elif line.startswith("event:") or (line.startswith("data:") and line[5:6] != " "):
        notes.note(43, line)


class _Watch:
    """Watches the chunks of one response."""

    def __init__(self, notes: Findings, calls: CallWatch) -> None:
        self.calls = calls
        self.reasoning_field: str = ""
        self.cumulative: bool = False
        self._notes = notes
        self._texts: list[str] = []
        self._reasons: list[str] = []
        self._chunks = 0
        self._counted = False

    def document(self, value: object) -> None:
        """Process a complete response or an error that was sent instead of a stream."""
        for chunk in _objects(_listed(value)):
            if error := _error_in(chunk):
                self._notes.note(45, json.dumps(error))
            for choice in _objects(chunk.get("choices")):
                message = choice.get("message")
                if isinstance(message, dict):
                    self._delta(message)
                self._reasons.append(str(choice.get("finish_reason")))
        self._whole(ended=True)

    def take(self, value: object) -> None:
        """Process the data of an event."""
        if value is None:
            self._notes.note(34, "null")
        for chunk in _objects(_listed(value)):
            self._chunk(chunk)

    def close(self, *, done: bool, ended: bool) -> None:
        """End the response, and record quirks of its end."""
        notes = self._notes
        failed = 45 in notes or 46 in notes
        if ended and not (failed or (done and self._reasons)):
            notes.note(32, "no finish reason" if done else "no [DONE]")
        if self.calls.any and self._reasons[-1:] == ["stop"]:
            notes.note(27, "stop")
        self.cumulative = _repeats(self._texts)
        if self.cumulative:
            notes.note(41, self._texts[-1])
        self._whole(ended=ended)

    def _whole(self, *, ended: bool) -> None:
        self.calls.close(cut_off=not ended or not _CUT_OFF.isdisjoint(self._reasons))
        text = "".join(self._texts)
        if found := _CALL_IN_TEXT.search(text):
            self._notes.note(25, text[found.start() :])

    def _chunk(self, chunk: JsonObject) -> None:
        notes = self._notes
        shown = json.dumps(chunk)
        choices = _objects(chunk.get("choices"))
        usage = chunk.get("usage")
        failed = bool(_error_in(chunk))
        if failed:
            notes.note(45, shown)
        elif not (choices or usage or self._chunks):
            notes.note(33, shown)
        if not failed and (self._counted or (usage and choices)):
            notes.note(35, shown)
        self._counted = self._counted or bool(usage)
        self._chunks += 1
        for choice in choices:
            self._choice(choice, json.dumps(choice))

    def _choice(self, choice: JsonObject, shown: str) -> None:
        notes = self._notes
        if choice.get("index", 0) != 0:
            notes.note(5, shown)
        if choice.get("usage"):
            notes.note(36, shown)
        if choice.get("message"):
            notes.note(41, shown)
        delta = choice.get("delta")
        if isinstance(delta, dict):
            has_content = self._delta(delta)
        else:
            has_content = False
            notes.note(34, shown)
        self._reason(choice, shown, has_content=has_content)

    def _reason(self, choice: JsonObject, shown: str, *, has_content: bool) -> None:
        reason = choice.get("finish_reason")
        if reason == "":
            self._notes.note(29, shown)
        elif reason == "null" or "finish_reason" not in choice:
            self._notes.note(30, shown)
        elif isinstance(reason, str):
            if self._reasons or has_content:
                self._notes.note(31, shown)
            self._reasons.append(reason)
        if has_content and self._reasons:
            self._notes.note(31, shown)

    def _delta(self, delta: JsonObject) -> bool:
        """Process a delta, and return whether it has content."""
        notes = self._notes
        shown = json.dumps(delta)
        calls = _objects(delta.get("tool_calls"))
        content = delta.get("content")
        if "tool_calls" in delta and delta["tool_calls"] is None:
            notes.note(10, shown)
        if "role" in delta and delta["role"] is None:
            notes.note(9, shown)
        if "extra_content" in delta:
            notes.note(40, shown)
        if content and calls:
            notes.note(49, shown)
        if isinstance(content, list):
            notes.note(39, shown)
        elif isinstance(content, str) and content:
            self._text(content, shown)
        thought = self._thought(delta, shown)
        function = delta.get("function_call")
        if isinstance(function, dict):
            self.calls.take_legacy(function)
        for call in calls:
            self.calls.take(call)
        return bool(content or calls or thought or function)

    def _text(self, text: str, shown: str) -> None:
        self._texts.append(text)
        if _SURROGATE.search(text):
            self._notes.note(48, shown)

    def _thought(self, delta: JsonObject, shown: str) -> bool:
        for field in ("reasoning_content", "reasoning"):
            thought = delta.get(field)
            if not thought:
                continue
            self.reasoning_field = self.reasoning_field or field
            if isinstance(thought, dict):
                self._notes.note(38, shown)
            if field == "reasoning":
                self._notes.note(37, shown)
        return bool(delta.get("reasoning_content") or delta.get("reasoning"))


def _repeats(texts: list[str]) -> bool:
    """Return whether each text repeats all text so far, or the last text repeats all others."""
    if len(texts) > _OFTEN and all(text.startswith(before) for before, text in pairwise(texts)):
        return len(set(texts)) > _OFTEN
    return len(texts) > _OFTEN and texts[-1] == "".join(texts[:-1])


def _listed(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else [value]


def _error_in(chunk: JsonObject) -> JsonValue:
    """Return the error in a chunk, in a choice, or in Groq's own field; None if there is none."""
    places = [chunk, *_objects(chunk.get("choices")), *_objects([chunk.get("x_groq")])]
    return next((place["error"] for place in places if place.get("error")), None)


def _objects(value: object) -> list[JsonObject]:
    found = cast("list[JsonValue]", value) if isinstance(value, list) else []
    return [one for one in found if isinstance(one, dict)]
