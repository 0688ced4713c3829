"""Requests over pooled connections: the part that both faces of the transport share.

Owns the pools and the way of one request: a place in line, a connection (an idle one, else a fresh
one), sending. The answer goes to the caller's listener, in the reactor's task. Here a request is
sent a second time only if nothing of it could be sent on an idle connection that turned out to be
dead. Whether it may be repeated when nobody knows what became of it, the caller decides.
"""

import math
from collections.abc import AsyncIterable
from typing import Final

import attrs
import trio

from agent_actors.transport.connect import Origin
from agent_actors.transport.connection import Closer, Connection, Listener
from agent_actors.transport.errors import ConnectFailed, ConnectionLost
from agent_actors.transport.pool import Pool, PoolCounts, PoolLimits
from agent_actors.transport.reactor import current_reactor
from agent_actors.transport.request import WireRequest
from agent_actors.transport.response import MAX_BODY, MAX_HEAD, ResponseReader

_POOLS: Final = 64
"""Origins that are remembered before unused ones are forgotten."""


@attrs.frozen
class EngineLimits:
    """What an engine keeps to.

    Attributes:
        pool: The limits of each origin's pool.
        max_head: Bytes of an answer's head, and of framing in a row without content.
        max_body: Bytes of an answer's body.
    """

    pool: PoolLimits = attrs.field(factory=PoolLimits)
    max_head: int = MAX_HEAD
    max_body: int = MAX_BODY


@attrs.define(eq=False)
class Passage:
    """One request's place, from its admission to the end of its answer.

    Attributes:
        connection: What carries it, once it is sent.
        reused: True if that had carried another request before.
    """

    _pool: Pool | None
    connection: Connection | None = attrs.field(default=None, init=False)
    reused: bool = attrs.field(default=False, init=False)

    @property
    def pool(self) -> Pool:
        """Where it has its place."""
        assert self._pool is not None
        return self._pool

    def leave(self) -> None:
        """The answer has ended: the next in line may come. Idempotent."""
        if self._pool is not None:
            self._pool.leave(self)
            self._pool = None

    def abandon(self) -> None:
        """Close the connection at once if the answer has not ended, and leave. Idempotent."""
        if self._pool is not None and self.connection is not None:
            self.connection.close(Closer.CANCEL)
        self.leave()


class Engine:
    """The pools of one exchange or transport.

    Args:
        limits: What is kept to.

    Attributes:
        counts: What happened so far.
        closed: True once it was closed.
    """

    def __init__(self, limits: EngineLimits) -> None:
        self.counts: PoolCounts = PoolCounts()
        self.closed: bool = False
        self._limits = limits
        self._pools: dict[Origin, Pool] = {}

    @property
    def waiting(self) -> int:
        """Requests that wait to be admitted."""
        return sum(pool.waiting for pool in self._pools.values())

    async def admit(self, origin: Origin, *, patience: float = math.inf) -> Passage | None:
        """Wait for a place; None if that took more than `patience` seconds.

        Cancellation: safe.
        """
        pool = self._pools.get(origin) or self._add_pool(origin)
        passage = Passage(pool)
        return passage if await pool.admit(passage, patience=patience) else None

    async def send(
        self,
        passage: Passage,
        request: WireRequest,
        content: bytes | AsyncIterable[bytes],
        listener: Listener,
        *,
        fresh: bool = False,
        connect_timeout: float | None = None,
        stall: float = math.inf,
    ) -> None:
        """Send a request. From here on the listener is told of its answer.

        Args:
            passage: Its place.
            request: Its head.
            content: Its body, framed as its head says.
            listener: Who is told; perhaps before this returns.
            fresh: True to take no idle connection.
            connect_timeout: Seconds, instead of those of the limits.
            stall: Seconds that the peer may take nothing.

        Raises:
            ConnectFailed: There is no connection.
            ConnectTimeout: There is none in time.
            ConnectionLost: It broke before anything was sent.
            SendTimeout: The peer took nothing for too long.
            Whatever `content` raises.

        Cancellation: closes the connection.
        """
        if isinstance(content, bytes):
            first, rest = request.head + content, None
        else:
            rest = aiter(content)
            first = request.head + await anext(rest, b"")
        while True:  # noqa: ASYNC913 - again only for a dead idle connection, and these get fewer
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
                        # Neither the making of pieces nor their sending need wait for anything.
                        await trio.lowlevel.checkpoint()
                        if connection.closed:
                            break  # the answer came early, or none will
                        await connection.send(piece, stall=stall)
            except ConnectionLost:
                connection.close(Closer.PEER)
                if not passage.reused:
                    raise
            except BaseException:
                connection.close(Closer.CANCEL)
                raise
            else:
                connection.sent()
                return

    async def aclose(self) -> None:
        """Close every connection, also those in use; idempotent.

        Cancellation: they are closed all the same.
        """
        self.closed = True
        for pool in self._pools.values():
            pool.close()
        await current_reactor().settled()

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
