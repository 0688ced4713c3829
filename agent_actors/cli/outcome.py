"""The end of a command: its exit status, its one-line error, and Ctrl-C.

Every command uses this module. An expected error becomes one line on stderr, never a traceback; an
unexpected error is a bug and propagates. The first Ctrl-C cancels the command's work, which then
ends cleanly. A second Ctrl-C ends the process at once.
"""

import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

import trio

from agent_actors.cli.safe_text import visible
from agent_actors.errors import AgentError, ConfigError

FAILED: Final = 1
MISUSED: Final = 2
# As in shells, the exit status after a signal is 128 plus the signal's number.
INTERRUPTED: Final = 128 + signal.SIGINT
BROKEN_PIPE: Final = 128 + signal.SIGPIPE


def fail(message: object, status: int = FAILED) -> int:
    """Report an error in one line.

    Returns:
        The exit status to end with.
    """
    sys.stderr.write(f"error: {visible(str(message))}\n")
    return status


def interrupted() -> int:
    """Report that Ctrl-C ended the command.

    Returns:
        The exit status to end with.
    """
    # A terminal shows ^C on the current line, so the message begins on a new one.
    sys.stderr.write("\ninterrupted\n" if sys.stderr.isatty() else "interrupted\n")
    return INTERRUPTED


async def complete(
    work: Callable[[], Awaitable[int]], *, alongside: Sequence[Callable[[], Awaitable[None]]] = ()
) -> int:
    """Run the work of a command, and cancel it on Ctrl-C.

    Args:
        work: Does the work and returns the exit status.
        alongside: Additional functions to run during the work; they are cancelled when it ends.

    Returns:
        The exit status of the work, of its error, or of the interruption.

    Cancellation: safe; the work ends cleanly.
    """
    status: int | None = None
    with trio.open_signal_receiver(signal.SIGINT) as signals, trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_on_first, signals, scope)
            for other in alongside:
                nursery.start_soon(other)
            status = await status_of(work)
            nursery.cancel_scope.cancel()
    return interrupted() if status is None else status


def reject(error: ConfigError) -> int:
    """Report invalid options of a command, and return the exit status for incorrect usage."""
    return fail(str(error).removeprefix("AgentOptions: "), MISUSED)


async def status_of(work: Callable[[], Awaitable[int]]) -> int:
    """Run the work of a command, and report its error.

    Returns:
        The exit status of the work, or of its error.

    Cancellation: the same as for the work.
    """
    try:
        return await work()
    except ConfigError as error:
        return reject(error)
    except AgentError as error:
        return fail(error)
    except BrokenPipeError:
        return BROKEN_PIPE
    except OSError as error:
        return fail(error.strerror or error)


async def _cancel_on_first(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
    await anext(signals)
    # The next Ctrl-C ends the process, in case the work does not end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    scope.cancel("Ctrl-C")
