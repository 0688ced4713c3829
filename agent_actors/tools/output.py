"""What a handler returns, as what a model is told."""

import json

import attrs

from agent_actors.codec.json_values import clean_text, to_json
from agent_actors.domain.blocks import FileBlock, ImageBlock, OpaqueBlock, TextBlock
from agent_actors.domain.json import JsonObject, JsonValue


@attrs.frozen
class ToolOutput:
    """The outcome of a call; a handler may return one to say more than a plain value can.

    Attributes:
        content: What the model is told: text, JSON, or blocks in their dict form.
        data: Structured data kept beside it for the caller; the model does not see it.
        is_error: True if the call failed; then `content` says why.
    """

    content: str | JsonObject | list[JsonValue]
    data: JsonValue = attrs.field(default=None, kw_only=True)
    is_error: bool = attrs.field(default=False, kw_only=True)


def to_output(value: object) -> ToolOutput:
    """A handler's return value as a `ToolOutput`, sharing nothing with it that can change.

    Text stays text, None is empty text. Dicts, lists, attrs and dataclass instances stay JSON;
    numbers, bools and enums become JSON text. A block, or a list of blocks, becomes their dict
    form.

    Raises:
        TypeError: The value is no JSON; names its type, and where in it the fault is.
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
