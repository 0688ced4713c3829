"""Encode a request as the JSON body of a chat completion request.

The encoder does not change the conversation. It translates each block into the wire format, or
leaves out blocks that have no wire format: thinking, and failed calls without a result. Fields that
this endpoint wants back, and fields that a caller adds (`extra` of a block), are sent where they
came from: in the call for a call, otherwise in the message. Fields from another endpoint are left
out (`domain/provenance.py`), because strict endpoints refuse unknown fields.

Arguments are sent as text that parses to exactly the call's input, because endpoints refuse
anything else. The received text is used if it meets this condition; otherwise the input is encoded
again.
"""

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final, cast

import attrs
import msgspec

from agent_actors.codec.json_text import write_json
from agent_actors.codec.openai_messages import PROVIDER, tool_to_openai
from agent_actors.domain.blocks import (
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.json import MAX_DEPTH, JsonObject, JsonValue, nests_deeper
from agent_actors.domain.messages import Message
from agent_actors.domain.model import ModelRequest, ModelSettings, ToolSpec
from agent_actors.domain.provenance import Origin
from agent_actors.profiles.dialect import PLAIN, ChatDialect
from agent_actors.protocol.response.arguments import dump_object
from agent_actors.providers.openai_chat.media import (
    Part,
    content_of,
    has_media,
    is_part,
    parts_of,
    result_media,
    result_text,
)
from agent_actors.providers.openai_chat.plain_text_tools import in_text_only
from agent_actors.providers.openai_chat.reasoning_details import BOUND
from agent_actors.providers.openai_chat.tool_call_ids import short_call_id

_HEAVY: Final = b"media"
"""A placeholder for a message with images or files, which is encoded anew for each request."""

_UNNAMED: Final = "unnamed"
"""The name sent for a call that has a result but no name, because the protocol refuses an empty
name.
"""


@attrs.define(eq=False)
class RequestHeads:
    """The encoded fields of the last request before its messages, for the next equal request.

    The runs of an agent share their settings and tools, so comparing by identity is enough. The
    fields of a caller's `extra_body` are never kept, because the caller may change them in place.
    """

    _settings: ModelSettings | None = attrs.field(default=None, init=False)
    _tools: tuple[ToolSpec, ...] = attrs.field(default=(), init=False)
    _head: bytes = attrs.field(default=b"", init=False)

    def find(self, request: ModelRequest) -> bytes | None:
        """Return the encoded fields if the last request had the same settings and tools."""
        same = request.settings is self._settings and request.tools is self._tools
        return self._head if same else None

    def keep(self, request: ModelRequest, head: bytes) -> None:
        """Keep the encoded fields of a request."""
        if not request.settings.extra_body:
            self._settings, self._tools, self._head = request.settings, request.tools, head


def encode_request(
    request: ModelRequest,
    dialect: ChatDialect = PLAIN,
    endpoint: str = "",
    heads: RequestHeads | None = None,
) -> bytes:
    """Return the body of a request for a streamed response.

    Args:
        request: The request.
        dialect: The requirements of the endpoint, and the fields that it refuses.
        endpoint: The name of the endpoint, which gets back the fields that it sent for this
            purpose.
        heads: The head of earlier requests with this dialect; None if it is not kept.
    """
    target = Origin(PROVIDER, endpoint, request.settings.model)
    if "tools" in dialect.refuses:
        request = in_text_only(request, target)
    encoded = None if heads is None else heads.find(request)
    if encoded is None:
        body = _body(request, dialect)
        encoded = write_json(body)
        if "messages" in body:  # from the caller's `extra_body`
            return encoded
        if heads is not None:
            heads.keep(request, encoded)
    head, end = encoded[:-1] + b',"messages":[', b"]}"
    messages = _messages(request, dialect, target)
    if not messages:
        return head + end
    # The body is joined in one step, because each copy of a long conversation costs more than the
    # rest of the turn.
    messages[0] = head + messages[0]
    messages[-1] += end
    return b",".join(messages)


def _body(request: ModelRequest, dialect: ChatDialect) -> dict[str, object]:
    """Return all fields of a request except its messages."""
    settings = request.settings
    body: dict[str, object] = {"model": settings.model, "stream": True}
    if dialect.include_usage:
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = [cast(JsonValue, tool_to_openai(tool)) for tool in request.tools]
    body.update(_settings(settings, dialect.max_tokens_field, has_tools=bool(request.tools)))
    for refused in dialect.refuses & body.keys():
        del body[refused]
    body.update(settings.extra_body)
    return body


def _settings(settings: ModelSettings, max_tokens_field: str, *, has_tools: bool) -> JsonObject:
    """Return the sampling options that are set."""
    fields: JsonObject = {
        max_tokens_field: settings.max_tokens,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "stop": list(settings.stop) or None,
        "seed": settings.seed,
        "presence_penalty": settings.presence_penalty,
        "frequency_penalty": settings.frequency_penalty,
    }
    if has_tools:  # endpoints refuse these fields without tools
        fields["tool_choice"] = _tool_choice(settings.tool_choice)
        fields["parallel_tool_calls"] = settings.parallel_tool_calls
    return {name: value for name, value in fields.items() if value is not None}


def _tool_choice(choice: str | None) -> JsonValue:
    if choice is None or choice in {"auto", "none", "required"}:
        return choice
    return {"type": "function", "function": {"name": choice}}


def _messages(request: ModelRequest, dialect: ChatDialect, target: Origin) -> list[bytes]:
    """Return the encoded messages; one item may contain several joined wire messages."""

    def encode(message: Message) -> bytes:
        if message.role == "assistant":
            sent = _assistant(message, answered, dialect, target)
        else:
            sent = _spoken(message, dialect)
        return b",".join(write_json(item) for item in sent)

    def encode_lean(message: Message) -> bytes:
        return _HEAVY if has_media(message) else encode(message)

    def encode_alone(message: Message) -> bytes | None:
        failed = any(isinstance(block, ToolUseError) for block in message.blocks)
        return None if failed else encode_lean(message)

    answered = frozenset[str]()
    kept = request.memo.map((dialect, target), request.messages, encode_alone)
    sent = list(filter(None, kept))
    if len(sent) < len(kept) and None in kept:
        # The encoding of a failed call depends on later messages, so it cannot be cached.
        answered = _answered(request.messages)
        kept = [encode_lean(message) for message in request.messages]
        sent = list(filter(None, kept))
    if _HEAVY in sent:
        sent = list(_with_media(zip(request.messages, kept, strict=True), encode, dialect))
    if request.system_prompt:
        sent.insert(0, write_json({"role": "system", "content": request.system_prompt}))
    return sent


def _with_media(
    messages: Iterable[tuple[Message, bytes | None]],
    encode: Callable[[Message], bytes],
    dialect: ChatDialect,
) -> Iterator[bytes]:
    """Return all encoded messages; media from tool results follow the results in a user message.

    Args:
        messages: The conversation, and the cached bytes of each message if there are any.
        encode: Encodes a response; its images stay where they are.
        dialect: The requirements of the endpoint.
    """
    shown: list[JsonValue] = []
    for message, known in messages:
        from_caller = message.role in {"user", "tool"}
        if shown and not from_caller:
            yield write_json({"role": "user", "content": shown})
            shown = []
        if known is not _HEAVY and not (shown and message.role == "user"):
            if known:
                yield known
            continue
        if not from_caller:
            yield encode(message)
            continue
        for block in message.blocks:
            if isinstance(block, ToolResultBlock):
                yield write_json(_result(block, dialect))
                shown += result_media(block)
        parts = [block for block in message.blocks if is_part(block)]
        if parts:
            content = [*shown, *parts_of(parts)] if shown else content_of(parts)
            yield write_json({"role": "user", "content": content})
            shown = []
    if shown:
        yield write_json({"role": "user", "content": shown})


def _answered(messages: Iterable[Message]) -> frozenset[str]:
    """Return the ids of the calls that have a result."""
    return frozenset(
        block.tool_use_id
        for message in messages
        for block in message.blocks
        if isinstance(block, ToolResultBlock)
    )


def _assistant(
    message: Message, answered: AbstractSet[str], dialect: ChatDialect, target: Origin
) -> Iterator[JsonObject]:
    calls: list[JsonValue] = []
    parts: list[Part] = []
    echo: JsonObject = {}
    thoughts = ""
    for block in message.blocks:
        if isinstance(block, ToolUseBlock):
            made = _call(block, block.name, _arguments(block), dialect)
            calls.append({**made, **target.owed(block)})
        elif isinstance(block, ToolUseError):
            if block.id in answered:
                made = _call(block, block.name or _UNNAMED, "{}", dialect)
                calls.append({**made, **target.owed(block)})
        else:
            echo.update(target.owed(block, bound=BOUND))
            if isinstance(block, ThinkingBlock):
                thoughts += block.thinking
            elif is_part(block):
                parts.append(block)
    if dialect.echo_reasoning and thoughts:
        echo.setdefault(dialect.echo_reasoning, thoughts)
    if parts or calls:
        content = content_of(parts) if parts else None
        with_calls: JsonObject = {"tool_calls": calls} if calls else {}
        yield {"role": "assistant", "content": content, **with_calls, **echo}


def _call(
    block: ToolUseBlock | ToolUseError, name: str, arguments: str, dialect: ChatDialect
) -> JsonObject:
    function: JsonObject = {"name": name, "arguments": arguments}
    call_id = _call_id(block.id, dialect)
    return {"id": call_id, "type": "function", "function": function}


def _call_id(call_id: str, dialect: ChatDialect) -> str:
    return short_call_id(call_id) if dialect.short_call_ids else call_id


def _arguments(call: ToolUseBlock) -> str:
    raw = call.raw_arguments
    if raw and not nests_deeper(raw, MAX_DEPTH):
        try:
            if msgspec.json.decode(raw) == call.input:
                return raw
        except (msgspec.DecodeError, UnicodeError):
            pass
    return dump_object(call.input)


def _spoken(message: Message, dialect: ChatDialect) -> Iterator[JsonObject]:
    """Encode a message that is not a response: each result separately, the rest as one message."""
    parts: list[Part] = []
    for block in message.blocks:
        if isinstance(block, ToolResultBlock):
            yield _result(block, dialect)
        elif is_part(block):
            parts.append(block)
    if parts:
        role = "user" if message.role == "tool" else message.role
        yield {"role": role, "content": content_of(parts)}


def _result(block: ToolResultBlock, dialect: ChatDialect) -> JsonObject:
    name: JsonObject = {"name": block.name} if block.name else {}
    return {
        "role": "tool",
        "tool_call_id": _call_id(block.tool_use_id, dialect),
        **name,
        "content": result_text(block),
        **block.extra,
    }
