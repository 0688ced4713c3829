"""One connection: it carries one request and its answer at a time, and says what became of it.

Owns a socket, the TLS on it, and the reader of the answer under way. It is called by the reactor
when there is something to read, and calls its listener in place; nothing here waits but sending.

A connection is *busy* from `begin` until its answer has ended, *draining* when its listener has
seen enough and the rest of the body is only read so that the connection can be used again, else
*idle*. It is watched in all three, so that a peer who leaves is noticed at once, and it is paused,
which means not watched, while its listener is full.

Its owner (the pool) is told when it becomes idle and when it is closed, and by whom.
"""

import math
import socket
from enum import Enum
from typing import Final, Protocol

import trio

from agent_actors.transport.errors import (
    BadResponse,
    ConnectionLost,
    SendTimeout,
    reason_of,
)
from agent_actors.transport.reactor import READ_SIZE, Reactor
from agent_actors.transport.response import ResponseHead, ResponseReader
from agent_actors.transport.tls import TlsLayer

DRAIN_SECONDS: Final = 0.5
DRAIN_BYTES: Final = 64 * 1024
"""What may come after the end that the listener saw, for the sake of keeping the connection:
usually the few bytes that end the body. Whoever sends more is cut off."""


class Closer(Enum):
    """By whom, or for what, a connection was closed."""

    PEER = "peer"
    """The peer closed or reset it, idle or in the middle of an answer."""
    ANSWER = "answer"
    """Its answer said that it is the last one, or left the connection in doubt."""
    FAULT = "fault"
    """What came was no HTTP or over a limit, or the listener failed."""
    CANCEL = "cancel"
    """Whoever waited for the answer was cancelled or left."""
    EXPIRY = "expiry"
    """It was idle for too long, or its drain took too long."""
    SHUTDOWN = "shutdown"
    """Whoever owns it was closed."""


class Listener(Protocol):
    """Is told of an answer, in the reactor's task: nothing in here may wait."""

    @property
    def full(self) -> bool:
        """True while nothing more can be taken: the socket is not read until `resume`."""
        ...

    @property
    def done(self) -> bool:
        """True when nothing more is wanted."""
        ...

    def on_head(self, head: ResponseHead) -> None:
        """The final answer's head. What this raises ends the exchange."""
        ...

    def on_body(self, data: bytes) -> bool | None:
        """One read's worth of the body. What this raises ends the exchange.

        Returns:
            True if it is surely neither full nor done.
        """
        ...

    def on_pause(self) -> None:
        """The listener was full, so the connection is paused."""
        ...

    def on_end(self, failure: Exception | None) -> None:
        """The answer has ended, or nothing more comes; the last call."""
        ...


class Owner(Protocol):
    """Whom a connection belongs to."""

    def on_drain(self, connection: "Connection") -> None:
        """Its listener has seen enough; it becomes idle, or is closed, soon."""
        ...

    def on_idle(self, connection: "Connection") -> None:
        """It can carry another request."""
        ...

    def on_closed(self, connection: "Connection", closer: Closer) -> None:
        """It is closed; the last call."""
        ...


class Connection:
    """A connected socket that speaks HTTP/1.1.

    Args:
        sock: Connected, not blocking.
        tls: Its TLS, after the handshake; None for plain text.
        reactor: Watches it.
        owner: Told of its state.

    Attributes:
        closed: True once it is closed.
        sent_any: True if something of the request under way was sent.
    """

    __slots__ = (
        "_drain_left",
        "_head_told",
        "_listener",
        "_owner",
        "_reactor",
        "_reader",
        "_sending",
        "_sent",
        "_sock",
        "_tls",
        "_watched",
        "closed",
        "sent_any",
    )

    def __init__(
        self, sock: socket.socket, tls: TlsLayer | None, reactor: Reactor, owner: Owner
    ) -> None:
        self.closed: bool = False
        self.sent_any: bool = False
        self._sock = sock
        self._tls = tls
        self._reactor = reactor
        self._owner = owner
        self._listener: Listener | None = None
        self._reader: ResponseReader | None = None
        self._head_told = False
        self._sent = True
        self._sending: trio.CancelScope | None = None
        self._drain_left = 0
        reactor.watch(sock.fileno(), self)
        self._watched = True

    # --- carrying a request ---

    def begin(self, listener: Listener, reader: ResponseReader) -> None:
        """From here on, what comes is the answer to a request, and is told to the listener."""
        self._reactor.alarms.clear(self)
        self._listener = listener
        self._reader = reader
        self._head_told = False
        self._sent = False
        self.sent_any = False

    async def send(self, data: bytes, *, stall: float = math.inf) -> None:
        """Send bytes. Returns early if the answer ends first: its peer does not want the rest.

        Args:
            data: What is sent.
            stall: Seconds that the peer may take nothing.

        Raises:
            SendTimeout: It took nothing for so long.
            ConnectionLost: Nothing of the request could be sent. If some of it was, and then no
                more, the listener is told: an answer may have come before the peer left.

        Cancellation: safe; some of it may have been sent.
        """
        try:
            view = memoryview(data if self._tls is None else self._tls.encrypt(data))
        except ConnectionLost:
            if not self.sent_any:
                raise
            return
        while view and not self.closed:
            try:
                view = view[self._sock.send(view) :]
                self.sent_any = True
            except BlockingIOError:
                await self._wait_writable(stall)
            except OSError as error:
                if not self.sent_any:
                    raise ConnectionLost(reason_of(error)) from error
                return
            if not view and self._tls is not None and self._tls.unsent:
                view = memoryview(self._tls.encrypt(b""))  # what came up meanwhile

    async def _wait_writable(self, stall: float) -> None:
        with trio.CancelScope(deadline=trio.current_time() + stall) as scope:
            self._sending = scope
            try:
                await trio.lowlevel.wait_writable(self._sock)
            finally:
                self._sending = None
        if scope.cancelled_caught and not self.closed:
            raise SendTimeout

    def sent(self) -> None:
        """The whole request was sent: its answer may end the exchange and leave the connection."""
        self._sent = True

    def resume(self) -> None:
        """Read on after a pause; nothing happens if it is not paused."""
        if not self._watched and not self.closed:
            self._reactor.watch(self._sock.fileno(), self)
            self._watched = True

    def let_go(self) -> None:
        """The listener is told nothing more; the rest of the answer is drained. For a done one."""
        if self.closed or self._listener is None:
            return
        self._listener = None
        if not self._sent:
            self.close(Closer.ANSWER)
            return
        self._drain_left = DRAIN_BYTES
        self._reactor.alarms.set(self, trio.current_time() + DRAIN_SECONDS)
        self.resume()
        self._owner.on_drain(self)

    def is_usable(self) -> bool:
        """True if an idle connection can carry a request; False if its peer has left meanwhile."""
        while not self.closed:
            try:
                self._sock.recv(1, socket.MSG_PEEK)
            except BlockingIOError:
                return True
            except OSError:
                pass
            # TLS may have said something of its own, and the end may be behind it; everything
            # else closes it.
            self.ready()
        return False

    def keep(self, seconds: float) -> None:
        """Close it after so many seconds if it is still idle then."""
        self._reactor.alarms.set(self, trio.current_time() + seconds)

    def close(self, closer: Closer) -> None:
        """Close it at once. The listener, if any, is told nothing. Idempotent."""
        if self.closed:
            return
        self.closed = True
        self._listener = self._reader = None
        self._reactor.alarms.clear(self)
        self._pause()
        if self._sending is not None:
            self._sending.cancel("the connection is closed")
        self._sock.close()
        self._owner.on_closed(self, closer)

    # --- what the reactor and the alarms call ---

    def ready(self) -> None:
        """Read what is there, once, and pass it on."""
        try:
            count = self._sock.recv_into(self._reactor.buffer, READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lost(reason_of(error), clean=False)
            return
        if not count:
            self._lost("the peer closed it", clean=self._tls is None)
            return
        data = self._reactor.buffer[:count]
        if self._tls is None:
            self._take(data)
        else:
            self._take_records(self._tls, data)

    def shut(self) -> None:
        """Close it, and tell the listener: its owner closes, or `trio.run` ends."""
        self._end(ConnectionLost("the exchange is closed"), Closer.SHUTDOWN)

    def ring(self) -> None:
        """It was idle, or draining, for too long."""
        self.close(Closer.EXPIRY)

    # --- what came ---

    def _take_records(self, tls: TlsLayer, data: memoryview) -> None:
        try:
            plain = tls.decrypt(data)
        except ConnectionLost as error:
            self._end(error, Closer.FAULT)
            return
        # Half a record may be under way: whoever sends it sends this after it.
        if tls.unsent and self._sending is None:
            self._answer_tls(tls)
        if plain:
            self._take(plain)
        if tls.closed and not self.closed:
            self._lost("the peer closed it", clean=True)

    def _answer_tls(self, tls: TlsLayer) -> None:
        answer = tls.encrypt(b"")
        try:
            whole = self._sock.send(answer) == len(answer)
        except OSError:
            whole = False
        if not whole:  # a few bytes found no room: this peer reads nothing
            self._end(ConnectionLost("TLS: the peer takes no answer"), Closer.FAULT)

    def _take(self, data: bytes | memoryview) -> None:
        reader = self._reader
        if reader is None:
            self.close(Closer.FAULT)  # nobody asked for anything
            return
        body = reader.feed(data)
        listener = self._listener
        if listener is None:
            self._drain(reader, len(data))
            return
        failure: Exception | None = None
        go_on: bool | None = None
        try:
            if not self._head_told and reader.head is not None:
                self._head_told = True
                listener.on_head(reader.head)
                if listener.done:
                    body = b""
            if body:
                go_on = listener.on_body(body)
        except Exception as error:  # noqa: BLE001 - whatever the listener raises ends its exchange
            failure = error
        if reader.complete or reader.failure is not None:
            self._finish(reader, failure)
        elif failure is not None:
            self._end(failure, Closer.FAULT)
        elif go_on:
            return
        elif listener.done:
            self.let_go()
            listener.on_end(None)
        elif listener.full:
            self._pause()
            listener.on_pause()

    def _drain(self, reader: ResponseReader, size: int) -> None:
        self._drain_left -= size
        if reader.failure is not None:
            self.close(Closer.FAULT)
        elif reader.complete:
            self._finish(reader)
        elif self._drain_left < 0:
            self.close(Closer.EXPIRY)

    def _finish(self, reader: ResponseReader, failure: Exception | None = None) -> None:
        """The answer has ended, one way or another; or its listener failed at its end."""
        if reader.failure is not None:
            self._end(failure or BadResponse(reader.failure), Closer.FAULT)
            return
        listener, self._listener, self._reader = self._listener, None, None
        if reader.keep_alive and self._sent and not reader.surplus:
            self.resume()
            self._owner.on_idle(self)
        else:
            self.close(Closer.ANSWER)
        if listener is not None:
            listener.on_end(failure)

    def _lost(self, reason: str, *, clean: bool) -> None:
        """The peer has gone, or will send nothing more."""
        reader, listener = self._reader, self._listener
        if reader is None or listener is None:
            self.close(Closer.PEER)
            return
        reader.end(clean=clean)
        if reader.complete:
            self._finish(reader)
            return
        self._end(ConnectionLost(reason, answered=reader.begun), Closer.PEER)

    def _end(self, failure: Exception, closer: Closer) -> None:
        listener = self._listener
        self.close(closer)
        if listener is not None:
            listener.on_end(failure)

    def _pause(self) -> None:
        if self._watched:
            self._watched = False
            self._reactor.unwatch(self._sock.fileno())
