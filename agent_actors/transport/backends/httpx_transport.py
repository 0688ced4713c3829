"""The transport's engine under the httpx API: an `httpx.AsyncBaseTransport`.

Owns the translation between the engine and httpx: its requests, responses, timeouts and errors. A
user's own `httpx.AsyncClient` (its auth, event hooks, cookies, redirects) gains the engine's speed
by it. The answer is buffered between the reactor and whoever reads it, 64 KiB at most: a reader
that is slower stops the socket from being read.

Proxies and HTTP/2 it has not; httpx's own transport does those.
"""

import math
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from types import TracebackType
from typing import Final, Self, cast

import httpx
import trio

from agent_actors.abc import ConnectionStatistics
from agent_actors.interrupts import protect_loaded_modules
from agent_actors.transport.backends.native import connection_statistics
from agent_actors.transport.engine import Engine, EngineLimits, Passage
from agent_actors.transport.errors import (
    BadRequest,
    BadResponse,
    ConnectFailed,
    ConnectionLost,
    ConnectTimeout,
    SendTimeout,
)
from agent_actors.transport.pool import DEFAULT_KEEPALIVE, DEFAULT_MAX_CONNECTIONS, PoolLimits
from agent_actors.transport.reactor import current_reactor
from agent_actors.transport.request import WireRequest, build_request, target_of
from agent_actors.transport.response import MAX_BODY, MAX_HEAD, ResponseHead

_BUFFER: Final = 64 * 1024
"""Bytes of an answer that wait for their reader."""

_CLOSE_SECONDS: Final = 1.0
"""What a body's own generator may take to finish when it is not wanted to its end."""

_TRANSLATION: Final[Mapping[type[Exception], type[httpx.TransportError]]] = {
    BadRequest: httpx.LocalProtocolError,
    BadResponse: httpx.RemoteProtocolError,
    ConnectFailed: httpx.ConnectError,
    ConnectTimeout: httpx.ConnectTimeout,
    ConnectionLost: httpx.ReadError,
    SendTimeout: httpx.WriteTimeout,
}
_FAULTS: Final = tuple(_TRANSLATION)

_LAST_CHUNK: Final = b"0\r\n\r\n"


class EngineTransport(httpx.AsyncBaseTransport):
    """Sends what an `httpx.AsyncClient` asks for by the transport's own engine.

    All of httpx's timeouts are kept. A request is sent again if an idle connection turned out to be
    dead: always if nothing could be sent, and, for methods that may be repeated (RFC 9110), once if
    no answer began.

    Args:
        max_connections: Requests of one origin under way at once; further ones wait in line.
        keepalive: Seconds that an idle connection is kept.
        ssl_context: What is trusted; by default what httpx trusts, in one context for the process.
        max_head: Bytes of an answer's head, and of framing in a row without content.
        max_body: Bytes of an answer's body.

    Example:
        ```python
        async with httpx.AsyncClient(transport=EngineTransport()) as client:
            options = AgentOptions(model="qwen3", base_url=url, http_client=client)
        ```
    """

    def __init__(
        self,
        *,
        max_connections: float = DEFAULT_MAX_CONNECTIONS,
        keepalive: float = DEFAULT_KEEPALIVE,
        ssl_context: ssl.SSLContext | None = None,
        max_head: int = MAX_HEAD,
        max_body: int = MAX_BODY,
    ) -> None:
        # The time to connect comes with each request.
        pool = PoolLimits(math.inf, max_connections, keepalive, ssl_context)
        self._engine = Engine(EngineLimits(pool, max_head, max_body))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request; return when the head of its answer has come.

        Raises:
            httpx.TransportError: As httpx's own transport does.

        Cancellation: closes the connection at once.
        """
        given: Mapping[str, float | None] = request.extensions.get("timeout", {})
        timeouts = {name: math.inf if value is None else value for name, value in given.items()}
        try:
            target = target_of(request.url)
            wire = build_request(request.method, target, request.headers.raw)
            content = _content(request)
            if isinstance(content, bytes):
                return await self._send(wire, content, request, timeouts)
            try:
                return await self._send(wire, content, request, timeouts)
            finally:
                with trio.move_on_after(_CLOSE_SECONDS, shield=True):
                    await content.aclose()
        except _FAULTS as fault:
            raise _translated(fault, request) from fault

    def statistics(self) -> ConnectionStatistics:
        """A snapshot of the connections."""
        return connection_statistics(self._engine.counts, self._engine.waiting)

    async def aclose(self) -> None:
        """Close every connection, also those in use; idempotent.

        Cancellation: they are closed all the same.
        """
        await self._engine.aclose()

    async def __aenter__(self) -> Self:
        """Return itself; there is nothing to begin."""
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """Close."""
        await self.aclose()

    async def _send(
        self,
        wire: WireRequest,
        content: "bytes | _Upload",
        request: httpx.Request,
        timeouts: Mapping[str, float],
    ) -> httpx.Response:
        passage = await self._admitted(wire, request, timeouts)
        try:
            return await self._answered(passage, wire, content, request, timeouts)
        except ConnectionLost as lost:
            repeatable = wire.idempotent and isinstance(content, bytes)
            if lost.answered or not passage.reused or not repeatable:
                raise
        # The first place was given up when no answer was to come any more.
        passage = await self._admitted(wire, request, timeouts)
        return await self._answered(passage, wire, content, request, timeouts, fresh=True)

    async def _admitted(
        self, wire: WireRequest, request: httpx.Request, timeouts: Mapping[str, float]
    ) -> Passage:
        passage = await self._engine.admit(wire.origin, patience=timeouts.get("pool", math.inf))
        if passage is None:
            raise httpx.PoolTimeout("no connection became free in time", request=request)
        return passage

    async def _answered(
        self,
        passage: Passage,
        wire: WireRequest,
        content: "bytes | _Upload",
        request: httpx.Request,
        timeouts: Mapping[str, float],
        *,
        fresh: bool = False,
    ) -> httpx.Response:
        try:
            answer = _Answer(passage, request, timeouts.get("read", math.inf))
            await self._engine.send(
                passage,
                wire,
                content,
                answer,
                fresh=fresh,
                connect_timeout=timeouts.get("connect", math.inf),
                stall=timeouts.get("write", math.inf),
            )
            head = await answer.head()
        except BaseException:
            passage.abandon()
            raise
        return httpx.Response(
            head.status,
            headers=list(head.headers),
            stream=answer,
            extensions={
                "http_version": b"HTTP/" + head.http_version.encode(),
                "reason_phrase": head.reason,
            },
        )


class _Answer(httpx.AsyncByteStream):
    """The listener of one request, and the stream of its answer's body."""

    def __init__(self, passage: Passage, request: httpx.Request, read_timeout: float) -> None:
        self._passage = passage
        self._request = request
        self._read_timeout = read_timeout
        self._alarms = current_reactor().alarms
        self._head: ResponseHead | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._ended = self._paused = self._late = False
        self._failure: Exception | None = None
        self._task: trio.lowlevel.Task | None = None

    # --- whoever reads ---

    async def head(self) -> ResponseHead:
        """Wait for the head.

        Raises:
            Exception: Why none came.
        """
        while self._head is None:
            if self._failure is not None:
                raise self._failure
            await self._sleep()
        return self._head

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Read the body, once."""
        return self

    async def __anext__(self) -> bytes:
        """What has come of the body since the last call; waits for it."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._pieces:
            if self._failure is not None:
                raise _translated(self._failure, self._request) from self._failure
            if self._ended:
                raise StopAsyncIteration
            await self._sleep()
        pieces, self._pieces, self._size = self._pieces, [], 0
        if self._paused:
            self._paused = False
            assert self._passage.connection is not None
            self._passage.connection.resume()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def aclose(self) -> None:
        """Close the connection if the answer has not ended. Idempotent."""
        self._passage.abandon()

    async def _sleep(self) -> None:
        self._task = trio.lowlevel.current_task()
        self._alarms.set(self, trio.current_time() + self._read_timeout)
        await trio.lowlevel.wait_task_rescheduled(self._stop_sleeping)
        self._alarms.clear(self)
        if self._late:
            raise httpx.ReadTimeout(
                f"nothing came for {self._read_timeout:g} s", request=self._request
            )

    def _stop_sleeping(self, _: object) -> trio.lowlevel.Abort:
        self._task = None
        self._alarms.clear(self)
        return trio.lowlevel.Abort.SUCCEEDED

    def _wake(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    # --- what the connection and the alarms call ---

    @property
    def full(self) -> bool:
        """True while as much waits for the reader as may."""
        return self._size >= _BUFFER

    @property
    def done(self) -> bool:
        """Never: whoever reads closes the stream instead."""
        return False

    def on_head(self, head: ResponseHead) -> None:
        """The final answer's head."""
        self._head = head
        self._wake()

    def on_body(self, data: bytes) -> bool:
        """One read's worth of the body."""
        self._pieces.append(data)
        self._size += len(data)
        self._wake()
        return self._size < _BUFFER

    def on_pause(self) -> None:
        """The buffer was full."""
        self._paused = True

    def on_end(self, failure: Exception | None) -> None:
        """The answer has ended."""
        self._ended = True
        self._failure = failure
        self._passage.leave()
        self._wake()

    def ring(self) -> None:
        """Nothing came for as long as httpx's read timeout allows."""
        self._late = True
        self._wake()


def _content(request: httpx.Request) -> "bytes | _Upload":
    """The body, framed as the head says: whole if it is at hand, else as it is made.

    Raises:
        BadRequest: The head says nothing true of where it ends.
    """
    coding = request.headers.get("transfer-encoding", "").lower()
    length = request.headers.get("content-length", "")
    if coding:
        if coding != "chunked":
            raise BadRequest(f"a body cannot be framed by the transfer coding {coding!r}")
        if length:
            raise BadRequest("a body cannot have a length and a transfer coding at once")
    elif length and not (length.isascii() and length.isdigit()):
        raise BadRequest(f"the length {length[:40]!r} is none")
    if not isinstance(request.stream, httpx.ByteStream):
        if not coding and not length:
            raise BadRequest("a body that is made piece by piece needs a length, or chunks")
        pieces = cast("AsyncIterable[bytes]", request.stream)
        return _Upload(pieces, None if coding else int(length))
    content = b"".join(request.stream)  # a redirected request has no `content`
    if coding:
        return _chunk(content) + _LAST_CHUNK
    if int(length or 0) != len(content):
        raise BadRequest(f"a body of {len(content)} bytes, and a length of {length or 0}")
    return content


def _chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""


class _Upload:
    """A body as it is made. No generator: a cancel would leave it suspended.

    Args:
        pieces: What is sent.
        length: How many bytes that must be; None for chunks.
    """

    def __init__(self, pieces: AsyncIterable[bytes], length: int | None) -> None:
        self._pieces = aiter(pieces)
        self._left = length
        self._ended = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._ended:
            raise StopAsyncIteration
        async for piece in self._pieces:
            if self._left is None:
                if piece:
                    return _chunk(piece)
                continue
            self._left -= len(piece)
            if self._left < 0:
                raise BadRequest("the body is longer than its length")
            return piece
        self._ended = True
        if self._left is None:
            return _LAST_CHUNK
        if self._left:
            raise BadRequest(f"the body is {self._left} bytes shorter than its length")
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Finish what makes the pieces, if it is a generator that was left suspended."""
        pieces: object = self._pieces
        if isinstance(pieces, AsyncGenerator):
            await cast("AsyncGenerator[bytes, None]", pieces).aclose()


def _translated(fault: Exception, request: httpx.Request) -> httpx.TransportError:
    return _TRANSLATION[type(fault)](str(fault) or "it took too long", request=request)


protect_loaded_modules()
