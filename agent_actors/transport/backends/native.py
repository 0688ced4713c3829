"""`ByteExchange` on the native engine, which the runtime uses by default.

This module connects the engine's listener to the caller's sink and translates errors. The reactor
calls the sink once per read. The call runs in the reactor's task, but in the context of the
requesting task. The requesting task sleeps from the time the request is sent until the response
ends. It wakes up in between only to wait until a full sink accepts data again.

Redirects are not followed: a 3xx response is fed to the sink unchanged. Proxies are not supported;
`HttpxExchange` supports them.
"""

import ssl
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import trio

from agent_actors.abc import ByteSink, ConnectionStatistics, ExchangeStatistics, HttpRequest
from agent_actors.domain.provenance import public_url
from agent_actors.errors import (
    ProviderConnectError,
    ProviderDeadlineError,
    ProviderError,
    ProviderProtocolError,
)
from agent_actors.transport.addresses import AddressCheck
from agent_actors.transport.connection import CloseReason
from agent_actors.transport.content_encoding import Unpacker, unpacker
from agent_actors.transport.engine import Engine, EngineLimits, PooledRequest
from agent_actors.transport.errors import (
    BadContent,
    BadRequest,
    BadResponse,
    ConnectFailed,
    ConnectionLost,
    ConnectTimeout,
    ContentCut,
    root_of,
)
from agent_actors.transport.pool import (
    DEFAULT_CONNECT_TIMEOUT,
    DEFAULT_KEEPALIVE,
    DEFAULT_MAX_CONNECTIONS,
    PoolCounts,
    PoolLimits,
)
from agent_actors.transport.request import WireRequest, build_request, parse_url
from agent_actors.transport.response import MAX_BODY, MAX_HEAD, ResponseHead

if TYPE_CHECKING:
    from contextvars import Context

_FAULTS: Final = (
    BadContent,
    BadRequest,
    BadResponse,
    ConnectFailed,
    ConnectionLost,
    ConnectTimeout,
)


class HttpExchange:
    """`ByteExchange` on the native engine.

    Args:
        connect_timeout: The time limit for connecting, including name resolution and TLS, in
            seconds; `math.inf` for no limit.
        max_connections: The maximum number of concurrent requests to one origin; further requests
            wait in a queue.
        keepalive: The time, in seconds, for which an idle connection is kept open.
        ssl_context: The trusted certificates; by default those that httpx trusts, in one context
            for the process.
        max_head: The maximum size of the response headers, and of consecutive framing without
            content, in bytes.
        max_body: The maximum size of a response body, in bytes.
        check_address: Checks every address of a host before a connection is opened. It returns the
            reason why the address must not be connected to, or empty text. By default, all
            addresses are allowed.
        decode: False to feed compressed bodies to the sink as they are.
    """

    def __init__(
        self,
        *,
        connect_timeout: float = DEFAULT_CONNECT_TIMEOUT,
        max_connections: float = DEFAULT_MAX_CONNECTIONS,
        keepalive: float = DEFAULT_KEEPALIVE,
        ssl_context: ssl.SSLContext | None = None,
        max_head: int = MAX_HEAD,
        max_body: int = MAX_BODY,
        check_address: AddressCheck | None = None,
        decode: bool = True,
    ) -> None:
        pool = PoolLimits(connect_timeout, max_connections, keepalive, ssl_context, check_address)
        self._engine = Engine(EngineLimits(pool, max_head, max_body))
        self._connect_timeout = connect_timeout
        self._decode = decode
        self._live = 0
        self._begun = 0

    async def exchange(self, request: HttpRequest, sink: ByteSink) -> None:
        """Send the request and feed its response to `sink` until it ends or `sink.done` is true.

        Raises:
            ProviderConnectError: The connection could not be made or was lost, or this exchange is
                closed.
            ProviderDeadlineError: The connection was not made within `connect_timeout`.
            ProviderProtocolError: The received data is not HTTP or exceeds a limit.
            ConfigError: The certificates named in the environment cannot be read.
            Exception: Any exception raised by the sink.

        Cancellation: closes the connection at once.
        """
        self._live += 1
        self._begun += 1
        try:
            wire = _wire_request(request)
            passage = await self._engine.admit(wire.origin)
            assert passage is not None  # no timeout was set
            try:
                answer = _Answer(sink, passage, trio.lowlevel.current_task(), decode=self._decode)
                await self._engine.send(passage, wire, request.body, answer)
                await answer.wait()
            finally:
                passage.abandon()
        except _FAULTS as fault:
            raise _translated(fault, request.url, self._connect_timeout) from root_of(fault)
        finally:
            self._live -= 1

    def statistics(self) -> ExchangeStatistics:
        """Return a snapshot of the connection statistics."""
        return ExchangeStatistics(
            live=self._live,
            begun=self._begun,
            connections=connection_statistics(self._engine.counts, self._engine.waiting),
        )

    async def aclose(self) -> None:
        """Close all connections, including those in use. Idempotent.

        Cancellation: all connections are still closed.
        """
        await self._engine.aclose()


class _Answer:
    """The listener for one exchange."""

    __slots__ = (
        "_context",
        "_decode",
        "_failure",
        "_held",
        "_passage",
        "_paused",
        "_sink",
        "_sleeping",
        "_task",
        "_unpack",
        "ended",
    )

    def __init__(
        self, sink: ByteSink, passage: PooledRequest, task: trio.lowlevel.Task, *, decode: bool
    ) -> None:
        self.ended = False
        self._decode = decode
        self._sink = sink
        self._passage = passage
        self._task = task
        # The requesting task must sleep while its context is in use, because a context cannot be
        # entered twice.
        self._context: Context = task.context
        self._sleeping = False
        self._paused = False
        self._failure: Exception | None = None
        # Data that arrived with the headers while the sink was already full; None once any data was
        # fed.
        self._held: bytes | None = b""
        self._unpack: Unpacker | None = None

    async def wait(self) -> None:
        """Wait until the response has ended.

        Raises:
            Exception: The reason why the response ended early.
        """
        while self._paused or not self.ended:
            if self._paused:
                await self._sink.wait_room()
                self._paused = False
                self._go_on()
            else:
                self._sleeping = True
                await trio.lowlevel.wait_task_rescheduled(self._stop_sleeping)
        if self._failure is not None:
            raise self._failure
        if self._unpack is not None and not self._sink.done:
            self._unpack.end()

    @property
    def full(self) -> bool:
        """True while the sink is full."""
        return self._sink.full

    @property
    def done(self) -> bool:
        """True when the sink is done."""
        return self._sink.done

    def on_head(self, head: ResponseHead) -> None:
        """Receive the status and headers of the final response."""
        headers = head.joined()
        if self._decode:
            self._unpack = unpacker(headers.get("content-encoding", ""))
        self._context.run(self._sink.start, head.status, headers)

    def on_body(self, data: bytes) -> bool | None:
        """Receive the body data from one read."""
        if self._unpack is not None:
            data = self._unpack.feed(data)
        if self._held is not None:
            if self._sink.full:
                self._held = data
                self._paused = True
                return None
            self._held = None
        return self._context.run(self._sink.feed, data)

    def on_pause(self) -> None:
        """Record that the connection was paused because the sink was full."""
        self._paused = True
        self._wake()

    def on_end(self, failure: Exception | None) -> None:
        """Record that the response has ended."""
        self.ended = True
        self._failure = failure
        # Give up the place immediately: by the time this task runs, the connection may already
        # serve another request.
        self._passage.leave()
        self._wake()

    def _go_on(self) -> None:
        """Feed the withheld data in the requesting task, and resume reading."""
        held, self._held = self._held, None
        if held:
            self._sink.feed(held)
        if self.ended:
            return
        connection = self._passage.connection
        assert connection is not None
        if self._sink.done:
            connection.detach_listener()
            self.on_end(None)
        elif self._sink.full:
            self._paused = True
        else:
            connection.resume()

    def _wake(self) -> None:
        if self._sleeping:
            self._sleeping = False
            trio.lowlevel.reschedule(self._task)

    def _stop_sleeping(self, _: object) -> trio.lowlevel.Abort:
        self._sleeping = False
        return trio.lowlevel.Abort.SUCCEEDED


def connection_statistics(counts: PoolCounts, waiting: int) -> ConnectionStatistics:
    """Convert the engine's statistics to the public type."""
    closed = counts.closed
    return ConnectionStatistics(
        open=counts.open,
        idle=counts.idle,
        waiting=waiting,
        opened=counts.opened,
        reused=counts.reused,
        closed_by_peer=closed[CloseReason.PEER],
        closed_by_answer=closed[CloseReason.ANSWER],
        closed_by_fault=closed[CloseReason.FAULT],
        closed_by_cancel=closed[CloseReason.CANCEL],
        closed_by_expiry=closed[CloseReason.EXPIRY],
        closed_by_shutdown=closed[CloseReason.SHUTDOWN],
    )


def _wire_request(request: HttpRequest) -> WireRequest:
    return build_request(
        request.method, parse_url(request.url), _headers(request.headers, len(request.body))
    )


def _headers(own: Mapping[str, str], length: int) -> Iterator[tuple[bytes, bytes]]:
    # Only this function knows the length. Bodies with other framing are never sent.
    yield b"content-length", b"%d" % length
    coded = False
    for name, value in own.items():
        lower = name.lower()
        if lower in {"content-length", "transfer-encoding"}:
            continue
        coded = coded or lower == "accept-encoding"
        try:
            yield name.encode("ascii"), value.encode("latin-1")
        except UnicodeEncodeError as error:
            raise BadRequest(
                f"the header {name!r} must have an ASCII name and a Latin-1 value"
            ) from error
    if not coded:
        yield b"accept-encoding", b"identity"


def _translated(fault: Exception, url: str, connect_timeout: float) -> ProviderError:
    url = public_url(url)
    if isinstance(fault, ConnectTimeout):
        return ProviderDeadlineError(endpoint=url, kind="connect", seconds=connect_timeout)
    if isinstance(fault, BadResponse):
        return ProviderProtocolError(f"the response is not valid HTTP: {fault}", endpoint=url)
    if isinstance(fault, BadContent) and not isinstance(fault, ContentCut):
        return ProviderProtocolError(f"the response could not be decoded: {fault}", endpoint=url)
    if isinstance(fault, BadRequest):
        return ProviderConnectError(f"the request cannot be sent: {fault}", endpoint=url)
    if isinstance(fault, ConnectFailed):
        return ProviderConnectError(f"could not connect: {fault}", endpoint=url)
    return ProviderConnectError(
        f"the connection broke before the response was complete: {fault}", endpoint=url
    )
