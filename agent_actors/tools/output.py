"""Conversion of a handler's return value to the result for the model."""

import json

import attrs

from agent_actors.codec.json_values import clean_text, to_json
from agent_actors.domain.blocks import FileBlock, ImageBlock, OpaqueBlock, TextBlock
from agent_actors.domain.json import JsonObject, JsonValue


@attrs.frozen
class ToolOutput:
    """The result of a tool call; a handler may return one to set more than the content.

    Attributes:
        content: The result that the model receives: text, JSON, or blocks in their dict form.
        data: Additional structured data for the caller; the model does not receive it.
        is_error: True if the call failed; `content` then contains the reason.
    """

    content: str | JsonObject | list[JsonValue]
    data: JsonValue = attrs.field(default=None, kw_only=True)
    is_error: bool = attrs.field(default=False, kw_only=True)


def to_output(value: object) -> ToolOutput:
    """Return a handler's return value as a `ToolOutput` that shares no mutable part with it.

    Text stays text; None becomes empty text. Dicts, lists, attrs and dataclass instances become
    JSON values; numbers, bools and enums become JSON text. A block, or a list of blocks, becomes
    their dict form.

    Raises:
        TypeError: The value cannot be represented in JSON; names the type and the path.
    """
    if isinstance(value, ToolOutput):
        return ToolOutput(
            _content(value.content), data=to_json(value.data), is_error=value.is_error
        )
    return ToolOutput(_content(value))


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
