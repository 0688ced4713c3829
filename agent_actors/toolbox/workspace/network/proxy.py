"""`HostProxy`: an HTTP proxy that connects the commands of a sandbox to some hosts only.

A sandbox with its own network namespace has no connection to any network. A helper listens on the
loopback address in that namespace (see `processes/supervisor.py`), and the proxy accepts on the
helper's socket, outside the sandbox. The proxy resolves a host itself, checks all addresses of the
host, and connects to an address that it has checked.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import trio

from agent_actors.permissions.urls import DomainPattern
from agent_actors.toolbox.web.urls import WebError, WebUrl, refuse_host, refuse_private_host
from agent_actors.toolbox.workspace.network.requests import BadRequest, ProxyRequest, RequestReader
from agent_actors.transport.addresses import AddressCheck, find_address_error
from agent_actors.transport.connect import Origin, dial
from agent_actors.transport.errors import AddressRefused, ConnectFailed, ConnectTimeout

PROXY_PORT: Final = 3128
"""The port in the sandbox, on the loopback address."""

WEB_PORTS: Final = frozenset({80, 443})
"""The ports of other hosts that commands may reach."""

_URL: Final = f"http://127.0.0.1:{PROXY_PORT}"
_LOCAL: Final = "localhost,127.0.0.1,::1"
VARIABLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{
            name: _URL
            for lower in ("http_proxy", "https_proxy", "all_proxy")
            for name in (lower, lower.upper())
        },
        "no_proxy": _LOCAL,
        "NO_PROXY": _LOCAL,
        "NODE_USE_ENV_PROXY": "1",
    }
)
"""The environment variables that make programs use the proxy."""

# The number of connections of a workspace at a time. The others wait in the kernel's queue.
_CONNECTIONS: Final = 64
# Time limits in seconds: for the head of a request, for the connection to the host, and for a
# connection on which no bytes arrive.
_HEAD_TIME: Final = 15.0
_CONNECT_TIME: Final = 15.0
_IDLE_TIME: Final = 300.0
# Seconds in which the rest of a refused request is read.
_LINGER_TIME: Final = 1.0
# Seconds to wait before accepting again if no file descriptor is free.
_FULL: Final = 0.1
_READ: Final = 65_536
_NOT_PRINTABLE: Final = re.compile(r"[^ -~]+")


class HostProxy:
    """An HTTP proxy for the commands of one workspace.

    Args:
        hosts: The hosts that commands may reach, such as `pypi.org` or `*.debian.org`.
        refused: Called with the host and the reason when a connection is refused.
        ports: The ports that commands may reach.
        check_address: Returns why an address must not be connected to.

    Raises:
        ConfigError: A host is not valid.
    """

    def __init__(
        self,
        hosts: tuple[str, ...],
        refused: Callable[[str, str], object],
        *,
        ports: frozenset[int] = WEB_PORTS,
        check_address: AddressCheck = find_address_error,
    ) -> None:
        for host in hosts:
            DomainPattern.parse(host)
        self._hosts = hosts
        self._refused = refused
        self._ports = ports
        self._check_address = check_address
        self._slots = trio.Semaphore(_CONNECTIONS)

    async def serve(self, listening: trio.socket.SocketType) -> None:
        """Serve the connections to a listening socket, until cancelled.

        Cancellation: closes all connections; the listening socket stays open.
        """
        listener = trio.SocketListener(listening)
        async with trio.open_nursery() as nursery:
            while True:
                await self._slots.acquire()
                nursery.start_soon(self._handle, await self._accept(listener))

    async def _accept(self, listener: trio.SocketListener) -> trio.SocketStream:
        """Accept a connection, for which a slot has been acquired."""
        try:
            while True:
                try:
                    return await listener.accept()
                except OSError:  # no file descriptor is free
                    await trio.sleep(_FULL)
        except BaseException:
            self._slots.release()
            raise

    async def _handle(self, client: trio.SocketStream) -> None:
        try:
            async with client:
                await self._serve_one(client)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the program has closed the connection
        finally:
            self._slots.release()

    async def _serve_one(self, client: trio.SocketStream) -> None:
        reader = RequestReader()
        try:
            with trio.fail_after(_HEAD_TIME):
                request, rest = await _read_head(client, reader)
            server = await self._connect(request.url)
        except BadRequest as error:
            await _respond(client, 400, "Bad Request", str(error))
        except WebError as error:
            await _respond(client, 403, str(error), str(error))
        except ConnectFailed as error:
            await _respond(client, 502, "Bad Gateway", f"the connection failed: {error}")
        except trio.TooSlowError:
            await _respond(client, 408, "Request Timeout", "the request took too long")
        except ConnectTimeout:
            await _respond(client, 504, "Gateway Timeout", "the connection took too long")
        else:
            async with server:
                await _pass_on(client, server, reader, rest)

    async def _connect(self, url: WebUrl) -> trio.SocketStream:
        """Connect to the host of a URL.

        Raises:
            WebError: The host, its address or the port is not allowed.
            ConnectFailed: No address accepted the connection.
            ConnectTimeout: The connection took too long.
        """
        try:
            refuse_host(url, self._hosts)
            refuse_private_host(url)
            if url.port not in self._ports:
                allowed = " and ".join(map(str, sorted(self._ports)))
                raise WebError(
                    f"the workspace does not allow port {url.port} of {url.host!r}; allowed: "
                    f"{allowed}"
                )
            origin = Origin(secure=False, host=url.host, port=url.port)
            try:
                sock, _ = await dial(
                    origin,
                    connect_timeout=_CONNECT_TIME,
                    context=None,
                    check_address=self._check_address,
                )
            except AddressRefused as error:
                raise WebError(f"{url.host!r} cannot be reached: {error}") from None
        except WebError as error:
            self._refused(url.host, str(error))
            raise
        return trio.SocketStream(trio.socket.from_stdlib_socket(sock))


async def _read_head(
    client: trio.SocketStream, reader: RequestReader
) -> tuple[ProxyRequest, bytes]:
    """Return the request, and the bytes that follow its head.

    Raises:
        BadRequest: The request is not valid.
        BrokenResourceError: The program closed the connection.
    """
    while True:
        data = await client.receive_some(_READ)
        if not data:
            raise trio.BrokenResourceError
        rest = reader.feed(bytes(data))
        if reader.request is not None:
            return reader.request, rest


async def _respond(client: trio.SocketStream, status: int, reason: str, text: str) -> None:
    """Refuse a request; clients that do not show the text of a response show the reason."""
    body = f"{text}\n".encode()
    line = _NOT_PRINTABLE.sub("?", reason)
    head = (
        f"HTTP/1.1 {status} {line}\r\ncontent-type: text/plain; charset=utf-8\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    with trio.move_on_after(_HEAD_TIME):
        await client.send_all(head.encode() + body)
        await client.send_eof()
    # If the rest of a request arrives on a closed socket, the client does not see the response.
    with trio.move_on_after(_LINGER_TIME):
        while await client.receive_some(_READ):
            pass


async def _pass_on(
    client: trio.SocketStream, server: trio.SocketStream, reader: RequestReader, rest: bytes
) -> None:
    """Pass on bytes until the connection has ended, or no bytes arrive for too long."""
    request = reader.request
    assert request is not None
    async with trio.open_nursery() as nursery:
        idle = nursery.cancel_scope
        idle.deadline = trio.current_time() + _IDLE_TIME
        if request.is_tunnel:
            nursery.start_soon(_copy, client, server, idle, rest)
            await _copy(server, client, idle, b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            nursery.start_soon(_copy_request, client, server, idle, reader, request.head + rest)
            await _copy(server, client, idle)
            idle.cancel()  # the response is complete, whatever the program still sends


async def _copy(
    source: trio.SocketStream,
    target: trio.SocketStream,
    idle: trio.CancelScope,
    first: bytes = b"",
) -> None:
    """Send the first bytes and then all that arrive; pass on their end."""
    try:
        await target.send_all(first)
        while data := await source.receive_some(_READ):
            idle.deadline = trio.current_time() + _IDLE_TIME
            await target.send_all(data)
        await target.send_eof()
    except trio.BrokenResourceError:
        idle.cancel()


async def _copy_request(
    client: trio.SocketStream,
    server: trio.SocketStream,
    idle: trio.CancelScope,
    reader: RequestReader,
    first: bytes,
) -> None:
    """Send the head and the body of one request."""
    try:
        await server.send_all(first)
        while not reader.complete and (data := await client.receive_some(_READ)):
            idle.deadline = trio.current_time() + _IDLE_TIME
            await server.send_all(reader.feed(bytes(data)))
    except trio.BrokenResourceError:
        pass  # a server may respond to, and close, a request that it does not read to its end
    except BadRequest:
        idle.cancel()
