"""Conversion of Python values to plain JSON values.

Supports the blocks of `domain`, attrs classes, dataclasses, NamedTuples, enums and models of
pydantic. A value of any other type is not converted by `str`, but raises an error that names the
type.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Any, Final, cast

import attrs

from agent_actors.codec.blocks import dump_block
from agent_actors.domain.blocks import FileBlock, ImageBlock, OpaqueBlock, TextBlock
from agent_actors.domain.json import MAX_MESSAGE_DEPTH, JsonObject, JsonValue

# Python does not convert integers of more than 4,300 digits (about 14,284 bits) to text.
_MAX_BITS: Final = 14_000
# Characters that are encoded in one step.
_SLICE: Final = 2**18


def to_json(value: object, *, levels: int = MAX_MESSAGE_DEPTH) -> JsonValue:
    """Convert the value to JSON that shares no mutable part with it.

    Text, bools, None, finite floats, and ints of up to about 4,200 digits stay unchanged. Mappings
    with str keys become dicts. Lists and tuples become lists; sets become lists in a stable order.
    Instances of attrs classes, dataclasses and NamedTuples become dicts of their fields, and models
    of pydantic their JSON form with aliases. Enum members become their values.
    Text, image, file and opaque blocks become their dict form. Lone surrogates in text, which JSON
    text cannot contain, are replaced.

    Args:
        value: The value.
        levels: Maximum nesting of containers.

    Raises:
        TypeError: A part of the value cannot be represented. The message names its type and its
            path.
    """
    try:
        return _plain(value, "", levels)
    except _TooDeepError:
        raise TypeError(
            f"{type(value).__name__} is nested too deeply for JSON, or contains itself"
        ) from None


def clean_text(text: str) -> str:
    """Return the text with surrogate pairs joined and lone surrogates replaced by U+FFFD.

    Such text comes from file names in other encodings and from endpoints that split emojis. It can
    be neither sent nor stored.
    """
    if text.isascii():
        return text
    try:
        for start in range(0, len(text), _SLICE):  # other threads can run between slices
            text[start : start + _SLICE].encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


class _TooDeepError(Exception):
    """The value's containers are nested too deeply."""


def _plain(value: object, path: str, levels: int) -> JsonValue:
    match value:
        case Enum():  # must come first, because members of StrEnum and IntEnum are also str and int
            return _plain(value.value, path, levels)
        case None | bool():
            return value
        case int():
            return _writable(value, path)
        case str():
            return clean_text(value)
        case float():
            return _finite(value, path)
        case TextBlock() | ImageBlock() | FileBlock() | OpaqueBlock():
            return _plain(dump_block(value), path, levels)
        case _ if not levels:
            raise _TooDeepError
        case Mapping():
            items = cast(Mapping[object, object], value).items()
            return {
                _key(key, path): _plain(item, f"{path}.{key}", levels - 1) for key, item in items
            }
        case tuple() if hasattr(cast(object, value), "_asdict"):
            fields = cast(Any, value)._asdict().items()
            return {name: _plain(item, f"{path}.{name}", levels - 1) for name, item in fields}
        case list() | tuple():
            return [
                _plain(item, f"{path}[{index}]", levels - 1)
                for index, item in enumerate(cast(Sequence[object], value))
            ]
        case set() | frozenset():
            ordered = sorted(cast(AbstractSet[object], value), key=repr)
            return [_plain(item, f"{path}[]", levels - 1) for item in ordered]
        case _ if hasattr(type(value), "__pydantic_serializer__"):
            return _plain(_from_pydantic(value, path), path, levels)
        case _:
            fields = _fields(value, path)
            return {name: _plain(item, f"{path}.{name}", levels - 1) for name, item in fields}


def _writable(value: int, path: str) -> int:
    if value.bit_length() > _MAX_BITS:
        raise TypeError(f"an integer with thousands of digits cannot be a JSON number{_at(path)}")
    return value


def _finite(value: float, path: str) -> float:
    if not math.isfinite(value):
        raise TypeError(f"{value} is not a JSON number{_at(path)}")
    return value


def _key(key: object, path: str) -> str:
    if not isinstance(key, str):
        raise TypeError(
            f"a key of type {type(key).__name__} cannot be a JSON key{_at(path)}; use str"
        )
    return clean_text(key)


def _fields(value: object, path: str) -> list[tuple[str, object]]:
    if isinstance(value, type):
        raise TypeError(f"the class {value.__name__} cannot be a JSON value{_at(path)}")
    cls = cast(Any, type(value))
    if attrs.has(cls):
        return [(f.alias or f.name, getattr(value, f.name)) for f in attrs.fields(cls)]
    if dataclasses.is_dataclass(value):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    raise TypeError(
        f"a value of type {type(value).__name__} cannot be converted to JSON{_at(path)}; expected "
        "text, numbers, bools, None, lists, dicts, dataclasses, attrs classes, models of pydantic "
        "or blocks"
    )


def _from_pydantic(value: object, path: str) -> object:
    # pydantic need not be imported to use this attribute, which it documents for extensions.
    try:
        serializer = cast(Any, type(value)).__pydantic_serializer__
        return cast(object, serializer.to_python(value, mode="json", by_alias=True))
    except ValueError as error:  # the value has no JSON form
        raise TypeError(
            f"pydantic cannot convert a value of type {type(value).__name__} to JSON{_at(path)}: "
            f"{error}"
        ) from None


def _at(path: str) -> str:
    return f" (at {path.lstrip('.')})" if path else ""


def to_json_object(value: Mapping[str, object]) -> JsonObject:
    """Convert a mapping to JSON (see `to_json`)."""
    return cast(JsonObject, to_json(value))
