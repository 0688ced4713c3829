"""Collect the `reasoning_details` of a response: structured thinking that must be sent back.

OpenRouter and gateways with the same format send thinking as a list of details: text with a
signature, a summary, or encrypted data. Between tool calls, some models refuse a conversation
without these details. The details must be sent back exactly as they were generated and in the same
order.

A stream splits a detail into fragments of the same type and index. The texts of the fragments are
joined. The signature often arrives in a final fragment without text. Other fields are taken from
the fragment that contains them. A fragment begins another detail if it has a different id, or if it
has more text after a signature. Encrypted data and details of unknown types are never joined,
because each of their fragments is complete.

Source: https://openrouter.ai/docs/guides/best-practices/reasoning-tokens
"""

from collections.abc import Iterable
from typing import Final, cast

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.protocol.response.text import mend_object

FIELD: Final = "reasoning_details"
"""The name of the field in a message."""

BOUND: Final = frozenset({FIELD})
"""Fields of a message that only the endpoint that sent them understands."""

_TEXT_OF: Final = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""The field that contains the text, by type of detail."""


class _Detail:
    """One detail whose fragments are arriving."""

    __slots__ = ("fields", "pieces", "text_key")

    def __init__(self, fields: JsonObject, text_key: str) -> None:
        self.fields: JsonObject = dict(fields)
        self.text_key: str = text_key
        text = self.fields.get(text_key)
        self.pieces: list[str] = [text] if isinstance(text, str) else []

    @property
    def is_empty(self) -> bool:
        """True if the detail consists of an empty text without a signature."""
        return bool(self.text_key) and not any(self.pieces) and not self.fields.get("signature")

    def takes(self, fragment: JsonObject) -> bool:
        """Return whether a fragment of the same type and index continues this detail."""
        for key in ("id", "index"):
            known, new = self.fields.get(key), fragment.get(key)
            if known is not None and new is not None and known != new:
                return False
        signature = self.fields.get("signature")
        more = fragment.get(self.text_key)
        return not (signature and more and fragment.get("signature") != signature)

    def add(self, fragment: JsonObject) -> None:
        """Add a fragment."""
        text = fragment.get(self.text_key)
        if isinstance(text, str):
            self.pieces.append(text)
        for key, value in fragment.items():
            if value is not None or key not in self.fields:
                self.fields[key] = value

    def whole(self) -> JsonObject:
        """Return the detail with all of its text."""
        text: JsonObject = {self.text_key: "".join(self.pieces)} if self.pieces else {}
        return {**self.fields, **text}


class ReasoningDetails:
    """The details of one response."""

    __slots__ = ("_by_place", "_details")

    def __init__(self) -> None:
        self._details: list[_Detail] = []
        # The last detail of each type and index.
        self._by_place: dict[tuple[str, str], _Detail] = {}

    @property
    def size(self) -> int:
        """The number of characters in all texts so far."""
        return sum(len(piece) for detail in self._details for piece in detail.pieces)

    def add(self, fragments: Iterable[object], *, whole: bool) -> str:
        """Add the details from a chunk or from a complete message.

        Args:
            fragments: The list; items that are not objects are ignored.
            whole: True for a complete message, which replaces earlier details.

        Returns:
            The text that the fragments add.
        """
        if whole:
            self._details.clear()
            self._by_place.clear()
        found = [cast(JsonObject, item) for item in fragments if isinstance(item, dict)]
        return "".join(self._take(item, whole=whole) for item in found)

    def whole(self) -> list[JsonValue]:
        """Return the complete details, in the order in which they began; none if all are empty."""
        if all(item.is_empty for item in self._details):
            return []
        return [dict(found) for item in self._details if (found := mend_object(item.whole()))]

    def _take(self, fragment: JsonObject, *, whole: bool) -> str:
        kind = str(fragment.get("type"))
        text_key = _TEXT_OF.get(kind, "")
        place = (kind, str(fragment.get("index")))
        known = self._by_place.get(place)
        if not whole and known is not None:
            if text_key and known.takes(fragment):
                known.add(fragment)
                return _text(fragment, text_key)
            if known.fields == fragment:  # a repeat
                return ""
        made = self._by_place[place] = _Detail(fragment, text_key)
        self._details.append(made)
        return _text(fragment, text_key)


def _text(fragment: JsonObject, key: str) -> str:
    text = fragment.get(key)
    return text if isinstance(text, str) else ""
