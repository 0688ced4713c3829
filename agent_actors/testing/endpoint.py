"""A real HTTP/1.1 server on loopback that answers as a model's endpoint would, in two protocols.

Owns a listening socket, a task per connection and one that paces their writes, all inside the
`async with` that opens it: when that is left, nothing is left. It answers from a script, misbehaves
exactly as the script says, and counts what its clients hold open, so that a test can show that they
hold nothing. What a reply is stands in `replies.py`, its bytes in `_wire.py` and, for Anthropic's
protocol, in `_wire_messages.py`, HTTP in `_http.py`.

It works on real sockets, hence under the real clock only: a virtual clock that jumps ahead when
no task is ready would jump while bytes are under way.
"""

import contextlib
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from types import TracebackType
from typing import Final, Self, TypeAlias, assert_never, cast

import msgspec
import trio

from agent_actors.domain.json import JsonObject
from agent_actors.testing import _http
from agent_actors.testing._http import BadRequest, ClientGone, Connection, HangUp, Writer
from agent_actors.testing._pacer import Beat, Pacer
from agent_actors.testing._wire import Segment, encode_json, render
from agent_actors.testing._wire_messages import counted, render_messages
from agent_actors.testing.model import ScriptExhausted
from agent_actors.testing.replies import (
    Disconnect,
    EndpointRequest,
    Framing,
    Reply,
    ReplyStep,
    body,
    reply,
    status,
)
from agent_actors.testing.script import Do, Fail, Hang, Pause, Wait

ReplyTurn: TypeAlias = Reply | str | ReplyStep | Sequence[ReplyStep]
EndpointScript: TypeAlias = Sequence[ReplyTurn] | Callable[[EndpointRequest], ReplyTurn]

# Thousands of clients may connect in one tick; the kernel lowers it to its own limit.
_BACKLOG: Final = 4096
_LOOPBACK: Final = "127.0.0.1"
# Seconds. In a longer pause a client that leaves is noticed at once, else within two such pauses.
_SHORT_PAUSE: Final = 0.1
_NO_BODY: Final = {"content-length": "0", "connection": "close"}


class ScriptedEndpoint:
    """An endpoint on loopback that answers from a script.

    It serves `POST …/chat/completions` as OpenAI-compatible endpoints do and `POST …/messages` as
    Anthropic's does (streamed, or whole if the request asks so), both from the same script, and
    beside it `GET …/models` and `POST …/messages/count_tokens`, which counts a token for every four
    bytes of the request; other paths are 404. Opened by `async with`, under the real clock.

    Args:
        script: Replies, taken in order by whoever asks, each once; a text or a turn stands for
            `reply(...)` of it. Or a function of the request, called for each: it can serve any
            number of sessions, telling them apart by their messages.
        port: The port to listen on; 0: any that is free.
        models: The names that `GET …/models` tells.
        listening: False: the port is held but refuses every connection.

    Attributes:
        requests: What it was asked, in order; requests for other paths too.
        connections: How many connections it accepted so far.
        open_connections: How many are open now.
        live_responses: How many responses are under way now.
        peak_live: The most that were under way at once.

    Raises:
        ScriptExhausted: On leaving, if more was asked than the script has; the client got 500.
        Exception: On leaving, what a script's function raised; the client got 500.

    Example:
        ```python
        async with ScriptedEndpoint([reply(call("now")), status(429), "It is noon."]) as endpoint:
            options = AgentOptions(model="any", base_url=endpoint.base_url)
        ```
    """

    def __init__(
        self,
        script: EndpointScript,
        *,
        port: int = 0,
        models: Sequence[str] = ("scripted",),
        listening: bool = True,
    ) -> None:
        self._script = script
        self._port = port
        self._models = tuple(models)
        self._listening = listening
        self._asked = 0
        self._failures: list[Exception] = []
        self._changed = trio.lowlevel.ParkingLot()
        self._pacer = Pacer()
        self._listener: socket.socket | None = None
        self._tasks: AbstractAsyncContextManager[trio.Nursery] | None = None
        self._nursery: trio.Nursery | None = None
        self.requests: list[EndpointRequest] = []
        self.connections: int = 0
        self.open_connections: int = 0
        self.live_responses: int = 0
        self.peak_live: int = 0

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._port

    @property
    def base_url(self) -> str:
        """The URL that clients are given: `http://127.0.0.1:<port>/v1`."""
        return f"http://{_LOOPBACK}:{self._port}/v1"

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            OSError: The port is taken.
            RuntimeError: It was opened before.
        """
        if self._nursery is not None:
            raise RuntimeError("an endpoint is opened once; make another one")
        listener = socket.socket()
        try:
            listener.setblocking(False)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((_LOOPBACK, self._port))
            if self._listening:
                listener.listen(_BACKLOG)
            self._port = listener.getsockname()[1]
            self._tasks = trio.open_nursery()
            self._nursery = await self._tasks.__aenter__()
        except BaseException:
            listener.close()
            raise
        self._listener = listener
        if self._listening:
            self._nursery.start_soon(self._pacer.run)
            self._nursery.start_soon(self._accept, listener, self._nursery)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close every connection and end every task; then raise what the script failed with.

        The body's own exception passes as it is; the script's failures become its notes.
        """
        assert self._nursery is not None
        assert self._tasks is not None
        assert self._listener is not None
        self._nursery.cancel_scope.cancel()
        # The nursery is not told of the body's exception, which it would wrap into a group. Its
        # own tasks catch what they raise, so there is nothing for it to add.
        try:
            # They need no deadline: cancelled, they wait for nothing more.
            await self._tasks.__aexit__(None, None, None)  # noqa: ASYNC102
        finally:
            self._listener.close()
        if error is None:
            for failure in self._failures:
                raise failure
        else:
            for failure in self._failures:
                error.add_note(f"the endpoint's script failed: {failure!r}")

    async def wait_requests(self, count: int) -> None:
        """Return once `count` requests came. Cancellation: safe."""
        await self._wait(lambda: len(self.requests) >= count)

    async def wait_live(self, count: int) -> None:
        """Return once at least `count` responses are under way at once. Cancellation: safe."""
        await self._wait(lambda: self.live_responses >= count)

    async def wait_quiet(self) -> None:
        """Return once no response is under way; idle connections may stay. Cancellation: safe."""
        await self._wait(lambda: self.live_responses == 0)

    async def wait_closed(self) -> None:
        """Return once every client has closed its connections. Cancellation: safe."""
        await self._wait(lambda: self.open_connections == 0)

    async def _wait(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._changed.park()

    async def _accept(self, listener: socket.socket, nursery: trio.Nursery) -> None:
        while True:
            await trio.lowlevel.wait_readable(listener)
            for sock in _clients(listener):
                self.open_connections += 1
                nursery.start_soon(self._serve, Connection(sock), self.connections)
                self.connections += 1

    async def _serve(self, connection: Connection, number: int) -> None:
        reset = False
        try:
            while (incoming := await connection.read_request()) is not None:
                await self._answer(connection, incoming, number)
                if incoming.wants_close:
                    break
        except ClientGone:
            pass
        except HangUp as hang_up:
            reset = hang_up.reset
        except BadRequest as error:
            self._failures.append(error)
            with contextlib.suppress(ClientGone):
                await connection.send(_http.response_head(400, "Bad Request", _NO_BODY))
        finally:
            connection.close(reset=reset)
            self.open_connections -= 1
            self._changed.unpark_all()

    async def _answer(
        self, connection: Connection, incoming: _http.IncomingRequest, number: int
    ) -> None:
        sent = _json_object(incoming.body)
        request = EndpointRequest(
            number=len(self.requests),
            connection=number,
            method=incoming.method,
            path=incoming.target,
            headers=incoming.headers,
            body=sent or {},
            content=incoming.body,
        )
        self.requests.append(request)
        self.live_responses += 1
        self.peak_live = max(self.peak_live, self.live_responses)
        self._changed.unpark_all()
        try:
            await self._perform(connection, self._reply_to(request, sent), request)
        finally:
            self.live_responses -= 1
            self._changed.unpark_all()

    def _reply_to(self, request: EndpointRequest, sent: JsonObject | None) -> Reply:
        path = request.path.partition("?")[0]
        if request.method == "GET" and path.endswith("/models"):
            models: list[JsonObject] = [{"id": name, "object": "model"} for name in self._models]
            listing = encode_json({"object": "list", "data": [*models]})
            return body(listing, "application/json")
        if request.method == "POST" and path.endswith("/messages/count_tokens"):
            return body(encode_json(counted(request)), "application/json")
        if request.method != "POST" or not path.endswith(("/chat/completions", "/messages")):
            return status(404, {"error": {"message": f"no such path: {request.method} {path}"}})
        if sent is None:
            return status(400, {"error": {"message": "the request's body is no JSON object"}})
        try:
            return self._scripted(request)
        except Exception as error:  # noqa: BLE001 - a test's code; it is raised when the test ends
            self._failures.append(error)
            return status(500, {"error": {"message": f"the script failed: {error!r}"}})

    def _scripted(self, request: EndpointRequest) -> Reply:
        if callable(self._script):
            return _as_reply(self._script(request))
        self._asked += 1
        if self._asked > len(self._script):
            raise ScriptExhausted(
                f"the script has {len(self._script)} replies, and this is request {self._asked}; "
                f"its last message: {request.last_content!r}"
            )
        return _as_reply(self._script[self._asked - 1])

    async def _perform(
        self, connection: Connection, answer: Reply, request: EndpointRequest
    ) -> None:
        if answer.silent:
            await connection.linger(float("inf"))
        if answer.delay:
            await connection.linger(answer.delay)
        segments = _render(answer, request)
        writer = Writer(connection, split=answer.split, cut=answer.cut, reset=answer.reset)
        framing: Framing = "close" if answer.bare else answer.framing
        if not answer.bare:
            await writer.write(_head(answer, request, segments))
        for part in _paced(segments, framing) if writer.plain else segments:
            if isinstance(part, list):
                await self._pacer.play(connection, part)
            elif isinstance(part, bytes):
                await writer.write(_framed(part, framing))
            else:
                await self._happen(part, connection)
        if framing == "chunked":
            await writer.write(_http.LAST_CHUNK)
        elif framing == "close":
            raise HangUp(reset=False)

    async def _happen(
        self, what: Pause | Wait | Do | Hang | Fail | Disconnect, connection: Connection
    ) -> None:
        match what:
            case Pause():
                await connection.linger(what.seconds)
            case Wait():
                await connection.wait(what.event)
            case Hang():
                await connection.linger(float("inf"))
            case Disconnect():
                raise HangUp(reset=what.reset)
            case Do():
                try:
                    what.action()
                except Exception as error:
                    self._failures.append(error)
                    raise HangUp(reset=True) from error
            case Fail():  # pragma: no cover - `reply` refuses it
                raise TypeError("fail(...) has no form on a wire")
            case _:
                assert_never(what)


def _render(answer: Reply, request: EndpointRequest) -> list[Segment]:
    if request.protocol == "messages":
        return render_messages(answer, request)
    return render(answer, request)


def _clients(listener: socket.socket) -> Iterator[socket.socket]:
    """Those who wait to be accepted. Running out of descriptors is the caller's error to see."""
    while True:
        try:
            sock, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        sock.setblocking(False)
        yield sock


def _paced(segments: Sequence[Segment], framing: Framing) -> Iterator[Segment | list[Beat]]:
    """The segments, with each run of short pauses and writes gathered into beats."""
    beats: list[Beat] = []
    last: Segment | None = None
    for segment in segments:
        short = isinstance(last, Pause) and last.seconds < _SHORT_PAUSE
        if short and isinstance(last, Pause) and isinstance(segment, bytes):
            beats.append((last.seconds, _framed(segment, framing)))
            last = None
            continue
        if last is not None:
            if beats:
                yield beats
                beats = []
            yield last
        last = segment
    if beats:
        yield beats
    if last is not None:
        yield last


def _framed(data: bytes, framing: Framing) -> bytes:
    return _http.chunk(data) if framing == "chunked" else data


def _as_reply(turn: ReplyTurn) -> Reply:
    if isinstance(turn, Reply):
        return turn
    if isinstance(turn, str) or not isinstance(turn, Sequence):
        return reply(turn)
    return reply(*turn)


def _json_object(content: bytes) -> JsonObject | None:
    try:
        found: object = msgspec.json.decode(content)
    except msgspec.DecodeError:
        return None
    return cast(JsonObject, found) if isinstance(found, dict) else None


def _head(answer: Reply, request: EndpointRequest, segments: Sequence[Segment]) -> bytes:
    streamed = answer.content is None and request.streams
    headers: dict[str, str] = {
        "content-type": "text/event-stream" if streamed else "application/json",
        **_framing(answer, segments),
    }
    replaced: Mapping[str, str] = {name.lower(): value for name, value in answer.headers.items()}
    headers.update(replaced)
    try:
        phrase = HTTPStatus(answer.status).phrase
    except ValueError:
        phrase = ""
    return _http.response_head(answer.status, phrase, headers)


def _framing(answer: Reply, segments: Sequence[Segment]) -> dict[str, str]:
    if answer.framing == "chunked":
        return {"transfer-encoding": "chunked"}
    if answer.framing == "close":
        return {"connection": "close"}
    size = sum(len(segment) for segment in segments if isinstance(segment, bytes))
    # A body that is broken off was meant to be longer.
    broken_off = any(isinstance(segment, Disconnect) for segment in segments)
    return {"content-length": str(size + broken_off)}
