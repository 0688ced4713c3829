"""A proxy between the client and a server, which passes on the server's bytes until a fault is due.

The proxy owns both connections of each client and counts events. The servers in these tests write
each event as its own chunk, so an event ends where a blank line is followed by the end of its
chunk. The proxy adds faults that a server cannot produce itself, such as silence in the middle of a
word, to the server's real output.
"""

import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Literal
from urllib.parse import urlsplit

import attrs
import trio

_EVENT_END: Final = b"\n\n\r\n"
_READ: Final = 65_536
# Seconds between two comments; many of them arrive within the deadline that they must not restart.
_PING: Final = 0.02

LAST_CHUNK: Final = b"0\r\n\r\n"


@attrs.frozen
class Fault:
    """The fault of one connection.

    Attributes:
        after: The number of events to pass on first. None: the complete response.
        more: The number of bytes of the next event to pass on as well.
        insert: The bytes to send then.
        instead: True if `insert` replaces the server's complete response.
        then: `close` and `reset` end the connection, `hold` sends nothing more, `ping` sends
            comments
            from then on, and `go on` passes on the rest.
        piece: The largest number of bytes to send at once. 0: as they arrive.
    """

    after: int | None = None
    more: int = 0
    insert: bytes = b""
    instead: bool = False
    then: Literal["go on", "close", "reset", "hold", "ping"] = "go on"
    piece: int = 0


NO_FAULT: Final = Fault()


def chunk(data: bytes) -> bytes:
    """Return the data as a chunk of HTTP/1.1."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def answer(status: str, headers: Sequence[str], body: bytes) -> Fault:
    """Return a fault that replaces the server's response with this one."""
    lines = [f"HTTP/1.1 {status}", *headers, f"content-length: {len(body)}", "", ""]
    return Fault(insert="\r\n".join(lines).encode() + body, instead=True, then="close")


@attrs.define(eq=False)
class _Answer:
    """The responses of one connection on their way to the client."""

    fault: Fault
    client: trio.SocketStream
    passed: bytes = b""

    async def run(self, server: trio.SocketStream) -> None:
        """Pass on the server's bytes until the fault or the server ends the connection."""
        while True:
            data = await server.receive_some(_READ)
            if not data:
                return
            due = self._due(data)
            await self._send(data if due is None else data[:due])
            if due is None:
                continue
            await self._send(self.fault.insert)
            if self.fault.then != "go on":
                await self._end()
                return
            await self._send(data[due:])
            self.fault = NO_FAULT

    def _due(self, data: bytes) -> int | None:
        """Return how many bytes of this read precede the fault, or None if it is not due."""
        if self.fault.instead:
            return 0
        if self.fault.after is None:
            return None
        before = len(self.passed)
        self.passed += data
        at = self.passed.find(b"\r\n\r\n") + 4
        for _ in range(self.fault.after):
            found = self.passed.find(_EVENT_END, at)
            if found < 0:
                return None
            at = found + len(_EVENT_END)
        if at < 4 or at + self.fault.more > len(self.passed):
            return None
        return at + self.fault.more - before

    async def _send(self, data: bytes) -> None:
        step = self.fault.piece or max(1, len(data))
        for at in range(0, len(data), step):
            await self.client.send_all(data[at : at + step])
            if self.fault.piece:
                # Let the client run, so that it reads the pieces one by one.
                await trio.lowlevel.checkpoint()

    async def _end(self) -> None:
        match self.fault.then:
            case "reset":
                # Closing with unsent data and a linger time of 0 s resets the connection.
                linger = struct.pack("ii", 1, 0)
                self.client.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, linger)
            case "hold":
                await trio.sleep_forever()
            case "ping":
                while True:
                    await self.client.send_all(chunk(b": ping\n\n"))
                    await trio.sleep(_PING)
            case _:
                pass


async def _ask(
    client: trio.SocketStream, server: trio.SocketStream, over: trio.CancelScope
) -> None:
    with suppress(trio.BrokenResourceError):
        async for data in client:
            await server.send_all(data)
    # The client has disconnected, so a response is no longer needed.
    over.cancel()


async def faulty(nursery: trio.Nursery, url: str, *faults: Fault) -> str:
    """Start a proxy in front of a server, in this nursery, and return its URL.

    The first connections get these faults, one each; later connections get none.
    """
    due = list(faults)
    port = urlsplit(url).port
    assert port is not None

    async def serve(client: trio.SocketStream) -> None:
        fault = due.pop(0) if due else NO_FAULT
        async with (
            client,
            await trio.open_tcp_stream("127.0.0.1", port) as server,
            trio.open_nursery() as both,
        ):
            both.start_soon(_ask, client, server, both.cancel_scope)
            # The fault may break either side; it ends this connection only.
            with suppress(trio.BrokenResourceError):
                await _Answer(fault, client).run(server)
            both.cancel_scope.cancel()

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, serve, listeners)
    return url.replace(f":{port}", f":{listeners[0].socket.getsockname()[1]}", 1)
