"""Read arguments that are nearly JSON, on request and only if they have exactly one meaning.

This module repairs a few kinds of errors. Text with any other error, with more than one meaning,
or without its end is not read at all: a repair never closes an open bracket, so that a call that
was cut off does not run. Repaired are:

- a comma before a closing bracket: `{"a": [1, 2,],}`;
- single quotes around names and strings: `{'a': 'b'}`;
- Python's `True`, `False` and `None`;
- a string without its quotes, or without the first one: `{"a": Pura 90}`, `{"a": Pura90"}`. It must
  be a value of an object, because in an array its commas would be ambiguous. It ends where the
  object continues or ends, begins with a letter, and is not a word that means a value;
- a code fence around the object, as in a chat: three backticks, with an optional language.

Names without quotes, comments and missing commas are left for the model to correct.
"""

import re
from typing import Final, NoReturn, cast

import msgspec

from agent_actors.domain.json import JsonObject, JsonValue

_MAX_DEPTH: Final = 64
"""Levels of objects and arrays. Tools need only a few, and the reader is recursive."""

_FENCE: Final = "```"
_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_DOUBLE: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_SINGLE: Final = re.compile(r"'[^'\\]*(?:\\.[^'\\]*)*'", re.DOTALL)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BARE: Final = re.compile(r'([^\W\d_][^"\'\\{}\[\],:`\x00-\x1f\x7f]*)"?')

_WORDS: Final[dict[str, JsonValue]] = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "null": None,
    "None": None,
}
_NO_TEXTS: Final = frozenset(
    {"true", "false", "null", "none", "nan", "inf", "infinity", "undefined"}
)
"""Words that mean a value in some language. Their meaning is ambiguous, so they are not read as
text.
"""


class _NotRepairableError(ValueError):
    """The text has an error that is not repaired, or has more than one meaning."""


def repair_object(text: str) -> JsonObject | None:
    """Return the object that a text means; None if the meaning is not certain.

    Args:
        text: Text that is not JSON, without lone surrogates.
    """
    try:
        return _Reader(_without_fence(text)).whole()
    except (_NotRepairableError, msgspec.DecodeError):
        return None


def _without_fence(text: str) -> str:
    """Return the content of a code fence, if the text is one; else the text."""
    lines = text.strip().split("\n")
    first, last = lines[0].strip(), lines[-1].strip()
    language = first.removeprefix(_FENCE)
    if len(lines) < 3 or last != _FENCE or language == first or "`" in language:
        return text
    return "\n".join(lines[1:-1])


class _Reader:
    """Reads one text from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> JsonObject:
        """Return the object, which must be the complete text."""
        self._skip_blanks()
        if self._next() != "{":
            self._refuse()
        found = self._object(0)
        self._skip_blanks()
        if self._at != len(self._text):
            self._refuse()
        return found

    def _value(self, depth: int, *, in_object: bool) -> JsonValue:
        letter = self._next()
        if letter == "{":
            return self._object(depth)
        if letter == "[":
            return self._array(depth)
        if letter in {'"', "'"}:
            return self._quoted()
        number = _NUMBER.match(self._text, self._at)
        if number is not None:
            return self._number(number)
        return self._bare(in_object=in_object)

    def _object(self, depth: int) -> JsonObject:
        self._deeper(depth)
        found: JsonObject = {}
        while not self._closed("}"):
            if self._next() not in {'"', "'"}:
                self._refuse()
            name = self._quoted()
            self._skip_blanks()
            if name in found or self._next() != ":":
                self._refuse()  # a repeated name would lose one of its values
            self._at += 1
            self._skip_blanks()
            found[name] = self._value(depth + 1, in_object=True)
            self._part("}")
        return found

    def _array(self, depth: int) -> list[JsonValue]:
        self._deeper(depth)
        found: list[JsonValue] = []
        while not self._closed("]"):
            found.append(self._value(depth + 1, in_object=False))
            self._part("]")
        return found

    def _deeper(self, depth: int) -> None:
        if depth >= _MAX_DEPTH:
            self._refuse()
        self._at += 1

    def _closed(self, bracket: str) -> bool:
        """Return whether the bracket is next; skip it if so."""
        self._skip_blanks()
        if self._next() != bracket:
            return False
        self._at += 1
        return True

    def _part(self, bracket: str) -> None:
        """Skip the comma after a value; without one the bracket must be next."""
        self._skip_blanks()
        if self._next() == ",":
            self._at += 1
        elif self._next() != bracket:
            self._refuse()

    def _quoted(self) -> str:
        single = self._next() == "'"
        found = (_SINGLE if single else _DOUBLE).match(self._text, self._at)
        if found is None:
            self._refuse()
        self._at = found.end()
        quoted = found.group()
        if single:
            inner = re.sub(r"\\(.)|\"", _as_double_quoted, quoted[1:-1], flags=re.DOTALL)
            quoted = f'"{inner}"'
        return msgspec.json.decode(quoted, type=str)

    def _number(self, found: re.Match[str]) -> JsonValue:
        self._at = found.end()
        self._skip_blanks()
        if self._next() not in {",", "}", "]"}:
            self._refuse()
        return cast(JsonValue, msgspec.json.decode(found.group()))

    def _bare(self, *, in_object: bool) -> JsonValue:
        found = _BARE.match(self._text, self._at)
        if found is None:
            self._refuse()
        word = found.group(1).strip()
        self._at = found.end()
        if word in _WORDS and not found.group().endswith('"'):
            return _WORDS[word]
        if not in_object or word.lower() in _NO_TEXTS:
            self._refuse()
        return word  # a comma must be followed by a quoted name: otherwise it is part of the text

    def _skip_blanks(self) -> None:
        blanks = _BLANKS.match(self._text, self._at)
        assert blanks is not None
        self._at = blanks.end()

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _refuse(self) -> NoReturn:
        raise _NotRepairableError


def _as_double_quoted(found: re.Match[str]) -> str:
    if found.group() == '"':
        return '\\"'
    return "'" if found.group(1) == "'" else found.group()
