"""Separate cancellations and interrupts from errors in exceptions that foreign code raised.

A tool or a subscriber that opens a nursery raises exception groups. If it was cancelled, the errors
that it raised while unwinding are irrelevant. However, a cancel scope only removes the cancellation
from the group. If the other errors stayed in the group, an expired deadline would raise an
exception.
"""

import math
from typing import cast

import trio

from agent_actors.errors import AgentError


def is_cancellation(error: BaseException) -> bool:
    """Return whether an exception is the cancellation of the current task.

    Foreign code can keep a `trio.Cancelled` and raise it later or in another task. No cancel scope
    would catch it there, so it must be handled like any other exception.
    """
    return isinstance(error, trio.Cancelled) and _is_cancelled()


def foreign_cancellation() -> AgentError:
    """Return the error for a `trio.Cancelled` that is not the task's own cancellation."""
    return AgentError(
        "a provider, hook or callback raised trio.Cancelled in a task that was not cancelled; do "
        "not keep such an exception and raise it later"
    )


def find_exit_request(error: BaseException) -> BaseException | None:
    """Return the cancellations and interrupts of an exception group; None if there are none.

    Cancellations that do not belong to the current task are ignored; see `is_cancellation`.
    """
    if not isinstance(error, BaseExceptionGroup):
        return None
    group = cast("BaseExceptionGroup[BaseException]", error)
    if _is_cancelled():
        return group.subgroup((trio.Cancelled, KeyboardInterrupt))
    return group.subgroup(KeyboardInterrupt)


def _is_cancelled() -> bool:
    return trio.current_effective_deadline() == -math.inf
