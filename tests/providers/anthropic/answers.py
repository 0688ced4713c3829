"""Responses of an endpoint for tests: bodies built from events, and the results of reading them."""

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
    """Return a `message_start` event."""
    message: Event = {"id": message_id, "type": "message", "role": "assistant", "model": "m-1"}
    message |= {"content": [], "usage": {"input_tokens": 3, "output_tokens": 1}, **fields}
    return {"type": "message_start", "message": message}


def start(index: Json, block: Json) -> Event:
    """Return a `content_block_start` event."""
    return {"type": "content_block_start", "index": index, "content_block": block}


def add(index: Json, delta: Json) -> Event:
    """Return a `content_block_delta` event."""
    return {"type": "content_block_delta", "index": index, "delta": delta}


def stop(index: Json) -> Event:
    """Return a `content_block_stop` event."""
    return {"type": "content_block_stop", "index": index}


def text(content: Json, index: Json = 0) -> Event:
    """Return a delta with text."""
    return add(index, {"type": "text_delta", "text": content})


def thought(content: Json, index: Json = 0) -> Event:
    """Return a delta with thinking."""
    return add(index, {"type": "thinking_delta", "thinking": content})


def seal(signature: Json, index: Json = 0) -> Event:
    """Return a delta with a signature."""
    return add(index, {"type": "signature_delta", "signature": signature})


def arguments(piece: Json, index: Json = 0) -> Event:
    """Return a delta with arguments."""
    return add(index, {"type": "input_json_delta", "partial_json": piece})


def end(reason: Json = "end_turn", **usage: Json) -> list[Event]:
    """Return the events at the end of a message."""
    counts = {"output_tokens": 4, **usage}
    fields = {"stop_reason": reason, "stop_sequence": None}
    return [{"type": "message_delta", "delta": fields, "usage": counts}, {"type": "message_stop"}]


def text_block(*pieces: str, index: int = 0) -> list[Event]:
    """Return the events of a complete text block."""
    begun = start(index, {"type": "text", "text": ""})
    return [begun, *(text(piece, index) for piece in pieces), stop(index)]


def tool_use(call_id: Json = "a", name: Json = "find", given: Json = None) -> Event:
    """Return the start of a block that calls a tool."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": given or {}}


def call_block(
    *pieces: Json, call_id: Json = "a", name: Json = "find", index: int = 0
) -> list[Event]:
    """Return the events of a complete block that calls a tool."""
    begun = start(index, tool_use(call_id, name))
    return [begun, *(arguments(piece, index) for piece in pieces), stop(index)]


def sse(*events: Json) -> bytes:
    """Return an event stream of these events."""
    return b"".join(map(frame, events))


def frame(event: Json) -> bytes:
    """Return one event of a stream."""
    name = cast(Event, event).get("type") if isinstance(event, dict) else None
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(event)}\n\n".encode()


def read_all(
    reads: Iterable[bytes], request: ModelRequest = REQUEST, *, content_type: str = ""
) -> tuple[list[ModelDelta], ModelCompleted]:
    """Return the deltas shown while the response arrives in these reads, and the response."""
    reader = MessageResponseParser(request, endpoint=ENDPOINT, content_type=content_type)
    shown: list[ModelDelta] = []
    for data in reads:
        shown += reader.feed(data)
        if reader.done:
            break
    shown += reader.close()
    return shown, reader.finish()


def read(body: bytes, request: ModelRequest = REQUEST, *, content_type: str = "") -> ModelCompleted:
    """Return the response in this body; check that it is the same when it arrives byte by byte."""
    whole = read_all([body], request, content_type=content_type)
    pieces = [body[at : at + 1] for at in range(len(body))]
    assert read_all(pieces, request, content_type=content_type) == whole
    return whole[1]


def answer(*events: Json, request: ModelRequest = REQUEST) -> ModelCompleted:
    """Return the response in a stream of these events."""
    return read(sse(*events), request)


def shown(*events: Json) -> list[ModelDelta]:
    """Return the deltas that a stream of these events shows."""
    return read_all([sse(*events)])[0]


def brief(blocks: Sequence[AssistantBlock]) -> list[object]:
    """Return a short form of the blocks, without the arguments' text, which quirks may change."""
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
