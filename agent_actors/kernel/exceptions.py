"""Separate requests to stop from errors in exceptions that foreign code has raised.

A tool or a subscriber that opens a nursery raises exception groups. If it was cancelled, the errors
that it raised while unwinding are irrelevant. A cancel scope removes only the cancellation from the
group. If the other errors stayed in the group, an expired deadline would raise an exception.
"""

from typing import cast

import trio


def find_exit_request(error: BaseException) -> BaseException | None:
    """Return the cancellations and interrupts of an exception group; None if there are none."""
    if not isinstance(error, BaseExceptionGroup):
        return None
    group = cast("BaseExceptionGroup[BaseException]", error)
    return group.subgroup((trio.Cancelled, KeyboardInterrupt))
