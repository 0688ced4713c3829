"""The server side of one HTTP/1.1 connection, reduced to what a scripted endpoint needs.

A connection owns one socket and the requests read from it. It does not depend on scripts. The
socket is a plain non-blocking one, and trio waits for it. A write that fits into the kernel's
buffer costs one system call and no task switch, so one process can serve a thousand streams.
`linger` and `wait` watch the client during a response, and end when the client disconnects.
"""

import contextlib
import socket
import struct
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from typing import Final

import attrs
import httptools
import trio

# Larger than any request that a test may need; a longer request is a bug in the client.
_MAX_SIZE: Final = 64 * 1024 * 1024
_READ_SIZE: Final = 65_536
# SO_LINGER with a timeout of 0 seconds makes close() send RST.
_RESET: Final = struct.pack("ii", 1, 0)


class ClientGone(Exception):
    """The client closed or broke the connection."""


class BadRequest(Exception):
    """The client sent something that is not HTTP/1.1, or uses an unsupported part of it."""


class HangUp(Exception):
    """The script disconnects here.

    Attributes:
        reset: True: with RST; False: with FIN.
    """

    def __init__(self, *, reset: bool) -> None:
        super().__init__()
        self.reset = reset


@attrs.frozen
class IncomingRequest:
    """A request as it was received, with header names in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def wants_close(self) -> bool:
        """True if the client announces that this is its last request."""
        return self.headers.get("connection", "").lower() == "close"


class Connection:
    """The connection of one client.

    Args:
        sock: A connected, non-blocking socket; the connection takes ownership of it.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._parser = _RequestParser()
        with contextlib.suppress(OSError):  # the client may have disconnected already
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    async def read_request(self) -> IncomingRequest | None:
        """Read the next request; return None if the client closed the connection instead.

        Raises:
            BadRequest: The bytes are not a valid request.
            ClientGone: The client disconnected during a request.
        """
        while not self._parser.requests:
            if self._parser.speaks_tls:
                raise ClientGone  # the client notices that this server speaks plain HTTP
            if self._parser.fault:
                raise BadRequest(self._parser.fault)
            if not await self._read():
                if self._parser.inside:
                    raise ClientGone
                return None
        return self._parser.requests.popleft()

    async def send(self, data: bytes) -> None:
        """Write all of the data.

        Raises:
            ClientGone: The client closed or broke the connection.
        """
        while data := self.send_nowait(data):
            await trio.lowlevel.wait_writable(self._sock)

    def send_nowait(self, data: bytes) -> bytes:
        """Write as much as the kernel accepts at once, and return the rest.

        Raises:
            ClientGone: An earlier write showed that the client closed or broke the connection.
        """
        try:
            return data[self._sock.send(data) :]
        except BlockingIOError:
            return data
        except OSError as error:
            raise ClientGone from error

    async def linger(self, seconds: float) -> None:
        """Wait for this many seconds.

        Raises:
            ClientGone: The client closed or broke the connection in the meantime.
        """
        with trio.move_on_after(seconds):
            await self._until_gone()
            raise ClientGone

    async def wait(self, event: trio.Event) -> None:
        """Wait until the event is set.

        Raises:
            ClientGone: The client closed or broke the connection in the meantime.
        """
        gone = False

        async def watch() -> None:
            nonlocal gone
            await self._until_gone()
            gone = True
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            await event.wait()
            nursery.cancel_scope.cancel()
        if gone:
            raise ClientGone

    def close(self, *, reset: bool = False) -> None:
        """Close the socket, with FIN, or RST if `reset`; idempotent."""
        if reset:
            with contextlib.suppress(OSError):  # the client may have reset it first
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._sock.close()

    async def _read(self) -> bool:
        """Parse available data; return False at the end of the connection."""
        await trio.lowlevel.wait_readable(self._sock)
        return self._read_nowait()

    def _read_nowait(self) -> bool:
        try:
            data = self._sock.recv(_READ_SIZE)
        except BlockingIOError:  # pragma: no cover - only after a spurious wake-up
            return True
        except OSError:
            return False
        self._parser.feed(data)
        return bool(data)

    async def _until_gone(self) -> None:
        while await self._read():
            pass


# The type and the major version of a TLS record.
_TLS_HANDSHAKE: Final = b"\x16\x03"


class _RequestParser:
    """Parses the requests of one connection with llhttp, which is strict.

    Attributes:
        requests: The complete requests that have not been taken yet.
        inside: True if a request has begun but is not complete.
        fault: The reason why the received bytes are not valid; empty: all bytes are valid.
        speaks_tls: True if the client sent a TLS handshake instead of a request.
    """

    def __init__(self) -> None:
        self.requests: deque[IncomingRequest] = deque()
        self.inside: bool = False
        self.fault: str = ""
        self.speaks_tls: bool = False
        self._parser = httptools.HttpRequestParser(self)
        self._target = b""
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._size = 0

    def feed(self, data: bytes) -> None:
        """Parse these bytes."""
        if self.fault or not data:
            return
        if not self._size:
            self.speaks_tls = data.startswith(_TLS_HANDSHAKE)
        self._size += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.requests.pop()  # the parser has reported the request without its body
            self.fault = "CONNECT requests and Upgrade headers are not supported"
        except httptools.HttpParserError as error:
            self.fault = f"expected an HTTP/1.1 request, got {data[:80]!r}: {error}"
        if self._size > _MAX_SIZE:
            self.fault = f"the request is longer than {_MAX_SIZE} bytes"

    # Called by the parser.

    def on_message_begin(self) -> None:
        self.inside = True
        self._target, self._headers, self._body = b"", {}, bytearray()

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, data: bytes) -> None:
        self._body += data

    def on_message_complete(self) -> None:
        method = self._parser.get_method().decode("latin-1")
        target = self._target.decode("latin-1")
        self.requests.append(IncomingRequest(method, target, self._headers, bytes(self._body)))
        self.inside, self._size = False, 0


class Writer:
    """Writes one response, split and cut off as its script says.

    Args:
        connection: The connection to write to.
        split: Sizes of the writes, used cyclically, with a checkpoint after each write so that the
            client can read. Empty: data is written as it comes.
        cut: The number of bytes to write before disconnecting, including headers and framing; None:
            no limit.
        reset: True: disconnect with RST.
    """

    def __init__(
        self, connection: Connection, *, split: Sequence[int], cut: int | None, reset: bool
    ) -> None:
        self._connection = connection
        self._sizes: Iterator[int] | None = cycle(split) if split else None
        self._left = cut
        self._reset = reset

    @property
    def plain(self) -> bool:
        """True if data is written as it comes, neither split nor cut off."""
        return self._sizes is None and self._left is None

    async def write(self, data: bytes) -> None:
        """Write the data.

        Raises:
            ClientGone: The client closed or broke the connection.
            HangUp: The response must be cut off here.
        """
        if self._left is not None:
            data, rest = data[: self._left], data[self._left :]
            self._left -= len(data)
            await self._write(data)
            if rest or not self._left:
                raise HangUp(reset=self._reset)
        else:
            await self._write(data)

    async def _write(self, data: bytes) -> None:
        if self._sizes is None:
            await self._connection.send(data)
            return
        start = 0
        while start < len(data):
            size = next(self._sizes)
            await self._connection.send(data[start : start + size])
            start += size
            await trio.lowlevel.checkpoint()


def chunk(data: bytes) -> bytes:
    """Frame data as one chunk of the chunked transfer encoding."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


LAST_CHUNK: Final = b"0\r\n\r\n"


def response_head(status: int, reason: str, headers: Mapping[str, str]) -> bytes:
    """Return the status line and the headers."""
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {headers[name]}" for name in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
