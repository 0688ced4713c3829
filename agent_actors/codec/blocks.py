"""Conversion of blocks to and from dicts, which contain the block's fields and its `type`.

Fields with their default value are omitted, so that common blocks stay short.
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
_ANY_BLOCK: Final[Any] = Union[tuple(_MIRRORS.values())]  # noqa: UP007 - built at run time
_FIELDS: Final[Mapping[Any, tuple[tuple[str, object], ...]]] = {
    cls: tuple((field.name, field.default) for field in attrs.fields(cls)) for cls in BLOCK_TYPES
}


def dump_block(block: ContentBlock) -> JsonObject:
    """Return the block as a dict whose first key is `type` and which shares the block's values."""
    dumped: dict[str, Any] = {"type": block.type}
    for name, default in _FIELDS[type(block)]:
        value = getattr(block, name)
        if value != default:
            dumped[name] = value
    return dumped


def load_block(data: object) -> ContentBlock:
    """Decode a block from a dict, ignoring unknown fields.

    Raises:
        MessageError: The value is not a dict, its type is unknown, or a field has the wrong shape.
    """
    try:
        return cast(ContentBlock, unmirrored(msgspec.convert(data, _ANY_BLOCK)))
    except msgspec.ValidationError as error:
        raise MessageError(f"the value is not a content block: {error}") from None


def unmirrored(mirror: Mirror) -> Any:
    """Convert a mirror to the block that it represents."""
    return mirror.mirrored(**mirror.body())


def mirrored_union(blocks: tuple[type[ContentBlock], ...]) -> Any:
    """Return the union of these block classes' mirrors."""
    return Union[tuple(_MIRRORS[cls] for cls in blocks)]  # noqa: UP007 - built at run time
