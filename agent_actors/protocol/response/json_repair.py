"""Repair arguments that are almost valid JSON, if requested and if they are unambiguous.

This module repairs a few kinds of errors. Text with any other error, with several possible
meanings, or without an end is rejected. A repair never closes an open bracket, so a call that was
cut off is not executed. The following errors are repaired:

- a comma before a closing bracket: `{"a": [1, 2,],}`;
- single quotes around names and strings: `{'a': 'b'}`;
- Python's `True`, `False` and `None`;
- a string without its quotes, or without the first quote: `{"a": Pura 90}`, `{"a": Pura90"}`. The
  string must be a value of an object, because in an array its commas would be ambiguous. It must
  begin with a letter, must not be a word that means a value, and ends where the object
  continues or ends;
- a code fence around the object, as in a chat: three backticks, with an optional language.

Names without quotes, comments and missing commas are not repaired; the model must correct them.
"""

import re
from typing import Final, NoReturn, cast

import msgspec

from agent_actors.domain.json import JsonObject, JsonValue

_MAX_DEPTH: Final = 64
"""The maximum nesting of objects and arrays. Tools need only a few levels, and the parser is
recursive.
"""

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
"""Words that mean a value in some programming language. They are ambiguous, so they are not read as
text.
"""


class _NotRepairableError(ValueError):
    """The text has an error that is not repaired, or has several possible meanings."""


def repair_object(text: str) -> JsonObject | None:
    """Return the object that a text means; None if the meaning is not certain.

    Args:
        text: Text that is not valid JSON, without lone surrogates.
    """
    try:
        return _Reader(_without_fence(text)).whole()
    except (_NotRepairableError, msgspec.DecodeError):
        return None


def _without_fence(text: str) -> str:
    """Return the content of a code fence if the text is one; otherwise return the text."""
    lines = text.strip().split("\n")
    first, last = lines[0].strip(), lines[-1].strip()
    language = first.removeprefix(_FENCE)
    if len(lines) < 3 or last != _FENCE or language == first or "`" in language:
        return text
    return "\n".join(lines[1:-1])


class _Reader:
    """Parses one text from beginning to end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> JsonObject:
        """Return the object; it must span the complete text."""
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
                self._refuse()  # with a repeated name, one of its values would be lost
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
        """Return whether this bracket is next; if so, skip it."""
        self._skip_blanks()
        if self._next() != bracket:
            return False
        self._at += 1
        return True

    def _part(self, bracket: str) -> None:
        """Skip the comma after a value; if there is no comma, the bracket must be next."""
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
        return word  # a comma ends the text only if a quoted name follows

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
