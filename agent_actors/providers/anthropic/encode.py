"""Encode a request as the JSON body of a Messages request.

This protocol refuses some conversations that other protocols accept. The encoder therefore follows
these rules:

- System messages are sent separately from the other messages, wherever they were.
- User and assistant messages alternate, so adjacent messages of one role are joined. Tool results
  belong to the user. They come first in the message after the calls.
- No text is empty or blank, a final assistant text has no trailing whitespace, and no message is
  empty.
- Call ids consist of letters, digits, `_` and `-`. Any other id, from another provider, is
  rewritten in the same way in the call and in its result.
- Only the user can send images and files. In a response from another protocol, they are replaced by
  labels.
- Thinking without a signature is left out, because the endpoint would refuse it.
- A call of the endpoint's own tools is left out if it has no result, because the endpoint would
  refuse it (`server_tools`).

The `extra` of a block, including `cache_control`, is sent and overrides the fields that this module
sets. Fields that another endpoint wants back are left out unless they belong to this protocol
(`domain/provenance.py`). Opaque blocks are sent unchanged. The encoder does not change the
conversation.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias, cast

import attrs

from agent_actors.codec.json_text import write_json
from agent_actors.domain.blocks import (
    ContentBlock,
    FileBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.json import JsonObject, JsonValue, copy_object
from agent_actors.domain.messages import Message
from agent_actors.domain.model import ModelRequest, ModelSettings, ToolSpec
from agent_actors.domain.provenance import Origin
from agent_actors.providers.anthropic.block_builders import PROVIDER
from agent_actors.providers.anthropic.media import media_part, result_content
from agent_actors.providers.anthropic.server_tools import without_torn_server_calls

_Turn: TypeAlias = tuple[str, list[JsonObject]]
CachePoint: TypeAlias = Literal["system", "tools", "messages"]

DEFAULT_MAX_TOKENS: Final = 8192
"""The maximum number of tokens of a response, if the settings do not specify one. The protocol
requires a number, and every model since 2024 accepts this one.
"""

_MAX_CACHE_POINTS: Final = 4
"""The maximum number of cache points; endpoints refuse requests with more."""

_NOT_COUNTED: Final = frozenset(
    {"max_tokens", "stream", "temperature", "top_p", "top_k", "stop_sequences", "metadata"}
)
"""Fields that a token count request must not have."""

_FOREIGN: Final = frozenset({"extra_content", "reasoning_content", "reasoning_details"})
"""Fields that endpoints of other protocols want back. This protocol refuses unknown fields."""

_SHARED: Final = frozenset({"citations", "caller"})
"""Block fields that belong to the protocol and are sent to every endpoint that speaks it."""

_UNCACHED: Final = frozenset({"thinking", "redacted_thinking"})
"""The types of blocks that must not be marked for the cache."""

_NOT_IN_ID: Final = re.compile(r"[^a-zA-Z0-9_-]")


@attrs.frozen
class EncodeOptions:
    """The options for encoding requests to one endpoint.

    Attributes:
        max_tokens: The maximum number of tokens of a response, if the settings do not specify one.
        cache: The parts to mark for the endpoint's prompt cache, each at its end: the system
            prompt, the tools, the conversation.
        cache_ttl: The lifetime of the cache: `5m` or `1h`; empty: the endpoint's default.
        server_tools: Tools that the endpoint runs itself, in the endpoint's format; sent after the
            other tools.
        eager_tool_input: Whether the endpoint streams arguments at once, without validating them.
        echo_unsigned_thinking: Whether to also send thinking without a signature, which some
            endpoints with this protocol require.
    """

    max_tokens: int = DEFAULT_MAX_TOKENS
    cache: Collection[CachePoint] = ()
    cache_ttl: str = ""
    server_tools: Sequence[Mapping[str, JsonValue]] = ()
    eager_tool_input: bool = False
    echo_unsigned_thinking: bool = False


def encode_request(request: ModelRequest, options: EncodeOptions, endpoint: str = "") -> bytes:
    """Return the body of a request for a streamed response.

    Args:
        request: The request.
        options: The encoding options.
        endpoint: The name of the endpoint, which gets back the fields that it sent for this
            purpose.
    """
    return write_json(_body(request, options, endpoint))


def encode_count(request: ModelRequest, options: EncodeOptions, endpoint: str = "") -> bytes:
    """Return the body of a token count request for the same input as `encode_request`."""
    body = _body(request, options, endpoint)
    return write_json({key: value for key, value in body.items() if key not in _NOT_COUNTED})


def _body(request: ModelRequest, options: EncodeOptions, endpoint: str) -> JsonObject:
    settings = request.settings
    target = Origin(PROVIDER, endpoint, settings.model)
    system = list(_system(request, target))
    tools = list(_tools(request.tools, options))
    messages = _Conversation(options, target).turns(request.messages)
    _mark(system, tools, messages, options)
    fields: JsonObject = {
        "model": settings.model,
        "max_tokens": options.max_tokens if settings.max_tokens is None else settings.max_tokens,
        "system": _short(system),
        "messages": [{"role": role, "content": _short(parts)} for role, parts in messages],
        "stream": True,
        "tools": cast(JsonValue, tools or None),
        "tool_choice": _tool_choice(settings) if tools else None,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "stop_sequences": list(settings.stop) or None,
    }
    kept = {name: value for name, value in fields.items() if value is not None}
    return {**kept, **settings.extra_body}


def _short(parts: Sequence[JsonObject]) -> JsonValue:
    """Return a single text part as text, and other parts as a list; None if there are none."""
    if len(parts) == 1 and parts[0].keys() == {"type", "text"}:
        return parts[0]["text"]
    return list(parts) or None


def _system(request: ModelRequest, target: Origin) -> Iterator[JsonObject]:
    """Return the system prompt and the texts of system messages."""
    if request.system_prompt.strip():
        yield {"type": "text", "text": request.system_prompt}
    for message in request.messages:
        if message.role == "system":
            for block in message.blocks:
                if isinstance(block, TextBlock) and block.text.strip():
                    yield {"type": "text", "text": block.text, **_extra(block, target)}


def _tools(specs: Iterable[ToolSpec], options: EncodeOptions) -> Iterator[JsonObject]:
    for spec in specs:
        tool_json: JsonObject = {"name": spec.name}
        if spec.description:
            tool_json["description"] = spec.description
        tool_json["input_schema"] = {"type": "object", **copy_object(spec.input_schema or {})}
        if options.eager_tool_input:
            tool_json["eager_input_streaming"] = True
        yield tool_json
    for own in options.server_tools:
        yield copy_object(own)


def _tool_choice(settings: ModelSettings) -> JsonValue:
    choice, parallel = settings.tool_choice, settings.parallel_tool_calls
    if choice is None and parallel is None:
        return None
    kinds = {None: "auto", "auto": "auto", "none": "none", "required": "any"}
    chosen: JsonObject = (
        {"type": kinds[choice]} if choice in kinds else {"type": "tool", "name": choice}
    )
    if parallel is not None and chosen["type"] != "none":
        chosen["disable_parallel_tool_use"] = not parallel
    return chosen


class _Conversation:
    """Encodes the messages of one request."""

    def __init__(self, options: EncodeOptions, target: Origin) -> None:
        self._options = options
        self._asked = target
        # The ids to send, by the ids in the history.
        self._ids: dict[str, str] = {}
        self._given: set[str] = set()

    def turns(self, messages: Iterable[Message]) -> list[_Turn]:
        """Return the turns of the conversation: the role and the parts of each."""
        messages = [message for message in messages if message.role != "system"]
        messages = without_torn_server_calls(messages)
        answered = {
            block.tool_use_id
            for message in messages
            for block in message.blocks
            if isinstance(block, ToolResultBlock)
        }
        turns: list[_Turn] = []
        for message in messages:
            role = "assistant" if message.role == "assistant" else "user"
            parts = [
                part for block in message.blocks for part in self._parts(block, role, answered)
            ]
            if turns and turns[-1][0] == role:
                turns[-1][1].extend(parts)
            elif parts:
                turns.append((role, parts))
        _trim_end(turns)
        return [(role, _results_first(parts)) for role, parts in turns]

    def _parts(self, block: ContentBlock, role: str, answered: set[str]) -> Iterator[JsonObject]:
        if isinstance(block, TextBlock):
            if block.text.strip():
                yield {"type": "text", "text": block.text, **self._extra(block)}
        elif isinstance(block, ThinkingBlock):
            if role == "assistant":
                yield from self._thinking(block)
        elif isinstance(block, ToolUseBlock):
            yield self._call(block)
        elif isinstance(block, ToolUseError):
            if block.id in answered:
                yield self._call(block.as_tool_use())
        elif isinstance(block, ToolResultBlock):
            yield self._result(block)
        elif isinstance(block, ImageBlock | FileBlock):
            if role == "assistant":  # only the user can send images
                yield {"type": "text", "text": block.label}
            else:
                yield {**media_part(block), **self._extra(block)}
        elif block.provider == PROVIDER:
            yield {**block.data, **self._extra(block)}

    def _thinking(self, block: ThinkingBlock) -> Iterator[JsonObject]:
        # A signature from another protocol is not valid here; such thinking is treated as unsigned.
        if block.signature and self._asked.speaks(block.origin):
            yield {
                "type": "thinking",
                "thinking": block.thinking,
                "signature": block.signature,
                **self._extra(block),
            }
        elif self._options.echo_unsigned_thinking and block.thinking:
            yield {"type": "thinking", "thinking": block.thinking, **self._extra(block)}

    def _call(self, call: ToolUseBlock) -> JsonObject:
        name = _NOT_IN_ID.sub("_", call.name)
        made: JsonObject = {"type": "tool_use", "id": self._id(call.id), "name": name}
        return {**made, "input": call.input, **self._extra(call)}

    def _result(self, result: ToolResultBlock) -> JsonObject:
        made: JsonObject = {"type": "tool_result", "tool_use_id": self._id(result.tool_use_id)}
        content = result_content(result)
        if content:
            made["content"] = content
        if result.is_error:
            made["is_error"] = True
        return {**made, **self._extra(result)}

    def _extra(self, block: ContentBlock) -> JsonObject:
        return _extra(block, self._asked)

    def _id(self, known: str) -> str:
        sent = self._ids.get(known)
        if sent is None:
            made = sent = _NOT_IN_ID.sub("_", known) or "call"
            copy = 1
            while sent in self._given:
                copy += 1
                sent = f"{made}_{copy}"
            self._ids[known] = sent
            self._given.add(sent)
        return sent


def _trim_end(turns: list[_Turn]) -> None:
    """Remove trailing whitespace from a final assistant text, because endpoints refuse it there."""
    if not turns or turns[-1][0] != "assistant":
        return
    last = turns[-1][1][-1]
    text = last.get("text")
    if last.get("type") == "text" and isinstance(text, str):
        last["text"] = text.rstrip()


def _results_first(parts: list[JsonObject]) -> list[JsonObject]:
    results = [part for part in parts if part.get("type") == "tool_result"]
    return [*results, *(part for part in parts if part.get("type") != "tool_result")]


def _extra(block: ContentBlock, target: Origin) -> JsonObject:
    if not block.extra:  # in most cases
        return {}
    owed = target.owed(block, _SHARED)
    return {key: value for key, value in owed.items() if key not in _FOREIGN}


def _mark(
    system: list[JsonObject],
    tools: list[JsonObject],
    messages: list[_Turn],
    options: EncodeOptions,
) -> None:
    """Mark the ends of the cached parts, within the endpoint's limit."""
    conversation = [part for _, parts in messages for part in parts]
    left = _MAX_CACHE_POINTS - sum(
        "cache_control" in part for part in (*system, *tools, *conversation)
    )
    # The last part includes all earlier parts, so it is marked first.
    ends: tuple[tuple[CachePoint, list[JsonObject]], ...] = (
        ("messages", conversation),
        ("system", system),
        ("tools", tools),
    )
    for point, parts in ends:
        able = [part for part in parts if part.get("type") not in _UNCACHED]
        if left > 0 and point in options.cache and able and "cache_control" not in able[-1]:
            ttl: JsonObject = {"ttl": options.cache_ttl} if options.cache_ttl else {}
            able[-1]["cache_control"] = {"type": "ephemeral", **ttl}
            left -= 1
