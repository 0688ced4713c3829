"""Telling an order to stop from an error, in what code that is not ours has raised.

A tool or an observer with a nursery of its own raises groups. If it was stopped, its errors on the
way out are nobody's: left in the group, they would outlive the scope that takes the cancel out of
it, and come out of a deadline as an exception.
"""

from typing import cast

import trio


def stop_in(error: BaseException) -> BaseException | None:
    """The cancels and interrupts of a group; None if it has none, or is no group."""
    if not isinstance(error, BaseExceptionGroup):
        return None
    group = cast("BaseExceptionGroup[BaseException]", error)
    return group.subgroup((trio.Cancelled, KeyboardInterrupt))
