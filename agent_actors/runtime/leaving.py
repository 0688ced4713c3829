"""Leave a runtime: exit its nursery, and choose the exception to raise."""

from contextlib import AbstractAsyncContextManager
from typing import cast

import trio


async def leave_nursery(
    manager: AbstractAsyncContextManager[trio.Nursery],
) -> KeyboardInterrupt | None:
    """Leave a nursery whose tasks raise nothing.

    Such a nursery can raise only a `KeyboardInterrupt`, in an exception group.

    Returns:
        The `KeyboardInterrupt` that was raised while the nursery exited; None if there was none.
    """
    try:
        await manager.__aexit__(None, None, None)
    except BaseExceptionGroup as group:
        interrupt = KeyboardInterrupt()
        interrupt.__cause__ = cast("BaseException", group)
        return interrupt
    return None


def raise_first(
    exc: BaseException | None,
    remaining: BaseException | None,
    crash: BaseException | None,
    closing: BaseException | None,
) -> None:
    """Raise the most important error of a runtime that was left.

    Returns without raising if the body's own exception is that error.

    Args:
        exc: The exception of the body.
        remaining: The exception of the body without the runtime's own cancellation.
        crash: The reason why the runtime stopped, or the Ctrl-C that interrupted users' code.
        closing: The error of closing.
    """
    for failure in (crash, closing):
        # A KeyboardInterrupt must not be lost; errors that it caused are secondary.
        if isinstance(failure, KeyboardInterrupt) and (
            remaining is None or isinstance(remaining, Exception)
        ):
            raise failure
    if remaining is not None:
        for failure in (crash, closing):
            if isinstance(failure, Exception):
                remaining.add_note(f"and the runtime failed: {failure}")
        if remaining is not exc:
            raise remaining
        return
    for failure in (crash, closing):
        if failure is not None:
            raise failure
