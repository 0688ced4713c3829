"""The connections to one origin: admission, reuse and statistics.

A pool admits requests first come, first served, up to a limit. From its idle connections it takes
the most recently used one, which is the most likely to be alive. Connections that stay idle for too
long are closed. The pool does not know HTTP.
"""

import ssl
from itertools import islice
from typing import Final

import attrs
import trio

from agent_actors.transport.addresses import AddressCheck
from agent_actors.transport.connect import Origin, dial
from agent_actors.transport.connection import CloseReason, Connection
from agent_actors.transport.errors import ConnectFailed, reason_of, root_of
from agent_actors.transport.reactor import current_reactor

DEFAULT_CONNECT_TIMEOUT: Final = 10.0
"""Seconds. A TCP and TLS handshake across the world takes less than one second; a lost SYN costs
three.
"""

DEFAULT_KEEPALIVE: Final = 60.0
"""The time, in seconds, for which an idle connection is kept. Agents send the next request after
each round of tool calls.
"""

DEFAULT_MAX_CONNECTIONS: Final = 1000
"""Concurrent requests to one origin. Typical limits on open files start at 1,024."""

_LOOKS: Final = 8
"""The number of draining connections that a request checks before it opens a new one. Each check
costs a system call.
"""


@attrs.frozen
class PoolLimits:
    """The limits of a pool.

    Attributes:
        connect_timeout: The time limit for connecting, including name resolution and TLS, in
            seconds.
        max_connections: The maximum number of concurrent requests; further requests wait in a
            queue.
        keepalive: The time, in seconds, for which an idle connection is kept open.
        ssl_context: The trusted certificates; None for the shared context of the process.
        check_address: Checks every address of a host before a connection is opened; None if all
            addresses are allowed.
    """

    connect_timeout: float = DEFAULT_CONNECT_TIMEOUT
    max_connections: float = DEFAULT_MAX_CONNECTIONS
    keepalive: float = DEFAULT_KEEPALIVE
    ssl_context: ssl.SSLContext | None = None
    check_address: AddressCheck | None = None


@attrs.define(eq=False)
class PoolCounts:
    """Statistics over all pools of one owner."""

    open: int = 0
    idle: int = 0
    opened: int = 0
    reused: int = 0
    closed: dict[CloseReason, int] = attrs.field(factory=lambda: dict.fromkeys(CloseReason, 0))


class Pool:
    """The connections to one origin.

    Args:
        origin: The destination of the connections.
        limits: The limits of the pool.
        counts: The statistics to update, shared with the owner's other pools.
    """

    def __init__(self, origin: Origin, limits: PoolLimits, counts: PoolCounts) -> None:
        self._origin = origin
        self._limits = limits
        self._counts = counts
        self._admission = trio.CapacityLimiter(limits.max_connections)
        self._open: set[Connection] = set()
        # Ordered by the time at which the connections became idle. A dictionary, because a
        # connection that breaks is removed at once.
        self._idle: dict[Connection, None] = {}
        self._draining: set[Connection] = set()
        self._closed = False

    @property
    def waiting(self) -> int:
        """The number of requests that are waiting for admission."""
        return self._admission.statistics().tasks_waiting

    @property
    def unused(self) -> bool:
        """True if the pool holds no connection and no request uses it."""
        return not self._open and not self._admission.borrowed_tokens and not self.waiting

    async def admit(self, borrower: object, *, patience: float) -> bool:
        """Wait until the request may use a connection.

        Args:
            borrower: The object to admit.
            patience: The maximum waiting time, in seconds.

        Returns:
            False if the request was not admitted in time.

        Cancellation: safe.
        """
        try:
            self._admission.acquire_on_behalf_of_nowait(borrower)
        except trio.WouldBlock:
            with trio.move_on_after(patience):
                await self._admission.acquire_on_behalf_of(borrower)
                return True
            return False
        return True

    def leave(self, borrower: object) -> None:
        """Give up a place, so that the next request is admitted."""
        self._admission.release_on_behalf_of(borrower)

    def take_idle(self) -> Connection | None:
        """Return the most recently used idle connection that is alive; None if there is none."""
        if not self._idle:
            for connection in tuple(islice(self._draining, _LOOKS)):
                connection.ready()  # the end of its response may have arrived but not been read
        while self._idle:
            connection, _ = self._idle.popitem()
            self._counts.idle -= 1
            if connection.is_usable():
                self._counts.reused += 1
                return connection
        return None

    async def connect(self, connect_timeout: float | None = None) -> Connection:
        """Open a new connection.

        Args:
            connect_timeout: Overrides the connect timeout of the pool, in seconds.

        Raises:
            ConnectFailed: The connection could not be made.
            ConnectTimeout: The connection was not made in time.

        Cancellation: safe; no socket stays open.
        """
        limits = self._limits
        sock, tls = await dial(
            self._origin,
            connect_timeout=(
                limits.connect_timeout if connect_timeout is None else connect_timeout
            ),
            context=limits.ssl_context,
            check_address=limits.check_address,
        )
        if self._closed:
            sock.close()
            raise ConnectFailed("the exchange is closed")
        try:
            connection = Connection(sock, tls, current_reactor(), self)
        except OSError as error:  # the reactor needs a file descriptor, and none is free
            sock.close()
            raise ConnectFailed(reason_of(error)) from root_of(error)
        self._open.add(connection)
        self._counts.open += 1
        self._counts.opened += 1
        return connection

    def close(self) -> None:
        """Close all connections and notify the listeners of those in use."""
        self._closed = True
        for connection in tuple(self._open):
            connection.shut()

    # --- called by a connection ---

    def on_drain(self, connection: Connection) -> None:
        """Mark the connection as draining; it will soon be idle or closed."""
        self._draining.add(connection)

    def on_idle(self, connection: Connection) -> None:
        """Mark the connection as idle, so that another request can use it."""
        self._draining.discard(connection)
        self._idle[connection] = None
        self._counts.idle += 1
        connection.keep(self._limits.keepalive)

    def on_closed(self, connection: Connection, closer: CloseReason) -> None:
        """Mark the connection as closed."""
        self._open.discard(connection)
        self._draining.discard(connection)
        self._counts.open -= 1
        self._counts.closed[closer] += 1
        if connection in self._idle:
            del self._idle[connection]
            self._counts.idle -= 1
