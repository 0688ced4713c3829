"""Dependencies, output while it streams, and functions of the options, for asyncio tasks."""

import asyncio
from typing import Any

import attrs
import pytest

from agent_actors import (
    AgentContext,
    AgentOptions,
    Guardrail,
    PartialOutput,
    PermissionPolicy,
    Tool,
    ToolContext,
    tool,
)
from agent_actors.asyncio import Client, open_runtime, query
from agent_actors.asyncio import run as run_once
from agent_actors.errors import ConfigError
from agent_actors.events import OutputDelta
from agent_actors.testing import ScriptedModel, call, hang, pause, say
from tests.asyncio.helpers import in_loop_thread, run


@attrs.define(eq=False)
class Shop:
    """The dependencies; `uses` lists the users."""

    uses: list[str] = attrs.field(factory=list[str])


@attrs.frozen
class City:
    name: str
    people: int = 0


@tool
async def look(ctx: ToolContext[Shop]) -> str:
    """Look."""
    await asyncio.sleep(0)
    ctx.deps.uses.append(f"look {in_loop_thread()}")
    return "seen"


def agent_with(*tools: Tool, **fields: Any) -> AgentOptions[str, Shop]:
    model = ScriptedModel([[call(one.name) for one in tools], [say("done")]])
    fields = {"provider": model, "tools": tools, "deps_type": Shop, **fields}
    return AgentOptions(model="m", auto_execute_tools=True, **fields)


def test_runs_and_conversations_receive_dependencies() -> None:
    async def main() -> None:
        shop = Shop()
        async with open_runtime() as runtime:
            await runtime.run("go", agent_with(look), deps=shop)
            async with runtime.stream("go", agent_with(look), deps=shop) as events:
                assert [event async for event in events]
            await runtime.steer("s", "go", agent_with(look), deps=shop)
            async with Client(agent_with(look), runtime=runtime, deps=shop) as client:
                await client.query("go")
                assert [block async for block in client.receive_messages()]
            async with query("go", agent_with(look), deps=shop) as messages:
                assert [message async for message in messages]
            await run_once("go", agent_with(look), deps=shop)
            with pytest.raises(ConfigError, match="needs dependencies of type Shop"):
                await runtime.run("go", agent_with(look))
        assert shop.uses == ["look True"] * 6

    run(main)


def test_resumed_and_nested_runs_receive_dependencies() -> None:
    async def main() -> None:
        first, second, inherits = Shop(), Shop(), agent_with(look)

        @tool
        async def delegate(ctx: ToolContext[Shop]) -> str:
            """Start a run with the same dependencies."""
            return (await run_once("go", inherits)).text

        policy = PermissionPolicy(ask=["delegate"], allow=["look"])
        agent = agent_with(delegate, permissions=policy, on_ask="suspend")
        async with open_runtime() as runtime:
            result = await runtime.run("go", agent, session_id="s", deps=first)
            answers = {question.id: "yes" for question in result.questions}
            await runtime.resume("s", answers, agent, deps=second)
        assert (first.uses, second.uses) == ([], ["look True"])

    run(main)


def typed() -> AgentOptions[City]:
    model = ScriptedModel([[say('{"name": "Pa'), pause(0.02), say('ris", "people": 2'), say("1}")]])
    return AgentOptions(model="m", provider=model, output_type=City)


def test_stream_shows_output_of_read_events() -> None:
    async def main() -> None:
        shown: list[City | None] = []
        async with open_runtime() as runtime, runtime.stream("go", typed()) as events:
            async for event in events:
                # Meanwhile, the thread of the runtime reads more of the response.
                await asyncio.sleep(0.01)
                if isinstance(event, OutputDelta):
                    assert events.partial is not None
                    assert events.partial.data == event.data
                    shown.append(events.partial.value)
        assert shown[-1] == events.result.output == City("Paris", 21)

    run(main)


def test_query_yields_partial_output() -> None:
    async def main() -> None:
        async with query("go", typed()) as messages:
            found = [one.partial.value async for one in messages if isinstance(one, PartialOutput)]
        assert found[-1] == City("Paris", 21)

    run(main)


@pytest.mark.parametrize("is_async", [True, False])
def test_functions_of_options_run_in_loop(is_async: bool) -> None:
    """A sync function runs in a worker thread, so that it may block."""
    places: list[tuple[str, bool]] = []

    def note(name: str) -> None:
        places.append((name, in_loop_thread()))

    def prompt(ctx: AgentContext[Shop]) -> str:
        note("prompt")
        return f"You serve {len(ctx.deps.uses)} users."

    def offered(ctx: AgentContext[Shop]) -> bool:
        note("offered")
        return bool(ctx.deps.uses)

    def check(text: str, ctx: AgentContext[Shop]) -> str | None:
        note("check")
        return f"{text} {ctx.deps.uses}"

    async def prompt_later(ctx: AgentContext[Shop]) -> str:
        await asyncio.sleep(0)
        return prompt(ctx)

    async def offered_later(ctx: AgentContext[Shop]) -> bool:
        await asyncio.sleep(0)
        return offered(ctx)

    async def check_later(text: str, ctx: AgentContext[Shop]) -> str | None:
        await asyncio.sleep(0)
        return check(text, ctx)

    @tool(offered=offered_later if is_async else offered)
    def work() -> None:
        """Work."""

    model = ScriptedModel([[say("done")]])
    agent = agent_with(
        work,
        provider=model,
        system_prompt=prompt_later if is_async else prompt,
        guardrails=Guardrail(check_later if is_async else check, on="output", withhold=True),
    )

    async def main() -> None:
        result = await run_once("go", agent, deps=Shop(["a"]))
        assert result.stop_reason == "blocked:guardrail"
        assert [one.reason for one in result.hook_events] == ["done ['a']"]

    run(main)
    assert model.requests[0].system_prompt == "You serve 1 users."
    assert sorted(places) == [(name, is_async) for name in ("check", "offered", "prompt")]


def test_violation_in_loop_cancels_model_call() -> None:
    async def refuses(_: str, __: AgentContext) -> str | None:
        while not model.live:  # noqa: ASYNC110 - the model runs in another thread
            await asyncio.sleep(0)
        return "no"

    model = ScriptedModel([[say("a"), hang()]])
    agent = AgentOptions(model="m", provider=model, guardrails=Guardrail(refuses))

    async def main() -> None:
        result = await run_once("go", agent)
        assert result.stop_reason == "blocked:guardrail"

    run(main)
    assert model.live == 0


def test_cancelled_run_cancels_check_in_loop() -> None:
    steps: list[str] = []
    tasks: list[asyncio.Task[object]] = []

    async def slow(text: str, _: AgentContext) -> str | None:
        tasks[0].cancel()
        try:
            await asyncio.sleep(60)
        finally:
            steps.append("check has ended")
        return None

    agent = AgentOptions(model="m", provider=ScriptedModel([[hang()]]), guardrails=Guardrail(slow))

    async def main() -> None:
        async with open_runtime() as runtime:
            tasks.append(asyncio.create_task(runtime.run("go", agent)))
            with pytest.raises(asyncio.CancelledError):
                await tasks[0]
            steps.append("run has ended")

    run(main)
    assert steps == ["check has ended", "run has ended"]
