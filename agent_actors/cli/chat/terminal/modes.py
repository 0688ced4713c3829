"""The modes of the terminal, which are always restored.

During a response, typed input must not appear in the middle of the output; the editor gets it
afterwards. When a question about a call appears, earlier input must not answer it. If stdin is
not a terminal, these functions do nothing.
"""

import os
import select
import sys
import termios
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Final

# Positions of the flags in the result of `tcgetattr`.
_INPUT_FLAGS: Final = 0
_LOCAL_FLAGS: Final = 3
_READ_SIZE: Final = 4096


def restorer() -> Callable[[], None]:
    """Return a function that restores the current modes of the terminal."""
    fd = sys.stdin.fileno()
    try:
        before = termios.tcgetattr(fd)
    except termios.error:
        return lambda: None

    def restore() -> None:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(fd, termios.TCSANOW, before)

    return restore


@contextmanager
def modes_kept() -> Generator[None]:
    """Restore the current modes of the terminal on exit."""
    restore = restorer()
    try:
        yield
    finally:
        restore()


@contextmanager
def silent_typing() -> Generator[str]:
    """Turn off the echo, and keep typed input for the next reader; Ctrl-C still sends a signal.

    Yields:
        The input that was typed before. In this text, Enter is a newline; the editor could not
        distinguish it from Ctrl-J, which starts a new line.
    """
    with modes_kept():
        fd = sys.stdin.fileno()
        typed = b""
        with suppress(OSError, termios.error):
            modes = termios.tcgetattr(fd)
            modes[_LOCAL_FLAGS] &= ~(termios.ECHO | termios.ICANON)
            # Otherwise Enter would arrive as Ctrl-J, which starts a new line.
            modes[_INPUT_FLAGS] &= ~termios.ICRNL
            termios.tcsetattr(fd, termios.TCSANOW, modes)
            while select.select([fd], [], [], 0)[0] and (part := os.read(fd, _READ_SIZE)):
                typed += part
        yield typed.decode(sys.stdin.encoding, "replace")


def forget_typed() -> None:
    """Discard input that was typed but not read."""
    with suppress(termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
