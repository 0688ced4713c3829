"""Render a scripted reply as the bytes of a response in Anthropic's protocol.

Pure functions, as in `_wire.py`, which return the same segments: the steps become the events of a
message. Adjacent texts are one block; each thinking step and each call is a separate block. Blocks
are numbered in the order in which they begin, and end before a block of another step begins. Quirks
come from the reply's own steps and its `transform`, which gets the list of events.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Final, cast

import attrs

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.model import (
    AnswerDelta,
    FinishDelta,
    FinishReason,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from agent_actors.domain.usage import Usage
from agent_actors.testing._wire import (
    Item,
    Segment,
    encode_json,
    ends_early,
    joined,
    player_for,
    transformed,
)
from agent_actors.testing.replies import (
    Chunk,
    Comment,
    Disconnect,
    EndpointRequest,
    InBandError,
    Raw,
    Reply,
    ReplyStep,
)
from agent_actors.testing.script import (
    Action,
    Call,
    Do,
    Fail,
    Hang,
    Interleave,
    Pause,
    Step,
    Think,
    Used,
    Wait,
)

_FINISH: Final[dict[FinishReason, str]] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "refusal": "refusal",
    "content_filter": "refusal",
    "refused": "refusal",
    "paused": "pause_turn",
}
# The usual estimate for English text. A request's body is only slightly longer than its text.
_BYTES_PER_TOKEN: Final = 4


def render_messages(answer: Reply, request: EndpointRequest) -> list[Segment]:
    """Return the segments of the body, in the order in which they are written."""
    if answer.content is not None:
        return [answer.content]
    items = list(_items(answer, request))
    if not request.streams:
        return _whole(items, answer)
    if answer.transform is not None:
        items = transformed(items, answer.transform)
    return list(joined(items, answer.newline.encode(), _frame))


def counted(request: EndpointRequest) -> JsonObject:
    """Return the response to a request to count tokens."""
    return {"input_tokens": len(request.content) // _BYTES_PER_TOKEN}


def _items(answer: Reply, request: EndpointRequest) -> Iterator[Item]:
    shape = _Shape()
    player = player_for(request)
    yield Chunk(_message_start(request, _usage_at_start(answer.steps, request)))
    yield Chunk({"type": "ping"})
    for step in answer.steps:
        if isinstance(step, InBandError):
            yield Chunk(_error(step.value))
            return
        if isinstance(step, Disconnect):
            yield step
            return
        if isinstance(step, Chunk | Comment | Raw):
            yield step
        elif _is_block(step):
            yield from shape.end_blocks()
            yield from shape.items(player.actions(step))
            yield from shape.end_blocks()
        else:
            yield from shape.items(player.actions(step))
    if ends_early(answer.steps):
        return
    yield from shape.end_blocks()
    yield from shape.items(player.ending())
    if answer.done:
        yield Chunk({"type": "message_stop"})


def _is_block(step: Step) -> bool:
    """Return whether this step produces blocks of its own."""
    if isinstance(step, Think):
        return bool(step.text or step.signature)
    return isinstance(step, Call | Interleave)


@attrs.define(eq=False)
class _Shape:
    """Makes the events of one response, and tracks which blocks are open."""

    _begun: int = attrs.field(default=0, init=False)
    # The indexes of the open blocks, by the kind of text, or by the slot of a call.
    _open: dict[str | int | None, int] = attrs.field(
        factory=dict["str | int | None", int], init=False
    )
    _reason: str | None = attrs.field(default=None, init=False)

    def items(self, actions: Iterable[Action]) -> Iterator[Item]:
        for action in actions:
            if isinstance(action, Pause | Wait | Do | Hang | Fail):
                yield action
            else:
                yield from map(Chunk, self._events(action))

    def end_blocks(self) -> Iterator[Chunk]:
        for index in self._open.values():
            yield Chunk({"type": "content_block_stop", "index": index})
        self._open.clear()

    def _events(self, delta: AnswerDelta) -> Iterator[JsonObject]:
        if isinstance(delta, TextDelta):
            if delta.text:
                block: JsonObject = {"type": "text", "text": ""}
                yield from self._add("text", block, {"type": "text_delta", "text": delta.text})
        elif isinstance(delta, ThinkingDelta):
            block = {"type": "thinking", "thinking": "", "signature": ""}
            if delta.text:
                more: JsonObject = {"type": "thinking_delta", "thinking": delta.text}
                yield from self._add("thinking", block, more)
            if delta.signature:
                more = {"type": "signature_delta", "signature": delta.signature}
                yield from self._add("thinking", block, more)
        elif isinstance(delta, ToolCallDelta):
            named: JsonObject = {"id": delta.id} if delta.id else {}
            block = {"type": "tool_use", **named, "name": delta.name, "input": {}}
            more = {"type": "input_json_delta", "partial_json": delta.arguments}
            yield from self._add(delta.index, block, more)
        elif isinstance(delta, FinishDelta):
            self._reason = _FINISH.get(delta.reason)
        else:
            ending: JsonObject = {"stop_reason": self._reason, "stop_sequence": None}
            yield {"type": "message_delta", "delta": ending, "usage": _usage(delta.usage)}

    def _add(
        self, key: str | int | None, block: JsonObject, delta: JsonObject
    ) -> Iterator[JsonObject]:
        if key not in self._open:
            self._open[key] = self._begun
            self._begun += 1
            index = self._open[key]
            yield {"type": "content_block_start", "index": index, "content_block": block}
        yield {"type": "content_block_delta", "index": self._open[key], "delta": delta}


def _frame(value: JsonValue, newline: bytes) -> bytes:
    kind = value.get("type") if isinstance(value, dict) else None
    name = b"event: %b%b" % (kind.encode(), newline) if isinstance(kind, str) else b""
    return b"%bdata: %b%b%b" % (name, encode_json(value), newline, newline)


def _message_start(request: EndpointRequest, usage: JsonObject) -> JsonObject:
    return {
        "type": "message_start",
        "message": {
            "id": f"msg_{request.number}",
            "type": "message",
            "role": "assistant",
            "model": request.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        },
    }


def _usage_at_start(steps: Iterable[ReplyStep], request: EndpointRequest) -> JsonObject:
    """Return the usage known at the start: the prompt's tokens, and at most one output token."""
    reported = [step.usage for step in steps if isinstance(step, Used)]
    usage = reported[-1] if reported else Usage(len(request.content) // _BYTES_PER_TOKEN, 1)
    return _usage(
        attrs.evolve(usage, output_tokens=min(usage.output_tokens, 1), reasoning_tokens=0)
    )


def _usage(usage: Usage) -> JsonObject:
    cached = usage.cache_read_tokens + usage.cache_creation_tokens
    details: JsonObject = {"output_tokens_details": {"thinking_tokens": usage.reasoning_tokens}}
    return {
        "input_tokens": max(usage.input_tokens - cached, 0),
        "cache_creation_input_tokens": usage.cache_creation_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
        **(details if usage.reasoning_tokens else {}),
    }


def _error(value: JsonValue) -> JsonObject:
    """Convert an error to this protocol; its code becomes the type if the code is a string."""
    given = value.get("error") if isinstance(value, dict) else None
    error = given if isinstance(given, dict) else {}
    code = error.get("code")
    kind = code if isinstance(code, str) else "api_error"
    return {"type": "error", "error": {"type": kind, "message": error.get("message")}}


def _whole(items: list[Item], answer: Reply) -> list[Segment]:
    """Render a response that is not streamed: the actions, then one JSON object."""
    segments: list[Segment] = []
    events: list[JsonObject] = []
    for item in items:
        if isinstance(item, Chunk):
            if isinstance(item.value, dict):
                events.append(item.value)
        elif isinstance(item, Raw):
            segments.append(item.data)
        elif not isinstance(item, Comment):
            segments.append(item)
    if any(isinstance(segment, Disconnect) for segment in segments):
        return segments
    if events[-1].get("type") == "error":
        return [*segments, encode_json(events[-1])]
    message = [_gathered(events)]
    changed = message if answer.transform is None else answer.transform(message)
    return [*segments, b"".join(encode_json(value) for value in changed)]


def _gathered(events: Iterable[JsonObject]) -> JsonObject:
    """Assemble the message that these events stream."""
    message: JsonObject = {}
    content: dict[JsonValue, JsonObject] = {}
    texts: dict[JsonValue, str] = {}
    for event in events:
        index = event.get("index")
        if event.get("type") == "message_start":
            message = dict(cast(JsonObject, event["message"]))
        elif event.get("type") == "content_block_start":
            content[index] = dict(cast(JsonObject, event["content_block"]))
        elif event.get("type") == "content_block_delta":
            delta = cast(JsonObject, event["delta"])
            if "partial_json" in delta:
                texts[index] = texts.get(index, "") + str(delta["partial_json"])
            else:
                for key in delta.keys() - {"type"}:
                    content[index][key] = f"{content[index][key]}{delta[key]}"
        elif event.get("type") == "message_delta":
            message = {**message, **cast(JsonObject, event["delta"]), "usage": event["usage"]}
    for index, text in texts.items():
        content[index]["input"] = _parsed(text)
    return {**message, "content": [*content.values()]}


def _parsed(arguments: str) -> JsonValue:
    """Parse arguments; text that is not JSON stays text, since this protocol has no other form."""
    try:
        return cast(JsonValue, json.loads(arguments or "{}"))
    except ValueError:
        return arguments
