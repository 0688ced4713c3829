"""TLS from bytes to bytes. No socket is wrapped, and a record costs no system call of its own.

A layer owns the TLS state of one connection over two `MemoryBIO`s. Only `handshake` waits; all
other methods are synchronous. The caller passes the context, or the process shares one: creating
a context reads all certificates, which takes tens of milliseconds.
"""

import contextlib
import errno
import functools
import os
import socket
import ssl
from pathlib import Path
from typing import Final

import httpx
import trio

from agent_actors.errors import ConfigError
from agent_actors.transport.errors import ConnectFailed, ConnectionLost, reason_of

_TRUST_VARIABLES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""The environment variables that httpx reads, in its order; only the first that is set counts."""

_RECORD: Final = 64 * 1024
"""Bytes that are taken out at a time; a record holds 16 KiB."""


@functools.cache
def verifying_context() -> ssl.SSLContext:
    """Return the context of the process. It checks certificates and names as httpx does.

    Raises:
        ConfigError: The environment names certificates that cannot be read.
        OSError: No file can be opened at the moment.
    """
    variable = next((name for name in _TRUST_VARIABLES if os.environ.get(name)), "")
    path = os.environ.get(variable, "")
    # OpenSSL ignores a missing directory. Every certificate would then be rejected.
    if variable == "SSL_CERT_DIR" and not _is_readable_directory(path):
        raise _unreadable(variable, path, "is not a readable directory")
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
