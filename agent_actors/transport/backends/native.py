"""`ByteExchange` on the transport's own engine: what the runtime speaks to endpoints by.

Owns the translation between the engine and the house: a sink on one side, a listener on the other,
and the house's errors. The sink is called in the reactor's task, in the context of whoever asked,
once a read; the asking task sleeps from the sending of the request to the end of the answer, and
wakes in between only to wait for room in a full sink.

Redirects are not followed: an answer of 3xx is fed as it is. Proxies are not used: `HttpxExchange`
does that.
"""

import ssl
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import trio

from agent_actors.abc import ByteSink, ConnectionStatistics, ExchangeStatistics, HttpRequest
from agent_actors.domain.urls import public_url
from agent_actors.errors import (
    ProviderConnectError,
    ProviderDeadlineError,
    ProviderError,
    ProviderProtocolError,
)
from agent_actors.transport.connection import Closer
from agent_actors.transport.content_encoding import unpacker
from agent_actors.transport.engine import Engine, EngineLimits, Passage
from agent_actors.transport.errors import (
    BadContent,
    BadRequest,
    BadResponse,
    ConnectFailed,
    ConnectionLost,
    ConnectTimeout,
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
    """`ByteExchange` by the transport's own engine.

    Args:
        connect_timeout: Seconds to connect in, name resolution and TLS included; `math.inf` for no
            limit.
        max_connections: Requests of one origin under way at once; further ones wait in line.
        keepalive: Seconds that an idle connection is kept.
        ssl_context: What is trusted; by default what httpx trusts, in one context for the process.
        max_head: Bytes of an answer's head, and of framing in a row without content.
        max_body: Bytes of an answer's body.
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
    ) -> None:
        pool = PoolLimits(connect_timeout, max_connections, keepalive, ssl_context)
        self._engine = Engine(EngineLimits(pool, max_head, max_body))
        self._connect_timeout = connect_timeout
        self._live = 0
        self._begun = 0

    async def exchange(self, request: HttpRequest, sink: ByteSink) -> None:
        """Send the request and feed its answer to `sink` until it ends or `sink.done`.

        Raises:
            ProviderConnectError: No connection, it broke, or this exchange is closed.
            ProviderDeadlineError: No connection within `connect_timeout`.
            ProviderProtocolError: What came is not HTTP, or over a limit.
            Whatever the sink raises.

        Cancellation: closes the connection at once.
        """
        self._live += 1
        self._begun += 1
        try:
            await self._exchange(request, sink)
        except _FAULTS as fault:
            raise _translated(fault, request.url, self._connect_timeout) from fault
        finally:
            self._live -= 1

    def statistics(self) -> ExchangeStatistics:
        """A snapshot."""
        return ExchangeStatistics(
            live=self._live,
            begun=self._begun,
            connections=connection_statistics(self._engine.counts, self._engine.waiting),
        )

    async def aclose(self) -> None:
        """Close every connection, also those in use; idempotent.

        Cancellation: they are closed all the same.
        """
        await self._engine.aclose()

    async def _exchange(self, request: HttpRequest, sink: ByteSink) -> None:
        wire = _wire_request(request)
        passage = await self._engine.admit(wire.origin)
        assert passage is not None  # no time was set
        try:
            answer = _Answer(sink, passage, trio.lowlevel.current_task())
            await self._engine.send(passage, wire, request.body, answer)
            await answer.wait()
        finally:
            passage.abandon()


class _Answer:
    """The listener of one exchange."""

    __slots__ = (
        "_context",
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

    def __init__(self, sink: ByteSink, passage: Passage, task: trio.lowlevel.Task) -> None:
        self.ended = False
        self._sink = sink
        self._passage = passage
        self._task = task
        # The task sleeps while its context is used: no context can be entered twice.
        self._context: Context = task.context
        self._sleeping = False
        self._paused = False
        self._failure: Exception | None = None
        # What came with the head while the sink was full already; None once something was fed.
        self._held: bytes | None = b""
        self._unpack: Callable[[bytes], bytes] | None = None

    async def wait(self) -> None:
        """Return when the answer has ended.

        Raises:
            Exception: Why it ended early.
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

    @property
    def full(self) -> bool:
        """True while the sink is."""
        return self._sink.full

    @property
    def done(self) -> bool:
        """True when the sink is."""
        return self._sink.done

    def on_head(self, head: ResponseHead) -> None:
        """The final answer's head."""
        headers = head.joined()
        self._unpack = unpacker(headers.get("content-encoding", ""))
        self._context.run(self._sink.start, head.status, headers)

    def on_body(self, data: bytes) -> bool | None:
        """One read's worth of the body."""
        if self._unpack is not None:
            data = self._unpack(data)
        if self._held is not None:
            if self._sink.full:
                self._held = data
                self._paused = True
                return None
            self._held = None
        return self._context.run(self._sink.feed, data)

    def on_pause(self) -> None:
        """The sink was full."""
        self._paused = True
        self._wake()

    def on_end(self, failure: Exception | None) -> None:
        """The answer has ended."""
        self.ended = True
        self._failure = failure
        # At once: by the time this task runs, its connection may serve another.
        self._passage.leave()
        self._wake()

    def _go_on(self) -> None:
        """There is room: feed what was held, in the asking task itself, and read on."""
        held, self._held = self._held, None
        if held:
            self._sink.feed(held)
        if self.ended:
            return
        connection = self._passage.connection
        assert connection is not None
        if self._sink.done:
            connection.let_go()
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
    """The counts as the house shows them."""
    closed = counts.closed
    return ConnectionStatistics(
        open=counts.open,
        idle=counts.idle,
        waiting=waiting,
        opened=counts.opened,
        reused=counts.reused,
        closed_by_peer=closed[Closer.PEER],
        closed_by_answer=closed[Closer.ANSWER],
        closed_by_fault=closed[Closer.FAULT],
        closed_by_cancel=closed[Closer.CANCEL],
        closed_by_expiry=closed[Closer.EXPIRY],
        closed_by_shutdown=closed[Closer.SHUTDOWN],
    )


def _wire_request(request: HttpRequest) -> WireRequest:
    return build_request(
        request.method, parse_url(request.url), _headers(request.headers, len(request.body))
    )


def _headers(own: Mapping[str, str], length: int) -> Iterator[tuple[bytes, bytes]]:
    # The length is known here and nowhere else; a body in other framing is never sent.
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
            raise BadRequest(f"the header {name!r} is not in ASCII") from error
    if not coded:
        yield b"accept-encoding", b"identity"


def _translated(fault: Exception, url: str, connect_timeout: float) -> ProviderError:
    url = public_url(url)
    if isinstance(fault, ConnectTimeout):
        return ProviderDeadlineError(endpoint=url, kind="connect", seconds=connect_timeout)
    if isinstance(fault, BadResponse):
        return ProviderProtocolError(f"the answer is not HTTP: {fault}", endpoint=url)
    if isinstance(fault, BadContent):
        return ProviderProtocolError(f"the answer could not be decoded: {fault}", endpoint=url)
    if isinstance(fault, BadRequest):
        return ProviderConnectError(f"the request cannot be sent: {fault}", endpoint=url)
    if isinstance(fault, ConnectFailed):
        return ProviderConnectError(f"could not connect: {fault}", endpoint=url)
    return ProviderConnectError(
        f"the connection broke before the answer was whole: {fault}", endpoint=url
    )
