"""A raw-byte server on loopback that does exactly what its script says.

The server owns a listening socket and a task per connection, all inside its `async with` block. The
first connection gets the first script, and so on. Each step of a script is bytes to send, or an
action from this module. The server understands HTTP only enough to find the end of a request.

When a script ends, the connection stays open until its client disconnects, unless `close` or a
similar action has closed it. A client that disconnects ends its script silently; tests use
`wait_gone` to wait for that.
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
# A linger time of 0 s: the kernel sends a reset instead of the end of the stream.
_RESET: Final = struct.pack("ii", 1, 0)


class PeerGone(Exception):
    """The client or this side has closed the connection."""


class Peer:
    """The server's end of one connection, for the actions of a script.

    Attributes:
        server: The server that accepted the connection.
        stream: The stream for reading and writing: the socket's, or TLS on top of it.
        sock: The underlying socket.
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
        """Return the next data; raise `PeerGone` at the end of the stream."""
        data = await self.stream.receive_some(_READ)
        if not data:
            raise PeerGone
        return bytes(data)

    async def read_head(self) -> bytes:
        """Read the headers of a request and record them without a body."""
        while b"\r\n\r\n" not in self._unread:
            self._unread += await self.read()
        head, end, self._unread = self._unread.partition(b"\r\n\r\n")
        self.server.note_request(head + end)
        return head + end

    async def read_request(self) -> bytes:
        """Read a complete request and record it with its body as received."""
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
        """Read `size` bytes of the body after the headers."""
        content = bytearray(self._unread)
        while len(content) < size:
            content += await self.read()
        self._unread = bytes(content[size:])
        return bytes(content[:size])

    async def _chunks(self) -> int:
        """Read until all chunks have arrived; return their total size, with framing."""
        at = 0
        while True:  # noqa: ASYNC913 - all bytes may have arrived already
            while (end := self._unread.find(b"\r\n", at)) < 0:
                self._unread += await self.read()
            length = int(self._unread[at:end], 16)
            at = end + 2 + length + 2
            while len(self._unread) < at:
                self._unread += await self.read()
            if not length:
                return at

    async def until_gone(self) -> None:
        """Read and discard data until the client disconnects."""
        while True:
            await self.read()

    def send_now(self, data: bytes) -> None:
        """Send a few bytes immediately, bypassing TLS, so that no other task runs meanwhile."""
        os.write(self.sock.socket.fileno(), data)

    def close(self, *, reset: bool = False) -> None:
        """Close the socket at once, without the closing alert of TLS."""
        self._closed = True
        if reset:
            self.sock.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.sock.socket.close()

    async def run(self, script: Sequence["Step"]) -> None:
        """Run the script, then wait until the client disconnects."""
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


# --- actions of a script --------------------------------------------------------------------------


async def ask(peer: Peer) -> None:
    """Read a complete request."""
    await peer.read_request()


async def ask_head(peer: Peer) -> None:
    """Read the headers of a request, and possibly a part of its body."""
    await peer.read_head()


async def beat(peer: Peer) -> None:
    """Let the client read what was sent."""
    await trio.testing.wait_all_tasks_blocked(0.0005)


async def turns(peer: Peer) -> None:
    """Let other tasks run for a while, even if some task is always runnable."""
    for _ in range(10):
        await trio.lowlevel.checkpoint()


async def close(peer: Peer) -> None:
    """Close the connection."""
    peer.close()


async def reset(peer: Peer) -> None:
    """Reset the connection."""
    peer.close(reset=True)


async def half_close(peer: Peer) -> None:
    """Send the end of the stream; the receiving side stays open."""
    peer.sock.socket.shutdown(socket.SHUT_WR)


async def goodbye(peer: Peer) -> None:
    """Close properly for TLS, with a closing alert."""
    await peer.stream.aclose()
    peer.close()


async def stall(peer: Peer) -> None:
    """Stop reading and writing."""
    await trio.sleep_forever()


def until(event: trio.Event) -> Step:
    """Return a step that waits for this event."""

    async def wait(peer: Peer) -> None:
        await event.wait()

    return wait


def tell(event: trio.Event) -> Step:
    """Return a step that sets this event."""

    async def set_event(peer: Peer) -> None:
        event.set()

    return set_event


def apart(data: bytes, *at: int) -> list[Step]:
    """Return steps that send the data in pieces, each after the client has read the last."""
    edges = [0, *at, len(data)]
    steps: list[Step] = []
    for begin, end in itertools.pairwise(edges):
        steps += [data[begin:end], beat]
    return steps


class Dripping(trio.abc.Stream):
    """A stream that sends a few bytes at a time."""

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
    """A server on loopback that runs a script for each connection.

    Args:
        scripts: The scripts of the first connections, in order.
        forever: The script of all further connections. None: a further connection is an error,
            which
            is raised at the end of the block.
        tls: The context for TLS. A failed handshake ends the connection silently.
        drip: The largest number of bytes to send at a time. 0: no limit.
        patience: Seconds after which the body of the `async with` block is assumed to hang.

    Attributes:
        requests: The requests received, in order.
        connections: The number of accepted connections.
        gone: The number of connections that have ended.
        peers: The server's ends of the connections, in order.
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
        """The port of the server."""
        port: int = self._listener.socket.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        """A URL on the server."""
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}/v1"

    async def wait_gone(self, count: int = 1) -> None:
        """Wait until `count` connections have ended."""
        while self.gone < count:
            await self._changed.wait()

    async def wait_requests(self, count: int) -> None:
        """Wait until `count` requests have arrived."""
        while len(self.requests) < count:
            await self._changed.wait()

    async def wait_connections(self, count: int) -> None:
        """Wait until `count` connections have been accepted."""
        while self.connections < count:
            await self._changed.wait()

    def note_request(self, request: bytes) -> None:
        """Record a request, or the headers of one."""
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
