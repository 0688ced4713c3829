"""TLS from bytes to bytes. Sockets are not wrapped, and a record costs no system call of its own.

A layer owns the TLS state of one connection, over two `MemoryBIO`s. Only `handshake` blocks; all
other methods are synchronous. Either the caller passes an SSL context, or the whole process shares
one. Sharing saves time: creating a context reads all certificates, which takes tens of
milliseconds.
"""

import contextlib
import errno
import functools
import os
import socket
import ssl
from pathlib import Path
from typing import Final

import trio

from agent_actors.errors import ConfigError
from agent_actors.transport.errors import ConnectFailed, ConnectionLost, reason_of

_TRUST_VARIABLES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""The environment variables that httpx reads, in the same order; only the first one that is set
counts.
"""

_RECORD: Final = 64 * 1024
"""The number of bytes that are read at a time; a record contains up to 16 KiB."""


@functools.cache
def verifying_context() -> ssl.SSLContext:
    """Return the process-wide TLS context, which verifies certificates as httpx does.

    Raises:
        ConfigError: The environment names certificates that cannot be read.
        OSError: The certificate files could not be opened.
    """
    variable = next((name for name in _TRUST_VARIABLES if os.environ.get(name)), "")
    path = os.environ.get(variable, "")
    # OpenSSL ignores a missing directory and would then reject every certificate.
    if variable == "SSL_CERT_DIR" and not _is_readable_directory(path):
        raise _unreadable(variable, path, "is not a readable directory")
    import httpx  # noqa: PLC0415 - slow to import, and only needed for connections

    try:
        return httpx.create_ssl_context()
    except OSError as error:
        if not variable or error.errno in {errno.EMFILE, errno.ENFILE}:
            raise
        named = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        raise _unreadable(variable, path, f"cannot be read: {named or error}") from error


def _is_readable_directory(path: str) -> bool:
    return Path(path).is_dir() and os.access(path, os.R_OK | os.X_OK)


def _unreadable(variable: str, path: str, reason: str) -> ConfigError:
    return ConfigError(
        f"the environment variable {variable} names the trusted certificates, but {path!r} "
        f"{reason}; correct or unset it"
    )


class TlsLayer:
    """The client side of a TLS connection.

    Args:
        context: The trusted certificates.
        host: The name that the peer's certificate must contain.

    Attributes:
        closed: True once the peer has announced, through TLS, that no more data will come.
    """

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self.closed: bool = False
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)

    async def handshake(self, sock: socket.socket) -> None:
        """Negotiate keys with the peer and verify its certificate.

        Raises:
            ConnectFailed: The certificate was rejected, or the peer broke off the handshake.

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
            # Outside the `except` block, so that TLS's request for data does not become the context
            # of an unrelated exception.
            if failure is not None:
                with contextlib.suppress(ConnectFailed):  # the peer need not learn the reason
                    await _send_all(sock, self._outgoing.read())
                raise ConnectFailed(f"TLS: {_worded(failure)}") from failure
            await _send_all(sock, self._outgoing.read())
            if agreed:
                return
            await self._receive(sock)

    def encrypt(self, data: bytes) -> bytes:
        """Encrypt data into records; the result includes pending TLS messages.

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
        """Decrypt received bytes; return empty bytes while no record is complete.

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
        """True if TLS messages are waiting to be sent."""
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
