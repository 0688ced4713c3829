"""Content blocks: the parts of a message, in the shapes every provider is mapped onto.

`extra` holds, unread, what a provider wants echoed back with a block (signatures and the like).
Blocks are values: nothing here or above changes one, dicts inside them included.
"""

import json
from collections.abc import Mapping
from typing import ClassVar, Final, Literal, TypeAlias

import attrs

from agent_actors.domain.json import JsonObject, JsonValue

# What the history calls a tool whose name never came: endpoints refuse a call without a name.
INVALID_CALL_NAME: Final = "invalid_tool_call"

_NO_EXTRA: Final[Mapping[str, JsonValue]] = {}


@attrs.frozen
class TextBlock:
    """Plain text."""

    text: str
    extra: Mapping[str, JsonValue] = attrs.field(default=_NO_EXTRA, kw_only=True)
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
    type: ClassVar[Literal["thinking"]] = "thinking"


@attrs.frozen
class ToolUseBlock:
    """The model calls a tool.

    Attributes:
        id: The call's id, unique in its session.
        name: The tool's name, as the model wrote it.
        input: The arguments, parsed.
        raw_arguments: The arguments as they were sent; empty if they never were text.
    """

    id: str
    name: str
    input: JsonObject
    raw_arguments: str = ""
    extra: Mapping[str, JsonValue] = attrs.field(default=_NO_EXTRA, kw_only=True)
    type: ClassVar[Literal["tool_use"]] = "tool_use"

    @property
    def arguments_text(self) -> str:
        """The arguments as JSON text: as they were sent, else made from `input`."""
        return self.raw_arguments or json.dumps(self.input, ensure_ascii=False)


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
    type: ClassVar[Literal["tool_use_error"]] = "tool_use_error"

    def as_tool_use(self) -> ToolUseBlock:
        """The call as the history holds it: with empty arguments, and always with a name."""
        return ToolUseBlock(self.id, self.name or INVALID_CALL_NAME, {}, extra=self.extra)


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
        """The content as text: JSON for what is no text."""
        if isinstance(self.content, str):
            return self.content
        return json.dumps(self.content, ensure_ascii=False)


@attrs.frozen
class ImageBlock:
    """An image, by URL or as data.

    Attributes:
        source: An `https:` URL, or a `data:` URL with the bytes in base64.
        media_type: Such as `image/png`; empty if not known.
    """

    source: str
    media_type: str = ""
    extra: Mapping[str, JsonValue] = attrs.field(default=_NO_EXTRA, kw_only=True)
    type: ClassVar[Literal["image"]] = "image"


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
    | OpaqueBlock
)
AssistantBlock: TypeAlias = (
    TextBlock | ThinkingBlock | ToolUseBlock | ToolUseError | ImageBlock | OpaqueBlock
)
