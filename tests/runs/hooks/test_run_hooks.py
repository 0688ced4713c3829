"""Hooks over a complete run: their shared state, the end of the run, and failures."""

import math
from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio
from trio.testing import MockClock

from agent_actors import AgentOptions, Runtime, open_runtime, tool
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import AnyEvent, HookEvent, ToolResult
from agent_actors.domain.model import ModelCompleted, ModelRequest
from agent_actors.domain.run import RunResult
from agent_actors.errors import AgentError, ConfigError, HookError, ProviderConnectError
from agent_actors.hooks import (
    AfterAgentEvent,
    BeforeAgentEvent,
    BeforeModelEvent,
    Hook,
    HookContext,
    HookDecision,
    Hooks,
    ModelCall,
    PhaseEvent,
    PreToolUseEvent,
    SubagentStartEvent,
    SubagentStopEvent,
    ToolCall,
)
from agent_actors.testing import ScriptedModel, Turn, call, fail, pause, say, wait
from agent_actors.tools.output import ToolOutput
from tests.runs.helpers import check_history, check_quiet
from tests.runs.hooks.helpers import USE, agent, asked, echo, ran, results, run


@pytest.fixture(autouse=True)
def forget() -> None:
    ran.clear()


# --- runs ---


@pytest.mark.feature("ASDK-005")
async def test_run_keeps_hooks_it_started_with() -> None:
    async def late(event: PhaseEvent) -> HookDecision:
        raise AssertionError

    async def change(event: PreToolUseEvent) -> None:
        seen.append(event.tool_input["text"])
        registered.append(late)
        hooks["after_tool"] = [late]

    seen: list[object] = []
    registered: list[object] = [change]
    hooks: dict[str, list[object]] = {"before_tool": registered}
    options = agent(call("echo", {"text": "a"}), call("echo", {"text": "b"}), "Done.", hooks=hooks)
    await run(options)
    assert seen == ["a", "b"]


@pytest.mark.feature("ASDK-002", "WICK-023", "WICK-026")
async def test_hooks_share_state_within_a_run() -> None:
    @tool
    async def extra() -> str:
        """Only here."""
        return "extra"

    async def begin(event: BeforeAgentEvent, ctx: HookContext) -> None:
        assert ctx.state == {}
        ctx.state["seen"] = 0
        ctx.register_tool(extra)
        with pytest.raises(ConfigError, match="this run already has a tool with this name"):
            ctx.register_tool(echo)

    async def count(event: PreToolUseEvent, ctx: HookContext) -> None:
        assert ctx.state["seen"] == 0
        assert ctx.run.session_id == "s"
        with pytest.raises(ConfigError, match="only in before_agent"):
            ctx.register_tool(extra)

    hooks: Hooks = {"before_agent": begin, "pre_tool_use": count}
    options = agent(call("extra", {}), "Done.", call("extra", {}), "Done.", hooks=hooks)
    assert results(await run(options)) == ["extra"]
    assert [spec.name for spec in asked(options)[0].tools] == ["echo", "extra"]
    assert results(await run(options)) == ["extra"]
    assert list(options.tools_by_name) == ["echo"]


@pytest.mark.feature("ASDK-007")
@pytest.mark.parametrize("how", ["an answer", "an error", "a cancel", "a deadline", "blocked"])
async def test_run_end_fires_exactly_once(how: str, autojump_clock: MockClock) -> None:
    observed: list[str] = []

    async def after(event: AfterAgentEvent) -> None:
        await trio.sleep(1)  # no cancellation interrupts it
        observed.append(event.stop_reason if event.error is None else type(event.error).__name__)

    async def refuse(event: BeforeModelEvent) -> HookDecision:
        return HookDecision(continue_=how != "blocked")

    turns: dict[str, Turn] = {"an error": fail(ProviderConnectError("no", endpoint="e"))}
    slow: Turn = [pause(50), say("Done.")] if how in ("a cancel", "a deadline") else "Done."
    options = agent(turns.get(how, slow), hooks={"after_agent": after, "before_model": refuse})
    options = attrs.evolve(options, run_timeout=9 if how == "a deadline" else math.inf)
    async with open_runtime() as runtime:
        with trio.move_on_after(20):
            try:
                await runtime.run("Go.", options, session_id="s")
            except AgentError:
                assert how in ("an error", "a deadline")
        check_quiet(runtime)
    assert observed == [
        {
            "an answer": "completed",
            "an error": "ProviderConnectError",
            "a cancel": "interrupted",
            "a deadline": "RunDeadlineExceeded",
            "blocked": "blocked:before_model",
        }[how]
    ]


@pytest.mark.parametrize("fails", [False, True], ids=["answered", "failed"])
async def test_failing_end_hook_hides_no_error(fails: bool) -> None:
    async def after(event: AfterAgentEvent) -> None:
        raise ValueError("odd")

    turn: Turn = fail(ProviderConnectError("no", endpoint="e")) if fails else "Done."
    with pytest.raises(ProviderConnectError if fails else HookError) as caught:
        await run(agent(turn, hooks={"after_agent": after}))
    observed = "hook after in after_agent: the hook raised ValueError: odd"
    assert (
        caught.value.__notes__ == [f"and an after_agent hook failed: {observed}"]
        if fails
        else str(caught.value) == observed
    )


async def test_hanging_end_hooks_are_abandoned(
    autojump_clock: MockClock,
) -> None:
    async def hang(event: AfterAgentEvent) -> None:
        await trio.sleep_forever()

    with pytest.raises(HookError, match="the hooks did not finish within 10 s"):
        await run(agent("Done.", hooks={"after_agent": hang}))


# --- failures ---


async def broken(event: object) -> None:
    raise ValueError("odd")


async def hanging(event: object) -> None:
    await trio.sleep_forever()


async def leaving(event: object) -> None:
    raise SystemExit(3)


async def talking(event: object) -> str:
    return "yes"


@pytest.mark.feature("OAS-096", "ASDK-004", "ASDK-006")
@pytest.mark.parametrize(
    ("hook", "says"),
    [
        (broken, "raised ValueError: odd"),
        (hanging, "did not decide within 60 s"),
        (talking, "returned a value of type str; expected a HookDecision, or None to proceed"),
        (leaving, "raised SystemExit: 3"),
    ],
)
@pytest.mark.parametrize(
    "phase", ["user_prompt_submit", "before_model", "after_model", "before_tool", "after_tool"]
)
async def test_failing_hook_ends_run_by_name(
    phase: str, hook: object, says: str, autojump_clock: MockClock
) -> None:
    options = agent(*USE, hooks={phase: hook})
    async with open_runtime() as runtime:
        with pytest.raises(HookError) as caught:
            await runtime.run("Go.", options, session_id="s")
        check_quiet(runtime)
        history = runtime.history("s")
        assert history is not None
        check_history(history)
        assert (await runtime.run("Again.", agent("Fine."), session_id="s")).text == "Fine."
    name = getattr(hook, "__name__", "")
    assert str(caught.value) == f"hook {name} in {phase}: the hook {says}"
    assert (caught.value.hook, caught.value.phase) == (name, phase)


async def test_invalid_wrapper_result_is_reported() -> None:
    async def wrap(request: object, call_next: object) -> int:
        return 1

    def one(request: object) -> int:
        return 1

    with pytest.raises(HookError, match="of type int; expected a ModelCompleted"):
        await run(agent("Done.", hooks={"wrap_model_call": wrap}))
    with pytest.raises(HookError, match="of type int; expected a ToolOutput"):
        await run(agent(*USE, hooks={"wrap_tool_call": wrap}))
    with pytest.raises(HookError, match="of type int; expected a ModelRequest"):
        await run(agent("Done.", hooks={"modify_request": one}))


@pytest.mark.parametrize("phase", ["wrap_model_call", "wrap_tool_call"])
async def test_wrapper_exiting_ends_only_its_run(phase: str) -> None:
    async def leave(asked: object, call_next: object) -> None:
        raise SystemExit(3)

    async with open_runtime() as runtime:
        with pytest.raises(
            HookError, match=f"hook leave in {phase}: the hook raised SystemExit: 3"
        ):
            await runtime.run("Go.", agent(*USE, hooks={phase: leave}))
        assert (await runtime.run("Go.", agent("Fine."))).text == "Fine."


async def test_hook_may_add_tools_per_run() -> None:
    @tool
    async def extra() -> str:
        """One extra tool."""
        return "extra"

    async def plan(event: BeforeAgentEvent, ctx: HookContext) -> None:
        planned = await runtime.run("Which?", agent("extra"))
        assert planned.text == "extra"
        ctx.register_tool(extra)

    async def start(event: SubagentStartEvent) -> None:
        pass

    hooks: Hooks = {"before_agent": plan, "subagent_start": start}
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", agent(call("extra", {}), "Done.", hooks=hooks))
    assert results(result) == ["extra"]


async def test_wrapper_may_have_its_own_deadline(autojump_clock: MockClock) -> None:
    class Impatient(Hook):
        deadline: float | None = 5

        async def wrap_model_call(
            self, request: ModelRequest, call_next: ModelCall, ctx: HookContext
        ) -> ModelCompleted:
            return await call_next(request)

    with pytest.raises(
        HookError, match="hook Impatient in wrap_model_call: the hook did not finish within"
    ):
        await run(agent([pause(50), say("Done.")], hooks=Impatient()))


@pytest.mark.parametrize("phase", ["wrap_model_call", "wrap_tool_call"])
@pytest.mark.parametrize("hangs", ["before", "after"])
async def test_hanging_wrapper_ends_at_hook_timeout(
    phase: str, hangs: str, autojump_clock: MockClock
) -> None:
    async def hang(asked: object, call_next: Callable[[object], Awaitable[object]]) -> object:
        if hangs == "before":
            await trio.sleep_forever()
        await call_next(asked)
        await trio.sleep_forever()

    options = attrs.evolve(agent(*USE, hooks={phase: hang}), hook_timeout=7)
    with pytest.raises(
        HookError, match=f"hook hang in {phase}: the hook did not finish within 7 s"
    ):
        await run(options)
    assert trio.current_time() < 10


async def test_wrapped_step_pauses_hook_timeout(autojump_clock: MockClock) -> None:
    @tool
    async def nap() -> str:
        """Sleep."""
        await trio.sleep(50)
        return "rested"

    async def pass_on(asked: object, call_next: Callable[[object], Awaitable[object]]) -> object:
        await trio.sleep(3)  # runs twice: both together take less than the timeout
        answer = await call_next(asked)
        await trio.sleep(3)
        return answer

    hooks: Hooks = {"wrap_model_call": [pass_on, pass_on], "wrap_tool_call": [pass_on, pass_on]}
    plain = agent([pause(50), call("nap")], [pause(50), say("Done.")], hooks=hooks)
    result = await run(attrs.evolve(plain, tools=[nap], hook_timeout=7))
    assert (result.text, results(result)) == ("Done.", ["rested"])


async def test_first_registered_hook_is_outermost() -> None:
    """Hooks that wrap calls begin in the order of registration, and end in the opposite order."""
    order: list[str] = []

    def around(name: str) -> Callable[[object, Callable[[object], Awaitable[object]]], object]:
        async def wrap(asked: object, call_next: Callable[[object], Awaitable[object]]) -> object:
            order.append(f"{name} begins")
            answer = await call_next(asked)
            order.append(f"{name} ends")
            return answer

        return wrap

    for phase in ("wrap_tool_call", "wrap_model_call"):
        order.clear()
        turns = USE if phase == "wrap_tool_call" else ["Done."]
        await run(agent(*turns, hooks={phase: [around("first"), around("second")]}))
        assert order == ["first begins", "second begins", "second ends", "first ends"]


async def test_first_failing_hook_is_reported() -> None:
    class Outer(Hook):
        async def wrap_tool_call(
            self, call: ToolUseBlock, call_next: ToolCall, ctx: HookContext
        ) -> ToolOutput:
            return await call_next(call)

    async def inner(one: ToolUseBlock, call_next: ToolCall) -> ToolOutput:
        raise ValueError("odd")

    with pytest.raises(
        HookError, match="hook inner in wrap_tool_call: the hook raised ValueError: odd"
    ):
        await run(agent(*USE, hooks=[Outer(), {"wrap_tool_call": inner}]))


# --- nested runs ---


async def test_parent_hooks_may_refuse_nested_runs() -> None:
    observed: list[PhaseEvent] = []
    refuse = False

    async def start(event: SubagentStartEvent) -> HookDecision | None:
        observed.append(event)
        return HookDecision(continue_=False, reason="no helpers") if refuse else None

    async def stop(event: SubagentStopEvent) -> None:
        observed.append(event)

    @tool
    async def delegate() -> str:
        """Ask another agent."""
        helper = AgentOptions(model="m", provider=ScriptedModel(["Helped."]), agent_name="helper")
        result = await runtime.run("Help.", helper, session_id="child")
        return f"{result.stop_reason}: {result.text}"

    async def parent(runtime: Runtime) -> RunResult:
        hooks: Hooks = {"subagent_start": start, "subagent_stop": stop}
        plain = agent(call("delegate", {}), "Done.", hooks=hooks)
        return await runtime.run("Go.", attrs.evolve(plain, tools=[delegate]), session_id="s")

    async with open_runtime() as runtime:
        assert results(await parent(runtime)) == ["completed: Helped."]
        first, last = observed
        assert isinstance(first, SubagentStartEvent)
        assert isinstance(last, SubagentStopEvent)
        assert (first.agent_name, first.prompt, first.subagent_session_id, first.session_id) == (
            "helper",
            "Help.",
            "child",
            "s",
        )
        assert (last.stop_reason, last.text, last.tool_use_id) == (
            "completed",
            "Helped.",
            first.tool_use_id,
        )
        refuse = True
        assert results(await parent(runtime)) == ["blocked:subagent_start: "]


async def test_started_notification_always_has_an_end(
    nursery: trio.Nursery,
) -> None:
    observed: list[str] = []
    parent_ended, go_on = trio.Event(), trio.Event()
    begun = trio.Event()

    async def start(event: SubagentStartEvent) -> None:
        observed.append(f"start {event.subagent_session_id}")
        begun.set()

    async def stop(event: SubagentStopEvent) -> None:
        observed.append(f"stop {event.subagent_session_id}")

    async def after(event: AfterAgentEvent) -> None:
        observed.append("after_agent")

    @tool
    async def leave() -> str:
        """Leave two runs behind: one begins now, the other when this run has ended."""

        async def at_once() -> None:
            await runtime.run("Help.", agent([wait(go_on), say("Helped.")]), session_id="now")

        async def later() -> None:
            await parent_ended.wait()
            await runtime.run("Help.", agent("Helped."), session_id="later")
            go_on.set()

        nursery.start_soon(at_once)
        nursery.start_soon(later)
        await begun.wait()
        return "left"

    hooks: Hooks = {"subagent_start": start, "subagent_stop": stop, "after_agent": after}
    plain = agent(call("leave", {}), "Done.", hooks=hooks)
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", attrs.evolve(plain, tools=[leave]), session_id="s")
        assert results(result) == ["left"]
        parent_ended.set()
        await go_on.wait()
    assert observed == ["start now", "after_agent", "stop now"]


async def test_hanging_subagent_stop_is_abandoned(
    autojump_clock: MockClock,
) -> None:
    @tool
    async def delegate() -> str:
        """Ask another agent."""
        return (await runtime.run("Help.", agent("Helped."))).text

    plain = agent(call("delegate", {}), "Done.", hooks={"subagent_stop": hanging})
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", attrs.evolve(plain, tools=[delegate]))
    assert "hook <all> in subagent_stop: the hooks did not finish within 10 s" in results(result)[0]
    assert trio.current_time() == pytest.approx(10)


async def test_hook_events_are_recorded_in_their_places() -> None:
    async def refuse(event: PreToolUseEvent) -> HookDecision:
        return HookDecision(continue_=False, reason="no")

    options = agent(*USE, hooks={"before_tool": refuse})
    async with open_runtime() as runtime, runtime.stream("Go.", options) as events:
        seen: list[AnyEvent] = [event async for event in events]
    kinds = [type(event) for event in seen if isinstance(event, HookEvent | ToolResult)]
    assert kinds == [HookEvent, ToolResult]
    assert all(event.seq is not None for event in seen if isinstance(event, HookEvent))
