"""Render a scripted reply as the bytes of an OpenAI-compatible response.

Pure functions that turn a reply and its request into segments. A segment is either bytes to write
at once, or an action between two writes. Adjacent chunks form one segment, so that a server writes
them together. The chunks follow the chat completions API exactly; quirks come from the reply's own
steps and its `transform`.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

import attrs
import msgspec

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
from agent_actors.testing.replies import (
    Chunk,
    Comment,
    Disconnect,
    EndpointRequest,
    InBandError,
    Raw,
    Reply,
    ReplyStep,
    Transform,
)
from agent_actors.testing.script import (
    Action,
    Do,
    Fail,
    Hang,
    Happening,
    Pause,
    Player,
    Wait,
)

Segment: TypeAlias = bytes | Happening | Disconnect
# An item of a stream before it is rendered: a chunk, or anything else that a stream can contain.
Item: TypeAlias = Chunk | Comment | Raw | Disconnect | Happening

_FINISH: Final[dict[FinishReason, str]] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "length": "length",
    "refusal": "refusal",
    "content_filter": "content_filter",
    "refused": "content_filter",
    "paused": "pause_turn",
}
# The usual estimate for English text. A request's body is only slightly longer than its text.
_BYTES_PER_TOKEN: Final = 4


def render(answer: Reply, request: EndpointRequest) -> list[Segment]:
    """Return the segments of the body, in the order in which they are written."""
    if answer.content is not None:
        return [answer.content]
    if not request.streams:
        return _whole(answer, request)
    items = list(_items(answer.steps, request))
    if answer.transform is not None:
        items = transformed(items, answer.transform)
    if answer.done and not ends_early(answer.steps):
        items.append(Raw(b"data: [DONE]%b%b" % ((answer.newline.encode(),) * 2)))
    return list(joined(items, answer.newline.encode(), _frame))


def call_id_for(request: EndpointRequest) -> Callable[[int], str]:
    """Return a function that makes call ids, unique within a session although nothing is stored."""
    count = len(request.messages)
    return lambda slot: f"call_{count}_{slot}"


def encode_json(value: JsonValue) -> bytes:
    """Encode JSON; lone surrogates, which UTF-8 cannot encode, are escaped."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def ends_early(steps: Iterable[ReplyStep]) -> bool:
    """Return whether these steps end the response before its regular end."""
    return any(isinstance(step, Disconnect | InBandError | Hang) for step in steps)


def player_for(request: EndpointRequest) -> Player:
    """Return a player with call ids and a token estimate for this request."""
    return Player(call_id_for(request), len(request.content) // _BYTES_PER_TOKEN)


def _items(steps: Iterable[ReplyStep], request: EndpointRequest) -> Iterator[Item]:
    shape = _Shape(request)
    player = player_for(request)
    yield Chunk(shape.choice({"role": "assistant", "content": ""}))
    for step in steps:
        if isinstance(step, InBandError):
            yield Chunk(step.value)
            return
        if isinstance(step, Disconnect):
            yield step
            return
        if isinstance(step, Chunk | Comment | Raw):
            yield step
        else:
            yield from shape.items(player.actions(step))
    yield from shape.items(player.ending())


@attrs.define(eq=False)
class _Shape:
    """Makes the chunks of one response, and tracks which calls have begun."""

    request: EndpointRequest
    _begun: set[int | None] = attrs.field(factory=set[int | None], init=False)

    def items(self, actions: Iterable[Action]) -> Iterator[Item]:
        for action in actions:
            if isinstance(action, Pause | Wait | Do | Hang | Fail):
                yield action
            else:
                yield from self._chunks(action)

    def choice(self, delta: JsonObject, finish_reason: str | None = None) -> JsonObject:
        return self._envelope(
            [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}]
        )

    def _envelope(self, choices: list[JsonValue], **more: JsonValue) -> JsonObject:
        return {
            "id": f"chatcmpl-{self.request.number}",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": self.request.model,
            "choices": choices,
            **more,
        }

    def _chunks(self, delta: AnswerDelta) -> Iterator[Chunk]:
        if isinstance(delta, TextDelta):
            yield Chunk(self.choice({"content": delta.text}))
        elif isinstance(delta, ThinkingDelta):
            yield Chunk(self.choice({"reasoning_content": delta.text}))
        elif isinstance(delta, ToolCallDelta):
            yield Chunk(self.choice({"tool_calls": [self._fragment(delta)]}))
        elif isinstance(delta, FinishDelta):
            if delta.reason in _FINISH:
                yield Chunk(self.choice({}, _FINISH[delta.reason]))
        elif self.request.wants_usage or not delta.usage.estimated:
            yield Chunk(self._envelope([], usage=_usage(delta.usage)))

    def _fragment(self, delta: ToolCallDelta) -> JsonObject:
        if delta.index in self._begun:
            return {"index": delta.index, "function": {"arguments": delta.arguments}}
        self._begun.add(delta.index)
        named: JsonObject = {"id": delta.id} if delta.id else {}
        return {
            "index": delta.index,
            **named,
            "type": "function",
            "function": {"name": delta.name, "arguments": delta.arguments},
        }


def _usage(usage: Usage) -> JsonObject:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _frame(value: JsonValue, newline: bytes) -> bytes:
    return b"data: %b%b%b" % (encode_json(value), newline, newline)


def transformed(items: list[Item], transform: Transform) -> list[Item]:
    """Apply `transform` to the chunks; items that followed the n-th chunk still follow the n-th."""
    chunks: list[JsonObject] = []
    others: list[tuple[int, Item]] = []
    for item in items:
        if isinstance(item, Chunk) and isinstance(item.value, dict):
            chunks.append(item.value)
        else:
            others.append((len(chunks), item))
    result: list[Item] = [Chunk(value) for value in transform(chunks)]
    last = len(result)
    for place, item in reversed(others):
        result.insert(min(place, last), item)
    return result


def joined(
    items: Iterable[Item], newline: bytes, frame: Callable[[JsonValue, bytes], bytes]
) -> Iterator[Segment]:
    """Render the items as segments; `frame` renders an event from its JSON and the line ending."""
    waiting: list[bytes] = []
    for item in items:
        if isinstance(item, Chunk):
            waiting.append(frame(item.value, newline))
        elif isinstance(item, Comment):
            waiting.append(b":%b%b%b" % (item.text.encode(), newline, newline))
        elif isinstance(item, Raw):
            waiting.append(item.data)
        else:
            if waiting:
                yield b"".join(waiting)
                waiting.clear()
            yield item
    if waiting:
        yield b"".join(waiting)


def _whole(answer: Reply, request: EndpointRequest) -> list[Segment]:
    """Render a response that is not streamed: the actions, then one JSON object."""
    player = player_for(request)
    segments: list[Segment] = []
    gathered = _Gathered()
    for step in answer.steps:
        if isinstance(step, InBandError):
            return [*segments, encode_json(step.value)]
        if isinstance(step, Disconnect):
            return [*segments, step]
        if isinstance(step, Raw):
            segments.append(step.data)
        elif not isinstance(step, Chunk | Comment):
            segments += gathered.take(player.actions(step))
    segments += gathered.take(player.ending())
    completion: list[JsonObject] = [gathered.completion(request)]
    if answer.transform is not None:
        changed = answer.transform(completion)
        return [*segments, b"".join(encode_json(value) for value in changed)]
    return [*segments, encode_json(completion[0])]


@attrs.define(eq=False)
class _Gathered:
    """The collected parts of a response that is not streamed."""

    text: str = ""
    thinking: str = ""
    calls: dict[int, ToolCallDelta] = attrs.Factory(dict[int, ToolCallDelta])
    reason: str | None = None
    usage: Usage = Usage()

    def take(self, actions: Iterable[Action]) -> Iterator[Happening]:
        for action in actions:
            if isinstance(action, Pause | Wait | Do | Hang | Fail):
                yield action
            else:
                self._add(action)

    def _add(self, delta: AnswerDelta) -> None:
        if isinstance(delta, TextDelta):
            self.text += delta.text
        elif isinstance(delta, ThinkingDelta):
            self.thinking += delta.text
        elif isinstance(delta, ToolCallDelta):
            self._add_fragment(delta)
        elif isinstance(delta, FinishDelta):
            self.reason = _FINISH.get(delta.reason)
        else:
            self.usage = delta.usage

    def _add_fragment(self, delta: ToolCallDelta) -> None:
        slot = delta.index or 0
        so_far = self.calls[slot].arguments if slot in self.calls else ""
        self.calls[slot] = msgspec.structs.replace(delta, arguments=f"{so_far}{delta.arguments}")

    def completion(self, request: EndpointRequest) -> JsonObject:
        message: JsonObject = {"role": "assistant", "content": self.text or None}
        if self.thinking:
            message["reasoning_content"] = self.thinking
        if self.calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in self.calls.values()
            ]
        return {
            "id": f"chatcmpl-{request.number}",
            "object": "chat.completion",
            "created": 0,
            "model": request.model,
            "choices": [{"index": 0, "message": message, "finish_reason": self.reason}],
            "usage": _usage(self.usage),
        }
