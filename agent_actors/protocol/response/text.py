"""Streamed text: the new part of each chunk, without split characters.

A `TextFlow` owns the text of one kind (text or thinking) in one response. It does not know blocks
or wire formats.

Most endpoints send only new text. A few send, in each chunk, all the text so far. `TextFlow`
detects which kind it receives. As long as every chunk extends the previous one, it shows the first
chunk and holds back the others. Once a chunk has extended at least `CUMULATIVE_MIN` characters
twice, the stream is treated as cumulative, and only new text is shown. The first chunk that does
not extend the previous one proves the opposite, and the held-back chunks are shown. Therefore an
ordinary stream is detected at its second chunk and costs nothing more from then on, and a short
repeat ("ha", "ha") is never lost.

Some endpoints split a character outside the Basic Multilingual Plane into two JSON escapes and send
them in two chunks. The first half is held back until the second half arrives. A half that stays
alone becomes U+FFFD: text with a lone surrogate cannot be encoded to UTF-8, and therefore could be
neither stored nor sent.
"""

from collections.abc import Mapping
from typing import Final, Literal

from agent_actors.domain.json import MAX_DEPTH, JsonValue, is_deeper

CUMULATIVE_MIN: Final = 32
"""The minimum number of characters of a repeat. Shorter repeats occur in natural text; two repeats
of this length do not.
"""

_EXTENSIONS_NEEDED: Final = 2


def mend_surrogates(text: str) -> str:
    """Join surrogate pairs, and replace lone surrogates with U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def mend_json(value: JsonValue) -> JsonValue:
    """Return the value with the surrogates mended in all of its strings.

    Args:
        value: A value with at most `MAX_DEPTH` levels.
    """
    if isinstance(value, str):
        return mend_surrogates(value)
    if isinstance(value, list | tuple):
        return [mend_json(item) for item in value]
    if isinstance(value, dict):
        return {mend_surrogates(key): mend_json(item) for key, item in value.items()}
    return value


def mend_object(value: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """Return the object with the surrogates mended in all of its strings.

    An empty object, which is the usual case, is returned unchanged. An object with more than
    `MAX_DEPTH` levels is dropped: the result is empty.
    """
    if not value:
        return value
    if any(is_deeper(item, MAX_DEPTH - 1) for item in value.values()):
        return {}
    return {mend_surrogates(key): mend_json(item) for key, item in value.items()}


class TextFlow:
    """Separates new text from repeated text in a stream of chunks.

    Args:
        cumulative: True if the endpoint is known to send all the text so far in each chunk. Even
            then, a chunk that does not extend the text is treated as new text.
    """

    __slots__ = ("_extensions", "_half", "_held", "_length", "_mode", "_seen")

    def __init__(self, *, cumulative: bool = False) -> None:
        # "watching": every chunk so far extended the previous one, so the kind has not been decided
        # yet.
        self._mode: Literal["watching", "incremental", "cumulative"] = (
            "cumulative" if cumulative else "watching"
        )
        # While watching: the first chunk; `_held` has the held-back ones. If cumulative: the
        # complete text.
        self._seen: list[str] = []
        self._held: list[str] = []
        self._length = 0
        self._extensions = 0
        self._half = ""

    @property
    def holds(self) -> bool:
        """True while some of the received text has not been shown."""
        return bool(self._held or self._half)

    @property
    def is_plain(self) -> bool:
        """True if complete characters are shown as they arrive, and nothing is held back."""
        return self._mode == "incremental" and not self._half

    def feed(self, text: str) -> str:
        """Process a chunk; return the text to show now, possibly none."""
        if self._mode == "watching":
            text = self._watch(text)
        elif self._mode == "cumulative":
            text = self._new_part(text)
        if text.isascii() and not self._half:
            return text
        return self._whole_characters(text)

    def flush(self) -> str:
        """Return the held-back text, at the end of the text or before text of another kind."""
        text, self._half = self._half, ""
        if self._held:
            self._mode = "incremental"
            text += "".join(self._held)
            self._held = []
        return mend_surrogates(text)

    def _watch(self, text: str) -> str:
        if not self._seen:
            self._seen = [text]
            self._length = len(text)
            return text
        previous = self._held[-1] if self._held else self._seen[0]
        longer = len(text) > len(previous)
        if not text.startswith(previous) or not (longer or self._extensions):
            self._mode = "incremental"
            text = "".join((*self._held, text))
            self._held = []
            return text
        if longer and len(previous) >= CUMULATIVE_MIN:
            self._extensions += 1
        self._held.append(text)
        if self._extensions < _EXTENSIONS_NEEDED:
            return ""
        self._mode = "cumulative"
        self._held = []
        shown, self._seen, self._length = self._length, [text], len(text)
        return text[shown:]

    def _new_part(self, text: str) -> str:
        # A chunk is compared with all the text so far only if it is at least as long. Therefore the
        # work stays linear in the received size, for both kinds of endpoint.
        if len(text) >= self._length:
            complete = "".join(self._seen)
            if text.startswith(complete):
                self._seen = [text]
                self._length = len(text)
                return text[len(complete) :]
            self._seen = [complete]
        self._seen.append(text)
        self._length += len(text)
        return text

    def _whole_characters(self, text: str) -> str:
        if not text:
            return text
        text = self._half + text
        self._half = ""
        if "\ud800" <= text[-1] <= "\udbff":
            self._half = text[-1]
            text = text[:-1]
        return mend_surrogates(text)
