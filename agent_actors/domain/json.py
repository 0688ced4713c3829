"""The type of JSON values, copies of them that share nothing; their depth, and their sameness.

Values and documents that come from elsewhere are bounded in depth before anything goes through them
by recursion. Interpreters differ in how deep they recurse: Python 3.11 counts the calls of C code,
3.12 and 3.13 count them apart, and 3.14 measures the stack. Without a bound of its own the package
would read the same bytes on one interpreter and refuse them on another.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias, Union

# Union, not `|`: the recursive parts are strings until the alias exists.
JsonValue: TypeAlias = Union[
    None, bool, int, float, str, "list[JsonValue]", "tuple[JsonValue, ...]", "dict[str, JsonValue]"
]
JsonObject: TypeAlias = dict[str, JsonValue]

MAX_DEPTH: Final = 100
"""Levels of lists and objects in one value: arguments, schemas, results, extra fields.

Real values have a handful. Of Python 3.11's 1,000 calls, a function that takes two calls a level
needs 200 for such a value.
"""

MAX_MESSAGE_DEPTH: Final = MAX_DEPTH + 10
"""Levels of a block or message as JSON, with values of `MAX_DEPTH` in it."""

MAX_DOCUMENT_DEPTH: Final = 256
"""Levels of a JSON document that is read: a data line, a body, a record, a file."""

# A string, maybe without an end, or a bracket.
_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', re.DOTALL)
_TOKEN_IN_BYTES: Final = re.compile(_TOKEN.pattern.encode(), re.DOTALL)


def copy_json(value: JsonValue) -> JsonValue:
    """A deep copy: nothing done to it is seen in the original."""
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy_json(item) for item in value]
    if isinstance(value, tuple):
        return tuple(copy_json(item) for item in value)
    return value


def copy_object(value: Mapping[str, JsonValue]) -> JsonObject:
    """A deep copy of an object as a plain dict."""
    return {key: copy_json(item) for key, item in value.items()}


def same_json(one: JsonValue, other: JsonValue) -> bool:
    """Whether two values are the same JSON; `==` takes `1`, `1.0` and `true` for one another."""
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(same_json(item, other[key]) for key, item in one.items())
        )
    if isinstance(one, list | tuple):
        return (
            isinstance(other, list | tuple)
            and len(one) == len(other)
            and all(map(same_json, one, other))
        )
    if isinstance(one, float):  # by their text: `-0.0` is another than `0.0`, and `nan` is `nan`
        return isinstance(other, float) and repr(one) == repr(other)
    return type(one) is type(other) and one == other


def is_deeper(value: JsonValue, levels: int) -> bool:
    """Whether lists and objects stand within each other on more levels than these."""
    if isinstance(value, dict):
        return levels < 1 or any(is_deeper(item, levels - 1) for item in value.values())
    if isinstance(value, list | tuple):
        return levels < 1 or any(is_deeper(item, levels - 1) for item in value)
    return False


def nests_deeper(text: str | bytes, levels: int) -> bool:
    """Whether a JSON text nests lists and objects on more levels than these.

    The answer needs no recursion and time linear in the length. A text that is not JSON gets an
    answer as well: its brackets outside of double quotes count.
    """
    # Each level of JSON has two brackets. Nearly every data line is too short to be searched, and a
    # shorter text without its closing brackets is refused by any reader.
    if len(text) < 2 * (levels + 1):
        return False
    # Most texts have fewer brackets than there are levels: counting is much cheaper than matching.
    if isinstance(text, bytes):
        if text.count(b"{") + text.count(b"[") <= levels:
            return False
        return _peak(token.group()[:1] for token in _TOKEN_IN_BYTES.finditer(text)) > levels
    if text.count("{") + text.count("[") <= levels:
        return False
    return _peak(token.group()[:1].encode() for token in _TOKEN.finditer(text)) > levels


def _peak(marks: Iterable[bytes]) -> int:
    depth = peak = 0
    for mark in marks:
        if mark in b"[{":
            depth += 1
            peak = max(peak, depth)
        elif mark in b"]}":
            depth -= 1
    return peak
