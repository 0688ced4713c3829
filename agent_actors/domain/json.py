"""The type of JSON values, and copies of them that share nothing."""

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
