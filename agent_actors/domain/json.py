"""JSON values: types, deep copies, nesting depth and equality.

The nesting depth of external values and documents is checked before recursive code processes them.
Recursion limits differ between interpreters: Python 3.11 counts calls of C code, 3.12 and 3.13
count them separately, and 3.14 measures the stack. Without a limit of its own, the package would
accept the same bytes on one interpreter and reject them on another.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias, Union

# `Union` instead of `|`, because the recursive parts are strings until the alias exists.
JsonValue: TypeAlias = Union[
    None, bool, int, float, str, "list[JsonValue]", "tuple[JsonValue, ...]", "dict[str, JsonValue]"
]
JsonObject: TypeAlias = dict[str, JsonValue]

MAX_DEPTH: Final = 100
"""Maximum nesting of lists and objects in one value: arguments, schemas, results, extra fields.

Real values have only a few levels. For a value of this depth, a function that makes two calls per
level uses 200 of the 1,000 calls that Python 3.11 allows.
"""

MAX_MESSAGE_DEPTH: Final = MAX_DEPTH + 10
"""Maximum nesting of a block or message as JSON, with values of `MAX_DEPTH` inside."""

MAX_DOCUMENT_DEPTH: Final = 256
"""Maximum nesting of a JSON document that is read, such as a data line, a body, a record or a file.
"""

# A string, possibly unterminated, or a bracket.
_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', re.DOTALL)
_TOKEN_IN_BYTES: Final = re.compile(_TOKEN.pattern.encode(), re.DOTALL)


def copy_json(value: JsonValue) -> JsonValue:
    """Return a deep copy."""
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy_json(item) for item in value]
    if isinstance(value, tuple):
        return tuple(copy_json(item) for item in value)
    return value


def copy_object(value: Mapping[str, JsonValue]) -> JsonObject:
    """Return a deep copy of an object as a plain dict."""
    return {key: copy_json(item) for key, item in value.items()}


def same_json(one: JsonValue, other: JsonValue) -> bool:
    """Return whether two values are the same JSON.

    Unlike `==`, this function distinguishes `1`, `1.0` and `true`.
    """
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
    if isinstance(one, float):
        # Compare the text, so that `-0.0` differs from `0.0`, and `nan` equals `nan`.
        return isinstance(other, float) and repr(one) == repr(other)
    return type(one) is type(other) and one == other


def is_deeper(value: JsonValue, levels: int) -> bool:
    """Return whether lists and objects are nested more than `levels` deep."""
    if isinstance(value, dict):
        return levels < 1 or any(is_deeper(item, levels - 1) for item in value.values())
    if isinstance(value, list | tuple):
        return levels < 1 or any(is_deeper(item, levels - 1) for item in value)
    return False


def nests_deeper(text: str | bytes, levels: int) -> bool:
    """Return whether a JSON text nests lists and objects more than `levels` deep.

    The check is not recursive and takes linear time. In text that is not JSON, the brackets outside
    double quotes count.
    """
    # Each level of JSON needs two brackets. Nearly every data line is too short to be nested too
    # deeply, so it need not be searched. A text of this length without its closing brackets is
    # rejected by every parser.
    if len(text) < 2 * (levels + 1):
        return False
    # Most texts have fewer brackets than the limit, and counting is much cheaper than matching.
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
