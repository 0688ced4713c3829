"""Encode images, documents and tool results in this protocol's format.

An image or a file is sent as a URL, or as the data from its `data:` URL. The format depends on the
media type, not on the class of the block: anything except an image is sent as a document, and a
text document must be plain text. Images are not re-encoded.
"""

from typing import Final

from agent_actors.codec.blocks import load_block
from agent_actors.domain.blocks import (
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    TextBlock,
    ToolResultBlock,
)
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.media import (
    decoded_text,
    is_image,
    is_text,
    split_data_url,
    usual_name,
)
from agent_actors.errors import MessageError
from agent_actors.providers.anthropic.block_builders import PROVIDER

_DEFAULT_IMAGE: Final = "image/png"
_DEFAULT_FILE: Final = "application/pdf"
_NO_MESSAGE: Final = "the tool failed without a message"
"""Sent for an error without a message, because endpoints refuse an error without content."""


def media_part(block: ImageBlock | FileBlock) -> JsonObject:
    """Return the message part for an image, or for a document if the media type requires one."""
    default = _DEFAULT_IMAGE if isinstance(block, ImageBlock) else _DEFAULT_FILE
    data = split_data_url(block.source)
    media_type = usual_name(block.media_type) or (data.media_type if data else "") or default
    if data is None:
        source: JsonObject = {"type": "url", "url": block.source}
    elif is_text(media_type):
        # A text document must be plain text.
        text = decoded_text(block.source)
        source = {"type": "text", "media_type": "text/plain", "data": text}
    else:
        source = {"type": "base64", "media_type": media_type, "data": data.base64}
    if is_image(media_type):
        return {"type": "image", "source": source}
    title: JsonObject = {"title": block.name} if isinstance(block, FileBlock) and block.name else {}
    return {"type": "document", "source": source, **title}


def result_content(result: ToolResultBlock) -> JsonValue:
    """Return the content of a result: text, or parts for a list of blocks. It may be empty."""
    parts = _parts(result.content) if isinstance(result.content, list) else None
    if parts and result.is_error and not all(part.get("type") == "text" for part in parts):
        parts = None  # an error may contain only text
    if parts is None:
        text = "" if result.content == [] else result.text
        return text or (_NO_MESSAGE if result.is_error else "")
    visible_parts: list[JsonValue] = [part for part in parts if part.get("text") != ""]
    return visible_parts or (_NO_MESSAGE if result.is_error else "")


def _parts(content: list[JsonValue]) -> list[JsonObject] | None:
    """Return the blocks of a list as parts; None if the list is empty or has other items."""
    parts = [_part(item) for item in content]
    found = [part for part in parts if part is not None]
    return found if found and len(found) == len(parts) else None


def _part(item: JsonValue) -> JsonObject | None:
    try:
        block = load_block(item)
    except MessageError:
        return None
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text, **block.extra}
    if isinstance(block, ImageBlock | FileBlock):
        return {**media_part(block), **block.extra}
    if isinstance(block, OpaqueBlock) and block.provider == PROVIDER:
        return {**block.data, **block.extra}
    return None
