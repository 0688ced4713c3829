"""A real HTTP/1.1 server on loopback that responds like a model endpoint, in two protocols.

The server owns a listening socket, a task per connection, and a task that paces their writes. All
of them live inside the `async with` block, and none outlives it. The server responds according to a
script, and misbehaves exactly as the script says. It counts open connections and active responses,
so that a test can show that clients release them. Replies are defined in `replies.py`. `_wire.py`
renders them for chat completions, `_wire_messages.py` renders them for Anthropic's protocol, and
`_http.py` implements HTTP.

The server uses real sockets, so it needs the real clock. A virtual clock jumps ahead when no task
is ready, and would also do so while bytes are in transit.
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

# Thousands of clients may connect at once; the kernel lowers the backlog to its own limit.
_BACKLOG: Final = 4096
_LOOPBACK: Final = "127.0.0.1"
# Seconds. During a longer pause, a disconnected client is noticed at once; otherwise, within two
# pauses.
_SHORT_PAUSE: Final = 0.1
_NO_BODY: Final = {"content-length": "0", "connection": "close"}


class ScriptedEndpoint:
    """An endpoint on loopback that responds according to a script.

    It serves `POST …/chat/completions` as OpenAI-compatible endpoints do, and `POST …/messages` as
    Anthropic's endpoint does. Both use the same script, and send a stream or one document, as
    requested. It also serves `GET …/models`, and `POST …/messages/count_tokens`, which counts one
    token for every four bytes of the request. Other paths return 404. Open it with `async with`,
    under the real clock.

    Args:
        script: A sequence of replies, each used once, in the order of the requests; a text or a
            turn is short for `reply(...)`. Alternatively, a function that is called with each
            request and returns the reply. A function can serve any number of sessions, and tell
            them apart by their messages.
        port: The port to listen on; 0: any free port.
        models: The names that `GET …/models` lists.
        listening: False: the port is reserved, but every connection is refused.

    Attributes:
        requests: The requests, in order, including those for other paths.
        connections: The number of connections accepted so far.
        open_connections: The number of connections that are open now.
        live_responses: The number of responses that are active now.
        peak_live: The maximum number of responses that were active at once.

    Raises:
        ScriptExhausted: On exit, if there were more requests than replies; the client got 500.
        Exception: On exit, an error that a function of the script raised; the client got 500.

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
        """The port that the endpoint listens on."""
        return self._port

    @property
    def base_url(self) -> str:
        """The base URL for clients: `http://127.0.0.1:<port>/v1`."""
        return f"http://{_LOOPBACK}:{self._port}/v1"

    async def __aenter__(self) -> Self:
        """Start listening.

        Raises:
            OSError: The port cannot be used, for example because another program is using it.
            RuntimeError: The endpoint was opened before.
        """
        if self._nursery is not None:
            raise RuntimeError(
                "this endpoint was already opened, and can be opened only once; create a new one"
            )
        listener = socket.socket()
        try:
            listener.setblocking(False)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((_LOOPBACK, self._port))
                if self._listening:
                    listener.listen(_BACKLOG)
            except OSError as error:
                raise OSError(
                    error.errno,
                    f"cannot listen on port {self._port} of {_LOOPBACK}: {error.strerror}; "
                    "choose another port, or 0 for any free port",
                ) from None
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
        """Close every connection, end every task, then raise the script's first failure.

        If the body raised an exception, that exception propagates, and the script's failures are
        added as notes.
        """
        assert self._nursery is not None
        assert self._tasks is not None
        assert self._listener is not None
        self._nursery.cancel_scope.cancel()
        # Do not pass the body's exception to the nursery: the nursery would wrap it in an exception
        # group. The nursery's own tasks catch their errors, so the nursery has nothing to add.
        try:
            # No deadline is needed: after the cancellation, the tasks do not block.
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
        """Wait until `count` requests have arrived. Cancellation: safe."""
        await self._wait(lambda: len(self.requests) >= count)

    async def wait_live(self, count: int) -> None:
        """Wait until at least `count` responses are active at once. Cancellation: safe."""
        await self._wait(lambda: self.live_responses >= count)

    async def wait_quiet(self) -> None:
        """Wait until no response is active; connections may stay open. Cancellation: safe."""
        await self._wait(lambda: self.live_responses == 0)

    async def wait_closed(self) -> None:
        """Wait until every connection is closed. Cancellation: safe."""
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
            return status(400, {"error": {"message": "the request's body is not a JSON object"}})
        try:
            return self._scripted(request)
        except Exception as error:  # noqa: BLE001 - code of a test, raised on exit
            self._failures.append(error)
            return status(500, {"error": {"message": f"the script failed: {error!r}"}})

    def _scripted(self, request: EndpointRequest) -> Reply:
        if callable(self._script):
            return _as_reply(self._script(request))
        self._asked += 1
        if self._asked > len(self._script):
            raise ScriptExhausted(
                f"the script has only {len(self._script)} replies, but this is request "
                f"{self._asked}; its last message: {request.last_content!r}"
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
            case Fail():  # pragma: no cover - `reply` rejects it
                raise TypeError("fail(...) cannot be sent over HTTP")
            case _:
                assert_never(what)


def _render(answer: Reply, request: EndpointRequest) -> list[Segment]:
    if request.protocol == "messages":
        return render_messages(answer, request)
    return render(answer, request)


def _clients(listener: socket.socket) -> Iterator[socket.socket]:
    """Accept all pending clients. Raises OSError if file descriptors run out."""
    while True:
        try:
            sock, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        sock.setblocking(False)
        yield sock


def _paced(segments: Sequence[Segment], framing: Framing) -> Iterator[Segment | list[Beat]]:
    """Turn each sequence of short pauses and writes into beats."""
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
    # For a body that is cut off, the declared length must exceed the actual length.
    broken_off = any(isinstance(segment, Disconnect) for segment in segments)
    return {"content-length": str(size + broken_off)}
