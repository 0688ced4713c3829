"""Finds quirks of tool calls in the chunks of one response. Pure.

It examines the fragments as they arrived. It groups fragments into calls only as far as this is
needed to see a quirk; `protocol/response/tool_call_fragments.py` does the real assembly.
"""

import json
import re
from collections.abc import Iterable
from typing import Final

import attrs

from agent_actors.cli.doctor.findings import Findings
from agent_actors.domain.json import MAX_DEPTH, JsonObject, JsonValue, nests_deeper

# Ids whose number restarts in each response: `find:0`, `functions.find:0`, `call_0`.
_COUNTED_ID: Final = re.compile(r"(?:functions\.)?[\w-]+:\d+|call_\d{1,2}")
_SHORT_ID: Final = re.compile(r"[A-Za-z0-9]{9}")
_DECODER: Final = json.JSONDecoder()


@attrs.define(eq=False)
class _Call:
    """The state of a call."""

    index: JsonValue
    id: str = ""
    name: str = ""
    arguments: str = ""
    fragments: int = 0
    bare: bool = True  # True if there were no arguments so far except empty values


class CallWatch:
    """Watches the calls of one response.

    Args:
        notes: Collects the observed quirks.
        known_ids: The ids of calls in earlier responses.
    """

    def __init__(self, notes: Findings, known_ids: Iterable[str] = ()) -> None:
        self._notes = notes
        self._known = frozenset(known_ids)
        self._calls: list[_Call] = []
        self._legacy = False

    @property
    def ids(self) -> list[str]:
        """The ids of the calls; calls without an id are left out."""
        return [call.id for call in self._calls if call.id]

    @property
    def any(self) -> bool:
        """True if there was a call."""
        return bool(self._calls)

    def take_legacy(self, function: JsonObject) -> None:
        """Process a fragment of the legacy form, which has no list."""
        self._notes.note(50, json.dumps(function))
        self._legacy = True
        self.take({"index": 0, "function": function})

    def take(self, fragment: JsonObject) -> None:
        """Process a fragment."""
        shown = json.dumps(fragment)
        function = fragment.get("function")
        function = function if isinstance(function, dict) else {}
        name = function.get("name")
        name = name if isinstance(name, str) else ""
        call = self._call_of(fragment, name)
        if call.fragments:
            self._continued(call, fragment, function, name, shown)
        elif "index" not in fragment:
            self._notes.note(1, shown)
        if fragment.get("index") == -1:
            self._notes.note(3, shown)
        if "extra_content" in fragment:
            self._notes.note(40, shown)
        self._arguments(call, function.get("arguments"), shown)
        call.name = call.name or name
        call.fragments += 1
        if "<|" in name:
            self._notes.note(24, shown)

    def close(self, *, cut_off: bool) -> None:
        """End the response, and check the complete calls.

        Args:
            cut_off: True if the response reports that it is incomplete. Then its last call may be
                incomplete, too.
        """
        places = [call.index for call in self._calls]
        counted = all(isinstance(place, int) and place >= 0 for place in places)
        distinct = len({str(place) for place in places}) == len(places)
        if counted and distinct and places != list(range(len(places))):
            self._notes.note(4, places)
        for call in self._calls:
            self._whole(call, cut_off=cut_off and call is self._calls[-1])

    def _call_of(self, fragment: JsonObject, name: str) -> _Call:
        call_id = fragment.get("id")
        call_id = call_id if isinstance(call_id, str) else ""
        index = fragment.get("index")
        known = next((call for call in self._calls if call_id and call.id == call_id), None)
        if known is not None:
            return known
        placed = next((call for call in reversed(self._calls) if call.index == index), None)
        last = placed or (self._calls[-1] if self._calls else None)
        if last is not None and self._goes_on(last, call_id, name, fragment):
            last.id = last.id or call_id
            return last
        if placed is not None and "index" in fragment and index != -1:
            self._notes.note(2, json.dumps(fragment))
        call = _Call(index, call_id)
        self._calls.append(call)
        return call

    def _goes_on(self, call: _Call, call_id: str, name: str, fragment: JsonObject) -> bool:
        """Return whether a fragment without a known id continues this call."""
        if call_id and call.id:
            return False
        elsewhere = "index" in fragment and fragment["index"] != call.index
        if name and call.name:
            return not elsewhere and not _objects_of(call.arguments)
        return not (elsewhere and (name or call_id))

    def _continued(
        self, call: _Call, fragment: JsonObject, function: JsonObject, name: str, shown: str
    ) -> None:
        if fragment.get("index", call.index) != call.index:
            self._notes.note(6, shown)
        if fragment.get("id") == "":
            self._notes.note(8 if function.get("name") == "" else 7, shown)
        if any(key in fragment and fragment[key] is None for key in ("id", "type")):
            self._notes.note(9, shown)
        if name and name == call.name:
            self._notes.note(12, shown)
        elif name and call.name:
            self._notes.note(13, shown)
        elif name and call.arguments:
            self._notes.note(14, shown)

    def _arguments(self, call: _Call, value: JsonValue, shown: str) -> None:
        if isinstance(value, dict):
            self._notes.note(16, shown)
            value = json.dumps(value)
        if not isinstance(value, str) or not value:
            return
        if not call.fragments:
            self._notes.note(21 if _objects_of(value) else 20, shown)
        call.arguments += value

    def _whole(self, call: _Call, *, cut_off: bool) -> None:
        notes = self._notes
        if not call.id:
            if not self._legacy:
                notes.note(11, call.name)
        elif call.id == call.name or call.id in self._known or _COUNTED_ID.fullmatch(call.id):
            notes.note(22, call.id)
        elif _SHORT_ID.fullmatch(call.id):
            notes.note(23, call.id)
        text = call.arguments.strip()
        if cut_off:
            return
        if not text:
            notes.note(18, call.name)
            return
        values = _values_of(text)
        if values is None:
            notes.note(26 if text.endswith("}") else 28, text)
        elif isinstance(values[0], str):
            notes.note(17, text)
        elif len(values) > 1:
            notes.note(15 if values[0] else 19, text)


def _values_of(text: str) -> list[JsonValue] | None:
    """Return the adjacent JSON values in a text; None if it contains anything else."""
    values: list[JsonValue] = []
    at = 0
    if nests_deeper(text, MAX_DEPTH):
        return None
    while at < len(text):
        try:
            value, at = _DECODER.raw_decode(text, at)
        except ValueError:
            return None
        values.append(value)
        at += len(text[at:]) - len(text[at:].lstrip())
    return values


def _objects_of(text: str) -> bool:
    """Return whether a text consists only of complete JSON objects."""
    values = _values_of(text.strip())
    return bool(values) and all(isinstance(value, dict) for value in values or ())
