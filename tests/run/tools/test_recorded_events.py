"""`ctx.record` of tools and hooks: validated, and committed together with the call's result."""

from collections.abc import Callable
from functools import partial
from typing import cast

import pytest
import trio

from agent_actors import AgentOptions, Client, RunResult, ToolContext, open_runtime, tool
from agent_actors.domain.events import (
    AnyEvent,
    EventBuilder,
    FileChanged,
    Notification,
    SkillActivated,
    TodosChanged,
    ToolResult,
    UserMessage,
)
from agent_actors.domain.run import RunInfo
from agent_actors.domain.todos import Todo
from agent_actors.errors import ConfigError, InvalidEventError
from agent_actors.hooks import AfterAgentEvent, BeforeAgentEvent, HookContext, PostToolUseEvent
from agent_actors.hooks import SessionEndEvent
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import ScriptedModel, call
from agent_actors.tools.context import DetachedContext
from tests.run.helpers import check_records

TODOS: EventBuilder = partial(TodosChanged, todos=(Todo("t1", "Write it.", "pending"),))
FILE: EventBuilder = partial(FileChanged, path="a.txt", content="new")
SKILL: EventBuilder = partial(Notification, text="indexed")


class BatchStore(MemoryStore):
    """Remembers which records were appended together."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[str]] = []

    def append_nowait(self, append: object) -> object:
        raise NotImplementedError


async def ran(options: AgentOptions) -> tuple[RunResult, list[AnyEvent]]:
    store = MemoryStore()
    async with open_runtime(store=store) as runtime:
        result = await runtime.run("Go.", options, session_id="s")
        records = list(await store.load("s"))
    check_records(records)
    return result, records


def types(records: list[AnyEvent]) -> list[str]:
    return [record.type for record in records]
