"""What a scripted endpoint was asked, and the replies it can give.

A reply is a value: the steps of a turn (see `agent_actors.testing.script`) and everything that may
go wrong on the way to a client. Steps that exist only on a wire (`chunk`, `comment`, `raw`,
`disconnect`, `in_band_error`) stand among the others. How a reply becomes bytes is `_wire.py`'s.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Final, Literal, TypeAlias, get_args

import attrs
import msgspec

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.testing.script import Fail, Step, say

NEWLINES: Final = ("\n", "\r\n", "\r")

Newline: TypeAlias = Literal["\n", "\r\n", "\r"]
# How the client learns where the body ends: by the chunked encoding, by its length, or by the
# end of the connection.
Framing: TypeAlias = Literal["chunked", "length", "close"]
Protocol: TypeAlias = Literal["chat", "messages"]


@attrs.frozen
class Chunk:
    """An event with this JSON as its data; made by `chunk`."""

    value: JsonValue


@attrs.frozen
class Comment:
    """A comment of the event stream; made by `comment`."""

    text: str


@attrs.frozen
class Raw:
    """These bytes, as they are; made by `raw`."""

    data: bytes


@attrs.frozen
class Disconnect:
    """The connection ends here; made by `disconnect`."""

    reset: bool


@attrs.frozen
class InBandError:
    """The endpoint tells of an error and ends the answer; made by `in_band_error`."""

    value: JsonValue


WireStep: TypeAlias = Chunk | Comment | Raw | Disconnect | InBandError
ReplyStep: TypeAlias = Step | WireStep
Transform: TypeAlias = Callable[[list[JsonObject]], Iterable[JsonValue]]


def chunk(value: JsonValue) -> Chunk:
    """One more event of the stream, with this JSON as its data."""
    return Chunk(value)


def comment(text: str = " keep-alive") -> Comment:
    """A comment line, as endpoints send to keep the connection alive: `:` and this text."""
    return Comment(text)


def raw(data: bytes) -> Raw:
    """These bytes in the body, as they are."""
    return Raw(data)


def disconnect(*, reset: bool = False) -> Disconnect:
    """The connection ends here, in order (FIN) or reset (RST); the answer stays unfinished."""
    return Disconnect(reset)


def in_band_error(message: str, *, code: str | int | None = None) -> InBandError:
    """An error told inside a response of status 200; nothing follows it."""
    return InBandError({"error": {"message": message, "type": "server_error", "code": code}})


@attrs.frozen
class Reply:
    """One response; made by `reply`, `status`, `body` and the others, never by hand.

    Attributes:
        steps: The turn, if the answer is streamed.
        content: The whole body instead.
        silent: Nothing is answered at all.
        bare: `content` stands in place of a whole HTTP response, head included.
        status: The HTTP status.
        headers: Further headers; one of the same name replaces the endpoint's own.
        transform: Changes the list of chunks.
        newline: Ends the lines of the event stream.
        done: Whether the stream says that it ends: `data: [DONE]`, or `message_stop`.
        framing: How the client learns where the body ends.
        delay: Seconds before the head.
        split: Sizes of the writes.
        cut: Bytes after which the connection ends; None: none.
        reset: It then ends by RST.
    """

    steps: tuple[ReplyStep, ...] = ()
    content: bytes | None = None
    silent: bool = False
    bare: bool = False
    status: int = 200
    headers: Mapping[str, str] = attrs.Factory(dict[str, str])
    transform: Transform | None = None
    newline: Newline = "\n"
    done: bool = True
    framing: Framing = "chunked"
    delay: float = 0.0
    split: tuple[int, ...] = ()
    cut: int | None = None
    reset: bool = False


def reply(
    *steps: str | ReplyStep,
    transform: Transform | None = None,
    newline: Newline = "\n",
    done: bool = True,
    framing: Framing = "chunked",
    headers: Mapping[str, str] | None = None,
    delay: float = 0.0,
    split: Sequence[int] = (),
) -> Reply:
    """The model answers: a turn, streamed as the request asks, or whole if it asks so.

    Args:
        steps: The turn; a str is said. With none, the model says nothing.
        transform: Called with the list of the answer's chunks as the endpoint would send them;
            what it returns is sent instead: chunks changed, added, left out, or any other JSON.
            Pauses and the like stay behind as many chunks as before.
        newline: Ends the lines of the event stream.
        done: Whether the stream says that it ends: by `data: [DONE]`, in Anthropic's protocol by
            `message_stop`.
        framing: `chunked`, `length` (the whole body is made before the head) or `close`.
        headers: Further headers; one of the same name replaces the endpoint's own.
        delay: Seconds before the head.
        split: Sizes of the writes to the socket, taken in turns: `[1]` is byte by byte.

    Raises:
        TypeError: A step has no form on a wire (`fail`), or is none at all.
        ValueError: `newline` or `framing` is unknown, or a size in `split` is below 1.
    """
    found = tuple(_step(one) for one in steps)
    if newline not in NEWLINES:
        raise ValueError(f"newline must be one of {NEWLINES}, got {newline!r}")
    if framing not in get_args(Framing):
        raise ValueError(f"framing must be one of {get_args(Framing)}, got {framing!r}")
    return Reply(
        steps=found,
        transform=transform,
        newline=newline,
        done=done,
        framing=framing,
        headers=dict(headers or {}),
        delay=delay,
        split=_sizes(split),
    )


def status(
    code: int,
    content: JsonValue | bytes = None,
    *,
    headers: Mapping[str, str] | None = None,
    delay: float = 0.0,
) -> Reply:
    """An answer with this status.

    Args:
        code: The HTTP status.
        content: The body: bytes or a text are sent as they are, other JSON is encoded. None: an
            error object as OpenAI-compatible endpoints send, with the status' usual phrase.
        headers: Further headers, such as `{"retry-after": "2"}`.
        delay: Seconds before the head.
    """
    if content is None:
        phrase = _phrase(code)
        content = {"error": {"message": phrase, "type": "error", "code": code}}
    if isinstance(content, str):
        return body(content.encode(), "text/plain", status=code, headers=headers, delay=delay)
    if not isinstance(content, bytes):
        content = msgspec.json.encode(content)
    return body(content, "application/json", status=code, headers=headers, delay=delay)


def body(
    content: bytes,
    content_type: str = "text/event-stream",
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    framing: Framing = "length",
    delay: float = 0.0,
    split: Sequence[int] = (),
) -> Reply:
    """An answer with this body, whatever it is.

    Args:
        content: The body.
        content_type: What the answer says that it is.
        status: The HTTP status.
        headers: Further headers; one of the same name replaces the endpoint's own.
        framing: How the client learns where the body ends.
        delay: Seconds before the head.
        split: Sizes of the writes to the socket, taken in turns.

    Raises:
        ValueError: A size in `split` is below 1.
    """
    return Reply(
        content=content,
        status=status,
        headers={"content-type": content_type, **(headers or {})},
        framing=framing,
        delay=delay,
        split=_sizes(split),
    )


def html(content: str = "<html><body>Bad gateway</body></html>", *, status: int = 200) -> Reply:
    """A web page, as proxies and login pages answer."""
    return body(content.encode(), "text/html; charset=utf-8", status=status)


def silent() -> Reply:
    """The request is read and nothing is answered, until the client goes."""
    return Reply(silent=True)


def hang_up(*, reset: bool = False) -> Reply:
    """The request is read and the connection ends without an answer, in order or reset."""
    return Reply(content=b"", bare=True, cut=0, reset=reset)


def not_http(content: bytes = b"SSH-2.0-OpenSSH_9.6\r\n") -> Reply:
    """These bytes in place of an HTTP response; then the connection ends."""
    return Reply(content=content, bare=True, cut=len(content))


def disconnect_after(size: int, answer: Reply, *, reset: bool = False) -> Reply:
    """That answer, until `size` bytes of it were sent; then the connection ends.

    Args:
        size: Counted from the first byte of the status line, head and framing included.
        answer: What is cut off. If it is shorter, it is sent whole, and the connection stays.
        reset: End by RST, not in order.

    Raises:
        ValueError: `size` is negative.
    """
    if size < 0:
        raise ValueError(f"size must not be negative, got {size}")
    return attrs.evolve(answer, cut=size, reset=reset)


@attrs.frozen
class EndpointRequest:
    """A request that the endpoint got.

    Attributes:
        number: How many requests came before it.
        connection: The number of its connection, counted from 0: the same for those that share
            one.
        method: Such as `POST`.
        path: The path that was asked, query included.
        headers: Names in lower case.
        body: The JSON object of the body; empty if it is none.
        content: The body as it came.
    """

    number: int
    connection: int
    method: str
    path: str
    headers: Mapping[str, str]
    body: JsonObject
    content: bytes

    @property
    def model(self) -> str:
        """The model that is asked; empty if none is named."""
        model = self.body.get("model")
        return model if isinstance(model, str) else ""

    @property
    def protocol(self) -> Protocol:
        """Which protocol it speaks: `messages` is Anthropic's, `chat` is chat completions."""
        return "messages" if "/messages" in self.path.partition("?")[0] else "chat"

    @property
    def streams(self) -> bool:
        """True if the answer is wanted as a stream."""
        return self.body.get("stream") is True

    @property
    def wants_usage(self) -> bool:
        """True if the stream is to tell its usage."""
        options = self.body.get("stream_options")
        return isinstance(options, dict) and options.get("include_usage") is True

    @property
    def messages(self) -> list[JsonObject]:
        """The conversation, in the wire's form."""
        return _objects(self.body.get("messages"))

    @property
    def new_results(self) -> list[JsonObject]:
        """The tool messages at the conversation's end: what the last answer's calls gave back.

        Anthropic's results are told in the same form: `tool_call_id` and `content`.
        """
        if self.protocol == "messages":
            return [_as_tool_message(part) for part in self._last_parts("tool_result")]
        found: list[JsonObject] = []
        for message in reversed(self.messages):
            if message.get("role") != "tool":
                break
            found.insert(0, message)
        return found

    @property
    def tool_names(self) -> list[str]:
        """The names of the tools on offer."""
        return list(self.tool_schemas)

    @property
    def tool_schemas(self) -> dict[str, JsonObject]:
        """The JSON Schemas of the tools' arguments, by the tools' names; empty where none is."""
        tools = _objects(self.body.get("tools"))
        anthropic = self.protocol == "messages"
        found: dict[str, JsonObject] = {}
        for one in tools if anthropic else _functions(tools):
            schema = one.get("input_schema" if anthropic else "parameters")
            if isinstance(name := one.get("name"), str):
                found[name] = schema if isinstance(schema, dict) else {}
        return found

    @property
    def last_content(self) -> str:
        """The text of the last message; empty if there is none."""
        messages = self.messages
        content = messages[-1].get("content") if messages else ""
        if self.protocol == "messages" and not isinstance(content, str):
            said = self._last_parts("text") or self.new_results[-1:]
            return "".join(_text_of(part.get("text", part.get("content"))) for part in said)
        return content if isinstance(content, str) else ""

    def _last_parts(self, kind: str) -> list[JsonObject]:
        """The parts of this kind in the last message."""
        messages = self.messages
        parts = _objects(messages[-1].get("content")) if messages else []
        return [part for part in parts if part.get("type") == kind]


def _objects(value: JsonValue) -> list[JsonObject]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _functions(tools: Sequence[JsonObject]) -> list[JsonObject]:
    return _objects([tool.get("function") for tool in tools])


def _as_tool_message(part: JsonObject) -> JsonObject:
    """A result of Anthropic's as a tool message of chat completions."""
    return {
        "role": "tool",
        "tool_call_id": part.get("tool_use_id"),
        "content": _text_of(part.get("content")),
    }


def _text_of(content: JsonValue) -> str:
    if isinstance(content, str):
        return content
    return "".join(_text_of(part.get("text")) for part in _objects(content))


def _step(one: object) -> ReplyStep:
    if isinstance(one, str):
        return say(one)
    if isinstance(one, Fail):
        raise TypeError(
            "fail(...) has no form on a wire: use status(...), disconnect() or in_band_error(...)"
        )
    if not isinstance(one, ReplyStep):
        raise TypeError(f"expected a step or a text, got {one!r}")
    return one


def _sizes(split: Sequence[int]) -> tuple[int, ...]:
    if any(size < 1 for size in split):
        raise ValueError(f"sizes of writes must be at least 1, got {list(split)}")
    return tuple(split)


def _phrase(code: int) -> str:
    try:
        return HTTPStatus(code).phrase
    except ValueError:
        return f"Status {code}"
