"""The chunks of a chat completion in their wire format.

`read_chunks` parses one data line into `Chunk` values. The fast path works if every field has the
type that OpenAI documents, which is almost always the case. Otherwise the fields are parsed one by
one, so that only the invalid fields are lost. `decode` interprets the fields.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Final, Generic, Literal, TypeAlias, TypeVar, cast

import msgspec

from agent_actors.codec.json_text import check_depth, read_json
from agent_actors.domain.json import MAX_DOCUMENT_DEPTH, nests_deeper
from agent_actors.providers.wire_json import (
    FieldReader,
    WireObject,
    json_in,
    number_in,
    object_in,
    text_in,
)

# Text. Some endpoints send a list of parts, or a single part.
Content: TypeAlias = str | list[object] | WireObject | None


class Function(msgspec.Struct, gc=False):
    """The function of a tool call."""

    name: str | None = None
    arguments: str | WireObject | None = None


class ToolCall(msgspec.Struct):
    """A fragment of a tool call."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None
    extra_content: WireObject | None = None


class Delta(msgspec.Struct):
    """The `delta` of a choice. A complete message has the same fields."""

    content: Content = None
    reasoning_content: Content = None
    reasoning: Content = None
    reasoning_details: list[object] | None = None
    images: list[object] | None = None
    audio: WireObject | None = None
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None
    function_call: Function | None = None
    extra_content: WireObject | None = None


class Choice(msgspec.Struct):
    """A choice. All choices of a chunk are treated as parts of the same response."""

    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    usage: WireObject | None = None
    content_filter_results: WireObject | None = None
    error: object = None


class Chunk(msgspec.Struct):
    """One data line of the stream, or a complete response."""

    id: str | None = None
    model: str | None = None
    choices: list[Choice] | None = None
    usage: WireObject | None = None
    # Groq's own fields: token counts, and the reason why Groq stopped a stream early.
    x_groq: WireObject | None = None
    # If the endpoint failed, any of these fields may be the only field of the chunk.
    error: object = None
    message: object = None
    detail: object = None


# The types for almost every chunk: one choice that adds text or thinking, and nothing else. All
# other fields must be empty. If another field has content, decoding fails, and the chunk is parsed
# in the general way. The decoder therefore need not check these fields.
_No: TypeAlias = Literal[""] | None
_NoItems: TypeAlias = Annotated[list[object], msgspec.Meta(max_length=0)] | None


class _PlainText(msgspec.Struct, gc=False):
    text: str = msgspec.field(name="content")
    reasoning_content: _No = None
    reasoning: _No = None
    refusal: _No = None
    reasoning_details: _NoItems = None
    images: _NoItems = None
    audio: None = None
    tool_calls: _NoItems = None
    function_call: None = None
    extra_content: None = None


class _PlainThought(msgspec.Struct, gc=False):
    text: Annotated[str, msgspec.Meta(min_length=1)] = msgspec.field(name="reasoning_content")
    reasoning: str | None = None  # the same thinking under a different name
    content: _No = None
    refusal: _No = None
    reasoning_details: _NoItems = None
    images: _NoItems = None
    audio: None = None
    tool_calls: _NoItems = None
    function_call: None = None
    extra_content: None = None


class _FragmentText(msgspec.Struct, gc=False):
    arguments: Annotated[str, msgspec.Meta(min_length=1)]
    name: _No = None


class _Fragment(msgspec.Struct, gc=False):
    index: Annotated[int, msgspec.Meta(ge=0)]
    function: _FragmentText
    id: _No = None
    extra_content: None = None


class _PlainFragment(msgspec.Struct, gc=False):
    tool_calls: tuple[_Fragment]
    content: _No = None
    reasoning_content: _No = None
    reasoning: _No = None
    refusal: _No = None
    reasoning_details: _NoItems = None
    images: _NoItems = None
    audio: None = None
    function_call: None = None
    extra_content: None = None


class _PlainReasoning(msgspec.Struct, gc=False):
    text: str = msgspec.field(name="reasoning")
    reasoning_content: _No = None
    content: _No = None
    refusal: _No = None
    reasoning_details: _NoItems = None
    images: _NoItems = None
    audio: None = None
    tool_calls: _NoItems = None
    function_call: None = None
    extra_content: None = None


D = TypeVar("D")


class _PlainChoice(msgspec.Struct, Generic[D], gc=False):
    delta: D
    finish_reason: _No = None
    usage: None = None
    content_filter_results: None = None
    error: None = None


class _PlainChunk(msgspec.Struct, Generic[D], gc=False):
    choices: tuple[_PlainChoice[D]]
    usage: None = None
    x_groq: None = None
    error: None = None


PlainField: TypeAlias = Literal["content", "reasoning_content", "reasoning"]

_PlainDecoder: TypeAlias = (
    msgspec.json.Decoder[_PlainChunk[_PlainText]]
    | msgspec.json.Decoder[_PlainChunk[_PlainThought]]
    | msgspec.json.Decoder[_PlainChunk[_PlainReasoning]]
)

_DECODER: Final = msgspec.json.Decoder(Chunk)
_FRAGMENT_DECODER: Final = msgspec.json.Decoder(_PlainChunk[_PlainFragment])
_PLAIN_DECODERS: Final[Mapping[PlainField, _PlainDecoder]] = {
    "content": msgspec.json.Decoder(_PlainChunk[_PlainText]),
    "reasoning_content": msgspec.json.Decoder(_PlainChunk[_PlainThought]),
    "reasoning": msgspec.json.Decoder(_PlainChunk[_PlainReasoning]),
}


def read_plain(field: PlainField, lines: Iterable[bytes]) -> list[str]:
    """Return the texts that the first lines add to this field, until a line does anything else.

    The texts contain no surrogates: a line with a surrogate or with invalid UTF-8 also ends
    the texts.
    """
    texts: list[str] = []
    decode = _PLAIN_DECODERS[field].decode
    try:
        for line in lines:
            if nests_deeper(line, MAX_DOCUMENT_DEPTH):
                break
            # msgspec does not check the UTF-8 of fields that it skips; the general parser does.
            if not line.isascii():
                line.decode()
            texts.append(decode(line).choices[0].delta.text)
    except (msgspec.DecodeError, UnicodeError):
        pass
    return texts


def read_fragments(index: int, lines: Iterable[bytes]) -> list[str]:
    """Return what the first lines add to the arguments of a call, until a line does anything else.

    The fragments are not empty and contain no surrogates, as the texts of `read_plain`.

    Args:
        index: The index of the call.
        lines: The data lines.
    """
    pieces: list[str] = []
    decode = _FRAGMENT_DECODER.decode
    try:
        for line in lines:
            if nests_deeper(line, MAX_DOCUMENT_DEPTH):
                break
            if not line.isascii():
                line.decode()
            fragment = decode(line).choices[0].delta.tool_calls[0]
            if fragment.index != index:
                break
            pieces.append(fragment.function.arguments)
    except (msgspec.DecodeError, UnicodeError):
        pass
    return pieces


def read_chunks(data: str | bytes, lost: list[str]) -> list[Chunk]:
    """Parse a data line into one chunk, no chunk (`null`), or one chunk per item of an array.

    Args:
        data: The line.
        lost: Receives the names of the fields whose values could not be read.

    Raises:
        NotJsonError: The line is not JSON.
    """
    check_depth(data)
    try:
        return [_DECODER.decode(data)]
    except (msgspec.DecodeError, UnicodeError):
        reader = _ChunkReader(lost)
        return [reader.chunk(item) for item in reader.objects(read_json(data), "the line")]


class _ChunkReader(FieldReader):
    """Reads the fields of chunks."""

    def chunk(self, raw: WireObject) -> Chunk:
        choices = raw.get("choices")
        return Chunk(
            id=text_in(raw, "id") or None,
            model=text_in(raw, "model") or None,
            choices=[self._choice(item) for item in self.objects(choices, "choices")]
            if "choices" in raw
            else None,
            usage=object_in(raw, "usage"),
            x_groq=object_in(raw, "x_groq"),
            error=raw.get("error"),
            message=raw.get("message"),
            detail=raw.get("detail"),
        )

    def _choice(self, raw: WireObject) -> Choice:
        delta = self.object(raw, "delta")
        message = self.object(raw, "message") if delta is None else None
        return Choice(
            delta=None if delta is None else self._delta(delta),
            message=None if message is None else self._delta(message),
            finish_reason=self._text(raw, "finish_reason"),
            usage=object_in(raw, "usage"),
            content_filter_results=object_in(raw, "content_filter_results"),
            error=raw.get("error"),
        )

    def _delta(self, raw: WireObject) -> Delta:
        function_call = self.object(raw, "function_call")
        return Delta(
            content=self._content(raw, "content"),
            reasoning_content=self._content(raw, "reasoning_content"),
            reasoning=self._content(raw, "reasoning"),
            reasoning_details=self._list(raw, "reasoning_details"),
            images=self._list(raw, "images"),
            audio=self.object(raw, "audio"),
            refusal=self._text(raw, "refusal"),
            tool_calls=[
                self._tool_call(item) for item in self.objects(raw.get("tool_calls"), "tool_calls")
            ],
            function_call=None if function_call is None else self._function(function_call),
            extra_content=object_in(raw, "extra_content"),
        )

    def _tool_call(self, raw: WireObject) -> ToolCall:
        function = self.object(raw, "function")
        # Some endpoints send the fields of the function alongside `function`, or instead of it.
        call_id = self._text(raw, "id")
        return ToolCall(
            # The id identifies the call, so nothing is lost if the index cannot be read.
            index=number_in(raw, "index") if call_id else self.number(raw, "index"),
            id=call_id,
            function=self._function(raw if function is None else function),
            extra_content=object_in(raw, "extra_content"),
        )

    def _function(self, raw: WireObject) -> Function:
        return Function(self._text(raw, "name"), json_in(raw, "arguments"))

    def _text(self, raw: WireObject, key: str) -> str | None:
        return self.checked(raw, key, text_in(raw, key) or None)

    def _list(self, raw: WireObject, key: str) -> list[object] | None:
        value = raw.get(key)
        return self.checked(
            raw, key, cast("list[object]", value) if isinstance(value, list) else None
        )

    def _content(self, raw: WireObject, key: str) -> Content:
        value = raw.get(key)
        found = cast(Content, value) if isinstance(value, str | list | dict) else None
        self.checked(raw, key, found)
        return found
