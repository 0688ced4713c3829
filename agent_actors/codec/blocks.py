"""Blocks to and from their dict form: the block's fields, and its `type`.

What stands at its default is left out, so that the common block is short.
"""

from collections.abc import Mapping
from typing import Any, Final, Union, cast

import attrs
import msgspec

from agent_actors.codec.mirrors import Mirror, mirror_of
from agent_actors.domain.blocks import (
    ContentBlock,
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.json import JsonObject
from agent_actors.errors import MessageError

BLOCK_TYPES: Final[tuple[type[ContentBlock], ...]] = (
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    ToolUseError,
    ToolResultBlock,
    ImageBlock,
    FileBlock,
    OpaqueBlock,
)
_MIRRORS: Final[Mapping[Any, type[Mirror]]] = {cls: mirror_of(cls) for cls in BLOCK_TYPES}
_ANY_BLOCK: Final[Any] = Union[tuple(_MIRRORS.values())]  # noqa: UP007 - built, not written
_FIELDS: Final[Mapping[Any, tuple[tuple[str, object], ...]]] = {
    cls: tuple((field.name, field.default) for field in attrs.fields(cls)) for cls in BLOCK_TYPES
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
        MessageError: It is no dict, its type is unknown, or a field has the wrong shape.
    """
    try:
        return cast(ContentBlock, unmirrored(msgspec.convert(data, _ANY_BLOCK)))
    except msgspec.ValidationError as error:
        raise MessageError(f"not a content block: {error}") from None


def unmirrored(mirror: Mirror) -> Any:
    """The block that a mirror stands for."""
    return mirror.mirrored(**mirror.body())


def mirrored_union(blocks: tuple[type[ContentBlock], ...]) -> Any:
    """A union of the mirrors of these classes of blocks."""
    return Union[tuple(_MIRRORS[cls] for cls in blocks)]  # noqa: UP007 - built, not written
