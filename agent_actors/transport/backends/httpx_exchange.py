"""`ByteExchange` on stock httpx.

This module owns connections. It applies only the connect deadline; its caller applies all other
deadlines by cancelling.

The time that httpcore's pool needs is quadratic in the number of open streams, and the pool
permanently loses a slot if a request is cancelled while it is queued. Therefore no request is ever
queued: pools have no size limit, and each client serves at most `STREAMS_PER_CLIENT` exchanges at a
time. When all clients are at this limit, the next exchange creates another client, which is cheap
because all clients share one `SSLContext`. When a client becomes unused, it is closed if another
unused client exists.

A response is read from one iterator, which is always exhausted: by reading to the end, by closing
the connection, or by cancelling the read. Otherwise the garbage collector would close the suspended
iterator later, in another task.

Proxies come from the environment (`HTTP_PROXY`, `NO_PROXY` …), which is httpx's default; pass your
own client to change this. Redirects are not followed: a 3xx response is fed to the sink unchanged.
"""

import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Final

import attrs
import httpcore
import httpx
import trio

from agent_actors.abc import (
    ByteSink,
    ExchangeStatistics,
    HttpRequest,
    RequestSink,
)
from agent_actors.domain.provenance import public_url
from agent_actors.errors import (
    ConfigError,
    ProviderConnectError,
    ProviderDeadlineError,
    ProviderError,
    ProviderProtocolError,
)
from agent_actors.kernel.interrupts import protect_loaded_modules
from agent_actors.transport.connection import DRAIN_BYTES, DRAIN_SECONDS
from agent_actors.transport.content_encoding import unpacker
from agent_actors.transport.errors import BadContent, ContentCut, reason_of, root_of
from agent_actors.transport.pool import DEFAULT_CONNECT_TIMEOUT, DEFAULT_KEEPALIVE
from agent_actors.transport.tls import verifying_context

STREAMS_PER_CLIENT: Final = 64
"""The number of exchanges. In measurements, the CPU time per request of a single pool triples
between this number of streams and a thousand.
"""

_CLOSE_SECONDS: Final = 5.0
"""Closing a socket does not block. This timeout only limits work that is shielded from
cancellation.
"""

# The phrases that httpx uses when the peer has disconnected. Its other protocol errors mean
# malformed HTTP.
_WENT_AWAY: Final = ("disconnected", "closed connection")


@attrs.define(eq=False)
class _Shard:
    """A client and the number of exchanges that it currently serves."""

    client: httpx.AsyncClient
    secure: bool
    live: int = 0


class HttpxExchange:
    """`ByteExchange` on httpx.

    Args:
        client: The caller's own client. All requests use it, and this class never closes it. Its
            pool limits, proxies, certificates and event hooks apply; its timeouts do not.
        transport: A transport to use instead of the network, for example `httpx.MockTransport`. It
            is closed with this exchange.
        connect_timeout: The time limit for connecting, including TLS, in seconds; `math.inf` for no
            limit.

    Raises:
        ConfigError: Both `client` and `transport` were given, or the client has been used on
            asyncio.
    """

    def __init__(
        self,
        *,
        client: httpx.AsyncClient | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        connect_timeout: float = DEFAULT_CONNECT_TIMEOUT,
    ) -> None:
        if client is not None and transport is not None:
            raise ConfigError("pass client or transport, not both: a client has its own transport")
        if client is not None and _belongs_to_asyncio(client):
            raise ConfigError(
                "this http_client belongs to asyncio, but requests are made by trio; pass a new "
                "httpx.AsyncClient that is used only here, without an asyncio transport"
            )
        own = httpx.AsyncClient(transport=transport) if transport is not None else None
        self._single = client or own
        self._owned_single = own
        self._connect_timeout = connect_timeout
        self._timeout = httpx.Timeout(
            None, connect=None if connect_timeout == float("inf") else connect_timeout
        )
        self._shards: list[_Shard] = []
        self._live = 0
        self._begun = 0
        self._closed = False

    @property
    def client_headers(self) -> Mapping[str, str]:
        """The headers that the caller's own client adds to each request."""
        return {} if self._single is None else dict(self._single.headers)

    def statistics(self) -> ExchangeStatistics:
        """Return a snapshot of the connection statistics."""
        return ExchangeStatistics(live=self._live, begun=self._begun)

    async def aclose(self) -> None:
        """Close all connections, including those in use. Idempotent.

        Cancellation: all connections are still closed.
        """
        self._closed = True
        shards, self._shards = self._shards, []
        clients = [shard.client for shard in shards]
        if self._owned_single is not None:
            clients.append(self._owned_single)
        with trio.move_on_after(_CLOSE_SECONDS, shield=True):
            for client in clients:
                await client.aclose()

    async def exchange(self, request: HttpRequest, sink: ByteSink) -> None:
        """Send the request and feed its response to `sink` until it ends or `sink.done` is true.

        Raises:
            ProviderConnectError: The connection could not be made or was lost, or this exchange is
                closed.
            ProviderDeadlineError: The connection was not made within `connect_timeout`.
            ProviderProtocolError: The received data is not HTTP.
            ConfigError: The certificates named in the environment cannot be read.

        Cancellation: closes the connection at once.
        """
        if self._closed:
            raise ProviderConnectError("the exchange is closed", endpoint=public_url(request.url))
        self._live += 1
        self._begun += 1
        try:
            if self._single is not None:
                await self._send(self._single, request, sink)
            else:
                await self._send_sharded(request, sink)
        finally:
            self._live -= 1

    async def _send_sharded(self, request: HttpRequest, sink: ByteSink) -> None:
        shard = self._shard_for(secure=request.url[:6].lower() == "https:")
        shard.live += 1
        try:
            await self._send(shard.client, request, sink)
        finally:
            shard.live -= 1
            if not shard.live and any(
                not other.live and other is not shard for other in self._shards
            ):
                await self._drop(shard)  # noqa: ASYNC102 - shielded, with a time limit of its own

    def _shard_for(self, *, secure: bool) -> _Shard:
        for shard in self._shards:
            if shard.secure == secure and shard.live < STREAMS_PER_CLIENT:
                return shard
        # Plain HTTP does not use the SSL context, so no certificates are read for it.
        context = verifying_context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        limits = httpx.Limits(
            max_connections=None, max_keepalive_connections=None, keepalive_expiry=DEFAULT_KEEPALIVE
        )
        shard = _Shard(httpx.AsyncClient(verify=context, limits=limits), secure)
        self._shards.append(shard)
        return shard

    async def _drop(self, shard: _Shard) -> None:
        self._shards.remove(shard)
        with trio.move_on_after(_CLOSE_SECONDS, shield=True):
            await shard.client.aclose()

    async def _send(self, client: httpx.AsyncClient, request: HttpRequest, sink: ByteSink) -> None:
        connecting = _Connecting()
        try:
            sent = client.build_request(
                request.method,
                request.url,
                headers={"accept-encoding": "identity", **request.headers},
                content=request.body,
                timeout=self._timeout,
                extensions={"trace": connecting.trace},
            )
            if request.body:  # without a body, httpx does not send a length either
                sent.stream = _Body(request.body)
            try:
                response = await client.send(sent, stream=True, follow_redirects=False)
            finally:
                # The client's authentication and event hooks have changed this request.
                _note_request(sink, sent)
            _note_response(sink, response)
            try:
                await _feed(response, sink)
            finally:
                with trio.move_on_after(_CLOSE_SECONDS, shield=True):
                    await response.aclose()
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, BadContent) as error:
            raise self._translated(error, request.url) from root_of(error)
        finally:
            await connecting.close()  # noqa: ASYNC102 - shielded, with a time limit of its own

    def _translated(self, error: Exception, url: str) -> ProviderError:
        url = public_url(url)
        if isinstance(error, httpx.ConnectTimeout):
            return ProviderDeadlineError(
                endpoint=url, kind="connect", seconds=self._connect_timeout
            )
        why = reason_of(error)
        if isinstance(error, httpx.RemoteProtocolError) and not any(
            words in str(error) for words in _WENT_AWAY
        ):
            return ProviderProtocolError(f"the response is not valid HTTP: {why}", endpoint=url)
        if isinstance(error, BadContent) and not isinstance(error, ContentCut):
            return ProviderProtocolError(f"the response could not be decoded: {why}", endpoint=url)
        if isinstance(error, httpx.ConnectError | httpx.ProxyError):
            return ProviderConnectError(f"could not connect: {why}", endpoint=url)
        if isinstance(
            error, httpx.UnsupportedProtocol | httpx.InvalidURL | httpx.LocalProtocolError
        ):
            return ProviderConnectError(f"the request cannot be sent: {why}", endpoint=url)
        return ProviderConnectError(
            f"the connection broke before the response was complete: {why}", endpoint=url
        )


class _Body(httpx.AsyncByteStream):
    """The content of a request, as a single chunk.

    httpx's own class is an async generator. If sending were cancelled, that generator would stay
    suspended.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _Pieces(self._content)


class _Pieces:
    def __init__(self, *pieces: bytes) -> None:
        self._left = iter(pieces)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        for piece in self._left:
            return piece
        raise StopAsyncIteration


class _Connecting:
    """Closes the connection if its TLS handshake is cancelled; httpcore may leave it open."""

    def __init__(self) -> None:
        self._stream: httpcore.AsyncNetworkStream | None = None

    async def trace(self, event: str, info: Mapping[str, object]) -> None:
        """Receive the events of httpcore's `trace` extension."""
        if event == "connection.connect_tcp.complete":
            stream = info["return_value"]
            assert isinstance(stream, httpcore.AsyncNetworkStream)
            self._stream = stream
        elif event == "connection.start_tls.complete" or event.endswith("headers.started"):
            self._stream = None

    async def close(self) -> None:
        """Close the socket if it was connected but not handed to a connection. Idempotent."""
        if self._stream is not None:
            with trio.move_on_after(_CLOSE_SECONDS, shield=True):
                await self._stream.aclose()


def _note_request(sink: ByteSink, request: httpx.Request) -> None:
    if isinstance(sink, RequestSink):
        sink.note_request(str(request.url), request.headers)


def _note_response(sink: ByteSink, response: httpx.Response) -> None:
    """Report the other requests that led to a response, and the cookies that they returned."""
    if not isinstance(sink, RequestSink):
        return
    for each in (*response.history, response):
        _note_request(sink, each.request)
        for cookie in each.headers.get_list("set-cookie"):
            sink.note_request(str(each.url), {"set-cookie": cookie})


async def _feed(response: httpx.Response, sink: ByteSink) -> None:
    """Feed the response to the sink. When the sink is done, drain the rest of the body."""
    if response.is_stream_consumed:  # a caller's transport or event hook has already read it
        sink.start(response.status_code, dict(response.headers.items()))
        sink.feed(response.content)
        return
    chunks = response.aiter_raw()
    try:
        unpack = unpacker(response.headers.get("content-encoding", ""))
        sink.start(response.status_code, dict(response.headers.items()))
        while not sink.done:
            if sink.full:
                await sink.wait_room()
            data = await anext(chunks, None)
            if data is None:
                if unpack is not None:
                    unpack.end()
                return
            sink.feed(data if unpack is None else unpack.feed(data))
        await _drain(chunks)
    except BaseException:
        await _abandon(chunks)  # noqa: ASYNC102 - shielded, and cancelled from the start
        raise


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read the rest of the body if it is short; otherwise the connection cannot be reused."""
    room = DRAIN_BYTES
    with trio.move_on_after(DRAIN_SECONDS):
        try:
            async for data in chunks:
                room -= len(data)
                if room < 0:
                    break
        except (httpx.HTTPError, httpx.StreamError):
            return  # the response was already complete; the connection is closed
    await _abandon(chunks)


async def _abandon(chunks: AsyncIterator[bytes]) -> None:
    """Exhaust the iterator by cancelling its next read, which closes the connection."""
    with trio.CancelScope(shield=True) as scope:
        scope.cancel()
        with contextlib.suppress(httpx.HTTPError, httpx.StreamError):
            async for _ in chunks:
                pass


def _belongs_to_asyncio(client: httpx.AsyncClient) -> bool:
    # httpx has no public way to find out. httpcore detects the library at the first request, and
    # then keeps a backend of that library. Transports on aiohttp only work on asyncio.
    transport: object = getattr(client, "_transport", None)
    if "aiohttp" in type(transport).__module__.partition(".")[0]:
        return True
    detecting: object = getattr(getattr(transport, "_pool", None), "_network_backend", None)
    return isinstance(getattr(detecting, "_backend", None), httpcore.AnyIOBackend)


protect_loaded_modules()
