"""The modes of the terminal, and that they are always given back.

While an answer streams, what somebody types must not appear in the middle of it, and waits for the
editor as it was typed; when a question about a call is new, what was typed before must not answer
it. Where stdin is no terminal nothing is done.
"""

import sys
import termios
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Final

# Where the flags stand in what `tcgetattr` returns.
_INPUT_FLAGS: Final = 0
_LOCAL_FLAGS: Final = 3


def restorer() -> Callable[[], None]:
    """What gives the terminal the modes that it has now."""
    fd = sys.stdin.fileno()
    try:
        before = termios.tcgetattr(fd)
    except termios.error:
        return lambda: None

    def restore() -> None:
        with suppress(termios.error):  # the terminal has gone
            termios.tcsetattr(fd, termios.TCSANOW, before)

    return restore


@contextmanager
def modes_kept() -> Generator[None]:
    """Whatever happens inside, the terminal has the modes of before when it is left."""
    restore = restorer()
    try:
        yield
    finally:
        restore()


@contextmanager
def silent_typing() -> Generator[None]:
    """What is typed inside is not shown, and waits for who reads keys; Ctrl-C is a signal still."""
    with modes_kept():
        fd = sys.stdin.fileno()
        with suppress(termios.error):
            modes = termios.tcgetattr(fd)
            modes[_LOCAL_FLAGS] &= ~(termios.ECHO | termios.ICANON)
            # Else Enter would arrive as Ctrl-J, which begins a new line.
            modes[_INPUT_FLAGS] &= ~termios.ICRNL
            termios.tcsetattr(fd, termios.TCSANOW, modes)
        yield


def forget_typed() -> None:
    """Throw away what was typed and not read."""
    with suppress(termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
