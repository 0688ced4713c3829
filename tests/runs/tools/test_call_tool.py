"""A tool calls other tools of its run, under the rules that apply to the model's calls."""

import contextlib
from collections.abc import Sequence
from functools import partial
from typing import cast

import attrs
import pytest
import trio
from trio.testing import MockClock

from agent_actors import (
    AgentOptions,
    HookDecision,
    PreToolUseEvent,
    Runtime,
    Tool,
    ToolContext,
    ToolOutput,
    UsageLimits,
    open_runtime,
    tool,
)
from agent_actors.domain.events import (
    Event,
    FileChanged,
    ToolProgress,
    ToolResult,
    ToolUse,
    UserQuestion,
)
from agent_actors.domain.json import JsonObject
from agent_actors.domain.run import RunResult, ToolCallResult
from agent_actors.errors import HookError
from agent_actors.hooks import Hooks
from agent_actors.permissions import PermissionDecision, PermissionPolicy, PermissionRequest
from agent_actors.testing import ScriptedModel, Turn, call, interleave
from agent_actors.testing.cancel import StepOutcome, cancel_at_every_step
from agent_actors.tools.context import DetachedContext
from tests.runs.helpers import check_history, check_quiet, check_records, check_run

ONCE: tuple[Turn, ...] = (call("outer", {}, id="c1"), "Done.")


@tool(read_only=True)
async def double(number: int) -> dict[str, int]:
    """Double a number."""
    return {"number": 2 * number}


@tool
async def outer(context: ToolContext) -> str:
    """Call `double`."""
    found = await context.call_tool("double", {"number": 4})
    assert (found.id, found.name, found.is_error) == ("c1/1", "double", False)
    return f"got {found.content}"


def options(
    *turns: Turn, tools: Sequence[Tool] = (outer, double), hooks: Hooks = ()
) -> AgentOptions:
    return AgentOptions(model="m", provider=ScriptedModel(turns or ONCE), tools=tools, hooks=hooks)


async def run(agent: AgentOptions) -> RunResult:
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", agent, session_id="s")
        check_history(result.messages)
        check_quiet(runtime)
        check_run(await runtime.sessions.records("s"))
        assert await runtime.sessions.check("s") == ()
        return result


def calling(name: str, arguments: JsonObject) -> Tool:
    """Return a tool `outer` that returns the result of one call."""

    @tool("outer")
    async def calls(context: ToolContext) -> ToolOutput:
        """Call."""
        found = await context.call_tool(name, arguments)
        return ToolOutput(found.content, is_error=found.is_error)

    return calls


async def test_inner_call_is_recorded_under_outer() -> None:
    events: list[Event] = []
    async with open_runtime() as runtime:
        async with runtime.stream("Go.", options(), session_id="s") as stream:
            events += [event async for event in stream if isinstance(event, ToolUse | ToolResult)]
        assert stream.result is not None
        (made,) = stream.result.tool_calls
        assert made.content == "got {'number': 8}"
        check_history(stream.result.messages)
        records = await runtime.sessions.records("s")
        assert [r for r in records if isinstance(r, ToolUse | ToolResult)] == events
        stored = await runtime.sessions.history("s")
        assert stored == stream.result.messages
    seen = [
        (type(event), cast("ToolUse | ToolResult", event).tool_use_id, event.parent_tool_use_id)
        for event in events
    ]
    assert seen == [
        (ToolUse, "c1", None),
        (ToolUse, "c1/1", "c1"),
        (ToolResult, "c1/1", "c1"),
        (ToolResult, "c1", None),
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("double", {"number": "x"}, "number"),
        ("missing", {}, "unknown tool 'missing'"),
        ("browse", {}, "only the model can call it"),
        ("outer", {}, "at most 8 levels deep"),
    ],
)
async def test_impossible_call_is_an_error_result(
    name: str, arguments: JsonObject, reason: str
) -> None:
    browse = Tool("browse", "Browse.", {})
    result = await run(options(tools=[calling(name, arguments), double, browse]))
    assert result.tool_calls[0].is_error
    assert reason in str(result.tool_calls[0].content)


async def test_hooks_and_rules_apply_to_inner_call() -> None:
    seen: list[str] = []

    async def watch(event: PreToolUseEvent) -> HookDecision | None:
        seen.append(event.tool_use_id)
        if event.tool_input == {"number": 1}:
            return HookDecision(continue_=False, reason="not one")
        return None

    for number, policy, reason in (
        (1, None, "not one"),
        (2, PermissionPolicy(mode="deny", allow=["outer"]), "not permitted"),
    ):
        agent = options(
            tools=[calling("double", {"number": number}), double], hooks={"before_tool": watch}
        )
        result = await run(attrs.evolve(agent, permissions=policy))
        assert reason in str(result.tool_calls[0].content)
    assert len(seen) == 4


async def test_person_is_asked_about_inner_call(autojump_clock: MockClock) -> None:
    """The time of the person does not count against the outer call."""
    patient = attrs.evolve(
        options(tools=[calling("double", {"number": 2}), double]),
        permissions=PermissionPolicy(mode="bypass", ask=["double"]),
        tool_timeout=5,
    )
    async with open_runtime() as runtime:
        async with runtime.stream("Go.", patient) as events:
            async for event in events:
                if isinstance(event, UserQuestion):
                    assert event.tool_use_id.endswith("/1")
                    await trio.sleep(100)
                    runtime.answer(event.question_id, "yes")
        assert events.result is not None
        assert events.result.tool_calls[0].content == {"number": 4}


async def test_inner_call_cannot_suspend_the_run() -> None:
    agent = attrs.evolve(
        options(tools=[calling("double", {"number": 2}), double]),
        permissions=PermissionPolicy(mode="bypass", ask=["double"]),
        on_ask="suspend",
    )
    result = await run(agent)
    assert (result.text, result.questions) == ("Done.", ())
    assert "cannot wait for it with on_ask='suspend'" in str(result.tool_calls[0].content)


async def test_callback_decides_about_inner_call() -> None:
    def rewrite(request: PermissionRequest) -> PermissionDecision:
        return PermissionDecision("allow", input={"number": 5})

    agent = attrs.evolve(
        options(tools=[calling("double", {"number": 2}), double]),
        permissions=PermissionPolicy(mode="bypass", ask=["double"]),
        can_use_tool=rewrite,
    )
    assert (await run(agent)).tool_calls[0].content == {"number": 10}


async def test_limits_count_inner_calls() -> None:
    @tool("outer")
    async def repeat(context: ToolContext) -> list[bool]:
        """Call twice."""
        return [(await context.call_tool("double", {"number": n})).is_error for n in (1, 2)]

    agent = attrs.evolve(options(tools=[repeat, double]), limits=UsageLimits(tool_calls=2))
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", agent, session_id="s")
        assert result.tool_calls[0].content == [False, True]
        check_run(await runtime.sessions.records("s"))


async def test_full_limits_do_not_deadlock(autojump_clock: MockClock) -> None:
    """Every slot is held by an outer call, and each of them needs a slot for an inner call."""

    @tool(max_concurrency=1)
    async def deep(level: int, context: ToolContext) -> object:
        """Call itself."""
        await trio.sleep(1)
        if not level:
            return "bottom"
        return (await context.call_tool("deep", {"level": level - 1})).content

    turn = interleave(*(call("deep", {"level": 3}) for _ in range(20)))
    result = await run(options([turn], "Done.", tools=[deep]))
    assert [one.content for one in result.tool_calls] == ["bottom"] * 20


@pytest.mark.parametrize("exclusive", [True, False])
async def test_exclusive_inner_call_runs_alone(exclusive: bool, autojump_clock: MockClock) -> None:
    running: list[str] = []

    @tool(exclusive=True)
    async def alone() -> int:
        """Check that nothing else runs."""
        assert running == []
        running.append("alone")
        await trio.sleep(1)
        running.remove("alone")
        return len(running)

    @tool
    async def other() -> str:
        """Run next to others."""
        assert "alone" not in running
        running.append("other")
        await trio.sleep(1.5)
        running.remove("other")
        return "other"

    @tool("outer", exclusive=exclusive)
    async def both(context: ToolContext) -> list[bool]:
        """Call several tools at once."""
        found: list[ToolCallResult] = []

        async def one(name: str) -> None:
            found.append(await context.call_tool(name, {}))

        async with trio.open_nursery() as nursery:
            for name in ("alone", "other", "alone", "other"):
                nursery.start_soon(one, name)
        return [one.is_error for one in found]

    turn = interleave(*(call(name, {}) for name in ("outer", "outer", "other", "alone")))
    result = await run(options([turn], "Done.", tools=[both, alone, other]))
    assert [one.content for one in result.tool_calls] == [[False] * 4, [False] * 4, "other", "0"]


async def test_records_and_progress_of_inner_call() -> None:
    @tool
    async def save(context: ToolContext) -> str:
        """Record a file."""
        context.report({"done": 1})
        context.record(partial(FileChanged, path="a.txt", content="new"))
        return "saved"

    async with open_runtime() as runtime:
        agent = options(tools=[calling("save", {}), save])
        async with runtime.stream("Go.", agent, session_id="s") as events:
            progress = [event async for event in events if isinstance(event, ToolProgress)]
        assert [event.tool_use_id.endswith("/1") for event in progress] == [True]
        snapshot = await runtime.sessions.snapshot("s")
        assert snapshot is not None
        assert snapshot.files == {"a.txt": "new"}


async def test_log_has_cut_inner_result() -> None:
    @tool
    async def long() -> str:
        """Return much text."""
        return "x" * 9000

    @tool("outer")
    async def measure(context: ToolContext) -> int:
        """Measure it."""
        return len(str((await context.call_tool("long", {})).content))

    agent = attrs.evolve(options(tools=[measure, long]), max_result_bytes=2000)
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", agent, session_id="s")
        assert result.tool_calls[0].content == "9000"
        inner, _ = [r for r in await runtime.sessions.records("s") if isinstance(r, ToolResult)]
        assert (len(str(inner.content)) < 2000, inner.complete_bytes) == (True, 9000)
    assert isinstance(agent.provider, ScriptedModel)
    assert "ReadResult" not in [spec.name for spec in agent.provider.requests[-1].tools]


async def test_untrusted_inner_result_marks_outer() -> None:
    @tool(open_world=True, read_only=True)
    async def look() -> str:
        """Look outside."""
        return "obey"

    @tool("outer", open_world=False)
    async def summarize(context: ToolContext) -> str:
        """Use `look`."""
        return str((await context.call_tool("look", {})).content).upper()

    (made,) = (await run(options(tools=[summarize, look]))).tool_calls
    assert (made.untrusted, "OBEY" in str(made.content)) == (True, True)
    assert str(made.content).startswith("<untrusted-")


async def test_sync_handler_calls_from_its_thread() -> None:
    @tool("outer")
    def calls(context: ToolContext) -> object:
        """Call."""
        with pytest.raises(RuntimeError, match=r"trio\.from_thread\.run"):
            context.call_tool("double", {"number": 3}).__await__().send(None)
        return trio.from_thread.run(context.call_tool, "double", {"number": 3}).content

    assert (await run(options(tools=[calls, double]))).tool_calls[0].content == {"number": 6}


async def test_abandonable_thread_cannot_call_tools() -> None:
    @tool("outer", on_cancel="abandon")
    def calls(context: ToolContext) -> object:
        """Call."""
        return trio.from_thread.run(context.call_tool, "double", {"number": 3}).content

    (made,) = (await run(options(tools=[calls, double]))).tool_calls
    assert "on_cancel='abandon'" in str(made.content)


async def test_ended_call_cannot_call_tools() -> None:
    kept: list[ToolContext] = []

    @tool("outer")
    async def keeps(context: ToolContext) -> str:
        """Keep the context."""
        kept.append(context)
        return "kept"

    async with open_runtime() as runtime:
        await runtime.run("Go.", options(tools=[keeps, double]))
        with pytest.raises(RuntimeError, match="has ended"):
            await kept[0].call_tool("double", {"number": 1})
    with pytest.raises(RuntimeError, match="no run"):
        await DetachedContext("x").call_tool("double", {})


async def test_failed_hook_ends_the_run() -> None:
    async def fails(event: PreToolUseEvent) -> None:
        if event.tool_name == "double":
            raise ValueError("broken")

    @tool("outer")
    async def careless(context: ToolContext) -> str:
        """Ignore every error."""
        with contextlib.suppress(Exception):
            await context.call_tool("double", {"number": 1})
        return "fine"

    async with open_runtime() as runtime:
        agent = options(tools=[careless, double], hooks={"before_tool": fails})
        with pytest.raises(HookError, match="broken"):
            await runtime.run("Go.", agent, session_id="s")
        check_run(await runtime.sessions.records("s"))


def test_cancelled_inner_call_leaves_nothing() -> None:
    @tool
    async def slow() -> str:
        """Take a while."""
        for _ in range(3):
            await trio.lowlevel.checkpoint()
        return "slow"

    async def scenario(runtime: Runtime) -> None:
        await runtime.run("Go.", options(tools=[calling("slow", {}), slow]), session_id="s")

    async def check(_: int, outcome: StepOutcome[Runtime]) -> None:
        runtime = outcome.subject
        check_quiet(runtime)
        if await runtime.sessions.info("s") is not None:
            check_records(await runtime.sessions.records("s"))

    def may_stay(task: trio.lowlevel.Task) -> bool:
        return "ActorLoop._background" in task.name  # of the endpoint, which the first run starts

    steps = cancel_at_every_step(scenario, around=open_runtime, check=check, may_stay=may_stay)
    assert steps > 20
