"""Answers of an endpoint for tests: bodies from events, and what is read from them."""

import json
from collections.abc import Iterable, Sequence
from typing import cast

from agent_actors.domain.blocks import (
    AssistantBlock,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import ModelCompleted, ModelDelta, ModelRequest, ModelSettings
from agent_actors.providers.anthropic.response import MessageResponseParser

REQUEST = ModelRequest(Messages().user("Hello?"), ModelSettings("m"))
ENDPOINT = "http://endpoint"

Json = object
Event = dict[str, Json]


def begin(message_id: str = "msg_1", **fields: Json) -> Event:
    """A `message_start`."""
    message: Event = {"id": message_id, "type": "message", "role": "assistant", "model": "m-1"}
    message |= {"content": [], "usage": {"input_tokens": 3, "output_tokens": 1}, **fields}
    return {"type": "message_start", "message": message}


def start(index: Json, block: Json) -> Event:
    """A `content_block_start`."""
    return {"type": "content_block_start", "index": index, "content_block": block}


def add(index: Json, delta: Json) -> Event:
    """A `content_block_delta`."""
    return {"type": "content_block_delta", "index": index, "delta": delta}


def stop(index: Json) -> Event:
    """A `content_block_stop`."""
    return {"type": "content_block_stop", "index": index}


def text(content: Json, index: Json = 0) -> Event:
    """A delta of text."""
    return add(index, {"type": "text_delta", "text": content})


def thought(content: Json, index: Json = 0) -> Event:
    """A delta of thinking."""
    return add(index, {"type": "thinking_delta", "thinking": content})


def seal(signature: Json, index: Json = 0) -> Event:
    """A delta with a signature."""
    return add(index, {"type": "signature_delta", "signature": signature})


def arguments(piece: Json, index: Json = 0) -> Event:
    """A delta of arguments."""
    return add(index, {"type": "input_json_delta", "partial_json": piece})


def end(reason: Json = "end_turn", **usage: Json) -> list[Event]:
    """The end of a message."""
    counts = {"output_tokens": 4, **usage}
    told = {"stop_reason": reason, "stop_sequence": None}
    return [{"type": "message_delta", "delta": told, "usage": counts}, {"type": "message_stop"}]


def text_block(*pieces: str, index: int = 0) -> list[Event]:
    """A whole block of text."""
    begun = start(index, {"type": "text", "text": ""})
    return [begun, *(text(piece, index) for piece in pieces), stop(index)]


def tool_use(call_id: Json = "a", name: Json = "find", given: Json = None) -> Event:
    """A block that calls a tool, as it begins."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": given or {}}


def call_block(
    *pieces: Json, call_id: Json = "a", name: Json = "find", index: int = 0
) -> list[Event]:
    """A whole block that calls a tool."""
    begun = start(index, tool_use(call_id, name))
    return [begun, *(arguments(piece, index) for piece in pieces), stop(index)]


def sse(*events: Json) -> bytes:
    """An event stream of these."""
    return b"".join(map(frame, events))


def frame(event: Json) -> bytes:
    """One event of a stream."""
    name = cast(Event, event).get("type") if isinstance(event, dict) else None
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(event)}\n\n".encode()


def read_all(
    reads: Iterable[bytes], request: ModelRequest = REQUEST, *, content_type: str = ""
) -> tuple[list[ModelDelta], ModelCompleted]:
    """What is shown of an answer that comes in these reads, and the answer."""
    reader = MessageResponseParser(request, endpoint=ENDPOINT, content_type=content_type)
    shown: list[ModelDelta] = []
    for data in reads:
        shown += reader.feed(data)
        if reader.done:
            break
    shown += reader.close()
    return shown, reader.finish()


def read(body: bytes, request: ModelRequest = REQUEST, *, content_type: str = "") -> ModelCompleted:
    """The answer in this body, which comes byte by byte as well as whole."""
    whole = read_all([body], request, content_type=content_type)
    pieces = [body[at : at + 1] for at in range(len(body))]
    assert read_all(pieces, request, content_type=content_type) == whole
    return whole[1]


def answer(*events: Json, request: ModelRequest = REQUEST) -> ModelCompleted:
    """The answer in a stream of these events."""
    return read(sse(*events), request)


def shown(*events: Json) -> list[ModelDelta]:
    """What a reader sees of a stream of these events."""
    return read_all([sse(*events)])[0]


def told(blocks: Sequence[AssistantBlock]) -> list[object]:
    """The blocks in short, without what a quirk may change: the text of arguments."""
    return [_short(block) for block in blocks]


def _short(block: AssistantBlock) -> object:
    match block:
        case TextBlock():
            return block.text
        case ThinkingBlock():
            return ("thinking", block.thinking, block.signature)
        case ToolUseBlock():
            return (block.id, block.name, block.input)
        case ToolUseError():
            return (block.id, block.name, block.error)
        case OpaqueBlock():
            return block.data
        case _:
            return block
