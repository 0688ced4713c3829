"""What stands between us and a server: it passes the server's own bytes on, until a fault is due.

Owns the two connections of each client, and counts events: the servers here write each event as a
chunk of its own, so an event ends where a blank line is followed by the end of its chunk. What a
server cannot do by itself, such as to fall silent in the middle of a word, is done here to what it
really says.
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
# Seconds between two comments: many of them come within the deadline that they must not rearm.
_PING: Final = 0.02

LAST_CHUNK: Final = b"0\r\n\r\n"


@attrs.frozen
class Fault:
    """What goes wrong with one connection.

    Attributes:
        after: How many events are passed on first; None: all that the server says.
        more: How many bytes of the next event are passed on too.
        insert: What is sent then.
        instead: Whether that stands for all of the server's answer.
        then: `close` and `reset` end the connection, `hold` says no more, `ping` sends comments
            from then on; `go on` passes the rest.
        piece: The most bytes that are sent at once; 0: as they come.
    """

    after: int | None = None
    more: int = 0
    insert: bytes = b""
    instead: bool = False
    then: Literal["go on", "close", "reset", "hold", "ping"] = "go on"
    piece: int = 0


NO_FAULT: Final = Fault()


def chunk(data: bytes) -> bytes:
    """Data as a chunk of HTTP/1.1."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def answer(status: str, headers: Sequence[str], body: bytes) -> Fault:
    """An answer in the place of the server's own."""
    lines = [f"HTTP/1.1 {status}", *headers, f"content-length: {len(body)}", "", ""]
    return Fault(insert="\r\n".join(lines).encode() + body, instead=True, then="close")


@attrs.define(eq=False)
class _Answer:
    """One connection's answers on their way back."""

    fault: Fault
    client: trio.SocketStream
    passed: bytes = b""

    async def run(self, server: trio.SocketStream) -> None:
        """Pass on what the server says, until the fault or the server ends it."""
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
        """How much of this read is passed on before the fault; None: all, and no fault yet."""
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
                # The other side runs in between, and so reads the pieces one by one.
                await trio.lowlevel.checkpoint()

    async def _end(self) -> None:
        match self.fault.then:
            case "reset":
                # Closed with data unsent and a linger of 0 s, a connection is reset.
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
    # The client has left, and nobody waits for an answer any more.
    over.cancel()


async def faulty(nursery: trio.Nursery, url: str, *faults: Fault) -> str:
    """Stand before a server, in a nursery; the first connections get these faults, others none.

    Gives the address to ask instead of `url`.
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
            # One side that breaks is what a fault is for, and ends this connection only.
            with suppress(trio.BrokenResourceError):
                await _Answer(fault, client).run(server)
            both.cancel_scope.cancel()

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, serve, listeners)
    return url.replace(f":{port}", f":{listeners[0].socket.getsockname()[1]}", 1)
