"""Responses of an endpoint for tests: bodies built from chunks, and the results of reading them."""

import json
from collections.abc import Iterable, Mapping, Sequence

from agent_actors.domain.blocks import TextBlock, ToolUseBlock, ToolUseError
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import (
    ModelCompleted,
    ModelDelta,
    ModelRequest,
    ModelSettings,
    TextDelta,
)
from agent_actors.protocol.sse import SSEDecoder
from agent_actors.providers.openai_chat.response import ChatResponseParser

REQUEST = ModelRequest(Messages().user("Hello?"), ModelSettings("m"))
ENDPOINT = "http://endpoint/v1"
DONE = b"data: [DONE]\n\n"

Json = object


def chunk(delta: Json = None, finish: Json = None, **fields: Json) -> dict[str, Json]:
    """Return a chunk with one choice."""
    choice: dict[str, Json] = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "r", "model": "m-1", "choices": [choice], **fields}


def text(content: Json, finish: Json = None) -> dict[str, Json]:
    """Return a chunk with text."""
    return chunk({"content": content}, finish)


def calls(*entries: Mapping[str, Json], finish: Json = None) -> dict[str, Json]:
    """Return a chunk with these entries of `tool_calls`."""
    return chunk({"tool_calls": list(entries)}, finish)


def entry(
    index: Json = None, call_id: Json = None, name: Json = None, arguments: Json = None
) -> dict[str, Json]:
    """Return an entry of `tool_calls`; fields that are None are left out."""
    function = {"name": name, "arguments": arguments}
    whole: dict[str, Json] = {
        "index": index,
        "id": call_id,
        "type": "function",
        "function": {key: value for key, value in function.items() if value is not None},
    }
    return {key: value for key, value in whole.items() if value is not None}


def sse(*chunks: Json, done: bool = True) -> bytes:
    """Return an event stream of these chunks."""
    lines = [b"data: " + json.dumps(one).encode() + b"\n\n" for one in chunks]
    return b"".join(lines) + (DONE if done else b"")


class Careful(ChatResponseParser):
    """A parser that reads each event separately and never uses the fast path."""

    def feed(self, data: bytes) -> Sequence[ModelDelta]:
        self._sse.__class__ = _CarefulDecoder
        return super().feed(data)


class _CarefulDecoder(SSEDecoder):
    __slots__ = ()

    def feed_plain(self, data: bytes) -> list[bytes] | None:
        return None


def read_all(
    reads: Iterable[bytes],
    request: ModelRequest = REQUEST,
    *,
    content_type: str = "",
    reader: type[ChatResponseParser] = ChatResponseParser,
) -> tuple[list[ModelDelta], ModelCompleted]:
    """Return the deltas shown while the response arrives in these reads, and the response."""
    reading = reader(request, endpoint=ENDPOINT, content_type=content_type)
    shown: list[ModelDelta] = []
    for data in reads:
        shown += reading.feed(data)
        if reading.done:
            break
    shown += reading.close()
    return shown, reading.finish()


def read(body: bytes, request: ModelRequest = REQUEST, *, content_type: str = "") -> ModelCompleted:
    """Return the response in this body; check that the way of reading makes no difference."""
    shown, whole = read_all([body], request, content_type=content_type)
    pieces = [body[at : at + 1] for at in range(len(body))]
    assert read_all(pieces, request, content_type=content_type)[1] == whole
    careful = read_all([body], request, content_type=content_type, reader=Careful)
    assert careful == (shown, whole)
    return whole


def answer(*chunks: Json, done: bool = True) -> ModelCompleted:
    """Return the response in a stream of these chunks."""
    return read(sse(*chunks, done=done))


def shown_text(*chunks: Json) -> str:
    """Return the text that a stream of these chunks shows."""
    return "".join(d.text for d in read_all([sse(*chunks)])[0] if isinstance(d, TextDelta))


def made(found: ModelCompleted) -> list[tuple[str, str, object]]:
    """Return the id, name and input of each call; invalid calls have an error as input."""
    listed: list[tuple[str, str, object]] = []
    for block in found.blocks:
        if isinstance(block, ToolUseBlock):
            listed.append((block.id, block.name, block.input))
        elif isinstance(block, ToolUseError):
            listed.append((block.id, block.name, block.error))
    return listed


def said(found: ModelCompleted) -> Sequence[str]:
    """Return the texts of the text blocks."""
    return [block.text for block in found.blocks if isinstance(block, TextBlock)]
