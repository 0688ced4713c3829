"""Converts the content of MCP results to blocks."""

import base64
import binascii
from collections.abc import Sequence

import mcp_types

from agent_actors.abc import RemoteBlock, RemoteResult
from agent_actors.codec.json_text import write_json
from agent_actors.codec.json_values import to_json
from agent_actors.domain.blocks import FileBlock, ImageBlock, TextBlock
from agent_actors.errors import MediaError


def as_result(result: mcp_types.CallToolResult) -> RemoteResult:
    """Return the result of a call in the values of this package.

    Content that cannot be a block, such as an image that is not one, becomes a text that says so.
    """
    data = to_json(result.structured_content)
    content = as_blocks(result.content)
    if not content and data is not None:
        content = (TextBlock(write_json(data).decode()),)
    return RemoteResult(content, data, result.is_error)


def as_blocks(content: Sequence[mcp_types.ContentBlock]) -> tuple[RemoteBlock, ...]:
    """Return the content as blocks."""
    return tuple(_as_block(item) for item in content)


def _as_block(item: mcp_types.ContentBlock) -> RemoteBlock:
    match item:
        case mcp_types.TextContent(text=text):
            return TextBlock(text)
        case mcp_types.ImageContent(data=data, mime_type=media_type):
            return _media(data, media_type, name="")
        case mcp_types.AudioContent(data=data, mime_type=media_type):
            return _media(data, media_type, name="")
        case mcp_types.EmbeddedResource(resource=resource):
            return _resource(resource)
        case mcp_types.ResourceLink(uri=uri, name=name, description=description):
            return TextBlock(f"[link {name}: {uri}] {description or ''}".rstrip())


def _resource(
    resource: mcp_types.TextResourceContents | mcp_types.BlobResourceContents,
) -> RemoteBlock:
    if isinstance(resource, mcp_types.TextResourceContents):
        return TextBlock(f"[resource {resource.uri}]\n{resource.text}")
    name = resource.uri.rpartition("/")[2]
    return _media(resource.blob, resource.mime_type or "", name=name)


def _media(data: str, media_type: str, *, name: str) -> RemoteBlock:
    try:
        content = base64.b64decode(data, validate=True)
        if media_type.startswith("image/"):
            return ImageBlock.from_bytes(content, media_type)
        return FileBlock.from_bytes(content, media_type, name=name)
    except (MediaError, binascii.Error, ValueError) as error:
        return TextBlock(f"[content of type {media_type or 'unknown'} left out: {error}]")
