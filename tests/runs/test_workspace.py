"""Workspaces of runs: the option, the context of tools, nested runs, results and records."""

import math
from collections.abc import Iterable
from functools import partial

import pytest
import trio
import trio.testing

from agent_actors import AgentOptions, Runtime, Tool, ToolContext, open_runtime, tool
from agent_actors.abc import Workspace
from agent_actors.actors.resources.session_resources import SessionResources
from agent_actors.domain.run import RunInfo
from agent_actors.domain.workspace.processes import ProcessSpec
from agent_actors.domain.workspace.report import NO_RESOURCES, CallResources
from agent_actors.errors import ConfigError, SessionBusy, WorkspaceError
from agent_actors.options.workspace_config import WorkspaceSource
from agent_actors.runtime.options.builtin_tools import BuiltinTools
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import ScriptedModel, call, pause, say
from agent_actors.tools.context import DetachedContext
from tests.actors.resources.helpers import FakeWorkspace

SERVE = ProcessSpec(argv="serve")


@tool
async def look(ctx: ToolContext) -> str:
    """Look at a file."""
    assert ctx.workspace is not None
    ctx.used(CallResources(paths=("a",), bytes_read=1))
    ctx.used(CallResources(paths=("a", "b"), bytes_read=2))
    return (await ctx.workspace.stat("a")).kind


@tool
async def serve(ctx: ToolContext) -> str:
    """Start a server."""
    assert ctx.background is not None
    return (await ctx.background.start(SERVE)).status


@tool
async def has_workspace(ctx: ToolContext) -> str:
    """Say whether there is a workspace."""
    return f"{ctx.workspace is not None}, {ctx.background is not None}"


def agent(*tools: Tool, workspace: WorkspaceSource | None = None) -> AgentOptions:
    turns = [call(one.name, {}) for one in tools]
    model = ScriptedModel([*turns, "Done."])
    return AgentOptions(model="m", provider=model, tools=tools, workspace=workspace)


async def types(runtime: Runtime) -> list[str]:
    return [record.type for record in await runtime.sessions.records("s")]


@pytest.mark.feature("ASDK-037", "ASDK-072")
async def test_tool_uses_the_workspace_of_its_run() -> None:
    own = FakeWorkspace()
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", agent(look, workspace=own), session_id="s")
        (used,) = result.tool_calls
        assert used.content == "file"
        assert used.resources == CallResources(paths=("a", "b"), bytes_read=3)
        assert result.sandbox == own.describe()
        plain = await runtime.run("Go.", agent(has_workspace), session_id="t")
        assert plain.tool_calls[0].content == "False, False"
        assert (plain.sandbox, plain.tool_calls[0].resources) == (None, NO_RESOURCES)
    assert own.closed == 0


async def test_run_without_workspace_asks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    for name in ("lease", "grant", "unrecorded"):
        monkeypatch.setattr(SessionResources, name, partial(asked.append, name))
    async with open_runtime() as runtime:
        await runtime.run("Go.", agent(has_workspace), session_id="s")
        await trio.testing.wait_all_tasks_blocked()
        owner = runtime._actors.resources.owner
        seen = owner.statistics()
        assert (asked, seen.live, seen.mailbox.peak) == ([], 0, 0)
        assert owner._workers is not None
        assert not owner._workers.child_tasks


async def test_factory_makes_one_workspace_per_session() -> None:
    made: dict[str, FakeWorkspace] = {}

    async def make(info: RunInfo) -> Workspace:
        await trio.lowlevel.checkpoint()
        assert info.session_id not in made
        made[info.session_id] = FakeWorkspace()
        return made[info.session_id]

    async with open_runtime() as runtime:
        for session_id in ("s", "t", "s"):
            await runtime.run("Go.", agent(look, workspace=make), session_id=session_id)
        await runtime.sessions.delete("s")
        await trio.testing.wait_all_tasks_blocked()
        assert (made["s"].closed, made["t"].closed) == (1, 0)
    assert made["t"].closed == 1


async def test_nested_run_shares_the_workspace() -> None:
    seen: list[str] = []

    @tool
    async def delegate() -> str:
        """Start a nested run."""
        async with open_runtime() as other:
            outside = await other.run("Go.", agent(has_workspace))
        for workspace in (None, FakeWorkspace()):
            inner = await runtime.run("Go.", agent(has_workspace, workspace=workspace))
            seen.append(str(inner.tool_calls[0].content))
        return str(outside.tool_calls[0].content)

    def make(_: RunInfo) -> Workspace:
        seen.append("made")
        return FakeWorkspace()

    async with open_runtime() as runtime:
        result = await runtime.run("Go.", agent(delegate, workspace=make))
        assert result.tool_calls[0].content == "False, False"
        assert seen == ["made", "True, True", "True, True"]
        assert runtime.statistics().resources.leases == 0


@pytest.mark.feature("ASDK-116")
async def test_background_command_outlives_its_run() -> None:
    own, store = FakeWorkspace(), MemoryStore()
    async with open_runtime(store=store) as runtime:
        for _ in range(2):
            await runtime.run("Go.", agent(serve, workspace=own), session_id="s")
        assert (await types(runtime)).count("background.started") == 2
        own.processes[0].end()
        await trio.testing.wait_all_tasks_blocked()
        assert "background.ended" not in await types(runtime)
        before = await runtime.sessions.snapshot("s")
        assert before is not None
        assert [task.status for task in before.background] == ["ended", "running"]
        await runtime.run("On.", agent(look, workspace=own), session_id="s")
        found = await types(runtime)
        assert found[found.index("background.ended") + 1] == "system.init"
        assert "background.lost" not in found
    assert [one.kills for one in own.processes] == [0, 1]
    async with open_runtime(store=store) as runtime:
        await runtime.run("On.", agent(has_workspace), session_id="s")
        found = await types(runtime)
        at = found.index("background.lost")
        assert found[at + 1] == "system.init"
        assert found.count("background.lost") == 1


async def test_session_cannot_be_deleted_during_a_run() -> None:
    own = FakeWorkspace()
    model = ScriptedModel([[pause(math.inf), say("Done.")]])

    def make(_: RunInfo) -> Workspace:
        return own

    options = AgentOptions(model="m", provider=model, workspace=make)
    async with open_runtime() as runtime, trio.open_nursery() as nursery:
        nursery.start_soon(lambda: runtime.run("Go.", options, session_id="s"))
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(SessionBusy):
            await runtime.sessions.delete("s")
        assert own.closed == 0
        await runtime.interrupt("s")
        await runtime.sessions.delete("s")
        await trio.testing.wait_all_tasks_blocked()
        assert own.closed == 1


async def test_failing_factory_fails_the_run() -> None:
    def broken(_: RunInfo) -> Workspace:
        raise OSError("disk full")

    async with open_runtime() as runtime:
        with pytest.raises(WorkspaceError, match="OSError: disk full"):
            await runtime.run("Go.", agent(workspace=broken), session_id="s")
        await runtime.run("Go.", agent(look, workspace=FakeWorkspace()), session_id="s")


@pytest.mark.feature("ASDK-062")
async def test_builtin_tools_are_created_once() -> None:
    asked: list[tuple[str, ...]] = []

    def select(names: Iterable[str]) -> tuple[Tool, ...]:
        asked.append(tuple(names))
        return (look,)

    builtin = BuiltinTools(select)
    options = AgentOptions(
        model="m",
        provider=ScriptedModel([]),
        tools=[serve],
        builtin_tools=["Read"],
        permissions="plan",
    )
    for _ in range(2):
        added = builtin.added_to(options, has_workspace=True)
        assert list(added.tools_by_name) == ["serve", "look"]
        assert [spec.name for spec in added.tool_specs] == ["serve", "look"]
    assert asked == [("Read",)]
    with pytest.raises(ConfigError, match="'Read' requires a workspace"):
        builtin.added_to(options, has_workspace=False)
    builtin.added_to(options.evolve(builtin_tools=["TodoWrite"]), has_workspace=False)


async def test_file_tool_without_workspace_is_refused() -> None:
    async with open_runtime() as runtime:
        with pytest.raises(ConfigError, match="requires a workspace; pass"):
            await runtime.run("Go.", agent().evolve(builtin_tools="code"), session_id="s")
        assert await runtime.sessions.snapshot("s") is None


async def test_detached_context_has_no_workspace() -> None:
    context = DetachedContext("t")
    assert (context.workspace, context.background) == (None, None)
    context.used(NO_RESOURCES)
