"""Images, documents and results of calls in the form of this protocol.

An image is named by its URL or comes as data in a `data:` URL. Data or URLs of another media type
than an image's are documents, for which this protocol has a form of its own.
"""

import base64
import binascii
from typing import Final
from urllib.parse import unquote_to_bytes

from agent_actors.codec.blocks import load_block
from agent_actors.domain.blocks import ImageBlock, OpaqueBlock, TextBlock, ToolResultBlock
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.errors import MessageError
from agent_actors.providers.anthropic.parts import PROVIDER

_DATA: Final = "data:"
_BASE64: Final = "base64"
_DEFAULT_IMAGE: Final = "image/png"
_ALIASES: Final = {"image/jpg": "image/jpeg", "": _DEFAULT_IMAGE}
_UNTOLD: Final = "the tool failed and said nothing"
"""Sent for an error without a message: an error without content is refused."""


def media_part(block: ImageBlock) -> JsonObject:
    """An image, or the document that it is by its media type, as a part of a message."""
    if not block.source.startswith(_DATA):
        kind = _kind_of(block.media_type or _DEFAULT_IMAGE)
        return {"type": kind, "source": {"type": "url", "url": block.source}}
    head, _, body = block.source.removeprefix(_DATA).partition(",")
    told, *options = head.split(";")
    media_type = (block.media_type or told).strip().lower()
    media_type = _ALIASES.get(media_type, media_type)
    if media_type.startswith("text/"):
        # Plain text is the only kind of text that a document may be.
        text = _bytes(body, options).decode("utf-8", "replace")
        source: JsonObject = {"type": "text", "media_type": "text/plain", "data": text}
        return {"type": "document", "source": source}
    encoded = "".join(body.split())
    if _BASE64 not in options:
        encoded = base64.b64encode(_bytes(body, options)).decode()
    source = {"type": "base64", "media_type": media_type, "data": encoded}
    return {"type": _kind_of(media_type), "source": source}


def result_content(result: ToolResultBlock) -> JsonValue:
    """What a call gave back: text, or parts if it is a list of blocks; empty if it is nothing."""
    parts = _parts(result.content) if isinstance(result.content, list) else None
    if parts is not None and result.is_error:
        # An error is told in text alone.
        parts = parts if all(part.get("type") == "text" for part in parts) else None
    if parts is None:
        text = "" if result.content == [] else result.text
        return text or (_UNTOLD if result.is_error else "")
    said: list[JsonValue] = [part for part in parts if part.get("text") != ""]
    return said or (_UNTOLD if result.is_error else "")


def _parts(content: list[JsonValue]) -> list[JsonObject] | None:
    """The blocks in a list as parts; None if anything else is in it, or nothing."""
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
    if isinstance(block, ImageBlock):
        return {**media_part(block), **block.extra}
    if isinstance(block, OpaqueBlock) and block.provider == PROVIDER:
        return {**block.data, **block.extra}
    return None


def _bytes(body: str, options: list[str]) -> bytes:
    """What a `data:` URL holds; nothing if it is no base64 though it says so."""
    content = unquote_to_bytes(body)
    if _BASE64 not in options:
        return content
    try:
        return base64.b64decode(content)
    except binascii.Error:
        return b""


def _kind_of(media_type: str) -> str:
    return "image" if media_type.startswith("image/") else "document"
