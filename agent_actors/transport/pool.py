"""The connections of one origin: who may have one, which one, and how many there are.

Owns the admission (first come, first served; a bound on requests under way) and the idle
connections, of which the last used is taken first: it is the likeliest to be alive, and the others
get old enough to be closed. It does not know HTTP.
"""

import ssl
from itertools import islice
from typing import Final

import attrs
import trio

from agent_actors.transport.connect import Origin, dial
from agent_actors.transport.connection import Closer, Connection
from agent_actors.transport.errors import ConnectFailed
from agent_actors.transport.reactor import current_reactor

DEFAULT_CONNECT_TIMEOUT: Final = 10.0
"""Seconds. A TCP and TLS handshake across the world takes less than one; a lost SYN costs three."""

DEFAULT_KEEPALIVE: Final = 60.0
"""Seconds that an idle connection is kept: agents come back after each round of tools."""

DEFAULT_MAX_CONNECTIONS: Final = 1000
"""Requests of one origin under way at once. Common limits of open files begin at 1,024."""

_LOOKS: Final = 8
"""Draining connections that a request looks at before it opens one: a look is a system call."""


@attrs.frozen
class PoolLimits:
    """What a pool keeps to.

    Attributes:
        connect_timeout: Seconds to connect in, name resolution and TLS included.
        max_connections: Requests under way at once; further ones wait in line.
        keepalive: Seconds that an idle connection is kept.
        ssl_context: What is trusted; None for the process's own context.
    """

    connect_timeout: float = DEFAULT_CONNECT_TIMEOUT
    max_connections: float = DEFAULT_MAX_CONNECTIONS
    keepalive: float = DEFAULT_KEEPALIVE
    ssl_context: ssl.SSLContext | None = None


@attrs.define(eq=False)
class PoolCounts:
    """What happened so far in all pools of one owner."""

    open: int = 0
    idle: int = 0
    opened: int = 0
    reused: int = 0
    closed: dict[Closer, int] = attrs.field(factory=lambda: dict.fromkeys(Closer, 0))


class Pool:
    """The connections of one origin.

    Args:
        origin: Where they lead.
        limits: What is kept to.
        counts: Where it is counted, shared with the owner's other pools.
    """

    def __init__(self, origin: Origin, limits: PoolLimits, counts: PoolCounts) -> None:
        self._origin = origin
        self._limits = limits
        self._counts = counts
        self._admission = trio.CapacityLimiter(limits.max_connections)
        self._open: set[Connection] = set()
        # Ordered by when they became idle. A dictionary: one that dies is taken out at once.
        self._idle: dict[Connection, None] = {}
        self._draining: set[Connection] = set()
        self._closed = False

    @property
    def waiting(self) -> int:
        """Requests that wait to be admitted."""
        return self._admission.statistics().tasks_waiting

    @property
    def unused(self) -> bool:
        """True if it holds nothing and nobody uses it."""
        return not self._open and not self._admission.borrowed_tokens and not self.waiting

    async def admit(self, borrower: object, *, patience: float) -> bool:
        """Wait to be among those who may have a connection.

        Args:
            borrower: What is admitted.
            patience: Seconds to wait.

        Returns:
            False if that was not long enough.

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
        """The next in line may come."""
        self._admission.release_on_behalf_of(borrower)

    def take_idle(self) -> Connection | None:
        """The idle connection that was used last, if there is one that is alive."""
        if not self._idle:
            for connection in tuple(islice(self._draining, _LOOKS)):
                connection.ready()  # its end may have come already, and be unread
        while self._idle:
            connection, _ = self._idle.popitem()
            self._counts.idle -= 1
            if connection.is_usable():
                self._counts.reused += 1
                return connection
        return None

    async def connect(self, connect_timeout: float | None = None) -> Connection:
        """A fresh connection.

        Args:
            connect_timeout: Seconds, instead of those of the limits.

        Raises:
            ConnectFailed: None came about.
            ConnectTimeout: It took too long.

        Cancellation: safe; nothing stays open.
        """
        limits = self._limits
        sock, tls = await dial(
            self._origin,
            connect_timeout=(
                limits.connect_timeout if connect_timeout is None else connect_timeout
            ),
            context=limits.ssl_context,
        )
        if self._closed:
            sock.close()
            raise ConnectFailed("the exchange is closed")
        connection = Connection(sock, tls, current_reactor(), self)
        self._open.add(connection)
        self._counts.open += 1
        self._counts.opened += 1
        return connection

    def close(self) -> None:
        """Close every connection; those who use one are told."""
        self._closed = True
        for connection in tuple(self._open):
            connection.shut()

    # --- what a connection tells ---

    def on_drain(self, connection: Connection) -> None:
        """It becomes idle, or is closed, soon."""
        self._draining.add(connection)

    def on_idle(self, connection: Connection) -> None:
        """It can carry another request."""
        self._draining.discard(connection)
        self._idle[connection] = None
        self._counts.idle += 1
        connection.keep(self._limits.keepalive)

    def on_closed(self, connection: Connection, closer: Closer) -> None:
        """It is closed."""
        self._open.discard(connection)
        self._draining.discard(connection)
        self._counts.open -= 1
        self._counts.closed[closer] += 1
        if connection in self._idle:
            del self._idle[connection]
            self._counts.idle -= 1
