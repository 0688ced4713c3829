"""How a command ends: its exit status, its one line of error, and Ctrl-C.

Owns what is common to every command. An error that was raised on purpose becomes one line on
stderr, never a traceback; what is none is a bug, and passes. Ctrl-C cancels the command's work,
which ends in order; a second one ends the process at once.
"""

import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

import trio

from agent_actors.errors import AgentError, ConfigError

FAILED: Final = 1
MISUSED: Final = 2
# As shells name what a signal ended: 128 and its number.
INTERRUPTED: Final = 128 + signal.SIGINT
BROKEN_PIPE: Final = 128 + signal.SIGPIPE

# Control characters of an endpoint's message could rewrite what the terminal shows.
_CONTROLS: Final = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)), " ")


def fail(message: object, status: int = FAILED) -> int:
    """Tell of an error, in one line.

    Returns:
        The exit status to end with.
    """
    sys.stderr.write(f"error: {visible(str(message))}\n")
    return status


def visible(text: str) -> str:
    """A text as one line, without characters that do more than show."""
    return " ".join(text.translate(_CONTROLS).split())


def interrupted() -> int:
    """Tell that Ctrl-C ended the command.

    Returns:
        The exit status to end with.
    """
    # A terminal shows ^C in the line that was being written.
    sys.stderr.write("\ninterrupted\n" if sys.stderr.isatty() else "interrupted\n")
    return INTERRUPTED


async def complete(
    work: Callable[[], Awaitable[int]], *, beside: Sequence[Callable[[], Awaitable[None]]] = ()
) -> int:
    """Do a command's work; Ctrl-C cancels it.

    Args:
        work: Does it, and returns the exit status.
        beside: What runs while it does, and is cancelled when it has ended.

    Returns:
        The exit status: that of the work, or of its error, or of the interruption.

    Cancellation: safe; the work has ended in order.
    """
    status: int | None = None
    with trio.open_signal_receiver(signal.SIGINT) as signals, trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_on_first, signals, scope)
            for other in beside:
                nursery.start_soon(other)
            status = await status_of(work)
            nursery.cancel_scope.cancel()
    return interrupted() if status is None else status


async def status_of(work: Callable[[], Awaitable[int]]) -> int:
    """Do a command's work, and tell of its error.

    Returns:
        The exit status: that of the work, or of its error.

    Cancellation: as the work.
    """
    try:
        return await work()
    except ConfigError as error:
        return fail(str(error).removeprefix("AgentOptions: "), MISUSED)
    except AgentError as error:
        return fail(error)
    except BrokenPipeError:
        return BROKEN_PIPE
    except OSError as error:
        return fail(error.strerror or error)


async def _cancel_on_first(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
    await anext(signals)
    # The next one ends the process, for work that does not end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    scope.cancel("Ctrl-C")
