"""The context of the current code: the innermost open runtime and the event loop.

`query()` and `run()` look up the runtime here, so that callers need not pass one. Context variables
are inherited, so every task that the caller starts sees the same runtime.
"""

import sys
from contextlib import suppress
from contextvars import ContextVar
from typing import Final, Protocol, cast

import trio


class EnteredRuntime(Protocol):
    """A runtime whose `async with` block surrounds the current code."""

    @property
    def is_open(self) -> bool:
        """True if the runtime accepts new work from the current code."""
        ...


# The type is a Protocol, since `runtime.py` imports this module.
innermost_runtime: Final[ContextVar[EnteredRuntime | None]] = ContextVar(
    "agent_actors_runtime", default=None
)


def require_trio() -> trio.lowlevel.TrioToken:
    """Return the token of the current trio run.

    Raises:
        RuntimeError: trio is not running; the message shows the code to write instead.
    """
    if trio.lowlevel.in_trio_run():
        return trio.lowlevel.current_trio_token()
    if asyncio_is_running():
        raise RuntimeError(
            "this is the trio API of agent_actors, but asyncio is running; import open_runtime, "
            "Client, query and run from agent_actors.asyncio, or start the program with "
            "`trio.run(main)`"
        )
    raise RuntimeError("agent_actors runs on trio, which is not running: use `trio.run(main)`")


class _Asyncio(Protocol):
    """The part of asyncio that is used here. This module never imports asyncio itself."""

    def get_running_loop(self) -> object: ...


def asyncio_is_running() -> bool:
    """Return whether an asyncio event loop is running in this thread."""
    asyncio = cast("_Asyncio | None", sys.modules.get("asyncio"))
    if asyncio is None:
        return False
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        return True
    return False
