"""Content blocks: the parts of a message, in one form for all providers.

`extra` contains fields, unparsed, that a provider wants sent back with a block (for example
signatures) or that a caller wants sent with it. `origin` marks the endpoint that sent those fields;
`domain/provenance.py` defines how marks are used. If `origin` is empty, the fields are sent to
every endpoint. Blocks are immutable values; no code changes them or the dicts inside them.
"""

import json
from collections.abc import Mapping
from typing import ClassVar, Final, Literal, Self, TypeAlias

import attrs

from agent_actors.domain import media
from agent_actors.domain.json import JsonObject, JsonValue

# The name in the history of a call without a name: endpoints refuse calls without names.
INVALID_CALL_NAME: Final = "invalid_tool_call"

# Maximum number of characters of a source in `repr`: an image must not fill a log or a traceback.
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
        signature: The provider's signature of the text; empty if there is none.
    """

    thinking: str
    signature: str = ""
    extra: Mapping[str, JsonValue] = attrs.field(default=_NO_EXTRA, kw_only=True)
    origin: str = attrs.field(default="", kw_only=True)
    type: ClassVar[Literal["thinking"]] = "thinking"


@attrs.frozen
class ToolUseBlock:
    """A tool call of the model.

    Attributes:
        id: The call's id, unique in its session.
        name: The tool's name, as the model wrote it.
        input: The arguments, parsed.
        raw_arguments: The text of the arguments as received; empty if they were not sent as text.
        repaired: True if the arguments were not JSON and `input` is their most likely meaning.
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
        """The arguments as JSON text: as received, or made from `input` if that was not JSON."""
        sent = "" if self.repaired else self.raw_arguments
        return sent or json.dumps(self.input, ensure_ascii=False)


@attrs.frozen
class ToolUseError:
    """A call of the model that cannot be executed: unparsable, unnamed or cut short.

    Readers see this block. In the history that is sent, the call has empty arguments and an error
    result instead, so that the model learns of the error.

    Attributes:
        error: Description of the error, for a person and for the model.
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
        """Return the call for the history: with empty arguments, and always with a name."""
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
        """The content as text; content that is not text becomes JSON.

        Blocks become their text; an image or a file becomes a label, for example `[image]`.
        """
        if isinstance(self.content, str):
            return self.content
        if not isinstance(self.content, list):
            return json.dumps(self.content, ensure_ascii=False)
        told = [part_text(part) for part in self.content]
        if told and None not in told:
            return "".join(filter(None, told))
        # Labels are used here too, because models cannot read base64.
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
        media_type: For example `image/png`; empty if it is not known.
        detail: Level of detail for endpoints that support it: `low`, `high` or `auto`; empty sends
            none.
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
        """Return an image made from bytes.

        Args:
            data: The content of an image file. 10 MB take about 15 ms.
            media_type: The media type; empty: determined from the first bytes.
            detail: Level of detail: `low`, `high`, `auto` or empty.
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
        """Return an image that the endpoint fetches, or that a `data:` URL contains.

        Args:
            url: An `https:`, `http:` or `data:` URL; this method fetches nothing.
            media_type: The media type; empty: not known, or determined from the data.
            detail: Level of detail: `low`, `high`, `auto` or empty.
            max_bytes: Maximum number of bytes of data.

        Raises:
            MediaError: The URL is invalid, or contains data that `from_bytes` refuses.
        """
        content = media.url_content(url, max_bytes=max_bytes)
        if content is None:
            return cls(url, media.checked_type(media_type), detail=detail)
        told, data = content
        return cls.from_bytes(data, media_type or told, detail=detail, max_bytes=max_bytes)

    @property
    def label(self) -> str:
        """The label that replaces the image in text: `[image]`."""
        return "[image]"


@attrs.frozen
class FileBlock:
    """A file, by URL or as data: a PDF, text, or any other type that the endpoint accepts.

    `from_bytes`, `from_text` and `from_url` validate their arguments.

    Attributes:
        source: An `https:` URL, or a `data:` URL with the bytes in base64.
        media_type: For example `application/pdf`; empty if it is not known.
        name: The file's name, which the model receives; empty if it has none.
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
        """Return a file made from bytes.

        Args:
            data: The bytes. 10 MB take about 15 ms.
            media_type: The media type; empty: determined from the first bytes, the name's
                extension, or whether the bytes are text, in this order.
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
        """Return a text file. Lone surrogates, which UTF-8 cannot encode, are replaced by `?`.

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
        """Return a file that the endpoint fetches, or that a `data:` URL contains.

        Args:
            url: An `https:`, `http:` or `data:` URL; this method fetches nothing.
            media_type: The media type; empty: not known, or determined from the data.
            name: The file's name.
            max_bytes: Maximum number of bytes of data.

        Raises:
            MediaError: The URL is invalid, or contains data that `from_bytes` refuses.
        """
        content = media.url_content(url, max_bytes=max_bytes)
        if content is None:
            return cls(url, media.checked_type(media_type), media.clean_name(name))
        told, data = content
        return cls.from_bytes(data, media_type or told, name=name, max_bytes=max_bytes)

    @property
    def told_type(self) -> str:
        """The media type: `media_type` if set, else that of a `data:` URL; empty if unknown."""
        data = None if self.media_type else media.split_data_url(self.source)
        return media.usual_name(self.media_type) if data is None else data.media_type

    @property
    def text(self) -> str | None:
        """The file's text, if it is a text file given as a `data:` URL; otherwise None."""
        here = media.split_data_url(self.source) is not None
        return media.decoded_text(self.source) if here and media.is_text(self.told_type) else None

    @property
    def label(self) -> str:
        """The label that replaces the file in text, for example `[file report.pdf]`."""
        return f"[file {self.name}]" if self.name else "[file]"


@attrs.frozen
class OpaqueBlock:
    """A block of a type that only one provider knows; it is sent back unchanged.

    For example, encrypted thinking, tools that the provider runs itself with their results, and
    block types that are newer than this version. Requests to other providers omit the block.
    Callers may create opaque blocks to send parts that have no block type here.

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
    """Return a block in dict form as text; None if it is not a block, or has no text."""
    match part:
        case {"type": "text", "text": str(text)}:
            return text
        case _:
            return part_label(part)


def part_label(part: JsonValue) -> str | None:
    """Return the label of an image or a file in dict form; None for anything else."""
    match part:
        case {"type": "image", "source": str(source)}:
            return ImageBlock(source).label
        case {"type": "file", "source": str(source), "name": str(name)}:
            return FileBlock(source, name=name).label
        case {"type": "file", "source": str(source)}:
            return FileBlock(source).label
        case _:
            return None
