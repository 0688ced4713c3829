"""Content blocks: the parts of a message, in one form for all providers.

`extra` contains unparsed fields that a provider needs sent back with a block (for example,
signatures), or that a caller wants to send with it. `origin` marks the endpoint that sent those
fields; `domain/provenance.py` defines how these marks are used. If `origin` is empty, the fields
are sent to every endpoint. Blocks are immutable values; no code changes them or the dicts inside
them.
"""

import json
from collections.abc import Mapping
from typing import ClassVar, Final, Literal, Self, TypeAlias

import attrs

from agent_actors.domain import media
from agent_actors.domain.json import JsonObject, JsonValue

# The name that an unnamed call gets in the history, because endpoints reject calls without a name.
INVALID_CALL_NAME: Final = "invalid_tool_call"

# Maximum number of characters of a source in `repr`, so that an image does not fill a log or a
# traceback.
_SHOWN_SOURCE: Final = 80

_NO_EXTRA: Final[Mapping[str, JsonValue]] = {}


@attrs.frozen
class TextBlock:
    """Plain text."""

    text: str
    extra: Mapping[str, JsonValue] = attrs.field(default=_NO_EXTRA, kw_only=True)
    origin: str = attrs.field(default="", kw_only=True)
    type: ClassVar[Literal["text"]] = "text"


@attrs.frozen
class ThinkingBlock:
    """The model's thinking, if the endpoint shows it.

    Attributes:
        thinking: The text.
        signature: The provider's signature for the text; empty if there is none.
    """

    thinking: str
    signature: str = ""
    extra: Mapping[str, JsonValue] = attrs.field(default=_NO_EXTRA, kw_only=True)
    origin: str = attrs.field(default="", kw_only=True)
    type: ClassVar[Literal["thinking"]] = "thinking"


@attrs.frozen
class ToolUseBlock:
    """A tool call made by the model.

    Attributes:
        id: The call's id, unique in its session.
        name: The tool's name, as the model wrote it.
        input: The parsed arguments.
        raw_arguments: The text of the arguments as received; empty if they were not sent as text.
        repaired: True if the arguments were not valid JSON and `input` is their most likely
            meaning.
    """

    id: str
    name: str
    input: JsonObject
    raw_arguments: str = ""
    repaired: bool = attrs.field(default=False, kw_only=True)
    extra: Mapping[str, JsonValue] = attrs.field(default=_NO_EXTRA, kw_only=True)
    origin: str = attrs.field(default="", kw_only=True)
    type: ClassVar[Literal["tool_use"]] = "tool_use"

    @property
    def arguments_text(self) -> str:
        """The arguments as JSON text: as received, or encoded from `input` if that was not JSON."""
        sent = "" if self.repaired else self.raw_arguments
        return sent or json.dumps(self.input, ensure_ascii=False)


@attrs.frozen
class ToolUseError:
    """A tool call that cannot be executed because it is unparsable, unnamed or incomplete.

    Readers see this block. The history sent to the model contains the call with empty arguments and
    an error result instead, so that the model learns about the error.

    Attributes:
        error: Description of the error, for people and for the model.
        raw_data: The arguments as received; None if there were none.
        id: The call's id; generated if none was received.
        name: The tool's name; empty if none was received.
    """

    error: str
    raw_data: str | None = None
    id: str = ""
    name: str = ""
    extra: Mapping[str, JsonValue] = attrs.field(default=_NO_EXTRA, kw_only=True)
    origin: str = attrs.field(default="", kw_only=True)
    type: ClassVar[Literal["tool_use_error"]] = "tool_use_error"

    def as_tool_use(self) -> ToolUseBlock:
        """Return the call for the history, with empty arguments and always with a name."""
        name = self.name or INVALID_CALL_NAME
        return ToolUseBlock(self.id, name, {}, extra=self.extra, origin=self.origin)


@attrs.frozen
class ToolResultBlock:
    """The result of a tool call.

    Attributes:
        tool_use_id: The id of the call.
        content: Text, JSON, or blocks in their dict form.
        is_error: True if the call failed; `content` then contains the reason.
        name: The tool's name; some endpoints require it.
    """

    tool_use_id: str
    content: str | JsonObject | list[JsonValue]
    is_error: bool = False
    name: str = ""
    extra: Mapping[str, JsonValue] = attrs.field(default=_NO_EXTRA, kw_only=True)
    type: ClassVar[Literal["tool_result"]] = "tool_result"

    @property
    def text(self) -> str:
        """The content as text. Content that is not text is encoded as JSON.

        Each block is replaced by its text, and each image or file by a label such as `[image]`.
        """
        if isinstance(self.content, str):
            return self.content
        if not isinstance(self.content, list):
            return json.dumps(self.content, ensure_ascii=False)
        described = [part_text(part) for part in self.content]
        if described and None not in described:
            return "".join(filter(None, described))
        # Images and files become labels here too, because models cannot read base64.
        shown = [part_label(part) or part for part in self.content]
        return json.dumps(shown, ensure_ascii=False)


def _short(source: str) -> str:
    if len(source) <= _SHOWN_SOURCE:
        return repr(source)
    return f"<{len(source)} characters: {source[:_SHOWN_SOURCE]!r}…>"


@attrs.frozen
class ImageBlock:
    """An image, by URL or as data. `from_bytes` and `from_url` validate their arguments.

    Attributes:
        source: An `https:` URL, or a `data:` URL with the bytes in base64.
        media_type: The media type, for example `image/png`; empty if unknown.
        detail: The level of detail, for endpoints that support it: `low`, `high` or `auto`. If
            empty, none is sent.
    """

    source: str = attrs.field(repr=_short)
    media_type: str = ""
    detail: str = attrs.field(default="", kw_only=True)
    extra: Mapping[str, JsonValue] = attrs.field(default=_NO_EXTRA, kw_only=True)
    type: ClassVar[Literal["image"]] = "image"

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        media_type: str = "",
        *,
        detail: str = "",
        max_bytes: int = media.MAX_MEDIA_BYTES,
    ) -> Self:
        """Create an image block from bytes.

        Args:
            data: The content of an image file. Encoding 10 MB takes about 15 ms.
            media_type: The media type. If empty, it is determined from the first bytes.
            detail: The level of detail: `low`, `high`, `auto` or empty.
            max_bytes: Maximum number of bytes.

        Raises:
            MediaError: The data is empty, too large, does not match the declared type, or is not an
                image.
        """
        found = media.image_type(data, media_type, max_bytes=max_bytes)
        return cls(media.data_url(data, found), found, detail=detail)

    @classmethod
    def from_url(
        cls,
        url: str,
        media_type: str = "",
        *,
        detail: str = "",
        max_bytes: int = media.MAX_MEDIA_BYTES,
    ) -> Self:
        """Create an image block from a URL that the endpoint fetches, or from a `data:` URL.

        Args:
            url: An `https:`, `http:` or `data:` URL; this method fetches nothing.
            media_type: The media type. If empty, it is determined from the data, if there is any.
            detail: The level of detail: `low`, `high`, `auto` or empty.
            max_bytes: Maximum number of bytes in a `data:` URL.

        Raises:
            MediaError: The URL is invalid, or contains data that `from_bytes` rejects.
        """
        content = media.url_content(url, max_bytes=max_bytes)
        if content is None:
            return cls(url, media.checked_type(media_type), detail=detail)
        described, data = content
        return cls.from_bytes(data, media_type or described, detail=detail, max_bytes=max_bytes)

    @property
    def label(self) -> str:
        """The label that represents the image in text: `[image]`."""
        return "[image]"


@attrs.frozen
class FileBlock:
    """A file, by URL or as data: a PDF, text, or any other type that the endpoint accepts.

    `from_bytes`, `from_text` and `from_url` validate their arguments.

    Attributes:
        source: An `https:` URL, or a `data:` URL with the bytes in base64.
        media_type: The media type, for example `application/pdf`; empty if unknown.
        name: The file's name, which the model receives; empty if the file has no name.
    """

    source: str = attrs.field(repr=_short)
    media_type: str = ""
    name: str = ""
    extra: Mapping[str, JsonValue] = attrs.field(default=_NO_EXTRA, kw_only=True)
    type: ClassVar[Literal["file"]] = "file"

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        media_type: str = "",
        *,
        name: str = "",
        max_bytes: int = media.MAX_MEDIA_BYTES,
    ) -> Self:
        """Create a file block from bytes.

        Args:
            data: The bytes. Encoding 10 MB takes about 15 ms.
            media_type: The media type. If empty, it is determined from the first bytes, then from
                the name's extension, then from whether the bytes are text.
            name: The file's name.
            max_bytes: Maximum number of bytes.

        Raises:
            MediaError: The data is empty, too large, does not match the declared type, or is
                declared as text but is not UTF-8.
        """
        known = media.clean_name(name)
        found = media.file_type(data, media_type, known, max_bytes=max_bytes)
        return cls(media.data_url(data, found), found, known)

    @classmethod
    def from_text(cls, text: str, media_type: str = "text/plain", *, name: str = "") -> Self:
        """Create a block for a text file. Lone surrogates, which UTF-8 cannot encode, become `?`.

        Raises:
            MediaError: The text is empty or too long.
        """
        return cls.from_bytes(text.encode("utf-8", "replace"), media_type, name=name)

    @classmethod
    def from_url(
        cls,
        url: str,
        media_type: str = "",
        *,
        name: str = "",
        max_bytes: int = media.MAX_MEDIA_BYTES,
    ) -> Self:
        """Create a file block from a URL that the endpoint fetches, or from a `data:` URL.

        Args:
            url: An `https:`, `http:` or `data:` URL; this method fetches nothing.
            media_type: The media type. If empty, it is determined from the data, if there is any.
            name: The file's name.
            max_bytes: Maximum number of bytes in a `data:` URL.

        Raises:
            MediaError: The URL is invalid, or contains data that `from_bytes` rejects.
        """
        content = media.url_content(url, max_bytes=max_bytes)
        if content is None:
            return cls(url, media.checked_type(media_type), media.clean_name(name))
        described, data = content
        return cls.from_bytes(data, media_type or described, name=name, max_bytes=max_bytes)

    @property
    def declared_type(self) -> str:
        """`media_type` if set, otherwise the media type in a `data:` URL; empty if unknown."""
        data = None if self.media_type else media.split_data_url(self.source)
        return media.usual_name(self.media_type) if data is None else data.media_type

    @property
    def text(self) -> str | None:
        """The file's text, if it is a text file given as a `data:` URL; otherwise None."""
        here = media.split_data_url(self.source) is not None
        return (
            media.decoded_text(self.source) if here and media.is_text(self.declared_type) else None
        )

    @property
    def label(self) -> str:
        """The label that represents the file in text, for example `[file report.pdf]`."""
        return f"[file {self.name}]" if self.name else "[file]"


@attrs.frozen
class OpaqueBlock:
    """A block whose type only one provider knows; it is sent back unchanged.

    Examples are encrypted thinking, the calls and results of tools that the provider runs itself,
    and block types that are newer than this version. Requests to other providers omit the block.
    Callers may create opaque blocks to send content for which this package has no block type.

    Attributes:
        data: The block in the provider's form, including its `type` key.
        provider: The provider, for example `anthropic`.
    """

    data: JsonObject
    provider: str
    extra: Mapping[str, JsonValue] = attrs.field(default=_NO_EXTRA, kw_only=True)
    type: ClassVar[Literal["opaque"]] = "opaque"


ContentBlock: TypeAlias = (
    TextBlock
    | ThinkingBlock
    | ToolUseBlock
    | ToolUseError
    | ToolResultBlock
    | ImageBlock
    | FileBlock
    | OpaqueBlock
)
AssistantBlock: TypeAlias = (
    TextBlock | ThinkingBlock | ToolUseBlock | ToolUseError | ImageBlock | OpaqueBlock
)


def part_text(part: JsonValue) -> str | None:
    """Return the text of a block in dict form; None if the value is not a block or has no text."""
    match part:
        case {"type": "text", "text": str(text)}:
            return text
        case _:
            return part_label(part)


def part_label(part: JsonValue) -> str | None:
    """Return the label for an image or a file in dict form; None for anything else."""
    match part:
        case {"type": "image", "source": str(source)}:
            return ImageBlock(source).label
        case {"type": "file", "source": str(source), "name": str(name)}:
            return FileBlock(source, name=name).label
        case {"type": "file", "source": str(source)}:
            return FileBlock(source).label
        case _:
            return None
