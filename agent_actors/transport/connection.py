"""One HTTP/1.1 connection, which carries one request and its response at a time.

A connection owns a socket, its TLS layer and the reader of the current response. The reactor calls
the connection when the socket is readable, and the connection calls its listener synchronously.
Only sending can block.

A connection is *busy* from `begin` until its response has ended. It is *draining* while it reads
the rest of a body that its listener no longer needs, so that the connection can be reused.
Otherwise it is *idle*. The reactor watches the connection in all three states, so that a disconnect
is noticed immediately. While the listener is full, the connection is paused, which means that the
reactor does not watch it.

The connection notifies its owner, the pool, when it becomes idle and when it is closed.
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
"""The maximum number of bytes that may follow once the listener is done, if the connection is to be
kept. Usually only the few bytes that end the body follow. If the peer sends more, the connection is
closed.
"""


class CloseReason(Enum):
    """The reason why a connection was closed."""

    PEER = "peer"
    """The peer closed or reset the connection while it was idle or in the middle of a response."""
    ANSWER = "answer"
    """The response announced that it is the last one, or left the connection in an uncertain state.
    """
    FAULT = "fault"
    """The data was not HTTP or exceeded a limit, or the listener failed."""
    CANCEL = "cancel"
    """The caller that was waiting for the response was cancelled or left."""
    EXPIRY = "expiry"
    """The connection was idle for too long, or draining took too long."""
    SHUTDOWN = "shutdown"
    """The owner of the connection was closed."""


class Listener(Protocol):
    """Receives a response, in the reactor's task. No method may block."""

    @property
    def full(self) -> bool:
        """True while no more data can be accepted; the socket is not read until `resume`."""
        ...

    @property
    def done(self) -> bool:
        """True when no more data is needed."""
        ...

    def on_head(self, head: ResponseHead) -> None:
        """Receive the status and headers of the final response. An exception ends the exchange."""
        ...

    def on_body(self, data: bytes) -> bool | None:
        """Receive the body data from one read. An exception ends the exchange.

        Returns:
            True if the listener is certainly neither full nor done.
        """
        ...

    def on_pause(self) -> None:
        """Handle a pause of the connection: it is not read while the listener is full."""
        ...

    def on_end(self, failure: Exception | None) -> None:
        """Handle the end of the response; no more data will arrive. This is the last call."""
        ...


class ConnectionObserver(Protocol):
    """The owner of a connection."""

    def on_drain(self, connection: "Connection") -> None:
        """Handle a listener that needs no more data. The connection will soon be idle or closed."""
        ...

    def on_idle(self, connection: "Connection") -> None:
        """Handle a connection that is idle and can carry another request."""
        ...

    def on_closed(self, connection: "Connection", closer: CloseReason) -> None:
        """Handle a connection that was closed. This is the last call."""
        ...


class Connection:
    """A connected socket that speaks HTTP/1.1.

    Args:
        sock: A connected, non-blocking socket.
        tls: The TLS layer after its handshake; None for plain text.
        reactor: The reactor that watches the socket.
        owner: The observer that is notified of state changes.

    Attributes:
        closed: True once the connection is closed.
        sent_any: True if any bytes of the current request were sent.
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
        self, sock: socket.socket, tls: TlsLayer | None, reactor: Reactor, owner: ConnectionObserver
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
        """Start a response: pass all data that arrives from now on to the listener."""
        self._reactor.alarms.clear(self)
        self._listener = listener
        self._reader = reader
        self._head_told = False
        self._sent = False
        self.sent_any = False

    async def send(self, data: bytes, *, stall: float = math.inf) -> None:
        """Send bytes. If the response ends first, return early.

        Args:
            data: The bytes.
            stall: The longest time, in seconds, that the peer may go without accepting data.

        Raises:
            SendTimeout: The peer accepted no data for that long.
            ConnectionLost: The connection broke before any byte of the request was sent. If it
                breaks later, the listener is notified instead, because a response may have arrived
                before the peer disconnected.

        Cancellation: safe; some bytes may have been sent.
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
                view = memoryview(self._tls.encrypt(b""))  # pending TLS messages

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
        """Record that the complete request was sent. Only then can the connection be reused."""
        self._sent = True

    def resume(self) -> None:
        """Resume reading after a pause. Do nothing if the connection is not paused."""
        if not self._watched and not self.closed:
            self._reactor.watch(self._sock.fileno(), self)
            self._watched = True

    def detach_listener(self) -> None:
        """Detach a listener that is done, and drain the rest of the response."""
        if self.closed or self._listener is None:
            return
        self._listener = None
        if not self._sent:
            self.close(CloseReason.ANSWER)
            return
        self._drain_left = DRAIN_BYTES
        self._reactor.alarms.set(self, trio.current_time() + DRAIN_SECONDS)
        self.resume()
        self._owner.on_drain(self)

    def is_usable(self) -> bool:
        """Return whether an idle connection is still open and can carry a request."""
        while not self.closed:
            try:
                self._sock.recv(1, socket.MSG_PEEK)
            except BlockingIOError:
                return True
            except OSError:
                pass
            # The data may be a TLS message, possibly followed by the end of the stream. Any other
            # data closes the connection.
            self.ready()
        return False

    def keep(self, seconds: float) -> None:
        """Close the connection after this many seconds, unless it is in use by then."""
        self._reactor.alarms.set(self, trio.current_time() + seconds)

    def close(self, closer: CloseReason) -> None:
        """Close the connection immediately, without notifying the listener. Idempotent."""
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

    # --- called by the reactor and the timers ---

    def ready(self) -> None:
        """Read the available data once and process it."""
        try:
            count = self._sock.recv_into(self._reactor.buffer, READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lost(reason_of(error), clean=False)
            return
        if not count:
            self._lost("the peer closed the connection", clean=self._tls is None)
            return
        data = self._reactor.buffer[:count]
        if self._tls is None:
            self._take(data)
        else:
            self._take_records(self._tls, data)

    def shut(self) -> None:
        """Close the connection and notify the listener: the owner or `trio.run` is ending."""
        self._end(ConnectionLost("the exchange is closed"), CloseReason.SHUTDOWN)

    def ring(self) -> None:
        """Close the connection because it was idle or draining for too long."""
        self.close(CloseReason.EXPIRY)

    # --- received data ---

    def _take_records(self, tls: TlsLayer, data: memoryview) -> None:
        try:
            plain = tls.decrypt(data)
        except ConnectionLost as error:
            self._end(error, CloseReason.FAULT)
            return
        # A task may be in the middle of sending a record. That task then sends this data as well.
        if tls.unsent and self._sending is None:
            self._answer_tls(tls)
        if plain:
            self._take(plain)
        if tls.closed and not self.closed:
            self._lost("the peer closed the connection", clean=True)

    def _answer_tls(self, tls: TlsLayer) -> None:
        answer = tls.encrypt(b"")
        try:
            sent_all = self._sock.send(answer) == len(answer)
        except OSError:
            sent_all = False
        if not sent_all:  # the send buffer cannot take a few bytes: the peer does not read
            self._end(ConnectionLost("TLS: the peer does not accept data"), CloseReason.FAULT)

    def _take(self, data: bytes | memoryview) -> None:
        reader = self._reader
        if reader is None:
            self.close(CloseReason.FAULT)  # no request is pending
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
        except Exception as error:  # noqa: BLE001 - any exception of the listener ends its exchange
            failure = error
        if reader.complete or reader.failure is not None:
            self._finish(reader, failure)
        elif failure is not None:
            self._end(failure, CloseReason.FAULT)
        elif go_on:
            return
        elif listener.done:
            self.detach_listener()
            listener.on_end(None)
        elif listener.full:
            self._pause()
            listener.on_pause()

    def _drain(self, reader: ResponseReader, size: int) -> None:
        self._drain_left -= size
        if reader.failure is not None:
            self.close(CloseReason.FAULT)
        elif reader.complete:
            self._finish(reader)
        elif self._drain_left < 0:
            self.close(CloseReason.EXPIRY)

    def _finish(self, reader: ResponseReader, failure: Exception | None = None) -> None:
        """End the response; `failure` is an exception that its listener raised, if any."""
        if reader.failure is not None:
            self._end(failure or BadResponse(reader.failure), CloseReason.FAULT)
            return
        listener, self._listener, self._reader = self._listener, None, None
        if reader.keep_alive and self._sent and not reader.surplus:
            self.resume()
            self._owner.on_idle(self)
        else:
            self.close(CloseReason.ANSWER)
        if listener is not None:
            listener.on_end(failure)

    def _lost(self, reason: str, *, clean: bool) -> None:
        """Handle a peer that has disconnected or will not send anything more."""
        reader, listener = self._reader, self._listener
        if reader is None or listener is None:
            self.close(CloseReason.PEER)
            return
        reader.end(clean=clean)
        if reader.complete:
            self._finish(reader)
            return
        self._end(ConnectionLost(reason, answered=reader.begun), CloseReason.PEER)

    def _end(self, failure: Exception, closer: CloseReason) -> None:
        listener = self._listener
        self.close(closer)
        if listener is not None:
            listener.on_end(failure)

    def _pause(self) -> None:
        if self._watched:
            self._watched = False
            self._reactor.unwatch(self._sock.fileno())
