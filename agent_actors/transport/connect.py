"""A connected socket, and TLS on it, for an origin.

Owns the way from a name to a connection: resolving it, trying its addresses side by side (happy
eyeballs, RFC 8305, as trio does it), the TLS handshake, and one deadline over all that. It does not
know HTTP.
"""

import errno
import ipaddress
import os
import socket
import ssl
from typing import Final

import attrs
import trio

from agent_actors.transport.errors import ConnectFailed, ConnectTimeout, reason_of
from agent_actors.transport.tls import TlsLayer, verifying_context

_UNDER_WAY: Final = frozenset({errno.EINPROGRESS, errno.EWOULDBLOCK})


@attrs.frozen
class Origin:
    """Where requests go: what may share connections.

    Attributes:
        secure: True for https.
        host: A name in ASCII, or an address without brackets.
        port: From 1 to 65535.
    """

    secure: bool
    host: str
    port: int


async def dial(
    origin: Origin, *, connect_timeout: float, context: ssl.SSLContext | None
) -> tuple[socket.socket, TlsLayer | None]:
    """Connect.

    Args:
        origin: To whom.
        connect_timeout: Seconds for all of it; `math.inf` for no limit.
        context: What is trusted; None for the process's own context.

    Raises:
        ConnectFailed: No address took the connection, or TLS failed.
        ConnectTimeout: It took too long.

    Cancellation: safe; nothing stays open.
    """
    with trio.move_on_after(connect_timeout):
        sock = await _connect(origin)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if not origin.secure:
                return sock, None
            layer = TlsLayer(context or verifying_context(), origin.host)
            await layer.handshake(sock)
        except BaseException:
            sock.close()
            raise
        return sock, layer
    raise ConnectTimeout


async def _connect(origin: Origin) -> socket.socket:
    try:
        address = ipaddress.ip_address(origin.host)
    except ValueError:
        return await _connect_by_name(origin)
    # One address needs no nursery and no thread: a quarter of the price.
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        code = sock.connect_ex((origin.host, origin.port))
        if code in _UNDER_WAY:
            await trio.lowlevel.wait_writable(sock)
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
    except OSError as error:
        sock.close()
        raise ConnectFailed(reason_of(error)) from error
    except BaseException:
        sock.close()
        raise
    return sock


async def _connect_by_name(origin: Origin) -> socket.socket:
    try:
        stream = await trio.open_tcp_stream(origin.host, origin.port)
    except (OSError, UnicodeError) as error:
        raise ConnectFailed(reason_of(error)) from error
    sock = socket.socket(fileno=stream.socket.detach())
    sock.setblocking(False)
    return sock
