"""The type of JSON values, copies of them that share nothing; their depth, and their sameness."""

from collections.abc import Mapping
from typing import TypeAlias, Union

# Union, not `|`: the recursive parts are strings until the alias exists.
JsonValue: TypeAlias = Union[
    None, bool, int, float, str, "list[JsonValue]", "tuple[JsonValue, ...]", "dict[str, JsonValue]"
]
JsonObject: TypeAlias = dict[str, JsonValue]


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
