"""A user's code with dependencies, for the type checkers only: no cast, and ignores of errors."""

from typing import assert_type

import attrs

from agent_actors import (
    AgentContext,
    AgentOptions,
    Client,
    Guardrail,
    Hook,
    HookContext,
    HookDecision,
    Partial,
    PreToolUseEvent,
    RunResult,
    Runtime,
    ToolContext,
    asyncio,
    query,
    run,
    run_sync,
    tool,
)


@attrs.frozen
class City:
    name: str


class Database:
    user: str


class TestDatabase(Database):
    pass


@tool
async def look(city: str, ctx: ToolContext[Database]) -> str:
    """Look."""
    assert_type(ctx.deps, Database)
    return ctx.deps.user + city


@tool
def look_without(ctx: ToolContext) -> None:
    """Look."""
    assert_type(ctx.deps, object)


class Watch(Hook[Database]):
    async def before_tool(
        self, event: PreToolUseEvent, ctx: HookContext[Database]
    ) -> HookDecision | None:
        assert_type(ctx.deps, Database)
        return None


class Plain(Hook):
    async def before_tool(self, event: PreToolUseEvent, ctx: HookContext) -> HookDecision | None:
        assert_type(ctx.deps, object)
        return None


def instructions(ctx: AgentContext[Database]) -> str:
    assert_type(ctx.deps, Database)
    return ctx.deps.user


async def for_users(ctx: AgentContext[Database]) -> bool:
    return bool(ctx.deps.user)


async def allowed(text: str, ctx: AgentContext[Database]) -> str | None:
    return "no user" if text and not ctx.deps.user else None


@tool(offered=for_users)
def work() -> None:
    """Work."""


plain = AgentOptions(model="m", base_url="http://localhost:1234/v1")
needy = AgentOptions(
    model="m",
    base_url="http://localhost:1234/v1",
    system_prompt=instructions,
    tools=[look, look_without, work],
    hooks=[Watch(), Plain()],
    guardrails=[Guardrail(allowed), Guardrail(allowed, on="output", withhold=True)],
    deps_type=Database,
)
both = needy.evolve(output_type=City)
from_env = AgentOptions.from_env(deps_type=Database, model="m")

assert_type(needy, AgentOptions[str, Database])
assert_type(both, AgentOptions[City, Database])
assert_type(plain.evolve(deps_type=Database), AgentOptions[str, Database])
assert_type(from_env, AgentOptions[str, Database])
assert_type(attrs.evolve(needy, temperature=0), AgentOptions[str, Database])


# An annotation without dependencies accepts agents with any dependencies.
async def text_of(runtime: Runtime, options: AgentOptions[object]) -> str:
    return (await runtime.run("Hello", options)).text


# A function can ask for what the agent needs.
async def ask(
    runtime: Runtime, options: AgentOptions[City, Database], database: Database
) -> RunResult[City]:
    return await runtime.run("Hello", options, deps=database)


async def use(runtime: Runtime) -> None:
    assert_type(await runtime.run("Hello", both, deps=Database()), RunResult[City])
    await runtime.run("Hello", both, deps=TestDatabase())
    await runtime.resume("s", {}, both, deps=Database())
    await runtime.steer("s", "Hello", both, deps=Database())
    async with runtime.stream("Hello", both, deps=Database()) as events:
        assert_type(events.result.output, City)
    await run("Hello", needy, deps=Database())
    run_sync("Hello", needy, deps=Database())
    query("Hello", needy, deps=Database())
    Client(needy, deps=Database())
    await text_of(runtime, needy)
    await text_of(runtime, plain)
    await ask(runtime, both, TestDatabase())


async def use_on_asyncio(runtime: asyncio.Runtime) -> None:
    assert_type(await runtime.run("Hello", both, deps=Database()), RunResult[City])
    assert_type(await runtime.resume("s", {}, both, deps=TestDatabase()), RunResult[City])
    assert_type(await runtime.steer("s", "Hello", both, deps=Database()), RunResult[object])
    async with runtime.stream("Hello", both, deps=Database()) as events:
        assert_type(events.partial, Partial[City] | None)
        assert_type(events.result.output, City)
    assert_type(await asyncio.run("Hello", both, deps=Database()), RunResult[City])
    asyncio.query("Hello", needy, deps=Database())
    asyncio.Client(needy, deps=Database())


async def refused(runtime: Runtime) -> None:
    await runtime.run("Hello", both, deps="no")  # type: ignore[misc] # pyright: ignore[reportArgumentType]
    await runtime.run("Hello", plain, deps="no")  # type: ignore[misc] # pyright: ignore[reportArgumentType]
    runtime.stream("Hello", both, deps=3)  # type: ignore[misc] # pyright: ignore[reportArgumentType]
    await runtime.steer("s", "Hello", both, deps=3)  # type: ignore[misc] # pyright: ignore[reportArgumentType]
    Client(needy, deps=3)  # type: ignore[misc] # pyright: ignore[reportArgumentType]


async def refused_on_asyncio(runtime: asyncio.Runtime) -> None:
    await runtime.run("Hello", both, deps="no")  # type: ignore[misc] # pyright: ignore[reportArgumentType]
    await runtime.run("Hello", plain, deps="no")  # type: ignore[misc] # pyright: ignore[reportArgumentType]
    await runtime.steer("s", "Hello", both, deps=3)  # type: ignore[misc] # pyright: ignore[reportArgumentType]
    runtime.stream("Hello", both, deps=3)  # type: ignore[misc] # pyright: ignore[reportArgumentType]
    asyncio.query("Hello", needy, deps=3)  # type: ignore[misc] # pyright: ignore[reportArgumentType]
    asyncio.Client(needy, deps=3)  # type: ignore[misc] # pyright: ignore[reportArgumentType]
