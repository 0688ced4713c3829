"""Text as it streams: what of each chunk is new, and no half characters.

Owns the text of one kind (answer or thinking) of one answer. It knows nothing of blocks or wires.

Most endpoints send new text only; a few send, in each chunk, all the text so far. `TextFlow` tells
them apart by itself: as long as every chunk extends the one before, it shows the first and holds
the others back; once a chunk has extended at least `CUMULATIVE_MIN` characters twice, the stream is
cumulative and only what is new is shown; the first chunk that extends nothing proves the opposite
and brings out what was held. So an ordinary stream is decided, and costs nothing more, from its
second chunk on, and a short repeat ("ha", "ha") is never lost.

Some endpoints cut a character outside the Basic Multilingual Plane into two JSON escapes in two
chunks. Such a half waits for its other half; one that stays alone becomes U+FFFD, because text with
a lone surrogate cannot be encoded to UTF-8, and so could be neither stored nor sent.
"""

from collections.abc import Mapping
from typing import Final, Literal

from agent_actors.domain.json import MAX_DEPTH, JsonValue, is_deeper

CUMULATIVE_MIN: Final = 32
"""Characters. Shorter repeats occur in natural text; one of this length, twice, does not."""

_EXTENSIONS_NEEDED: Final = 2


def mend_surrogates(text: str) -> str:
    """The text with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def mend_json(value: JsonValue) -> JsonValue:
    """The value, with the surrogates of every text in it mended.

    Args:
        value: A value of at most `MAX_DEPTH` levels.
    """
    if isinstance(value, str):
        return mend_surrogates(value)
    if isinstance(value, list | tuple):
        return [mend_json(item) for item in value]
    if isinstance(value, dict):
        return {mend_surrogates(key): mend_json(item) for key, item in value.items()}
    return value


def mend_object(value: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """The object, mended; the very same if it is empty, as it nearly always is.

    An object of more than `MAX_DEPTH` levels is given up: the result is empty.
    """
    if not value:
        return value
    if any(is_deeper(item, MAX_DEPTH - 1) for item in value.values()):
        return {}
    return {mend_surrogates(key): mend_json(item) for key, item in value.items()}


class TextFlow:
    """What of a stream of chunks is new text.

    Args:
        cumulative: True if the endpoint is known to send all the text so far in each chunk; a chunk
            that does not extend the text is then new text all the same.
    """

    __slots__ = ("_extensions", "_half", "_held", "_length", "_mode", "_seen")

    def __init__(self, *, cumulative: bool = False) -> None:
        # "watching": every chunk so far extended the one before, and it is not yet decided.
        self._mode: Literal["watching", "incremental", "cumulative"] = (
            "cumulative" if cumulative else "watching"
        )
        # While watching: the first chunk, then those held back. When cumulative: the whole text.
        self._seen: list[str] = []
        self._held: list[str] = []
        self._length = 0
        self._extensions = 0
        self._half = ""

    @property
    def holds(self) -> bool:
        """True while something of what came has not been shown."""
        return bool(self._held or self._half)

    @property
    def is_plain(self) -> bool:
        """True if whole characters are shown as they come, and nothing is held back."""
        return self._mode == "incremental" and not self._half

    def feed(self, text: str) -> str:
        """Take a chunk; return what is to be shown of it now, maybe nothing."""
        if self._mode == "watching":
            text = self._watch(text)
        elif self._mode == "cumulative":
            text = self._new_part(text)
        if text.isascii() and not self._half:
            return text
        return self._whole_characters(text)

    def flush(self) -> str:
        """What was held back, when no more text comes or text of another kind comes first."""
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
        # Only a chunk as long as all the text so far is compared with it: the work stays linear in
        # what is received, whichever way the endpoint sends.
        if len(text) >= self._length:
            whole = "".join(self._seen)
            if text.startswith(whole):
                self._seen = [text]
                self._length = len(text)
                return text[len(whole) :]
            self._seen = [whole]
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
