"""Conversion of messages and tools to and from the dicts of OpenAI's chat-completions format.

A tool message with several results becomes one dict per result, as the format requires. The fields
in a block's `extra` are sent back: a call's fields in the call's dict, the fields of other blocks
in the message's dict. Fields from an endpoint with another protocol are omitted. The format has no
field for thinking, so only the `extra` of a thinking block is sent. Images and files are parts of
the content, in tool messages too, so that nothing is lost in either direction. `providers/` adapts
the content for endpoints that accept only text from tools. The short form of calls (`{"id", "name",
"args"}`) is accepted as input too.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NotRequired, TypedDict, TypeGuard, cast

import msgspec

from agent_actors.codec.blocks import dump_block, load_block
from agent_actors.domain.blocks import (
    ContentBlock,
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.json import (
    MAX_DEPTH,
    MAX_MESSAGE_DEPTH,
    JsonObject,
    JsonValue,
    copy_object,
    is_deeper,
    nests_deeper,
)
from agent_actors.domain.messages import ROLES, Message, Messages, Role
from agent_actors.domain.model import ToolSpec
from agent_actors.domain.provenance import MarkedBlock, Origin
from agent_actors.errors import MessageError


class FunctionDict(TypedDict):
    """The function of a tool."""

    name: str
    description: str
    parameters: JsonObject


class ToolDict(TypedDict):
    """A tool that the model may call."""

    type: Literal["function"]
    function: FunctionDict


class CalledFunctionDict(TypedDict):
    """The name and the arguments of a call; the arguments are JSON text."""

    name: str
    arguments: str


class ToolCallDict(TypedDict):
    """A tool call; additional keys are fields that the endpoint needs sent back."""

    id: str
    type: Literal["function"]
    function: CalledFunctionDict


class TextPartDict(TypedDict):
    """A text part of a message's content."""

    type: Literal["text"]
    text: str


class ImageUrlDict(TypedDict):
    """The URL of an image, and the level of detail."""

    url: str
    detail: NotRequired[str]


class ImagePartDict(TypedDict):
    """An image part of a message's content."""

    type: Literal["image_url"]
    image_url: ImageUrlDict


class FileDict(TypedDict):
    """The content of a file, and its name."""

    file_data: str
    filename: NotRequired[str]


class FilePartDict(TypedDict):
    """A file part of a message's content."""

    type: Literal["file"]
    file: FileDict


# Parts for which there is no block type stay in the wire format.
PartDict = TextPartDict | ImagePartDict | FilePartDict | JsonObject
ContentDict = str | list[PartDict] | None
_Part = TextBlock | ImageBlock | FileBlock | OpaqueBlock


class MessageDict(TypedDict):
    """A message; additional keys are fields that the endpoint needs sent back."""

    role: str
    content: ContentDict
    tool_calls: NotRequired[list[ToolCallDict]]
    tool_call_id: NotRequired[str]
    name: NotRequired[str]


PROVIDER: Final = "openai"
"""The `provider` of an `OpaqueBlock` whose data is a content part in this format."""

_HERE: Final = Origin(PROVIDER)

# Types of parts that stay unchanged: audio, video, and files stored at the endpoint.
_OWN_PARTS: Final = frozenset({"input_audio", "video_url", "file"})

_LONGEST_SCHEME: Final = 8

# OpenAI's newer name of the system role.
_ROLE_ALIASES: Final[Mapping[object, str]] = {"developer": "system"}

_DECODE_OBJECT: Final = msgspec.json.Decoder(dict[str, Any]).decode


def messages_to_openai(messages: Iterable[Message], system_prompt: str = "") -> list[MessageDict]:
    """Return a conversation in the wire format, preceded by the system prompt, if any."""
    head: list[MessageDict] = []
    if system_prompt:
        head.append({"role": "system", "content": system_prompt})
    return [*head, *(part for message in messages for part in message_to_openai(message))]


def message_to_openai(message: Message) -> list[MessageDict]:
    """Return a message in the wire format: one dict, or one dict per result for a tool message."""
    if message.role == "tool":
        results = [block for block in message.blocks if isinstance(block, ToolResultBlock)]
        return [_result_to_openai(result) for result in results]
    calls = [_call_to_openai(call) for call in _calls(message)]
    content = _content([block for block in message.blocks if _is_part(block)])
    # Some endpoints reject null as the content, others reject empty content with calls. OpenAI
    # itself sends null.
    sent: MessageDict = {"role": message.role, "content": content or (None if calls else "")}
    if calls:
        sent["tool_calls"] = calls
    for block in message.blocks:
        if not isinstance(block, ToolUseBlock | ToolUseError):
            cast(dict[str, JsonValue], sent).update(_extra(block))
    return [sent]


def _extra(block: ContentBlock) -> Mapping[str, JsonValue]:
    foreign = isinstance(block, MarkedBlock) and not _HERE.speaks(block.origin)
    return {} if foreign else block.extra


def _calls(message: Message) -> list[ToolUseBlock]:
    return [
        block.as_tool_use() if isinstance(block, ToolUseError) else block
        for block in message.blocks
        if isinstance(block, ToolUseBlock | ToolUseError)
    ]


def _call_to_openai(call: ToolUseBlock) -> ToolCallDict:
    sent: ToolCallDict = {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": _arguments_text(call)},
    }
    cast(dict[str, JsonValue], sent).update(_extra(call))
    return sent


def _arguments_text(call: ToolUseBlock) -> str:
    """Return the original text if it is a JSON object, so that the endpoint's prompt cache matches.

    Endpoints respond with status 400 if the history contains arguments that cannot be parsed.
    """
    if call.raw_arguments and not nests_deeper(call.raw_arguments, MAX_DEPTH):
        try:
            _DECODE_OBJECT(call.raw_arguments)
        except ValueError:
            pass
        else:
            return call.raw_arguments
    return json.dumps(call.input, ensure_ascii=False)


def _is_part(block: ContentBlock) -> TypeGuard[_Part]:
    if isinstance(block, OpaqueBlock):
        return block.provider == PROVIDER
    return isinstance(block, TextBlock | ImageBlock | FileBlock)


def _content(blocks: Sequence[_Part]) -> ContentDict:
    if all(isinstance(block, TextBlock) for block in blocks):
        return "".join(block.text for block in blocks if isinstance(block, TextBlock))
    return [part_to_openai(block) for block in blocks]


def part_to_openai(block: _Part) -> PartDict:
    """Return a block as a content part; an opaque block stays in its own form."""
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    if isinstance(block, ImageBlock):
        image: ImageUrlDict = {"url": block.source}
        if block.detail:
            image["detail"] = block.detail
        return {"type": "image_url", "image_url": image}
    if isinstance(block, FileBlock):
        file: FileDict = {"file_data": block.source}
        if block.name:
            file["filename"] = block.name
        return {"type": "file", "file": file}
    return copy_object(block.data)


def _result_to_openai(result: ToolResultBlock) -> MessageDict:
    sent: MessageDict = {
        "role": "tool",
        "content": _result_content(result),
        "tool_call_id": result.tool_use_id,
    }
    if result.name:
        sent["name"] = result.name
    cast(dict[str, JsonValue], sent).update(result.extra)
    return sent


def _result_content(result: ToolResultBlock) -> ContentDict:
    """Return blocks as content parts, and any other JSON as text."""
    if isinstance(result.content, list) and result.content:
        blocks = [_content_block(item) for item in result.content]
        shown = [block for block in blocks if block is not None]
        if len(shown) == len(blocks):
            return _content(shown)
    return result.text


def _content_block(item: JsonValue) -> _Part | None:
    try:
        block = load_block(item)
    except MessageError:
        return None
    return block if _is_part(block) else None


def messages_from_openai(dicts: Iterable[Mapping[str, object]]) -> Messages:
    """Decode a conversation from dicts in the wire format, ignoring unknown keys.

    If arguments cannot be parsed, the call has empty arguments and keeps the text in
    `raw_arguments`.

    Raises:
        MessageError: A dict is not a valid message. The error names its position.
    """
    return Messages(_message(index, item) for index, item in enumerate(dicts))


def _message(index: int, item: Mapping[str, object]) -> Message:
    # A history that user code built may contain anything.
    if not isinstance(cast(object, item), Mapping):
        raise _error(index, f"expected a dict with role and content; got {item!r:.80}")
    if is_deeper(cast(JsonValue, item), MAX_MESSAGE_DEPTH):
        raise _error(
            index, f"expected at most {MAX_MESSAGE_DEPTH} levels of nested lists and dicts"
        )
    role = item.get("role")
    role = _ROLE_ALIASES.get(role, role) if isinstance(role, str) else role
    if role not in ROLES:
        raise _error(index, f"unknown role {role!r:.80}; expected one of {', '.join(ROLES)}")
    if role == "tool":
        return Message("tool", (_result(index, item),))
    parts: list[ContentBlock] = [*_parts(index, item.get("content"))]
    calls = [_call(index, call) for call in _sequence(index, item.get("tool_calls"), "tool_calls")]
    return Message(cast(Role, role), (*parts, *calls))


def _result(index: int, item: Mapping[str, object]) -> ToolResultBlock:
    parts = _parts(index, item.get("content"))
    content: str | list[JsonValue] = "".join(p.text for p in parts if isinstance(p, TextBlock))
    if not all(isinstance(part, TextBlock) for part in parts):
        content = [dump_block(part) for part in parts]
    return ToolResultBlock(
        _text(index, item, "tool_call_id"), content, name=_text(index, item, "name")
    )


def _parts(index: int, content: object) -> list[_Part]:
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [TextBlock(content)]
    return [_part(index, part) for part in _sequence(index, content, "content")]


def _part(index: int, part: Mapping[str, object]) -> _Part:
    match part:
        case {"type": "text", "text": str(text)}:
            return TextBlock(text)
        case {"type": "image_url", "image_url": {"url": str(url), "detail": str(detail)}}:
            return ImageBlock(url, detail=detail)
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            return ImageBlock(url)
        case {"type": "file", "file": {"file_data": str(data), "filename": str(name)}}:
            return FileBlock(_source(data), name=name)
        case {"type": "file", "file": {"file_data": str(data)}}:
            return FileBlock(_source(data))
        case {"type": str(kind)} if kind in _OWN_PARTS:
            return OpaqueBlock(copy_object(cast(Mapping[str, JsonValue], part)), PROVIDER)
        case _:
            raise _error(index, f"a content part of type {part.get('type')!r:.80} is not supported")


def _source(data: str) -> str:
    """Return a file's data as a `data:` URL, because some clients send plain base64."""
    return data if ":" in data[:_LONGEST_SCHEME] else f"data:;base64,{data}"


def _call(index: int, call: Mapping[str, object]) -> ToolUseBlock:
    function = call.get("function")
    named = cast(Mapping[str, object], function) if isinstance(function, Mapping) else call
    arguments = next((named[key] for key in ("arguments", "args") if key in named), None)
    raw = arguments if isinstance(arguments, str) else ""
    return ToolUseBlock(
        _text(index, call, "id"), _text(index, named, "name"), _arguments(arguments), raw
    )


def _arguments(arguments: object) -> JsonObject:
    if isinstance(arguments, Mapping):
        return copy_object(cast(Mapping[str, JsonValue], arguments))
    if isinstance(arguments, str) and not nests_deeper(arguments, MAX_DEPTH):
        try:
            return _DECODE_OBJECT(arguments)
        except ValueError:
            return {}
    return {}


def _sequence(index: int, value: object, name: str) -> list[Mapping[str, object]]:
    if value is None:
        return []
    items = cast(list[object], value) if isinstance(value, list | tuple) else [None]
    if not all(isinstance(item, Mapping) for item in items):
        raise _error(index, f"{name} must be a list of objects")
    return cast(list[Mapping[str, object]], items)


def _text(index: int, item: Mapping[str, object], name: str) -> str:
    value = item.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _error(index, f"{name} must be text; got {value!r:.80}")
    return value


def _error(index: int, what: str) -> MessageError:
    return MessageError(f"message {index}: {what}", index=index)


def tool_to_openai(spec: ToolSpec) -> ToolDict:
    """Return a tool in the wire format; a tool without a schema accepts any object."""
    schema = spec.input_schema
    parameters: JsonObject = {"type": "object"} if schema is None else copy_object(schema)
    return {
        "type": "function",
        "function": {
            "name": spec.name,
            "description": spec.description,
            "parameters": parameters,
        },
    }


def format_tools(tools: Iterable[ToolSpec]) -> list[ToolDict]:
    """Return several tools in the wire format, in order."""
    return [tool_to_openai(spec) for spec in tools]
