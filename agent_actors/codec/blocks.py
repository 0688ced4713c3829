"""Blocks to and from their dict form: the block's fields, and its `type`.

What stands at its default is left out, so that the common block is short.
"""

from collections.abc import Mapping
from typing import Any, Final, cast

import attrs
import msgspec

from agent_actors.domain.blocks import (
    ContentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.json import JsonObject
from agent_actors.errors import InvalidEventError

_BLOCK_TYPES: Final[Mapping[str, type[ContentBlock]]] = {
    cls.type: cls
    for cls in (TextBlock, ThinkingBlock, ToolUseBlock, ToolUseError, ToolResultBlock, ImageBlock)
}
# (name, default) by class; attrs.NOTHING: always written.
_FIELDS: Final[Mapping[type[ContentBlock], tuple[tuple[str, object], ...]]] = {
    cls: tuple((field.name, field.default) for field in attrs.fields(cls))
    for cls in _BLOCK_TYPES.values()
}


def dump_block(block: ContentBlock) -> JsonObject:
    """The block as a dict, with its `type` first; it shares its inner values with the block."""
    dumped: dict[str, Any] = {"type": block.type}
    for name, default in _FIELDS[type(block)]:
        value = getattr(block, name)
        if value != default:
            dumped[name] = value
    return dumped


def load_block(data: object) -> ContentBlock:
    """The block of a dict; unknown fields are ignored.

    Raises:
        InvalidEventError: It is no dict, its type is unknown, or a field has the wrong shape.
    """
    tag = cast(dict[object, object], data).get("type") if isinstance(data, dict) else None
    cls = _BLOCK_TYPES.get(tag) if isinstance(tag, str) else None
    if cls is None:
        raise InvalidEventError(
            f"a block needs one of the types {', '.join(_BLOCK_TYPES)}; got {tag!r:.80}"
        )
    try:
        return msgspec.convert(data, cls)
    except msgspec.ValidationError as error:
        raise InvalidEventError(f"{tag} block: {error}") from None
