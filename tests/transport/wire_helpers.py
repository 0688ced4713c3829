"""A server of raw bytes on loopback, which does what its script says and nothing else.

Owns a listening socket and a task per connection, all inside the `async with` that opens it. The
first connection follows the first script, and so on; a step of a script is bytes, which are sent,
or an action of this module. It knows no more of HTTP than where a request ends.

When a script ends, the connection waits until its client has gone; `close` and its like end it from
this side. A client that leaves ends the script silently: that it left, and when, is what the tests
ask for (`wait_gone`).
"""

import itertools
import os
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeAlias

import trio
import trio.testing

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

_READ: Final = 64 * 1024
_PATIENCE: Final = 30.0
# On, and no second to wait: the kernel sends a reset instead of the end of the stream.
_RESET: Final = struct.pack("ii", 1, 0)


class PeerGone(Exception):
    """The client has closed the connection, or this side has."""


class Peer:
    """The server's end of one connection, for the actions of a script.

    Attributes:
        server: Whose it is.
        stream: What it reads and writes by: the socket's, or TLS on it.
        sock: The socket beneath.
    """

    def __init__(
        self, server: "WireServer", stream: trio.abc.Stream, sock: trio.SocketStream
    ) -> None:
        self.server: WireServer = server
        self.stream: trio.abc.Stream = stream
        self.sock: trio.SocketStream = sock
        self._unread = b""
        self._closed = False

    async def read(self) -> bytes:
        """What has come; raises `PeerGone` at its end."""
        data = await self.stream.receive_some(_READ)
        if not data:
            raise PeerGone
        return bytes(data)

    async def read_head(self) -> bytes:
        """The head of a request, which is recorded without its body."""
        while b"\r\n\r\n" not in self._unread:
            self._unread += await self.read()
        head, end, self._unread = self._unread.partition(b"\r\n\r\n")
        self.server.note_request(head + end)
        return head + end

    async def read_request(self) -> bytes:
        """A whole request, which is recorded with its body as it came."""
        head = await self.read_head()
        lines = head.lower().split(b"\r\n")
        if b"transfer-encoding: chunked" in lines:
            size = await self._chunks()
        else:
            lengths = [line[15:] for line in lines if line.startswith(b"content-length:")]
            size = int(lengths[0]) if lengths else 0
        self.server.requests[-1] = head + await self.read_rest(size)
        return self.server.requests[-1]

    async def read_rest(self, size: int) -> bytes:
        """The body of a request whose head was read; so many bytes."""
        content = bytearray(self._unread)
        while len(content) < size:
            content += await self.read()
        self._unread = bytes(content[size:])
        return bytes(content[:size])

    async def _chunks(self) -> int:
        """Read until all chunks are there; return how many bytes they are."""
        at = 0
        while True:  # noqa: ASYNC913 - the bytes at hand may be all of them
            while (end := self._unread.find(b"\r\n", at)) < 0:
                self._unread += await self.read()
            length = int(self._unread[at:end], 16)
            at = end + 2 + length + 2
            while len(self._unread) < at:
                self._unread += await self.read()
            if not length:
                return at

    async def until_gone(self) -> None:
        """Read and drop until the client closes."""
        while True:
            await self.read()

    def send_now(self, data: bytes) -> None:
        """Send a few bytes in this very moment, past TLS: no other task runs meanwhile."""
        os.write(self.sock.socket.fileno(), data)

    def close(self, *, reset: bool = False) -> None:
        """Close the socket at once, without a word of TLS."""
        self._closed = True
        if reset:
            self.sock.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.sock.socket.close()

    async def run(self, script: Sequence["Step"]) -> None:
        """Do what the script says; afterwards the client has gone."""
        try:
            for step in script:
                if isinstance(step, bytes):
                    await self.stream.send_all(step)
                else:
                    await step(self)
            if not self._closed:
                await self.until_gone()
        except (PeerGone, trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            pass
        finally:
            self.sock.socket.close()


Step: TypeAlias = bytes | Callable[[Peer], Awaitable[object]]


# --- what a script may hold beside bytes ----------------------------------------------------------


async def ask(peer: Peer) -> None:
    """Read a whole request."""
    await peer.read_request()


async def ask_head(peer: Peer) -> None:
    """Read the head of a request only, and perhaps some of its body."""
    await peer.read_head()


async def beat(peer: Peer) -> None:
    """Let the client take what was sent."""
    await trio.testing.wait_all_tasks_blocked(0.0005)


async def turns(peer: Peer) -> None:
    """Let others run for a while, also where something always does."""
    for _ in range(10):
        await trio.lowlevel.checkpoint()


async def close(peer: Peer) -> None:
    """Close."""
    peer.close()


async def reset(peer: Peer) -> None:
    """Close by a reset."""
    peer.close(reset=True)


async def half_close(peer: Peer) -> None:
    """Send the end of the stream, and go on reading."""
    peer.sock.socket.shutdown(socket.SHUT_WR)


async def goodbye(peer: Peer) -> None:
    """Close as TLS wants it: with its closing alert."""
    await peer.stream.aclose()
    peer.close()


async def stall(peer: Peer) -> None:
    """Neither read nor write any more."""
    await trio.sleep_forever()


def until(event: trio.Event) -> Step:
    """Wait for the test."""

    async def wait(peer: Peer) -> None:
        await event.wait()

    return wait


def tell(event: trio.Event) -> Step:
    """Tell the test how far the script has come."""

    async def set_event(peer: Peer) -> None:
        event.set()

    return set_event


def apart(data: bytes, *at: int) -> list[Step]:
    """The bytes in pieces, each sent when the client has taken the one before."""
    edges = [0, *at, len(data)]
    steps: list[Step] = []
    for begin, end in itertools.pairwise(edges):
        steps += [data[begin:end], beat]
    return steps


class Dripping(trio.abc.Stream):
    """Sends a few bytes at a time."""

    def __init__(self, stream: trio.abc.Stream, size: int) -> None:
        self._stream = stream
        self._size = size

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data)
        while view:
            await self._stream.send_all(view[: self._size])
            view = view[self._size :]
            await trio.lowlevel.checkpoint()

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._stream.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self._stream.aclose()


# --- the server -----------------------------------------------------------------------------------


class WireServer:
    """Listens on loopback, and gives each connection its script.

    Args:
        scripts: One a connection, in order.
        forever: The script of all further connections; None: a further one is an error, which is
            raised on leaving.
        tls: To speak TLS; a handshake that fails ends the connection silently.
        drip: To send so many bytes at a time, of whatever is sent; 0: as many as there are.
        patience: Seconds after which whoever stands in the `async with` is taken to hang.

    Attributes:
        requests: What it was asked, in order.
        connections: How many it accepted so far.
        gone: How many of them have ended.
        peers: This side's ends of them, in order.
    """

    def __init__(
        self,
        *scripts: Sequence[Step],
        forever: Sequence[Step] | None = None,
        tls: ssl.SSLContext | None = None,
        drip: int = 0,
        patience: float = _PATIENCE,
    ) -> None:
        self.requests: list[bytes] = []
        self.connections: int = 0
        self.gone: int = 0
        self.peers: list[Peer] = []
        self._scripts = scripts
        self._forever = forever
        self._tls = tls
        self._drip = drip
        self._patience = patience
        self._changed = trio.Event()
        self._nursery: trio.Nursery
        self._opened: AbstractAsyncContextManager[trio.Nursery]
        self._listener: trio.SocketListener

    async def __aenter__(self) -> Self:
        (self._listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=1000)
        self._opened = trio.open_nursery()
        self._nursery = await self._opened.__aenter__()
        self._nursery.cancel_scope.deadline = trio.current_time() + self._patience
        self._nursery.start_soon(self._accept)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        late = trio.current_time() > self._nursery.cancel_scope.deadline
        self._nursery.cancel_scope.cancel()
        swallowed = await self._opened.__aexit__(exc_type, exc_value, traceback)  # noqa: ASYNC102
        if late and (swallowed or exc_value is None):
            raise trio.TooSlowError
        return swallowed

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self._listener.socket.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        """A URL of it."""
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}/v1"

    async def wait_gone(self, count: int = 1) -> None:
        """Return when so many connections have ended."""
        while self.gone < count:
            await self._changed.wait()

    async def wait_requests(self, count: int) -> None:
        """Return when so many requests have come."""
        while len(self.requests) < count:
            await self._changed.wait()

    async def wait_connections(self, count: int) -> None:
        """Return when so many connections were accepted."""
        while self.connections < count:
            await self._changed.wait()

    def note_request(self, request: bytes) -> None:
        """A request, or its head, has come."""
        self.requests.append(request)
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _accept(self) -> None:
        try:
            while True:
                stream = await self._listener.accept()
                self._nursery.start_soon(self._serve, stream, self._next_script())
                self.connections += 1
                self._tell()
        finally:
            self._listener.socket.close()

    def _next_script(self) -> Sequence[Step]:
        if self.connections < len(self._scripts):
            return self._scripts[self.connections]
        if self._forever is None:
            raise AssertionError(f"connection {self.connections + 1} has no script")
        return self._forever

    async def _serve(self, sock: trio.SocketStream, script: Sequence[Step]) -> None:
        stream: trio.abc.Stream = Dripping(sock, self._drip) if self._drip else sock
        if self._tls is not None:
            stream = trio.SSLStream(stream, self._tls, server_side=True)
        peer = Peer(self, stream, sock)
        self.peers.append(peer)
        try:
            await peer.run(script)
        finally:
            self.gone += 1
            self._tell()
