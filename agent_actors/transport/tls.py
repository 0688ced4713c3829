"""TLS from bytes to bytes: no socket is wrapped, and a record costs no system call of its own.

Owns one connection's TLS state over two `MemoryBIO`s. `handshake` is the only part that waits;
after it everything is synchronous. The contexts are the caller's, or one for the process: making
one reads all certificates, which takes tens of milliseconds.
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
    """The one context of the process: checks certificates and host names, as httpx does."""
    return httpx.create_ssl_context()


class TlsLayer:
    """One client's end of a TLS connection.

    Args:
        context: Says what is trusted.
        host: The name that the peer's certificate must bear.

    Attributes:
        closed: True once the peer has said, in TLS, that nothing more comes.
    """

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self.closed: bool = False
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)

    async def handshake(self, sock: socket.socket) -> None:
        """Agree on keys with the peer, and check who it is.

        Raises:
            ConnectFailed: The peer is not who it should be, or broke off.

        Cancellation: safe; the connection cannot be used after it.
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
            # Outside of `except`: what is raised here has nothing to do with what TLS wanted.
            if failure is not None:
                with contextlib.suppress(ConnectFailed):  # the peer need not be told why
                    await _send_all(sock, self._outgoing.read())
                raise ConnectFailed(f"TLS: {_worded(failure)}") from failure
            await _send_all(sock, self._outgoing.read())
            if agreed:
                return
            await self._receive(sock)

    def encrypt(self, data: bytes) -> bytes:
        """Put data, and whatever TLS itself has to say, into records.

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
        """Take the content out of what came; empty if no record is whole yet.

        Raises:
            ConnectionLost: It is no TLS, or was tampered with.
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
        """True if TLS has something to say of its own."""
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
        return f"the certificate is refused: {error.verify_message}"
    return error.reason or str(error)
