"""What is around the current code: the innermost runtime that was opened, and the event loop.

Only the small faces look for the runtime, so that `query()` can do without one to be named. Whoever
starts a task hands it on, as every context variable is. Which loop runs is asked where trio is
needed, so that a program of asyncio's is told what to write.
"""

import sys
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Protocol, cast

import trio

if TYPE_CHECKING:
    from agent_actors.runtime.runtime import Runtime

current_runtime: Final[ContextVar["Runtime | None"]] = ContextVar(
    "agent_actors_runtime", default=None
)


def runtime_around() -> "Runtime | None":
    """The innermost runtime around the current code that takes work; None if there is none."""
    runtime = current_runtime.get()
    return runtime if runtime is not None and runtime.is_open else None


def trio_around() -> trio.lowlevel.TrioToken:
    """The trio run around the current code.

    Raises:
        RuntimeError: There is none; it says what to write.
    """
    if trio.lowlevel.in_trio_run():
        return trio.lowlevel.current_trio_token()
    if asyncio_runs():
        raise RuntimeError(
            "agent_actors runs on trio, and this is asyncio. Begin the program with "
            "`trio.run(main)` in place of `asyncio.run(main())`; or keep asyncio, as a notebook "
            "does, and write `await asyncio.to_thread(run_sync, prompt, options)`"
        )
    raise RuntimeError("agent_actors runs on trio, which is not running: use `trio.run(main)`")


class _Asyncio(Protocol):
    """What is asked of asyncio, which only a program that uses it has loaded."""

    def get_running_loop(self) -> object: ...


def asyncio_runs() -> bool:
    """Whether a loop of asyncio's runs in this thread."""
    loaded = cast("_Asyncio | None", sys.modules.get("asyncio"))
    if loaded is None:
        return False
    with suppress(RuntimeError):
        loaded.get_running_loop()
        return True
    return False
