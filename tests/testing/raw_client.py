"""A client that sees the raw bytes, which an HTTP library would hide or repair."""

import json
import socket
import struct
from types import TracebackType
from typing import Final, Literal, Self

import attrs
import trio

from agent_actors.domain.json import JsonObject
from agent_actors.testing.endpoint import ScriptedEndpoint

Ending = Literal["closed", "reset"]
# Seconds; only a failing test waits so long.
PATIENCE: Final = 5.0

QUESTION: Final[JsonObject] = {
    "model": "m",
    "stream": True,
    "messages": [{"role": "user", "content": "Hello?"}],
}


def request_bytes(body: JsonObject | bytes = QUESTION, *headers: str) -> bytes:
    """Return a request for a chat completion."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [
        "POST /v1/chat/completions HTTP/1.1",
        "Host: localhost",
        f"Content-Length: {len(content)}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


@attrs.define(eq=False)
class RawClient:
    """A connection to an endpoint, as an async context manager."""

    endpoint: ScriptedEndpoint
    reads: list[bytes] = attrs.Factory(list[bytes])
    _stream: trio.SocketStream = attrs.field(init=False)

    async def __aenter__(self) -> Self:
        self._stream = await trio.open_tcp_stream("127.0.0.1", self.endpoint.port)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await trio.aclose_forcefully(self._stream)

    def reset(self) -> None:
        """Reset the connection."""
        self._stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._stream.socket.close()

    async def send(self, data: bytes) -> None:
        await self._stream.send_all(data)

    async def read_until(self, end: bytes) -> bytes:
        """Read up to and including `end`."""
        data = b""
        with trio.fail_after(PATIENCE):
            while end not in data:
                piece = await self._stream.receive_some()
                assert piece, f"closed before {end!r}: {data!r}"
                self.reads.append(piece)
                data += piece
        return data

    async def read_to_end(self) -> tuple[bytes, Ending]:
        """Read until the connection ends; return the data and the kind of end."""
        read: list[bytes] = []
        with trio.fail_after(PATIENCE):
            try:
                while piece := await self._stream.receive_some():
                    read.append(piece)
            except trio.BrokenResourceError:
                return b"".join(read), "reset"
            finally:
                self.reads.extend(read)
        return b"".join(read), "closed"


async def ask(endpoint: ScriptedEndpoint, body: JsonObject = QUESTION) -> tuple[bytes, Ending]:
    """Send a request over its own connection and return the complete response."""
    async with RawClient(endpoint) as client:
        await client.send(request_bytes(body, "Connection: close"))
        return await client.read_to_end()


def body_of(response: bytes) -> bytes:
    """Return the body, decoding the chunked encoding as far as it was received."""
    head, _, rest = response.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" not in head:
        return rest
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        body += rest[: int(size, 16)]
        rest = rest[int(size, 16) + 2 :]
    return body
