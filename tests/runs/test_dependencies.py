"""Dependencies of a run, dynamic system prompts, and tools that are offered per turn."""

from typing import Any, Protocol, runtime_checkable

import attrs
import pytest
import trio
from trio.testing import MockClock

from agent_actors import (
    AgentContext,
    AgentOptions,
    CallbackError,
    Client,
    Hook,
    HookContext,
    PermissionPolicy,
    PreToolUseEvent,
    Tool,
    ToolContext,
    open_runtime,
    query,
    run,
    tool,
)
from agent_actors.domain.events import Event
from agent_actors.errors import ConfigError
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import ScriptedModel, call, say


@attrs.define(eq=False)
class Database:
    """The dependencies; `uses` lists the users."""

    uses: list[str] = attrs.field(factory=list[str])


class TestDatabase(Database):
    __test__ = False


@runtime_checkable
class HasUses(Protocol):
    uses: list[str]


@tool
async def look(ctx: ToolContext[Database]) -> str:
    """Look."""
    ctx.deps.uses.append(ctx.tool_name)
    return "seen"


@tool
def look_in_thread(ctx: ToolContext[HasUses] | None = None) -> str:
    """Look."""
    assert ctx is not None
    ctx.deps.uses.append(ctx.tool_name)
    return "seen"


def _by_dict(arguments: dict[str, object], ctx: ToolContext[Database]) -> str:
    ctx.deps.uses.append("by_dict")
    return "seen"


by_dict = Tool("by_dict", "Look.", None, _by_dict)


class Watch(Hook[Database]):
    async def before_tool(self, event: PreToolUseEvent, ctx: HookContext[Database]) -> None:
        ctx.deps.uses.append(f"hook of {event.tool_name}")


def agent_with(*tools: Tool, **fields: Any) -> AgentOptions[str, Database]:
    model = ScriptedModel([[call(one.name) for one in tools], [say("done")]])
    fields = {"provider": model, "tools": tools, "deps_type": Database, **fields}
    return AgentOptions(model="m", **fields)


async def test_tools_and_hooks_share_dependencies() -> None:
    database, store = Database(), MemoryStore()
    agent = agent_with(look, look_in_thread, by_dict, hooks=Watch())
    async with open_runtime(store=store) as runtime:
        result = await runtime.run("go", agent, session_id="s", deps=database)
        records = await runtime.sessions.records("s")
    assert [one.content for one in result.tool_calls] == ["seen"] * 3
    names = ["look", "look_in_thread", "by_dict"]
    assert sorted(database.uses) == sorted([*names, *(f"hook of {name}" for name in names)])
    assert all(isinstance(event, Event) for event in records)
    assert not any("Database" in repr(event) for event in records)


async def test_nested_run_shares_or_replaces_dependencies() -> None:
    outer, inner = Database(), Database()
    inherits, replaces = agent_with(look), agent_with(look)

    @tool
    async def delegate(ctx: ToolContext[Database]) -> str:
        """Delegate."""
        await run("go", inherits)
        await run("go", replaces, deps=inner)
        return "done"

    await run("go", agent_with(delegate), deps=outer)
    assert (outer.uses, inner.uses) == (["look"], ["look"])


async def test_resumed_run_receives_dependencies_again() -> None:
    first, second = Database(), Database()
    agent = agent_with(look, permissions=PermissionPolicy(ask=["look"]), on_ask="suspend")
    async with open_runtime() as runtime:
        result = await runtime.run("go", agent, session_id="s", deps=first)
        answers = {question.id: "yes" for question in result.questions}
        with pytest.raises(ConfigError, match="the agent needs dependencies of type Database"):
            await runtime.resume("s", answers, agent)
        await runtime.resume("s", answers, agent, deps=second)
    assert (first.uses, second.uses) == ([], ["look"])


async def test_client_and_query_pass_dependencies() -> None:
    database = Database()
    async with Client(agent_with(look, auto_execute_tools=True), deps=database) as client:
        await client.query("go")
        async for _ in client.receive_messages():
            pass
    async with query("go", agent_with(look, auto_execute_tools=True), deps=database) as messages:
        async for _ in messages:
            pass
    assert database.uses == ["look", "look"]


async def test_test_replaces_dependencies() -> None:
    database = TestDatabase()
    await run("go", agent_with(look), deps=database)
    await look.execute({}, deps=database)
    assert database.uses == ["look", "look"]


@pytest.mark.parametrize(
    ("deps", "says"),
    [
        (None, "needs dependencies of type Database, but the run has none; pass them"),
        (3, "needs dependencies of type Database, got int; pass them"),
    ],
)
async def test_missing_dependencies_are_refused_before_start(deps: Any, says: str) -> None:
    model = ScriptedModel([[say("done")]])
    undeclared = AgentOptions(model="m", provider=model, tools=[look])
    for agent in (agent_with(provider=model), undeclared):
        with pytest.raises(ConfigError, match=says):
            await run("go", agent, deps=deps)
    assert not model.requests


def test_tool_with_other_dependencies_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"takes a ToolContext\[Database\], but deps_type is int"):
        AgentOptions(model="m", provider=ScriptedModel([]), tools=[look], deps_type=int)
    with pytest.raises(ConfigError, match="deps_type must be a class; got 3"):
        AgentOptions(model="m", provider=ScriptedModel([]), deps_type=3)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("is_async", [False, True])
async def test_function_makes_system_prompt_once(is_async: bool) -> None:
    contexts: list[AgentContext[Database]] = []

    def prompt(ctx: AgentContext[Database]) -> str:
        contexts.append(ctx)
        return f"You serve {len(ctx.deps.uses)} users."

    async def prompt_later(ctx: AgentContext[Database]) -> str:
        await trio.lowlevel.checkpoint()
        return prompt(ctx)

    model = ScriptedModel([[call("look")], [say("done")]])
    made = prompt_later if is_async else prompt
    result = await run(
        "go", agent_with(look, provider=model, system_prompt=made), deps=Database(["a", "b"])
    )
    assert [request.system_prompt for request in model.requests] == ["You serve 2 users."] * 2
    assert [ctx.run.run_id for ctx in contexts] == [result.run_id]
    assert contexts[0].messages.last_content() == "go"


async def _never(_: AgentContext) -> str:
    await trio.sleep_forever()
    raise AssertionError


def _raise(_: AgentContext) -> str:
    raise KeyError("user")


def _number(_: AgentContext) -> int:
    return 3


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (_never, "it did not return within 5 s"),
        (_raise, "it raised KeyError: 'user'"),
        (_number, "it returned a value of type int; expected text"),
    ],
)
async def test_failure_of_system_prompt_ends_run(
    function: Any, says: str, autojump_clock: MockClock
) -> None:
    agent = agent_with(system_prompt=function, hook_timeout=5.0)
    async with open_runtime() as runtime:
        with pytest.raises(CallbackError) as caught:
            await runtime.run("go", agent, session_id="s", deps=Database())
        assert not runtime.is_busy("s")
    assert str(caught.value) == f"the function system_prompt failed: {says}"


async def test_predicate_offers_tool_per_turn() -> None:
    async def after_look(ctx: AgentContext[Database]) -> bool:
        return "look" in ctx.deps.uses

    @tool(offered=after_look)
    def late() -> str:
        """Work late."""
        return "worked"

    model = ScriptedModel([[call("late")], [call("look")], [call("late")], [say("done")]])
    result = await run("go", agent_with(look, late, provider=model), deps=Database())
    offered = [[spec.name for spec in request.tools] for request in model.requests]
    assert offered == [["look"], ["look"], ["look", "late"], ["look", "late"]]
    contents = [one.content for one in result.tool_calls]
    assert contents == ["unknown tool 'late'; the available tools are: look", "seen", "worked"]


async def test_failure_of_predicate_ends_run() -> None:
    @tool(offered=lambda ctx: bool(ctx.deps["missing"]))
    def late() -> str:
        """Work late."""
        return "worked"

    with pytest.raises(CallbackError, match="the function offered of 'late' failed: it raised"):
        await run("go", agent_with(late), deps=Database())
