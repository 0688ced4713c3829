"""TLS from bytes to bytes. No socket is wrapped, and a record costs no system call of its own.

A layer owns the TLS state of one connection over two `MemoryBIO`s. Only `handshake` waits; all
other methods are synchronous. The caller passes the context, or the process shares one: creating
a context reads all certificates, which takes tens of milliseconds.
"""

import contextlib
import functools
import socket
import ssl
from typing import Final

import httpx
import trio

from agent_actors.transport.errors import ConnectFailed, ConnectionLost, reason_of

_RECORD: Final = 64 * 1024
"""Bytes that are taken out at a time; a record holds 16 KiB."""


@functools.cache
def verifying_context() -> ssl.SSLContext:
    """Return the context of the process. It checks certificates and names as httpx does."""
    return httpx.create_ssl_context()


class TlsLayer:
    """The client side of a TLS connection.

    Args:
        context: The trusted certificates.
        host: The name that the peer's certificate must contain.

    Attributes:
        closed: True once the peer has announced, in TLS, that no more data comes.
    """

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self.closed: bool = False
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)

    async def handshake(self, sock: socket.socket) -> None:
        """Negotiate keys with the peer and verify its certificate.

        Raises:
            ConnectFailed: The certificate was refused, or the peer broke off.

        Cancellation: safe; the connection cannot be used afterwards.
        """
        while True:
            failure: ssl.SSLError | None = None
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                agreed = False
            except ssl.SSLError as error:
                agreed, failure = False, error
            else:
                agreed = True
            # Outside the `except` block, because an exception raised here is unrelated to TLS's
            # request.
            if failure is not None:
                with contextlib.suppress(ConnectFailed):  # the peer need not learn the reason
                    await _send_all(sock, self._outgoing.read())
                raise ConnectFailed(f"TLS: {_worded(failure)}") from failure
            await _send_all(sock, self._outgoing.read())
            if agreed:
                return
            await self._receive(sock)

    def encrypt(self, data: bytes) -> bytes:
        """Encrypt data into records, together with pending messages of TLS itself.

        Raises:
            ConnectionLost: TLS has ended.
        """
        if data:
            try:
                self._tls.write(data)
            except ssl.SSLError as error:
                raise ConnectionLost(f"TLS: {_worded(error)}") from error
        return self._outgoing.read()

    def decrypt(self, data: memoryview) -> bytes:
        """Decrypt received bytes; return empty bytes if no record is complete yet.

        Raises:
            ConnectionLost: The data is not TLS or was tampered with.
        """
        self._incoming.write(data)
        pieces: list[bytes] = []
        try:
            while True:
                piece = self._tls.read(_RECORD)
                if not piece:
                    self.closed = True
                    break
                pieces.append(piece)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise ConnectionLost(f"TLS: {_worded(error)}") from error
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    @property
    def unsent(self) -> bool:
        """True if TLS has messages of its own to send."""
        return self._outgoing.pending > 0

    async def _receive(self, sock: socket.socket) -> None:
        await trio.lowlevel.wait_readable(sock)
        try:
            data = sock.recv(_RECORD)
        except BlockingIOError:
            return
        except OSError as error:
            raise ConnectFailed(f"TLS: {reason_of(error)} during the handshake") from error
        if not data:
            raise ConnectFailed("TLS: the peer closed the connection during the handshake")
        self._incoming.write(data)


async def _send_all(sock: socket.socket, data: bytes) -> None:
    while data:
        try:
            data = data[sock.send(data) :]
        except BlockingIOError:
            await trio.lowlevel.wait_writable(sock)
        except OSError as error:
            raise ConnectFailed(f"TLS: {reason_of(error)} during the handshake") from error


def _worded(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate was rejected: {error.verify_message}"
    return error.reason or str(error)
