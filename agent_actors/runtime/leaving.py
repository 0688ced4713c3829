"""How a runtime is left: its nursery, and the one exception that comes out."""

from contextlib import AbstractAsyncContextManager
from typing import cast

import trio


async def leave_nursery(
    manager: AbstractAsyncContextManager[trio.Nursery],
) -> KeyboardInterrupt | None:
    """Leave a nursery whose tasks raise nothing; return the Ctrl-C that came meanwhile.

    An interrupt is all that can come out of such a nursery, and comes out in a group.
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
    left: BaseException | None,
    crash: BaseException | None,
    closing: BaseException | None,
) -> None:
    """Raise what comes out of a runtime that was left; return if the body's exception does.

    Args:
        exc: What the body raised.
        left: What remains of it once the runtime's own cancel is taken out.
        crash: Why the runtime stopped, or the Ctrl-C that interrupted users' code.
        closing: What closing raised.
    """
    for failure in (crash, closing):
        # An interrupt is nobody's to lose; what it has broken on its way is no news.
        if isinstance(failure, KeyboardInterrupt) and (left is None or isinstance(left, Exception)):
            raise failure
    if left is not None:
        for failure in (crash, closing):
            if isinstance(failure, Exception):
                left.add_note(f"and the runtime failed: {failure}")
        if left is not exc:
            raise left
        return
    for failure in (crash, closing):
        if failure is not None:
            raise failure
