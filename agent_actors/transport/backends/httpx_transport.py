"""The native engine as an `httpx.AsyncBaseTransport`.

This module translates httpx's requests, responses, timeouts and errors. With it, a user's own
`httpx.AsyncClient` keeps its auth, event hooks, cookies and redirects, and gains the speed of the
engine. The response is buffered between the reactor and its reader, up to 64 KiB. While the buffer
is full, the socket is not read.

Proxies and HTTP/2 are not supported; httpx's own transport supports them.
"""

import math
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from types import TracebackType
from typing import Final, Self, cast

import httpx
import trio

from agent_actors.abc import ConnectionStatistics
from agent_actors.kernel.interrupts import protect_loaded_modules
from agent_actors.transport.backends.native import connection_statistics
from agent_actors.transport.engine import Engine, EngineLimits, PooledRequest
from agent_actors.transport.errors import (
    BadRequest,
    BadResponse,
    ConnectFailed,
    ConnectionLost,
    ConnectTimeout,
    SendTimeout,
    root_of,
)
from agent_actors.transport.pool import DEFAULT_KEEPALIVE, DEFAULT_MAX_CONNECTIONS, PoolLimits
from agent_actors.transport.reactor import current_reactor
from agent_actors.transport.request import WireRequest, build_request, target_of
from agent_actors.transport.response import MAX_BODY, MAX_HEAD, ResponseHead

_BUFFER: Final = 64 * 1024
"""The number of response bytes that may be buffered for the reader."""

_CLOSE_SECONDS: Final = 1.0
"""The time, in seconds, that the generator of a body gets to finish if the rest of the body is not
needed.
"""

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
    """An httpx transport on the native engine.

    All of httpx's timeouts apply. If a reused idle connection turns out to be dead, the request is
    sent again: always if no byte had been sent, and otherwise once, if the method is idempotent
    (RFC 9110) and no response had begun.

    Args:
        max_connections: The maximum number of concurrent requests to one origin; further requests
            wait in a queue.
        keepalive: The time, in seconds, for which an idle connection is kept open.
        ssl_context: The trusted certificates; by default those that httpx trusts, in one context
            for the process.
        max_head: The maximum size of the response headers, and of consecutive framing without
            content, in bytes.
        max_body: The maximum size of a response body, in bytes.

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
        # Each request has its own connect timeout.
        pool = PoolLimits(math.inf, max_connections, keepalive, ssl_context)
        self._engine = Engine(EngineLimits(pool, max_head, max_body))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request and return once the response headers have arrived.

        Raises:
            httpx.TransportError: The request failed; the exceptions are those of httpx's own
                transport.

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
            raise _translated(fault, request) from root_of(fault)

    def statistics(self) -> ConnectionStatistics:
        """Return a snapshot of the connection statistics."""
        return connection_statistics(self._engine.counts, self._engine.waiting)

    async def aclose(self) -> None:
        """Close all connections, including those in use. Idempotent.

        Cancellation: all connections are still closed.
        """
        await self._engine.aclose()

    async def __aenter__(self) -> Self:
        """Return this transport; nothing has to be started."""
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """Close the transport."""
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
        # The first attempt gave up its place in the pool when it failed.
        passage = await self._admitted(wire, request, timeouts)
        return await self._answered(passage, wire, content, request, timeouts, fresh=True)

    async def _admitted(
        self, wire: WireRequest, request: httpx.Request, timeouts: Mapping[str, float]
    ) -> PooledRequest:
        patience = timeouts.get("pool", math.inf)
        passage = await self._engine.admit(wire.origin, patience=patience)
        if passage is None:
            raise httpx.PoolTimeout(
                f"no connection became free within {patience:g} s", request=request
            )
        return passage

    async def _answered(
        self,
        passage: PooledRequest,
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
    """The listener for one request, and the stream of its response body."""

    def __init__(self, passage: PooledRequest, request: httpx.Request, read_timeout: float) -> None:
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

    # --- called by the reader ---

    async def head(self) -> ResponseHead:
        """Wait for the response headers.

        Raises:
            Exception: The reason why no headers arrived.
        """
        while self._head is None:
            if self._failure is not None:
                raise self._failure
            await self._sleep()
        return self._head

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Return this stream, which can be read only once."""
        return self

    async def __anext__(self) -> bytes:
        """Return the data that has arrived since the last call; wait if there is none."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._pieces:
            if self._failure is not None:
                raise _translated(self._failure, self._request) from root_of(self._failure)
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
        """Close the connection if the response has not ended. Idempotent."""
        self._passage.abandon()

    async def _sleep(self) -> None:
        self._task = trio.lowlevel.current_task()
        self._alarms.set(self, trio.current_time() + self._read_timeout)
        await trio.lowlevel.wait_task_rescheduled(self._stop_sleeping)
        self._alarms.clear(self)
        if self._late:
            raise httpx.ReadTimeout(
                f"no data was received for {self._read_timeout:g} s", request=self._request
            )

    def _stop_sleeping(self, _: object) -> trio.lowlevel.Abort:
        self._task = None
        self._alarms.clear(self)
        return trio.lowlevel.Abort.SUCCEEDED

    def _wake(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    # --- called by the connection and the timers ---

    @property
    def full(self) -> bool:
        """True while the buffer is full."""
        return self._size >= _BUFFER

    @property
    def done(self) -> bool:
        """Always False: a reader that needs no more data closes the stream instead."""
        return False

    def on_head(self, head: ResponseHead) -> None:
        """Receive the status and headers of the final response."""
        self._head = head
        self._wake()

    def on_body(self, data: bytes) -> bool:
        """Receive the body data from one read."""
        self._pieces.append(data)
        self._size += len(data)
        self._wake()
        return self._size < _BUFFER

    def on_pause(self) -> None:
        """Record that the connection was paused because the buffer was full."""
        self._paused = True

    def on_end(self, failure: Exception | None) -> None:
        """Record that the response has ended."""
        self._ended = True
        self._failure = failure
        self._passage.leave()
        self._wake()

    def ring(self) -> None:
        """Handle httpx's read timeout."""
        self._late = True
        self._wake()


def _content(request: httpx.Request) -> "bytes | _Upload":
    """Return the body, framed as the headers declare: as bytes if possible, else as a stream.

    Raises:
        BadRequest: The headers do not declare where the body ends.
    """
    coding = request.headers.get("transfer-encoding", "").lower()
    length = request.headers.get("content-length", "")
    if coding:
        if coding != "chunked":
            raise BadRequest(f"the transfer coding of a body must be 'chunked', not {coding!r}")
        if length:
            raise BadRequest("a body cannot have both a content-length and a transfer coding")
    elif length and not (length.isascii() and length.isdigit()):
        raise BadRequest(f"the content-length {length[:40]!r} must be a non-negative integer")
    if not isinstance(request.stream, httpx.ByteStream):
        if not coding and not length:
            raise BadRequest(
                "a streamed body needs a content-length or the transfer coding 'chunked'"
            )
        pieces = cast("AsyncIterable[bytes]", request.stream)
        return _Upload(pieces, None if coding else int(length))
    content = b"".join(request.stream)  # a redirected request has no `content`
    if coding:
        return _chunk(content) + _LAST_CHUNK
    if int(length or 0) != len(content):
        raise BadRequest(
            f"the body has {len(content)} bytes, but its content-length is {length or 0}"
        )
    return content


def _chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""


class _Upload:
    """A body that is sent while it is produced.

    This class is not a generator, because a cancelled send would leave a generator suspended.

    Args:
        pieces: The chunks.
        length: The required number of bytes; None for the chunked transfer coding.
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
                raise BadRequest("the body is longer than its content-length")
            return piece
        self._ended = True
        if self._left is None:
            return _LAST_CHUNK
        if self._left:
            raise BadRequest(f"the body is {self._left} bytes shorter than its content-length")
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Close the generator that produces the chunks if it was left suspended."""
        pieces: object = self._pieces
        if isinstance(pieces, AsyncGenerator):
            await cast("AsyncGenerator[bytes, None]", pieces).aclose()


def _translated(fault: Exception, request: httpx.Request) -> httpx.TransportError:
    return _TRANSLATION[type(fault)](str(fault) or "the operation timed out", request=request)


protect_loaded_modules()
