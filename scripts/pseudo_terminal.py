"""Runs a program in a separate terminal, for tests and for captures in the documentation.

As for a user, the terminal is the controlling terminal of the program. Ctrl-C is therefore a signal
unless the program reads keys itself. A `Screen` shows the program's output.
"""

import codecs
import fcntl
import os
import pty
import signal
import struct
import sys
import termios
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Protocol

import attrs
import trio

from scripts.screen import Screen

# Makes the terminal on stdin the controlling terminal, and executes the program.
_LAUNCH: Final = (
    "import fcntl, os, sys, termios\n"
    "os.setsid()\n"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    "os.execv(sys.argv[1], sys.argv[1:])\n"
)
_READ_SIZE: Final = 65_536
# Seconds for the program to end after a termination signal.
_PATIENCE: Final = 5.0
CTRL_C: Final = "\x03"
CTRL_D: Final = "\x04"
CTRL_J: Final = "\n"
ENTER: Final = "\r"
UP: Final = "\x1b[A"


class Process(Protocol):
    """The part of `trio.Process` that a session uses."""

    @property
    def pid(self) -> int:
        """The id of the process."""
        ...

    @property
    def returncode(self) -> int | None:
        """The exit status; None while the program runs."""
        ...

    async def wait(self) -> int:
        """Wait for the end of the program and return its exit status."""
        ...

    def send_signal(self, sig: signal.Signals) -> None:
        """Send a signal."""
        ...

    def terminate(self) -> None:
        """Send a termination signal."""
        ...

    def kill(self) -> None:
        """End the program at once."""
        ...


# Starts a program: its command, environment, working directory, and the terminal's descriptor.
Start = Callable[[Sequence[str], Mapping[str, str], Path | None, int], Awaitable[Process]]


async def start_interpreter(
    command: Sequence[str], environment: Mapping[str, str], cwd: Path | None, terminal: int
) -> Process:
    """Start a program in this terminal."""
    return await trio.lowlevel.open_process(
        [sys.executable, "-c", _LAUNCH, *command],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environment,
        cwd=cwd,
    )


@attrs.define(eq=False)
class Session:
    """A program in its terminal.

    Attributes:
        process: The program.
        screen: The visible content of the terminal.
        written: All output of the program.
    """

    process: Process
    screen: Screen
    _ours: int
    _theirs: int
    written: str = ""
    # A character may arrive in two parts.
    _decoder: codecs.IncrementalDecoder = attrs.field(
        factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._ours, text.encode())

    async def until(self, text: str) -> None:
        """Wait for a text on the screen."""
        await self.until_true(lambda: text in self.screen.text)

    async def until_true(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition. Raise `EOFError` if the program ends first."""
        while not condition():
            await self.read()

    async def read(self) -> None:
        """Wait for output of the program and show it. Raise `EOFError` if the program ends."""
        if not await self._read():
            raise EOFError(f"the program ended; its screen shows:\n{self.screen.text}")

    async def until_raw(self) -> None:
        """Wait until the program reads keys."""
        # A change of terminal modes produces no output to wait for.
        while self.is_cooked():  # noqa: ASYNC110
            await trio.sleep(0.005)

    async def end(self) -> int:
        """Wait for the end of the program and return its exit status."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read_on)
            status = await self.process.wait()
            nursery.cancel_scope.cancel()
        return status

    def is_cooked(self) -> bool:
        """Return whether the terminal is in cooked mode: line editing, echo and signals are on."""
        flags: int = termios.tcgetattr(self._theirs)[3]
        cooked = termios.ECHO | termios.ICANON | termios.ISIG
        return flags & cooked == cooked

    def resize(self, width: int) -> None:
        """Change the width of the terminal. The content of the screen stays the same."""
        _set_size(self._theirs, width, self.screen.height)

    async def _read_on(self) -> None:
        while await self._read():
            pass

    async def _read(self) -> bool:
        await trio.lowlevel.wait_readable(self._ours)
        try:
            piece = os.read(self._ours, _READ_SIZE)
        except OSError:  # on Linux: the other end is closed
            return False
        text = self._decoder.decode(piece)
        self.written += text
        self.screen.feed(text)
        return bool(piece)


@asynccontextmanager
async def in_terminal(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    width: int = 80,
    height: int = 24,
    cwd: Path | None = None,
    start: Start = start_interpreter,
) -> AsyncGenerator[Session]:
    """Start a program in a terminal. If it is still running at the end of the block, terminate it.

    Args:
        command: The path of the program, and its arguments.
        environment: The environment of the program.
        width: The number of columns.
        height: The number of lines.
        cwd: The working directory; None for the current one.
        start: Starts the program.
    """
    ours, theirs = pty.openpty()
    try:
        _set_size(theirs, width, height)
        process = await start(command, environment, cwd, theirs)
        screen = Screen(width, height, lambda said: os.write(ours, said.encode()))
        session = Session(process, screen, ours, theirs)
        try:
            yield session
        finally:
            with trio.CancelScope(shield=True):
                if process.returncode is None:
                    process.terminate()
                    with trio.move_on_after(_PATIENCE):
                        await session.end()
                process.kill()
                await process.wait()
    finally:
        os.close(theirs)
        os.close(ours)


def _set_size(fd: int, width: int, height: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
