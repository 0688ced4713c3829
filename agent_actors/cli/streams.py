"""The standard streams, read and written so that Ctrl-C and other tasks never wait for them.

A write to a full pipe, or a read from a silent one, would hold up every task of the process, and
a thread that hangs in one holds its lock at exit. So both go to the descriptor itself, and only
when it is ready; its flags are left alone, since other processes share them. Files and devices
that cannot be waited for are always ready. What a stream's encoding lacks is replaced.
"""

import os
import select
from collections.abc import Awaitable, Callable
from typing import Final, TextIO

import trio

# A descriptor that is ready takes this much without blocking (POSIX).
_READY_SIZE: Final = select.PIPE_BUF
_READ_SIZE: Final = 65_536
# On a terminal, a model's control characters could do more than show text; newline and tab may.
_CONTROLS: Final = dict.fromkeys(
    (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0)), "\N{REPLACEMENT CHARACTER}"
)


class Output:
    """A stream to write to.

    Args:
        stream: Whose descriptor and encoding to use; it is flushed first.

    Attributes:
        encoding: What text is written in.
        terminal: Whether it is one.
        mid_line: True if something was written, and its last character is no newline.
    """

    def __init__(self, stream: TextIO) -> None:
        stream.flush()
        self._fd = stream.fileno()
        self.encoding: str = stream.encoding
        self.terminal: bool = stream.isatty()
        self.mid_line: bool = False

    async def write(self, text: str) -> None:
        """Write all of it.

        Raises:
            BrokenPipeError: Whoever reads has gone.
            OSError: The disk is full, and the like.

        Cancellation: at any byte.
        """
        if not text:
            return
        if self.terminal:
            text = text.translate(_CONTROLS)
        await self.write_bytes(text.encode(self.encoding, "replace"))
        self.mid_line = not text.endswith("\n")

    async def write_bytes(self, data: bytes) -> None:
        """Write all of it as it is; like `write`."""
        rest = memoryview(data)
        while rest:
            await _ready(trio.lowlevel.wait_writable, self._fd)
            rest = rest[os.write(self._fd, rest[:_READY_SIZE]) :]

    async def end_line(self) -> None:
        """Begin a new line, unless one has begun; like `write`."""
        if self.mid_line:
            await self.write("\n")


class Input:
    """A stream to read line by line.

    Args:
        stream: Whose descriptor and encoding to use; nothing may have been read from it.
    """

    def __init__(self, stream: TextIO) -> None:
        self._fd = stream.fileno()
        self._encoding = stream.encoding
        self._rest = bytearray()

    async def line(self) -> str | None:
        """The next line, without its end; None if there is none.

        A terminal whose user says that this is the end (Ctrl-D) may be read again.

        Raises:
            OSError: The stream cannot be read, such as a terminal that was closed.

        Cancellation: safe; what was read of a line is kept.
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


async def read_all(stream: TextIO) -> str:
    """Everything that comes until the stream ends.

    Cancellation: what was read is lost.
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
    except PermissionError:  # epoll takes no regular file
        await trio.lowlevel.checkpoint()
