"""Requests to a scripted endpoint, and the replies that it can send.

A reply is a value: the steps of a turn (see `agent_actors.testing.script`) and every failure that
may happen on the way to a client. Some steps exist only over HTTP (`chunk`, `comment`, `raw`,
`disconnect`, `in_band_error`); they can be mixed with the others. `_wire.py` renders a reply as
bytes.
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
# The way in which the client finds the end of the body: by the chunked encoding, by its length, or
# by the end of the connection.
Framing: TypeAlias = Literal["chunked", "length", "close"]
Protocol: TypeAlias = Literal["chat", "messages"]


@attrs.frozen
class Chunk:
    """An event with this JSON as its data; made by `chunk`."""

    value: JsonValue


@attrs.frozen
class Comment:
    """A comment in the event stream; made by `comment`."""

    text: str


@attrs.frozen
class Raw:
    """Bytes that are sent unchanged; made by `raw`."""

    data: bytes


@attrs.frozen
class Disconnect:
    """The end of the connection; made by `disconnect`."""

    reset: bool


@attrs.frozen
class InBandError:
    """An error inside the body that ends the response; made by `in_band_error`."""

    value: JsonValue


WireStep: TypeAlias = Chunk | Comment | Raw | Disconnect | InBandError
ReplyStep: TypeAlias = Step | WireStep
Transform: TypeAlias = Callable[[list[JsonObject]], Iterable[JsonValue]]


def chunk(value: JsonValue) -> Chunk:
    """Send an additional event in the stream, with this JSON as its data."""
    return Chunk(value)


def comment(text: str = " keep-alive") -> Comment:
    """Send a comment line, `:` and this text, as endpoints do to keep the connection alive."""
    return Comment(text)


def raw(data: bytes) -> Raw:
    """Send these bytes in the body, unchanged."""
    return Raw(data)


def disconnect(*, reset: bool = False) -> Disconnect:
    """End the connection here with FIN, or RST if `reset`; the response stays incomplete."""
    return Disconnect(reset)


def in_band_error(message: str, *, code: str | int | None = None) -> InBandError:
    """Report an error inside a response with status 200. The response ends after the error."""
    return InBandError({"error": {"message": message, "type": "server_error", "code": code}})


@attrs.frozen
class Reply:
    """One response. Use `reply`, `status`, `body` and the other functions to make it.

    Attributes:
        steps: The turn, unless `content` is given.
        content: The complete body, instead of a turn.
        silent: True if the endpoint sends nothing at all.
        bare: True if `content` replaces the complete HTTP response, including its headers.
        status: The HTTP status.
        headers: Additional headers; a header with the same name replaces the endpoint's own.
        transform: Changes the list of chunks.
        newline: The line ending of the event stream.
        done: True if the stream signals its end, with `data: [DONE]` or `message_stop`.
        framing: The way in which the client finds the end of the body.
        delay: Seconds before the headers are sent.
        split: Sizes of the writes to the socket, in bytes.
        cut: Bytes after which the connection ends; None: the connection does not end.
        reset: True if the connection then ends with RST.
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
    """Respond with a turn, as a stream or as one document, as the request asks.

    Args:
        steps: The turn; a str is short for `say`. Without steps, the response is empty.
        transform: Called with the list of chunks that the endpoint would send. The chunks that it
            returns are sent instead; it may change, add or remove chunks, or return any other
            JSON. Pauses and similar steps follow the same number of chunks as before.
        newline: The line ending of the event stream.
        done: Whether the stream signals its end: with `data: [DONE]`, or with `message_stop` in
            Anthropic's protocol.
        framing: `chunked`, `length` (the complete body is made before the headers are sent) or
            `close`.
        headers: Additional headers; a header with the same name replaces the endpoint's own.
        delay: Seconds before the headers are sent.
        split: Sizes of the writes to the socket, in bytes, used cyclically: `[1]` writes byte by
            byte.

    Raises:
        TypeError: A step cannot be sent over HTTP (`fail`), or is not a step.
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
    """Respond with this status.

    Args:
        code: The HTTP status.
        content: The body. Bytes and text are sent unchanged; other JSON is encoded. None: an error
            object as OpenAI-compatible endpoints send it, with the usual phrase for the status.
        headers: Additional headers, such as `{"retry-after": "2"}`.
        delay: Seconds before the headers are sent.
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
    """Respond with this body, which may be anything.

    Args:
        content: The body.
        content_type: The Content-Type header.
        status: The HTTP status.
        headers: Additional headers; a header with the same name replaces the endpoint's own.
        framing: The way in which the client finds the end of the body.
        delay: Seconds before the headers are sent.
        split: Sizes of the writes to the socket, in bytes, used cyclically.

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
    """Respond with a web page, as proxies and login pages do."""
    return body(content.encode(), "text/html; charset=utf-8", status=status)


def silent() -> Reply:
    """Read the request and send nothing until the client disconnects."""
    return Reply(silent=True)


def hang_up(*, reset: bool = False) -> Reply:
    """Read the request and end the connection without a response, with FIN, or RST if `reset`."""
    return Reply(content=b"", bare=True, cut=0, reset=reset)


def not_http(content: bytes = b"SSH-2.0-OpenSSH_9.6\r\n") -> Reply:
    """Send these bytes instead of an HTTP response, then end the connection."""
    return Reply(content=content, bare=True, cut=len(content))


def disconnect_after(size: int, answer: Reply, *, reset: bool = False) -> Reply:
    """Send the first `size` bytes of a reply, then end the connection.

    Args:
        size: The number of bytes, counted from the first byte of the status line, including headers
            and framing.
        answer: The reply to cut off. A shorter reply is sent completely, and the connection stays
            open.
        reset: True: end with RST instead of FIN.

    Raises:
        ValueError: `size` is negative.
    """
    if size < 0:
        raise ValueError(f"size must not be negative, got {size}")
    return attrs.evolve(answer, cut=size, reset=reset)


@attrs.frozen
class EndpointRequest:
    """A request that the endpoint received.

    Attributes:
        number: The number of requests before this one.
        connection: The number of its connection, counted from 0. Requests on the same connection
            have the same number.
        method: The HTTP method, for example `POST`.
        path: The requested path, including the query.
        headers: The headers, with names in lower case.
        body: The JSON object of the body; empty if the body is not a JSON object.
        content: The body as it was received.
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
        """The requested model; empty if the request does not name a model."""
        model = self.body.get("model")
        return model if isinstance(model, str) else ""

    @property
    def protocol(self) -> Protocol:
        """The protocol of the request: `messages` is Anthropic's, `chat` is chat completions."""
        return "messages" if "/messages" in self.path.partition("?")[0] else "chat"

    @property
    def streams(self) -> bool:
        """True if the client requests a stream."""
        return self.body.get("stream") is True

    @property
    def wants_usage(self) -> bool:
        """True if the client requests usage in the stream."""
        options = self.body.get("stream_options")
        return isinstance(options, dict) and options.get("include_usage") is True

    @property
    def messages(self) -> list[JsonObject]:
        """The conversation, in the form of the protocol."""
        return _objects(self.body.get("messages"))

    @property
    def new_results(self) -> list[JsonObject]:
        """The tool messages at the end of the conversation, with results of the last calls.

        Anthropic's results are converted to the same form: `tool_call_id` and `content`.
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
        """The names of the tools that the request offers."""
        return list(self.tool_schemas)

    @property
    def tool_schemas(self) -> dict[str, JsonObject]:
        """The JSON Schemas of the tools' arguments, by tool name; `{}` if a tool has none."""
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
            parts = self._last_parts("text") or self.new_results[-1:]
            return "".join(_text_of(part.get("text", part.get("content"))) for part in parts)
        return content if isinstance(content, str) else ""

    def _last_parts(self, kind: str) -> list[JsonObject]:
        """Return the parts of this kind in the last message."""
        messages = self.messages
        parts = _objects(messages[-1].get("content")) if messages else []
        return [part for part in parts if part.get("type") == kind]


def _objects(value: JsonValue) -> list[JsonObject]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _functions(tools: Sequence[JsonObject]) -> list[JsonObject]:
    return _objects([tool.get("function") for tool in tools])


def _as_tool_message(part: JsonObject) -> JsonObject:
    """Convert a tool result of Anthropic's protocol to a tool message of chat completions."""
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
            "fail(...) cannot be sent over HTTP; "
            "use status(...), disconnect() or in_band_error(...)"
        )
    if not isinstance(one, ReplyStep):
        raise TypeError(f"expected a step or a text, got {one!r}")
    return one


def _sizes(split: Sequence[int]) -> tuple[int, ...]:
    if any(size < 1 for size in split):
        raise ValueError(f"sizes in split must be at least 1, got {list(split)}")
    return tuple(split)


def _phrase(code: int) -> str:
    try:
        return HTTPStatus(code).phrase
    except ValueError:
        return f"Status {code}"
