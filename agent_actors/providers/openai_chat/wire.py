"""The chunks of a chat completion as they stand on the wire.

`read_chunks` reads one data line as `Chunk` values: at once if
every field has the type that OpenAI documents, which is nearly always; else by hand, field by
field, so that one odd field costs nothing but itself. What the fields mean is decided in `decode`.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Final, Generic, Literal, TypeAlias, TypeVar, cast

import msgspec

from agent_actors.providers.wire_json import read_json

# JSON as these types name it: the decoder cannot be told of a type that contains itself.
WireObject: TypeAlias = dict[str, object]
# Text; or parts of it, or one part, where an endpoint is odd.
Content: TypeAlias = str | list[object] | WireObject | None


class Function(msgspec.Struct, gc=False):
    """What is called."""

    name: str | None = None
    arguments: str | WireObject | None = None


class ToolCall(msgspec.Struct):
    """A fragment of a tool call."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None
    extra_content: WireObject | None = None


class Delta(msgspec.Struct):
    """What a choice adds; a whole message has the same fields."""

    content: Content = None
    reasoning_content: Content = None
    reasoning: Content = None
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None
    function_call: Function | None = None
    extra_content: WireObject | None = None


class Choice(msgspec.Struct):
    """One of the answers; here there is one, in whatever number of choices it comes."""

    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    usage: WireObject | None = None


class Chunk(msgspec.Struct):
    """One data line of the stream, or a whole completion."""

    id: str | None = None
    model: str | None = None
    choices: list[Choice] | None = None
    usage: WireObject | None = None
    # Any of these may be all that comes if the endpoint failed.
    error: object = None
    message: object = None
    detail: object = None


# What nearly every chunk is, as types: one choice that adds text or a thought, and nothing else.
# Fields that would say more may only say nothing; if one does say more, the chunk fails to decode
# and is read as any other, so that none of them needs to be looked at here.
_No: TypeAlias = Literal[""] | None
_NoCalls: TypeAlias = Annotated[list[object], msgspec.Meta(max_length=0)] | None


class _PlainText(msgspec.Struct, gc=False):
    text: str = msgspec.field(name="content")
    reasoning_content: _No = None
    reasoning: _No = None
    refusal: _No = None
    tool_calls: _NoCalls = None
    function_call: None = None
    extra_content: None = None


class _PlainThought(msgspec.Struct, gc=False):
    text: Annotated[str, msgspec.Meta(min_length=1)] = msgspec.field(name="reasoning_content")
    reasoning: str | None = None  # the same thought under its other name
    content: _No = None
    refusal: _No = None
    tool_calls: _NoCalls = None
    function_call: None = None
    extra_content: None = None


class _PlainReasoning(msgspec.Struct, gc=False):
    text: str = msgspec.field(name="reasoning")
    reasoning_content: _No = None
    content: _No = None
    refusal: _No = None
    tool_calls: _NoCalls = None
    function_call: None = None
    extra_content: None = None


D = TypeVar("D")


class _PlainChoice(msgspec.Struct, Generic[D], gc=False):
    delta: D
    finish_reason: _No = None
    usage: None = None


class _PlainChunk(msgspec.Struct, Generic[D], gc=False):
    choices: tuple[_PlainChoice[D]]
    usage: None = None
    error: None = None


PlainField: TypeAlias = Literal["content", "reasoning_content", "reasoning"]

_PlainDecoder: TypeAlias = (
    msgspec.json.Decoder[_PlainChunk[_PlainText]]
    | msgspec.json.Decoder[_PlainChunk[_PlainThought]]
    | msgspec.json.Decoder[_PlainChunk[_PlainReasoning]]
)

_DECODER: Final = msgspec.json.Decoder(Chunk)
_PLAIN_DECODERS: Final[Mapping[PlainField, _PlainDecoder]] = {
    "content": msgspec.json.Decoder(_PlainChunk[_PlainText]),
    "reasoning_content": msgspec.json.Decoder(_PlainChunk[_PlainThought]),
    "reasoning": msgspec.json.Decoder(_PlainChunk[_PlainReasoning]),
}


def read_plain(field: PlainField, lines: Iterable[bytes]) -> list[str]:
    """What the first data lines add to this field, as far as each adds only that.

    The texts hold no surrogates: a line with one counts as another. So does one that is no UTF-8.
    """
    texts: list[str] = []
    decode = _PLAIN_DECODERS[field].decode
    try:
        for line in lines:
            texts.append(decode(line).choices[0].delta.text)  # noqa: PERF401 - keeps the first
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    return texts


def read_chunks(data: str | bytes) -> list[Chunk]:
    """The chunks of a data line: one; none if it holds another value; each of an array.

    Raises:
        NotJsonError: It is no JSON.
    """
    try:
        return [_DECODER.decode(data)]
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return [_chunk(item) for item in _objects(read_json(data))]


def _chunk(raw: WireObject) -> Chunk:
    return Chunk(
        id=_text(raw, "id"),
        model=_text(raw, "model"),
        choices=[_choice(item) for item in _objects(raw["choices"])] if "choices" in raw else None,
        usage=_object(raw, "usage"),
        error=raw.get("error"),
        message=raw.get("message"),
        detail=raw.get("detail"),
    )


def _choice(raw: WireObject) -> Choice:
    delta, message = _object(raw, "delta"), _object(raw, "message")
    return Choice(
        delta=None if delta is None else _delta(delta),
        message=None if message is None else _delta(message),
        finish_reason=_text(raw, "finish_reason"),
        usage=_object(raw, "usage"),
    )


def _delta(raw: WireObject) -> Delta:
    function_call = _object(raw, "function_call")
    return Delta(
        content=_content(raw, "content"),
        reasoning_content=_content(raw, "reasoning_content"),
        reasoning=_content(raw, "reasoning"),
        refusal=_text(raw, "refusal"),
        tool_calls=[_tool_call(item) for item in _objects(raw.get("tool_calls"))],
        function_call=None if function_call is None else _function(function_call),
        extra_content=_object(raw, "extra_content"),
    )


def _tool_call(raw: WireObject) -> ToolCall:
    function = _object(raw, "function")
    # Some send the function's fields beside `function`, or in its place.
    return ToolCall(
        index=_number(raw, "index"),
        id=_text(raw, "id"),
        function=_function(raw if function is None else function),
        extra_content=_object(raw, "extra_content"),
    )


def _function(raw: WireObject) -> Function:
    arguments = raw.get("arguments")
    if arguments is None or isinstance(arguments, str):
        return Function(_text(raw, "name"), arguments)
    if isinstance(arguments, dict):
        return Function(_text(raw, "name"), cast(WireObject, arguments))
    # Neither text nor an object: kept as text, which assembly turns into an error that shows it.
    return Function(_text(raw, "name"), json.dumps(arguments))


def _text(raw: WireObject, key: str) -> str | None:
    value = raw.get(key)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # ids that are numbers
    return value if isinstance(value, str) else None


def _number(raw: WireObject, key: str) -> int | None:
    value = raw.get(key)
    if isinstance(value, str):
        return int(value) if value.isdecimal() and len(value) < 10 else None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _object(raw: WireObject, key: str) -> WireObject | None:
    value = raw.get(key)
    return cast(WireObject, value) if isinstance(value, dict) else None


def _content(raw: WireObject, key: str) -> Content:
    value = raw.get(key)
    return cast(Content, value) if isinstance(value, str | list | dict) else None


def _objects(value: object) -> list[WireObject]:
    """The objects in a list, or the one that stands in its place."""
    if isinstance(value, dict):
        return [cast(WireObject, value)]
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast(WireObject, item) for item in items if isinstance(item, dict)]
