"""Connect a socket to an origin, with TLS if the origin requires it.

This module resolves the host name, tries the addresses in parallel (happy eyeballs, RFC 8305, as
implemented by trio) and performs the TLS handshake. One deadline applies to all of these steps. The
module does not know HTTP.
"""

import errno
import ipaddress
import math
import os
import socket
import ssl
from typing import Final

import attrs
import trio

from agent_actors.transport.addresses import AddressCheck
from agent_actors.transport.errors import (
    AddressRefused,
    ConnectFailed,
    ConnectTimeout,
    reason_of,
    root_of,
)
from agent_actors.transport.tls import TlsLayer, verifying_context

_UNDER_WAY: Final = frozenset({errno.EINPROGRESS, errno.EWOULDBLOCK})
# Seconds to wait for one of several checked addresses before the next one is tried.
_NEXT_ADDRESS: Final = 3.0


@attrs.frozen
class Origin:
    """The destination of requests. Requests to the same origin can share connections.

    Attributes:
        secure: True for https.
        host: An ASCII host name, or an address without brackets.
        port: From 1 to 65535.
    """

    secure: bool
    host: str
    port: int


async def dial(
    origin: Origin,
    *,
    connect_timeout: float,
    context: ssl.SSLContext | None,
    check_address: AddressCheck | None = None,
) -> tuple[socket.socket, TlsLayer | None]:
    """Connect to an origin.

    Args:
        origin: The destination.
        connect_timeout: The time limit for all steps together, in seconds; `math.inf` for no limit.
        context: The trusted certificates; None for the shared context of the process.
        check_address: Checks every address of the host before any connection is opened; None if
            all addresses are allowed.

    Raises:
        AddressRefused: `check_address` refused an address of the host.
        ConnectFailed: No address accepted the connection, or TLS failed.
        ConnectTimeout: The timeout expired.
        ConfigError: The certificates named in the environment cannot be read.

    Cancellation: safe; no socket stays open.
    """
    try:
        with trio.move_on_after(connect_timeout):
            return await _connect(origin, context, check_address)
    except (OSError, UnicodeError) as error:
        # The peer refused the connection, no file descriptor is free, or the host name is invalid.
        raise ConnectFailed(reason_of(error)) from root_of(error)
    raise ConnectTimeout


async def _connect(
    origin: Origin, context: ssl.SSLContext | None, check_address: AddressCheck | None
) -> tuple[socket.socket, TlsLayer | None]:
    address = _address_of(origin.host)
    if check_address is not None:
        sock = await _connect_checked(origin, check_address)
    elif address is None:
        sock = await _connect_by_name(origin)
    else:
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        sock = await _connect_by_address(family, (origin.host, origin.port))
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


def _address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


async def _connect_checked(origin: Origin, check: AddressCheck) -> socket.socket:
    """Resolve the host once, check all of its addresses, and connect to one of them.

    A second resolution could return other addresses, which were not checked.
    """
    found = await trio.socket.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
    addresses = tuple(dict.fromkeys((item[0], item[4]) for item in found))
    for _, address in addresses:
        if reason := check(str(address[0])):
            raise AddressRefused(f"the address of the host, {address[0]}, is {reason}")
    failure = OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))
    for position, (family, address) in enumerate(addresses, 1):
        last = position == len(addresses)
        with trio.move_on_after(math.inf if last else _NEXT_ADDRESS):
            try:
                return await _connect_by_address(family, address)
            except OSError as error:
                failure = error
    raise failure


async def _connect_by_address(family: int, address: tuple[str | int | bytes, ...]) -> socket.socket:
    # A single address needs neither a nursery nor a thread, which saves three quarters of the cost.
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        code = sock.connect_ex(address)
        if code in _UNDER_WAY:
            await trio.lowlevel.wait_writable(sock)
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
    except BaseException:
        sock.close()
        raise
    return sock


async def _connect_by_name(origin: Origin) -> socket.socket:
    stream: trio.SocketStream | None = None
    unknown: socket.gaierror | None = None
    try:
        stream = await trio.open_tcp_stream(origin.host, origin.port)
    except socket.gaierror as error:
        unknown = error
    if stream is None:
        # Without a free file descriptor, the resolver reports that it could not look up the name.
        # The next line then raises the real error.
        socket.socket().close()
        assert unknown is not None
        raise unknown
    sock = socket.socket(fileno=stream.socket.detach())
    sock.setblocking(False)
    return sock
