"""Names that lead to this machine, and a server for them."""

import re
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, NoReturn

import attrs
import trio


@attrs.define(eq=False)
class Names(trio.abc.HostnameResolver):
    """Resolves every name of a table, and counts the look-ups."""

    addresses: dict[str, str]
    asked: list[str] = attrs.field(factory=list[str])

    async def getaddrinfo(self, host: Any, port: Any, *_: Any, **__: Any) -> Any:
        await trio.lowlevel.checkpoint()
        name = host.decode() if isinstance(host, bytes) else str(host)
        self.asked.append(name)
        if name not in self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "unknown name")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (self.addresses[name], int(port)))]

    async def getnameinfo(self, sockaddr: Any, flags: int) -> NoReturn:
        raise NotImplementedError


@attrs.define(eq=False)
class Server:
    """A server that records what it receives."""

    port: int
    heads: list[bytes] = attrs.field(factory=list[bytes])
    ends: int = 0


RESPONSE = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"


async def read_request(stream: trio.SocketStream) -> bytes:
    """Read a request, and return its head."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive_some()
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    missing = int(length[1]) - len(body) if length else 0
    while missing > 0:
        missing -= len(await stream.receive_some())
    return head


@asynccontextmanager
async def open_server(*, echo: bool = False) -> AsyncGenerator[Server]:
    """Serve `RESPONSE` to each request, or send back all bytes."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    server = Server(listener.socket.getsockname()[1])

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            if echo:
                async for data in stream:
                    await stream.send_all(data)
            else:
                server.heads.append(await read_request(stream))
                await stream.send_all(RESPONSE)
        server.ends += 1

    async with trio.open_nursery() as nursery:
        # The listening socket already queues connections.
        nursery.start_soon(trio.serve_listeners, serve, [listener])  # noqa: ASYNC113
        yield server
        nursery.cancel_scope.cancel()
