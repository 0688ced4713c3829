"""Converts a handler's return value to the result for the model."""

import dataclasses
import json
from collections.abc import Collection, Mapping
from typing import Final, cast

import attrs

from agent_actors.codec.json_values import clean_text, to_json
from agent_actors.domain.blocks import FileBlock, ImageBlock, OpaqueBlock, TextBlock
from agent_actors.domain.json import JsonObject, JsonValue

# The sizes that can be converted within a millisecond: characters of text, and values in
# containers.
_FAST_CHARACTERS: Final = 2**20
_FAST_VALUES: Final = 500


@attrs.frozen
class ToolOutput:
    """The result of a tool call. A handler may return an instance to set more than the content.

    Attributes:
        content: The result that the model receives: text, JSON, or blocks in their dict form.
        data: Additional structured data for the caller; the model does not receive it.
        is_error: True if the call failed; `content` then contains the reason.
        untrusted: True if the content comes from outside, so that it is marked as data in what the
            model sees; False if the tool itself wrote it. None: as `Tool.untrusted_results` says.
    """

    content: str | JsonObject | list[JsonValue]
    data: JsonValue = attrs.field(default=None, kw_only=True)
    is_error: bool = attrs.field(default=False, kw_only=True)
    untrusted: bool | None = attrs.field(default=None, kw_only=True)


def to_output(value: object) -> ToolOutput:
    """Convert a handler's return value to a `ToolOutput` that shares no mutable part with it.

    Text stays text; None becomes empty text. Dicts, lists, and instances of attrs classes,
    dataclasses, NamedTuples and models of pydantic become JSON values; numbers, bools and enums
    become JSON text. A block, or each block in a list of blocks, is converted to its dict form.

    Raises:
        TypeError: The value cannot be represented in JSON. The message names the type and the path.
    """
    if isinstance(value, ToolOutput):
        return ToolOutput(
            _content(value.content),
            data=to_json(value.data),
            is_error=value.is_error,
            untrusted=value.untrusted,
        )
    return ToolOutput(_content(value))


def converts_fast(value: object) -> bool:
    """Return whether `to_output` is certain to take less than about a millisecond for a value."""
    if isinstance(value, str):
        return value.isascii() or len(value) <= _FAST_CHARACTERS
    left, waiting = _FAST_CHARACTERS, [value]
    for _ in range(_FAST_VALUES):
        if not waiting or left < 0:
            break
        part = waiting.pop()
        if isinstance(part, str):
            left -= len(part)
        elif isinstance(part, Mapping | list | tuple | set | frozenset):
            parts = cast("Collection[object]", part)
            if len(parts) > _FAST_VALUES:
                return False
            waiting += parts
            if isinstance(part, Mapping):
                waiting += cast("Mapping[object, object]", part).values()
        elif attrs.has(type(part)):
            cls = cast("type[attrs.AttrsInstance]", type(part))
            waiting += [getattr(part, field.name, None) for field in attrs.fields(cls)]
        elif dataclasses.is_dataclass(part):
            waiting += [getattr(part, field.name, None) for field in dataclasses.fields(part)]
        elif hasattr(type(part), "__pydantic_serializer__"):
            waiting += vars(part).values()
    return not waiting and left >= 0


def _content(value: object) -> str | JsonObject | list[JsonValue]:
    if value is None:
        return ""
    if type(value) is str:
        return clean_text(value)
    is_block = isinstance(value, TextBlock | ImageBlock | FileBlock | OpaqueBlock)
    plain = to_json([value] if is_block else value)
    if isinstance(plain, str | dict | list):
        return plain
    return json.dumps(plain)
