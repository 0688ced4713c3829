"""Encode images and files, including those in tool results, in this protocol's format.

An image is sent as an `image_url`, with a URL or data. A text file is included in the text between
two markers, because few endpoints support the protocol's `file`, but every model can read text. Any
other file is sent as a `file`. Other types of parts can be sent as an `OpaqueBlock` of the provider
`openai`.

The protocol accepts only text from a tool. Therefore the tool message contains `[image]` in place
of an image, and the images follow in a user message. This message comes after the results of all
calls of one response, because endpoints refuse a message between the results. It is joined with the
next user message, because some templates refuse two consecutive messages with the same role.

The encoded bytes of a message with images are not cached between turns: `data:` URLs are already
encoded, so inserting one costs no more than a copy, and a cache would keep each image in memory
twice.
"""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias, TypeGuard, cast

from agent_actors.codec.blocks import load_block
from agent_actors.codec.openai_messages import PROVIDER, part_to_openai
from agent_actors.domain.blocks import (
    ContentBlock,
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    TextBlock,
    ToolResultBlock,
)
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.media import is_image
from agent_actors.domain.messages import Message
from agent_actors.errors import MessageError

Part: TypeAlias = TextBlock | ImageBlock | FileBlock | OpaqueBlock

# Names for files that have none: OpenAI requires a name and uses its extension.
_NAME: Final = "file"
_PDF_NAME: Final = "file.pdf"


def is_part(block: ContentBlock) -> TypeGuard[Part]:
    """Return whether the block may be a part of a message's content."""
    if isinstance(block, OpaqueBlock):
        return block.provider == PROVIDER
    return isinstance(block, TextBlock | ImageBlock | FileBlock)


def has_media(message: Message) -> bool:
    """Return whether the message has content other than text."""
    for block in message.blocks:
        if isinstance(block, ToolResultBlock):
            if result_media(block):
                return True
        elif is_part(block) and _text_of(block) is None:
            return True
    return False


def content_of(blocks: Sequence[Part]) -> JsonValue:
    """Return the content as text if all blocks are text, otherwise as parts."""
    if any(_text_of(block) is None for block in blocks):
        return parts_of(blocks)
    return _joined(blocks)


def parts_of(blocks: Iterable[Part]) -> list[JsonValue]:
    """Return each block as a part."""
    return [_part(block) for block in blocks]


def result_text(result: ToolResultBlock) -> str:
    """Return the result of a call as text, with labels in place of images and files."""
    blocks = _blocks(result)
    return result.text if blocks is None else _joined(blocks)


def result_media(result: ToolResultBlock) -> list[JsonValue]:
    """Return the parts of a result that are not text, with a heading, for a user message."""
    media = [block for block in _blocks(result) or () if _text_of(block) is None]
    if not media:
        return []
    tool = f"The tool {result.name}" if result.name else "A tool"
    heading: JsonObject = {"type": "text", "text": f"{tool} returned:"}
    return [heading, *parts_of(media)]


def _blocks(result: ToolResultBlock) -> list[Part] | None:
    """Return the content as blocks; None if it contains anything else."""
    if not isinstance(result.content, list) or not result.content:
        return None
    try:
        blocks = [load_block(item) for item in result.content]
    except MessageError:
        return None
    parts = [block for block in blocks if is_part(block)]
    return parts if len(parts) == len(blocks) else None


def _joined(blocks: Sequence[Part]) -> str:
    text = "".join(_label_of(block) if (t := _text_of(block)) is None else t for block in blocks)
    # Blank lines separate a file from the text around it; at the start and the end they are
    # removed.
    return text.strip("\n") if any(isinstance(block, FileBlock) for block in blocks) else text


def _text_of(block: Part) -> str | None:
    """Return the text of a block; None if it is not text."""
    if isinstance(block, TextBlock):
        return block.text
    text = block.text if isinstance(block, FileBlock) else None
    return None if text is None else f"\n\n{_label_of(block)}\n{text}\n[end of file]\n\n"


def _label_of(block: Part) -> str:
    if isinstance(block, ImageBlock | FileBlock):
        return block.label
    return f"[{block.data.get('type')}]" if isinstance(block, OpaqueBlock) else ""


def _part(block: Part) -> JsonValue:
    text = _text_of(block)
    if text is not None:
        return {"type": "text", "text": text}
    if isinstance(block, FileBlock):
        media_type = block.declared_type
        if is_image(media_type):
            block = ImageBlock(block.source)
        elif not block.name:
            name = _PDF_NAME if media_type == "application/pdf" else _NAME
            block = FileBlock(block.source, name=name)
    return cast(JsonValue, part_to_openai(block))
