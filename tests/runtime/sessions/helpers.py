"""Stores of every kind at a path, and an agent with scripted turns."""

import math
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import trio

from agent_actors import AgentOptions, Runtime
from agent_actors.abc import SessionStore
from agent_actors.errors import SessionBusy
from agent_actors.stores.jsonl import JsonlStore
from agent_actors.stores.memory import MemoryStore
from agent_actors.stores.sqlite import SqliteStore
from agent_actors.testing import ScriptedModel, Turn
from tests.runs.hooks.helpers import echo

T = TypeVar("T")

DISK: dict[str, Callable[[Path], SessionStore]] = {
    "SqliteStore": lambda path: SqliteStore(path, cleanup_period_days=math.inf),
    "JsonlStore": lambda path: JsonlStore(path, cleanup_period_days=math.inf),
}
STORES: dict[str, Callable[[Path], SessionStore]] = {
    "MemoryStore": lambda _: MemoryStore(),
    **DISK,
}


def talker(*turns: Turn) -> AgentOptions:
    """Return an agent with these turns and the tool `echo`."""
    return AgentOptions(model="m", provider=ScriptedModel(turns), tools=[echo])


async def talk(runtime: Runtime, *turns: Turn, session_id: str = "s", prompt: str = "Go.") -> None:
    """Run an agent with these turns once on a session."""
    await runtime.run(prompt, talker(*turns), session_id=session_id)


async def when_free(work: Callable[[], Awaitable[T]]) -> T:
    """Call `work` as soon as another opening of the store has released the session."""
    with trio.fail_after(30):
        while True:
            try:
                return await work()
            except SessionBusy:
                await trio.sleep(0.001)


async def contents(runtime: Runtime, session_id: str = "s") -> list[str] | None:
    """Return the contents of a session's messages, as the store has them."""
    history = await runtime.sessions.history(session_id)
    return None if history is None else [message.content for message in history]
