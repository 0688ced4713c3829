"""Helpers for tests of the asyncio API."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

from agent_actors import AgentOptions, Tool
from agent_actors.testing import ScriptedModel
from agent_actors.testing.script import Turn

T = TypeVar("T")

# Seconds; a test takes far less, so that only a hang fails.
PATIENCE = 20.0


def run(main: Callable[[], Awaitable[T]]) -> T:
    """Run a test in an asyncio event loop."""

    async def bounded() -> T:
        async with asyncio.timeout(PATIENCE):
            return await main()

    return asyncio.run(bounded())


def agent(*turns: Turn, tools: tuple[Tool, ...] = ()) -> AgentOptions:
    """Return an agent whose model plays these turns."""
    return AgentOptions(
        model="scripted", provider=ScriptedModel(turns), tools=tools, auto_execute_tools=True
    )


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another thread does."""
    while not condition():  # noqa: ASYNC110 - nothing announces it
        await asyncio.sleep(0.002)


def in_loop_thread() -> bool:
    """Return whether the current code runs in the main thread, where the loops of tests run."""
    return threading.current_thread() is threading.main_thread()


def ignore_pending(task: "asyncio.Task[T]") -> None:
    """Do not report that a task whose loop is closed never ends."""
    setattr(task, "_log_destroy_pending", False)  # noqa: B010 - private, so unknown to checkers
