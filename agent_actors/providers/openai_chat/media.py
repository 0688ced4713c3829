"""Images and files in this protocol's form, and what becomes of those that a tool gives back.

An image is an `image_url`, by URL or as data. A text goes into the text itself, between two marks,
because few endpoints know the protocol's `file`, and every model reads text. Any other file is a
`file`. Parts that have no type here go as an `OpaqueBlock` of the provider `openai`.

From a tool the wire takes text alone. So its message names an image by `[image]`, and the images
themselves follow in a message of the user. That comes after the results of all calls of one answer,
since endpoints refuse a message between them, and is one with what the user says next, since some
templates refuse two messages of one role.

What a message with images is in bytes is not kept from turn to turn: `data:` URLs are encoded
already, putting one in costs no more than copying it, and kept it would be in memory twice.
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

# Their names, if they have none: OpenAI demands one, and reads its ending.
_NAME: Final = "file"
_PDF_NAME: Final = "file.pdf"


def is_part(block: ContentBlock) -> TypeGuard[Part]:
    """True for what may stand in a content."""
    if isinstance(block, OpaqueBlock):
        return block.provider == PROVIDER
    return isinstance(block, TextBlock | ImageBlock | FileBlock)


def has_media(message: Message) -> bool:
    """True if there is more than text to send of it."""
    for block in message.blocks:
        if isinstance(block, ToolResultBlock):
            if result_media(block):
                return True
        elif is_part(block) and _text_of(block) is None:
            return True
    return False


def content_of(blocks: Sequence[Part]) -> JsonValue:
    """Text alone as text, anything else as parts."""
    if any(_text_of(block) is None for block in blocks):
        return parts_of(blocks)
    return _joined(blocks)


def parts_of(blocks: Iterable[Part]) -> list[JsonValue]:
    """Each block as a part."""
    return [_part(block) for block in blocks]


def result_text(result: ToolResultBlock) -> str:
    """What a call gave back as text; an image or a file by its label."""
    blocks = _blocks(result)
    return result.text if blocks is None else _joined(blocks)


def result_media(result: ToolResultBlock) -> list[JsonValue]:
    """What a call gave back and no text can tell: parts for the user, a heading first."""
    media = [block for block in _blocks(result) or () if _text_of(block) is None]
    if not media:
        return []
    tool = f"the tool {result.name}" if result.name else "a tool"
    heading: JsonObject = {"type": "text", "text": f"What {tool} gave back:"}
    return [heading, *parts_of(media)]


def _blocks(result: ToolResultBlock) -> list[Part] | None:
    """The content as blocks; None if it is anything else."""
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
    # A file stands apart from what is around it, and nothing is around the first and the last.
    return text.strip("\n") if any(isinstance(block, FileBlock) for block in blocks) else text


def _text_of(block: Part) -> str | None:
    """What it reads; None if it is no text."""
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
        media_type = block.told_type
        if is_image(media_type):
            block = ImageBlock(block.source)
        elif not block.name:
            name = _PDF_NAME if media_type == "application/pdf" else _NAME
            block = FileBlock(block.source, name=name)
    return cast(JsonValue, part_to_openai(block))
