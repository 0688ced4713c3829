"""The standard streams, read and written without blocking Ctrl-C or other tasks.

A write to a full pipe or a read from a silent pipe would block every task of the process. A thread
that is blocked in such a call would hold the stream's lock at exit. Therefore reads and writes use
the descriptor itself, and only when it is ready. The flags of the descriptor stay unchanged, since
other processes share them. Files, and devices whose readiness cannot be awaited, count as always
ready. Characters that a stream cannot encode are replaced. Unsafe characters are removed from all
text, regardless of its origin; see `safe_text`.
"""

import os
import select
import stat
from collections.abc import Awaitable, Callable
from typing import Final, TextIO

import trio

from agent_actors.cli.safe_text import clean, safe_json

# A ready descriptor accepts this many bytes without blocking (POSIX).
_READY_SIZE: Final = select.PIPE_BUF
_READ_SIZE: Final = 65_536


class Output:
    """A stream to write to.

    Args:
        stream: The stream whose descriptor and encoding are used; it is flushed first.

    Attributes:
        encoding: The encoding of text.
        terminal: True if the stream is a terminal.
        mid_line: True if something was written, and its last character is not a newline.
    """

    def __init__(self, stream: TextIO) -> None:
        stream.flush()
        self._fd = stream.fileno()
        self.encoding: str = stream.encoding
        self.terminal: bool = stream.isatty()
        self.mid_line: bool = False

    async def write(self, text: str) -> None:
        """Write all of the text, without unsafe characters.

        Raises:
            BrokenPipeError: The reader has closed the stream.
            OSError: The write failed, for example because the disk is full.

        Cancellation: at any byte.
        """
        text = clean(text)
        if not text:
            return
        await self.write_bytes(text.encode(self.encoding, "replace"))
        self.mid_line = not text.endswith("\n")

    async def write_json(self, text: str) -> None:
        """Write a JSON text and a newline, in UTF-8 regardless of the encoding of the stream.

        Unsafe characters are escaped, which does not change the value. Otherwise like `write`.
        """
        await self.write_bytes(f"{safe_json(text)}\n".encode())

    async def write_bytes(self, data: bytes) -> None:
        """Write all of the bytes unchanged; otherwise like `write`."""
        rest = memoryview(data)
        while rest:
            await _ready(trio.lowlevel.wait_writable, self._fd)
            rest = rest[os.write(self._fd, rest[:_READY_SIZE]) :]

    async def end_line(self) -> None:
        """End the current line if it contains text; otherwise like `write`."""
        if self.mid_line:
            await self.write("\n")


class Input:
    """A stream to read line by line.

    Args:
        stream: The stream whose descriptor and encoding are used; nothing may have been read from
            it before.
    """

    def __init__(self, stream: TextIO) -> None:
        self._fd = stream.fileno()
        self._encoding = stream.encoding
        self._rest = bytearray()

    async def line(self) -> str | None:
        """Return the next line, without its line ending; None at the end.

        After the user of a terminal has signalled the end with Ctrl-D, the stream may be read
        again.

        Raises:
            OSError: The stream cannot be read, for example because the terminal was closed.

        Cancellation: safe; the beginning of a line is kept.
        """
        looked_at = 0
        while (end := self._rest.find(b"\n", looked_at)) < 0:
            looked_at = len(self._rest)
            await _ready(trio.lowlevel.wait_readable, self._fd)
            piece = os.read(self._fd, _READ_SIZE)
            if not piece:
                end = len(self._rest)
                break
            self._rest += piece
        found = bytes(self._rest[:end])
        ended = end < len(self._rest)
        del self._rest[: end + 1]
        if not found and not ended:
            return None
        return found.removesuffix(b"\r").decode(self._encoding, "replace")


def is_piped(stream: TextIO | None) -> bool:
    """Return whether a stream is a pipe, a file or a socket, and neither a device nor closed."""
    try:
        mode = os.fstat(stream.fileno()).st_mode if stream is not None else 0
    except OSError:  # the descriptor is closed, or the stream has none
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


async def wait_input(stream: TextIO) -> None:
    """Wait until the stream can be read, or has ended.

    Cancellation: safe.
    """
    await _ready(trio.lowlevel.wait_readable, stream.fileno())


async def read_all(stream: TextIO) -> str:
    """Read everything until the stream ends.

    Cancellation: everything read so far is lost.
    """
    fd = stream.fileno()
    data = bytearray()
    while True:
        await _ready(trio.lowlevel.wait_readable, fd)
        piece = os.read(fd, _READ_SIZE)
        if not piece:
            return data.decode(stream.encoding, "replace")
        data += piece


async def _ready(wait: Callable[[int], Awaitable[None]], fd: int) -> None:
    try:
        await wait(fd)
    except PermissionError:  # epoll does not accept regular files
        await trio.lowlevel.checkpoint()
