"""Content blocks: the parts of a message, in the shapes every provider is mapped onto.

`extra` holds, unread, what a provider wants echoed back with a block (signatures and the like), or
what a caller wants sent with it. `origin` marks who gave it, where something is to be echoed
(`domain/provenance.py` says what follows); empty: nobody did, and it is sent to whoever is asked.
Blocks are values: nothing here or above changes one, dicts inside them included.
"""

import json
from collections.abc import Mapping
from typing import ClassVar, Final, Literal, Self, TypeAlias

import attrs

from agent_actors.domain import media
from agent_actors.domain.json import JsonObject, JsonValue

# What the history calls a tool whose name never came: endpoints refuse a call without a name.
INVALID_CALL_NAME: Final = "invalid_tool_call"

# Characters of a source that `repr` shows: an image must not fill a log or a traceback.
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
    """The model's chain of thought, where the endpoint shows it.

    Attributes:
        thinking: Its text.
        signature: The provider's seal on it; empty if there is none.
    """

    thinking: str
    signature: str = ""
    extra: Mapping[str, JsonValue] = attrs.field(default=_NO_EXTRA, kw_only=True)
    origin: str = attrs.field(default="", kw_only=True)
    type: ClassVar[Literal["thinking"]] = "thinking"


@attrs.frozen
class ToolUseBlock:
    """The model calls a tool.

    Attributes:
        id: The call's id, unique in its session.
        name: The tool's name, as the model wrote it.
        input: The arguments, parsed.
        raw_arguments: The arguments as they were sent; empty if they never were text.
        repaired: True if what was sent was no JSON, and `input` is what it most likely means.
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
        """The arguments as JSON text: as they were sent, if as JSON, else made from `input`."""
        sent = "" if self.repaired else self.raw_arguments
        return sent or json.dumps(self.input, ensure_ascii=False)


@attrs.frozen
class ToolUseError:
    """A call of the model that cannot be carried out: unparsable, unnamed or cut short.

    It is shown to the reader; the history that is sent holds the call with empty arguments and
    an error result instead, so that the model learns of it.

    Attributes:
        error: What is wrong, for a person and for the model.
        raw_data: The arguments as they came; None if none came.
        id: The call's id, made up if none came.
        name: The tool's name; empty if none came.
    """

    error: str
    raw_data: str | None = None
    id: str = ""
    name: str = ""
    extra: Mapping[str, JsonValue] = attrs.field(default=_NO_EXTRA, kw_only=True)
    origin: str = attrs.field(default="", kw_only=True)
    type: ClassVar[Literal["tool_use_error"]] = "tool_use_error"

    def as_tool_use(self) -> ToolUseBlock:
        """The call as the history holds it: with empty arguments, and always with a name."""
        name = self.name or INVALID_CALL_NAME
        return ToolUseBlock(self.id, name, {}, extra=self.extra, origin=self.origin)


@attrs.frozen
class ToolResultBlock:
    """What a tool gave back for one call.

    Attributes:
        tool_use_id: The id of the call.
        content: Text, or JSON, or blocks in their dict form.
        is_error: True if the call failed; then `content` says why.
        name: The tool's name; some endpoints want it.
    """

    tool_use_id: str
    content: str | JsonObject | list[JsonValue]
    is_error: bool = False
    name: str = ""
    extra: Mapping[str, JsonValue] = attrs.field(default=_NO_EXTRA, kw_only=True)
    type: ClassVar[Literal["tool_result"]] = "tool_result"

    @property
    def text(self) -> str:
        """The content as text: JSON for what is no text.

        Of blocks it is their text; an image or a file is told by a mark such as `[image]`.
        """
        if isinstance(self.content, str):
            return self.content
        if not isinstance(self.content, list):
            return json.dumps(self.content, ensure_ascii=False)
        told = [_told(part) for part in self.content]
        if told and None not in told:
            return "".join(filter(None, told))
        # The labels here too: no model can read base64.
        shown = [_label(part) or part for part in self.content]
        return json.dumps(shown, ensure_ascii=False)


def _short(source: str) -> str:
    if len(source) <= _SHOWN_SOURCE:
        return repr(source)
    return f"<{len(source)} characters: {source[:_SHOWN_SOURCE]!r}…>"


@attrs.frozen
class ImageBlock:
    """An image, by URL or as data. `from_bytes` and `from_url` check what they are given.

    Attributes:
        source: An `https:` URL, or a `data:` URL with the bytes in base64.
        media_type: Such as `image/png`; empty if not known.
        detail: How closely a model is to look, where an endpoint has that: `low`, `high` or
            `auto`; empty: not sent.
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
        """An image from its bytes.

        Args:
            data: The bytes, as they stand in a file. 10 MB take about 15 ms.
            media_type: What they are; empty: told by the first bytes.
            detail: How closely a model is to look.
            max_bytes: The most bytes.

        Raises:
            MediaError: They are none, too many, of another type than declared, or no image.
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
        """An image that the endpoint fetches, or that a `data:` URL carries.

        Args:
            url: `https:`, `http:` or `data:`; nothing is fetched here.
            media_type: What it is; empty: not known, or told by the data.
            detail: How closely a model is to look.
            max_bytes: The most bytes of data.

        Raises:
            MediaError: It is no such URL, or carries what `from_bytes` refuses.
        """
        content = media.url_content(url, max_bytes=max_bytes)
        if content is None:
            return cls(url, media.checked_type(media_type), detail=detail)
        told, data = content
        return cls.from_bytes(data, media_type or told, detail=detail, max_bytes=max_bytes)

    @property
    def label(self) -> str:
        """What stands for it in text: `[image]`."""
        return "[image]"


@attrs.frozen
class FileBlock:
    """A file, by URL or as data: a PDF, text, or whatever an endpoint takes.

    `from_bytes`, `from_text` and `from_url` check what they are given.

    Attributes:
        source: An `https:` URL, or a `data:` URL with the bytes in base64.
        media_type: Such as `application/pdf`; empty if not known.
        name: The file's name, which the model is told; empty if it has none.
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
        """A file from its bytes.

        Args:
            data: The bytes. 10 MB take about 15 ms.
            media_type: What they are; empty: told by the first bytes, else by the name's ending,
                else by whether they read as text.
            name: The file's name.
            max_bytes: The most bytes.

        Raises:
            MediaError: They are none, too many, of another type than declared, or are said to be
                text and are no UTF-8.
        """
        known = media.clean_name(name)
        found = media.file_type(data, media_type, known, max_bytes=max_bytes)
        return cls(media.data_url(data, found), found, known)

    @classmethod
    def from_text(cls, text: str, media_type: str = "text/plain", *, name: str = "") -> Self:
        """A file of text. Lone surrogates, which UTF-8 cannot carry, are replaced by `?`.

        Raises:
            MediaError: The text is empty, or too long.
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
        """A file that the endpoint fetches, or that a `data:` URL carries.

        Args:
            url: `https:`, `http:` or `data:`; nothing is fetched here.
            media_type: What it is; empty: not known, or told by the data.
            name: The file's name.
            max_bytes: The most bytes of data.

        Raises:
            MediaError: It is no such URL, or carries what `from_bytes` refuses.
        """
        content = media.url_content(url, max_bytes=max_bytes)
        if content is None:
            return cls(url, media.checked_type(media_type), media.clean_name(name))
        told, data = content
        return cls.from_bytes(data, media_type or told, name=name, max_bytes=max_bytes)

    @property
    def told_type(self) -> str:
        """Its media type: as it is set, else as a `data:` URL tells; empty if neither does."""
        data = None if self.media_type else media.split_data_url(self.source)
        return media.usual_name(self.media_type) if data is None else data.media_type

    @property
    def text(self) -> str | None:
        """What it reads, if it is a text whose bytes are here; else None."""
        here = media.split_data_url(self.source) is not None
        return media.decoded_text(self.source) if here and media.is_text(self.told_type) else None

    @property
    def label(self) -> str:
        """What stands for it in text, such as `[file report.pdf]`."""
        return f"[file {self.name}]" if self.name else "[file]"


@attrs.frozen
class OpaqueBlock:
    """A block of a kind that only one provider knows; it goes back to it as it came.

    Thoughts that are sealed, tools that the provider runs itself and their results, and whatever
    it sends that is newer than this version. Other providers' requests leave it out. A caller may
    make one too, to send a part that has no type here.

    Attributes:
        data: The block in the provider's own form, its `type` among the keys.
        provider: Whose form that is, such as `anthropic`.
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


def _told(part: JsonValue) -> str | None:
    """A block in its dict form as text; None if it has none."""
    match part:
        case {"type": "text", "text": str(text)}:
            return text
        case _:
            return _label(part)


def _label(part: JsonValue) -> str | None:
    match part:
        case {"type": "image", "source": str(source)}:
            return ImageBlock(source).label
        case {"type": "file", "source": str(source), "name": str(name)}:
            return FileBlock(source, name=name).label
        case {"type": "file", "source": str(source)}:
            return FileBlock(source).label
        case _:
            return None
