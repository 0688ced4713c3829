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
    """Raise the most important error after the runtime has been left.

    If the most important error is the body's own exception, return without raising.

    Args:
        exc: The exception of the body.
        remaining: The exception of the body without the runtime's own cancellation.
        crash: The error that stopped the runtime, or the Ctrl-C that interrupted user code.
        closing: The error that closing raised.
    """
    for failure in (crash, closing):
        # A KeyboardInterrupt must not be lost. Any errors that it caused are secondary.
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
