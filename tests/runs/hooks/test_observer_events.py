"""Events that only observers receive: sessions, runs and nested runs that open and end."""

import attrs
import pytest
from trio.testing import wait_all_tasks_blocked

from agent_actors import open_runtime, tool
from agent_actors.errors import AgentError
from agent_actors.events import Event, RunStopped, SessionStarted, SubagentStopped
from agent_actors.testing import call, fail
from tests.runs.hooks.helpers import agent


@pytest.mark.feature("ASDK-120")
async def test_observers_see_sessions_and_nested_runs() -> None:
    child = attrs.evolve(agent("Helped."), agent_name="helper")

    @tool
    async def help_me() -> str:
        """Start a nested run."""
        return (await runtime.run("Help.", child, session_id="child")).text

    parent = attrs.evolve(agent(call("help_me", {}, id="c1"), "Done.", "Again."), tools=[help_me])
    seen: list[tuple[object, ...]] = []

    async def watch(event: Event) -> None:
        own = attrs.asdict(event, recurse=False, filter=lambda field, _: field.name in shown)
        seen.append((event.type, event.session_id, *own.values()))

    shown = {"source", "stop_reason", "subagent_name", "subagent_session_id", "tool_use_id"}
    async with open_runtime() as runtime:
        runtime.subscribe(watch, SessionStarted, RunStopped, SubagentStopped)
        for _ in range(2):
            await runtime.run("Go.", parent, session_id="s")
        with pytest.raises(AgentError):
            await runtime.run("Go.", agent(fail(ValueError("x"))), session_id="bad")
        await wait_all_tasks_blocked()
    assert seen == [
        ("session.started", "s", "new"),
        ("session.started", "child", "new"),
        ("run.stopped", "child", "completed"),
        ("subagent.stopped", "s", "helper", "child", "completed", "c1"),
        ("run.stopped", "s", "completed"),
        ("run.stopped", "s", "completed"),
        ("session.started", "bad", "new"),
        ("run.stopped", "bad", "error"),
    ]
