"""A request becomes the JSON body of a chat completion.

Owns what is sent. Nothing in here changes the conversation: a message is put into the wire's form,
or left out where the wire has no form for it (thoughts, and calls that could not be carried out and
that nothing answers). What a provider asked to have echoed back (`extra` of a block) is put where
it was taken from: beside the call for a call, else beside the content of the message.

Arguments are sent as text that parses to exactly the call's input, since endpoints refuse anything
else: the text that came, if it does, else new text.
"""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, cast

import msgspec

from agent_actors.codec.openai import tool_to_openai
from agent_actors.domain.blocks import (
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.messages import Message
from agent_actors.domain.model import ModelRequest, ModelSettings
from agent_actors.protocol.arguments import dump_object
from agent_actors.protocol.text import mend_surrogates
from agent_actors.providers.openai.dialect import PLAIN, ChatDialect

_UNNAMED: Final = "unnamed"
"""Sent as the name of a call that had none and was answered: the wire takes no empty name."""


def encode_request(request: ModelRequest, dialect: ChatDialect = PLAIN) -> bytes:
    """The body.

    Args:
        request: What is asked.
        dialect: What the endpoint wants, and what it refuses.
    """
    settings = request.settings
    body: dict[str, object] = {"model": settings.model, "stream": True}
    if dialect.include_usage:
        body["stream_options"] = {"include_usage": True}
    has_tools = bool(request.tools) and "tools" not in dialect.refuses
    if has_tools:
        body["tools"] = [cast(JsonValue, tool_to_openai(tool)) for tool in request.tools]
    body.update(_settings(settings, dialect.max_tokens_field, has_tools=has_tools))
    for refused in dialect.refuses & body.keys():
        del body[refused]
    body.update(settings.extra_body)
    encoded = _encoded(body)
    if "messages" in body:  # the caller's own, among the further fields
        return encoded
    head, end = encoded[:-1] + b',"messages":[', b"]}"
    messages = _messages(request, dialect)
    if not messages:
        return head + end
    # The body is put together in one step: of a long conversation, each copy costs more than all
    # the rest of a turn.
    messages[0] = head + messages[0]
    messages[-1] += end
    return b",".join(messages)


def _encoded(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate somewhere in what the caller gave
        return msgspec.json.encode(_mended(value))


def _settings(settings: ModelSettings, max_tokens_field: str, *, has_tools: bool) -> JsonObject:
    """The sampling options that are set."""
    fields: JsonObject = {
        max_tokens_field: settings.max_tokens,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "stop": list(settings.stop) or None,
        "seed": settings.seed,
        "presence_penalty": settings.presence_penalty,
        "frequency_penalty": settings.frequency_penalty,
    }
    if has_tools:  # endpoints refuse these where there is nothing to choose from
        fields["tool_choice"] = _tool_choice(settings.tool_choice)
        fields["parallel_tool_calls"] = settings.parallel_tool_calls
    return {name: value for name, value in fields.items() if value is not None}


def _tool_choice(choice: str | None) -> JsonValue:
    if choice is None or choice in {"auto", "none", "required"}:
        return choice
    return {"type": "function", "function": {"name": choice}}


def _messages(request: ModelRequest, dialect: ChatDialect) -> list[bytes]:
    """The messages in bytes, each as many of the wire's as it takes, joined."""

    def encode(message: Message) -> bytes:
        if message.role == "assistant":
            sent = _assistant(message, answered, dialect)
        else:
            sent = _spoken(message)
        return b",".join(_encoded(one) for one in sent)

    def encode_alone(message: Message) -> bytes | None:
        failed = any(isinstance(block, ToolUseError) for block in message.blocks)
        return None if failed else encode(message)

    answered = frozenset[str]()
    kept = request.memo.each(("openai", dialect), request.messages, encode_alone)
    sent = list(filter(None, kept))
    if len(sent) < len(kept) and None in kept:
        # How a call that failed is sent depends on the messages after it: nothing can be kept.
        answered = _answered(request.messages)
        sent = [one for one in [encode(message) for message in request.messages] if one]
    if request.system_prompt:
        sent.insert(0, _encoded({"role": "system", "content": request.system_prompt}))
    return sent


def _answered(messages: Iterable[Message]) -> frozenset[str]:
    """The ids of the calls that have a result."""
    return frozenset(
        block.tool_use_id
        for message in messages
        for block in message.blocks
        if isinstance(block, ToolResultBlock)
    )


def _assistant(
    message: Message, answered: AbstractSet[str], dialect: ChatDialect
) -> Iterator[JsonObject]:
    calls: list[JsonValue] = []
    said: list[TextBlock | ImageBlock] = []
    echo: JsonObject = {}
    thoughts = ""
    for block in message.blocks:
        if isinstance(block, ToolUseBlock):
            calls.append(_call(block.id, block.name, _arguments(block), block))
        elif isinstance(block, ToolUseError):
            if block.id in answered:
                calls.append(_call(block.id, block.name or _UNNAMED, "{}", block))
        else:
            echo.update(block.extra)
            if isinstance(block, ThinkingBlock):
                thoughts += block.thinking
            elif isinstance(block, TextBlock | ImageBlock):
                said.append(block)
    if dialect.echo_reasoning and thoughts:
        echo.setdefault(dialect.echo_reasoning, thoughts)
    if said or calls:
        content = _content(said) if said else None
        with_calls: JsonObject = {"tool_calls": calls} if calls else {}
        yield {"role": "assistant", "content": content, **with_calls, **echo}


def _call(
    call_id: str, name: str, arguments: str, block: ToolUseBlock | ToolUseError
) -> JsonObject:
    function: JsonObject = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function, **block.extra}


def _arguments(call: ToolUseBlock) -> str:
    raw = call.raw_arguments
    if raw:
        try:
            if msgspec.json.decode(raw) == call.input:
                return raw
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            pass
    return dump_object(call.input)


def _spoken(message: Message) -> Iterator[JsonObject]:
    """What is no answer of the model: results one by one, and the rest as one message."""
    said: list[TextBlock | ImageBlock] = []
    for block in message.blocks:
        if isinstance(block, ToolResultBlock):
            yield _result(block)
        elif isinstance(block, TextBlock | ImageBlock):
            said.append(block)
    if said:
        role = "user" if message.role == "tool" else message.role
        yield {"role": role, "content": _content(said)}


def _result(block: ToolResultBlock) -> JsonObject:
    name: JsonObject = {"name": block.name} if block.name else {}
    return {
        "role": "tool",
        "tool_call_id": block.tool_use_id,
        **name,
        "content": _result_text(block),
        **block.extra,
    }


def _result_text(block: ToolResultBlock) -> str:
    """The result as text: the wire takes no other; text blocks in dict form are joined."""
    if isinstance(block.content, list) and block.content:
        texts = [_text_of(part) for part in block.content]
        if None not in texts:
            return "".join(filter(None, texts))
    return block.text


def _text_of(part: JsonValue) -> str | None:
    if isinstance(part, dict) and part.get("type") == "text":
        text = part.get("text")
        return text if isinstance(text, str) else None
    return None


def _content(blocks: Sequence[TextBlock | ImageBlock]) -> JsonValue:
    """Text alone as text, with images as parts."""
    if any(isinstance(block, ImageBlock) for block in blocks):
        return list(_parts(blocks))
    return "".join(block.text for block in blocks if isinstance(block, TextBlock))


def _parts(blocks: Iterable[TextBlock | ImageBlock]) -> Iterator[JsonValue]:
    for block in blocks:
        if isinstance(block, ImageBlock):
            url: JsonObject = {"url": block.source}
            yield {"type": "image_url", "image_url": url}
        else:
            yield {"type": "text", "text": block.text}


def _mended(value: object) -> object:
    if isinstance(value, str):
        return mend_surrogates(value)
    if isinstance(value, list | tuple):
        return [_mended(item) for item in cast("Sequence[object]", value)]
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        return {mend_surrogates(key): _mended(item) for key, item in fields.items()}
    return value
