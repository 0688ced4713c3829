"""Send requests over pooled connections. Both backends of the native engine share this module.

The engine owns the pools. A request gets a place in a pool and then a connection: an idle one if
possible, otherwise a new one. The response is passed to the caller's listener, in the reactor's
task. The engine repeats a request only if an idle connection turned out to be dead before any byte
of the request was sent. If some bytes were sent, the endpoint may have processed the request, and
the caller decides whether to repeat it.
"""

import math
from collections.abc import AsyncIterable
from typing import Final

import attrs
import trio

from agent_actors.transport.connect import Origin
from agent_actors.transport.connection import CloseReason, Connection, Listener
from agent_actors.transport.errors import ConnectFailed, ConnectionLost
from agent_actors.transport.pool import Pool, PoolCounts, PoolLimits
from agent_actors.transport.reactor import current_reactor
from agent_actors.transport.request import WireRequest
from agent_actors.transport.response import MAX_BODY, MAX_HEAD, ResponseReader

_POOLS: Final = 64
"""The number of origins whose pools are kept. If there are more, unused pools are dropped."""


@attrs.frozen
class EngineLimits:
    """The limits of an engine.

    Attributes:
        pool: The limits of each origin's pool.
        max_head: The maximum size of the response headers, and of consecutive framing without
            content, in bytes.
        max_body: The maximum size of a response body, in bytes.
    """

    pool: PoolLimits = attrs.field(factory=PoolLimits)
    max_head: int = MAX_HEAD
    max_body: int = MAX_BODY


@attrs.define(eq=False)
class PooledRequest:
    """The place of one request in a pool, from admission to the end of its response.

    Attributes:
        connection: The connection that carries the request, once the request has been sent.
        reused: True if the connection had carried another request before.
    """

    _pool: Pool | None
    connection: Connection | None = attrs.field(default=None, init=False)
    reused: bool = attrs.field(default=False, init=False)

    @property
    def pool(self) -> Pool:
        """The pool that admitted the request."""
        assert self._pool is not None
        return self._pool

    def leave(self) -> None:
        """After the response, give up the place and admit the next request. Idempotent."""
        if self._pool is not None:
            self._pool.leave(self)
            self._pool = None

    def abandon(self) -> None:
        """Close the connection if the response has not ended, and give up the place. Idempotent."""
        if self._pool is not None and self.connection is not None:
            self.connection.close(CloseReason.CANCEL)
        self.leave()


class Engine:
    """The pools of one exchange or transport.

    Args:
        limits: The limits of the engine.

    Attributes:
        counts: Statistics so far.
        closed: True once the engine was closed.
    """

    def __init__(self, limits: EngineLimits) -> None:
        self.counts: PoolCounts = PoolCounts()
        self.closed: bool = False
        self._limits = limits
        self._pools: dict[Origin, Pool] = {}

    @property
    def waiting(self) -> int:
        """The number of requests that are waiting for admission."""
        return sum(pool.waiting for pool in self._pools.values())

    async def admit(self, origin: Origin, *, patience: float = math.inf) -> PooledRequest | None:
        """Wait for a place; return None if none becomes free within `patience` seconds.

        Cancellation: safe.
        """
        pool = self._pools.get(origin) or self._add_pool(origin)
        passage = PooledRequest(pool)
        return passage if await pool.admit(passage, patience=patience) else None

    async def send(
        self,
        passage: PooledRequest,
        request: WireRequest,
        content: bytes | AsyncIterable[bytes],
        listener: Listener,
        *,
        fresh: bool = False,
        connect_timeout: float | None = None,
        stall: float = math.inf,
    ) -> None:
        """Send a request. The listener receives the response.

        Args:
            passage: The request's place in the pool, which it gives up after the response.
            request: The request line and headers.
            content: The body, framed as the headers declare.
            listener: Receives the response, possibly before this method returns.
            fresh: True to always open a new connection.
            connect_timeout: Overrides the connect timeout of the pool, in seconds.
            stall: The longest time, in seconds, that the peer may go without accepting data.

        Raises:
            ConnectFailed: The connection could not be made.
            ConnectTimeout: The connection was not made in time.
            ConnectionLost: The connection broke before any byte was sent.
            SendTimeout: The peer accepted no data for too long.
            Exception: Any exception raised by `content`.

        Cancellation: closes the connection.
        """
        if isinstance(content, bytes):
            first, rest = request.head + content, None
        else:
            rest = aiter(content)
            first = request.head + await anext(rest, b"")
        while True:  # noqa: ASYNC913 - repeats only for dead idle connections, and their number decreases
            if self.closed:
                raise ConnectFailed("the exchange is closed")
            connection = None if fresh else passage.pool.take_idle()
            passage.reused = connection is not None
            if connection is None:
                connection = await passage.pool.connect(connect_timeout)
            passage.connection = connection
            connection.begin(listener, self._reader(request))
            try:
                await connection.send(first, stall=stall)
                if rest is not None:
                    async for piece in rest:
                        # Neither producing the chunks nor sending them is guaranteed to be a
                        # checkpoint.
                        await trio.lowlevel.checkpoint()
                        if connection.closed:
                            break  # the response came early, or none will come
                        await connection.send(piece, stall=stall)
            except ConnectionLost:
                connection.close(CloseReason.PEER)
                if not passage.reused:
                    raise
            except BaseException:
                connection.close(CloseReason.CANCEL)
                raise
            else:
                connection.sent()
                return

    async def aclose(self) -> None:
        """Close all connections, including those in use. Idempotent.

        Cancellation: all connections are still closed.
        """
        self.closed = True
        for pool in self._pools.values():
            pool.close()
        await current_reactor().wait_done()

    def _add_pool(self, origin: Origin) -> Pool:
        if len(self._pools) >= _POOLS:
            self._pools = {key: pool for key, pool in self._pools.items() if not pool.unused}
        pool = self._pools[origin] = Pool(origin, self._limits.pool, self.counts)
        return pool

    def _reader(self, request: WireRequest) -> ResponseReader:
        return ResponseReader(
            head_only=request.head_only,
            max_head=self._limits.max_head,
            max_body=self._limits.max_body,
        )
