"""An agent's `before_tool` hooks also apply to calls of the runs that its tools start."""

import gc
import queue
import threading
from collections.abc import Awaitable, Callable
from itertools import count
from typing import TYPE_CHECKING, Literal
from weakref import WeakSet

import attrs
import pytest
import trio
from trio.testing import MockClock

from agent_actors import AgentOptions, Client, Runtime, Tool, open_runtime, tool
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.messages import Messages
from agent_actors.errors import HookError
from agent_actors.hooks import (
    HookContext,
    HookDecision,
    HookMatcher,
    Hooks,
    PreToolUseEvent,
    ToolCall,
)
from agent_actors.hooks.builtin import RateLimit
from agent_actors.permissions import PermissionDecision, PermissionPolicy, PermissionRequest
from agent_actors.runs.context import RunContext, current_context
from agent_actors.runs.tools import ancestor_hooks
from agent_actors.testing import ScriptedModel, call
from agent_actors.tools.output import ToolOutput
from tests.runs.helpers import check_history
from tests.runs.hooks.helpers import USE, actions, agent, ran, results

if TYPE_CHECKING:
    from agent_actors.domain.run import RunResult

SAID = "the call was refused: gate"


@pytest.fixture(autouse=True)
def forget() -> None:
    ran.clear()


async def gate(event: PreToolUseEvent) -> HookDecision | None:
    if event.tool_name == "echo" and event.tool_input["text"] != "fine":
        return HookDecision(continue_=False, reason="gate")
    return None


class NestedRuns:
    """Runs that tools start, and their results."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.results: list[RunResult] = []
        self._sessions = count()

    async def run(self, options: AgentOptions) -> str:
        session_id = f"sub{next(self._sessions)}"
        result = await self.runtime.run("Help.", options, session_id=session_id)
        self.results.append(result)
        return result.stop_reason

    def tool(self, *agents: AgentOptions) -> Tool:
        @tool
        async def delegate() -> str:
            """Run other agents."""
            return " ".join([await self.run(one) for one in agents])

        return delegate

    def parent_agent(self, *agents: AgentOptions, hooks: Hooks = ()) -> AgentOptions:
        """Return an agent whose only tool runs these agents."""
        model = ScriptedModel([call("delegate", {}), "Done."])
        return AgentOptions(model="m", provider=model, tools=[self.tool(*agents)], hooks=hooks)


@pytest.mark.parametrize("levels", [1, 2, 4])
async def test_parent_hook_denies_nested_calls(levels: int) -> None:
    async with open_runtime() as runtime:
        nested_runs = NestedRuns(runtime)
        options = agent(*USE)
        for _ in range(levels - 1):
            options = nested_runs.parent_agent(options)
        hooks: Hooks = {"before_tool": [HookMatcher("ech*", [gate])]}
        top = await runtime.run("Go.", nested_runs.parent_agent(options, hooks=hooks))
    assert ran == []
    assert results(nested_runs.results[0]) == [SAID]
    # Only the run that made the call records the hook's decision.
    assert actions(nested_runs.results[0]) == [("gate", "before_tool", "deny")]
    assert [actions(one) for one in [*nested_runs.results[1:], top]] == [[]] * levels
    assert nested_runs.results[0].stop_reason == "completed"


async def test_parent_hook_sees_only_matching_tools() -> None:
    async with open_runtime() as runtime:
        nested_runs = NestedRuns(runtime)
        hooks: Hooks = {"before_tool": [HookMatcher("Echo|other", [gate])]}
        await runtime.run("Go.", nested_runs.parent_agent(agent(*USE), hooks=hooks))
        await runtime.run(
            "Go.", nested_runs.parent_agent(agent(call("echo", {"text": "fine"}), "Done."))
        )
    assert ran == ["a", "fine"]


async def approves_another(request: PermissionRequest) -> PermissionDecision:
    return PermissionDecision("allow", input={"text": "evil"})


async def wraps_another(asked: ToolUseBlock, call_next: ToolCall) -> ToolOutput:
    return await call_next(attrs.evolve(asked, input={"text": "evil"}))


async def makes_another(event: PreToolUseEvent) -> HookDecision | None:
    return None if event.recheck else HookDecision(modified_input={"text": "evil"})


FINE = (call("echo", {"text": "fine"}), "Done.")
ASKS = PermissionPolicy(ask=["echo"])


@pytest.mark.parametrize(
    "options",
    [
        attrs.evolve(agent(*FINE), permissions=ASKS, can_use_tool=approves_another),
        agent(*FINE, hooks={"wrap_tool_call": wraps_another}),
        agent(*FINE, hooks={"before_tool": makes_another}),
    ],
    ids=["approver", "wrap_tool_call", "before_tool"],
)
async def test_parent_hook_sees_final_arguments(options: AgentOptions) -> None:
    seen: list[tuple[object, bool, bool]] = []

    async def watch(event: PreToolUseEvent) -> HookDecision | None:
        seen.append((event.tool_input.get("text"), event.recheck, event.nested))
        return await gate(event)

    async with open_runtime() as runtime:
        nested_runs = NestedRuns(runtime)
        await runtime.run("Go.", nested_runs.parent_agent(options, hooks={"before_tool": watch}))
    assert ran == []
    assert results(nested_runs.results[0]) == [SAID]
    assert seen[0] == (None, False, False)  # the call of its own agent
    assert seen[-1][0] == "evil"
    assert [nested for _, _, nested in seen[1:]] == [True] * (len(seen) - 1)
    assert [again for _, again, _ in seen[1:]] == [False, True][: len(seen) - 1]


async def test_parent_denial_asks_no_person() -> None:
    async def asked(request: PermissionRequest) -> bool:
        raise AssertionError

    options = attrs.evolve(agent(*USE), permissions=ASKS, can_use_tool=asked)
    async with open_runtime() as runtime:
        nested_runs = NestedRuns(runtime)
        await runtime.run("Go.", nested_runs.parent_agent(options, hooks={"before_tool": gate}))
    assert results(nested_runs.results[0]) == [SAID]


async def test_parent_hook_keeps_state_and_parent() -> None:
    observed: list[object] = []

    async def note(event: PreToolUseEvent, ctx: HookContext) -> None:
        ctx.state[event.tool_name] = True
        whose = (event.session_id, ctx.run.session_id, event.run_id == ctx.run.run_id)
        observed.append((*whose, [*ctx.state]))
        event.tool_input["text"] = "written in place"

    async with open_runtime() as runtime:
        nested_runs = NestedRuns(runtime)
        options = nested_runs.parent_agent(agent(*USE), hooks={"before_tool": note})
        await runtime.run("Go.", options, session_id="top")
    assert observed == [
        ("top", "top", True, ["delegate"]),
        ("sub0", "top", False, ["delegate", "echo"]),
    ]
    assert ran == ["a"]


async def test_parent_hook_rewrite_is_ignored() -> None:
    async with open_runtime() as runtime:
        nested_runs = NestedRuns(runtime)
        hooks: Hooks = {"before_tool": [HookMatcher("echo", [makes_another])]}
        await runtime.run("Go.", nested_runs.parent_agent(agent(*USE), hooks=hooks))
    assert ran == ["a"]
    assert actions(nested_runs.results[0]) == [("makes_another", "before_tool", "ignored")]


async def test_parent_hook_stop_ends_nested_run() -> None:
    async def stop(event: PreToolUseEvent) -> HookDecision | None:
        return HookDecision(stop=True, reason="enough") if event.nested else None

    async with open_runtime() as runtime:
        nested_runs = NestedRuns(runtime)
        top = await runtime.run(
            "Go.", nested_runs.parent_agent(agent(*USE), hooks={"before_tool": stop})
        )
    assert ran == []
    assert nested_runs.results[0].stop_reason == "blocked:before_tool"
    assert actions(nested_runs.results[0]) == [("stop", "before_tool", "stop")]
    assert (top.stop_reason, results(top)) == ("completed", ["blocked:before_tool"])


async def test_parent_hook_stop_closes_client_calls() -> None:
    async def stop(event: PreToolUseEvent) -> HookDecision | None:
        # The first call is handed to the client; the second ends the run.
        last = event.tool_input.get("text") == "b"
        return HookDecision(stop=True, reason="enough") if last else None

    observed: list[object] = []

    @tool
    async def chat() -> str:
        """Let a client ask."""
        turn = [call("echo", {"text": "a"}), call("echo", {"text": "b"})]
        async with Client(agent(turn, "Fine."), runtime=runtime) as client:
            await client.query("?")
            observed.extend([type(one).__name__ async for one in client.receive_messages()])
            assert client.result is not None
            observed.append(client.result.stop_reason)
            assert client.open_calls == ()
            check_history(client.result.messages)
            await client.query("Again.")
            observed.extend([type(one).__name__ async for one in client.receive_messages()])
        return "ok"

    model = ScriptedModel([call("chat", {}), "Done."])
    options = AgentOptions(model="m", provider=model, tools=[chat], hooks={"before_tool": stop})
    async with open_runtime() as runtime:
        assert results(await runtime.run("Go.", options)) == ["ok"]
    assert ran == []
    assert "blocked:before_tool" in observed
    assert observed[-1] == "TextBlock"


async def raises(event: PreToolUseEvent) -> None:
    if event.nested:
        raise ZeroDivisionError("oh")


async def hangs(event: PreToolUseEvent) -> None:
    if event.nested:
        await trio.sleep_forever()


async def answers_otherwise(event: PreToolUseEvent) -> object:
    return 5 if event.nested else None


@pytest.mark.parametrize(
    ("hook", "says"),
    [
        (raises, "hook raises in before_tool: the hook raised ZeroDivisionError: oh"),
        (hangs, "hook hangs in before_tool: the hook did not decide within 3 s"),
        (
            answers_otherwise,
            "hook answers_otherwise in before_tool: the hook returned a value of type int",
        ),
    ],
)
async def test_failing_parent_hook_fails_nested_run(
    hook: Callable[[PreToolUseEvent], Awaitable[object]], says: str, autojump_clock: MockClock
) -> None:
    failed: list[HookError] = []

    @tool
    async def delegate() -> str:
        """Run other agents."""
        try:
            await runtime.run("Help.", agent(*USE), session_id="sub")
        except HookError as error:
            failed.append(error)
        return "went on"

    hooks: Hooks = {"before_tool": [HookMatcher(None, [hook], 3)]}
    options = attrs.evolve(agent(call("delegate", {}), "Done.", hooks=hooks), tools=[delegate])
    async with open_runtime() as runtime:
        assert results(await runtime.run("Go.", options)) == ["went on"]
        assert says in str(failed[0])
        assert failed[0].phase == "before_tool"
        # The session of the failed run can still be used.
        assert (await runtime.run("Again.", agent("Fine."), session_id="sub")).text == "Fine."
    assert ran == []


@pytest.mark.parametrize("elsewhere", [False, True], ids=["same runtime", "another runtime"])
async def test_hooks_of_finished_parent_still_apply(
    elsewhere: bool, autojump_clock: MockClock
) -> None:
    observed: list[str] = []
    seen: list[object] = []

    async def remember(event: PreToolUseEvent, ctx: HookContext) -> HookDecision | None:
        seen.append((ctx.run.session_id, ctx.run.iteration, ctx.state.setdefault("n", len(seen))))
        return await gate(event)

    async def later() -> None:
        await trio.sleep(1)
        if not elsewhere:
            observed.extend(results(await runtime.run("Go.", agent(*USE))))
            return
        async with open_runtime() as other:
            observed.extend(results(await other.run("Go.", agent(*USE))))

    @tool
    async def leave_behind() -> str:
        """Start a task that continues after this run has ended."""
        nursery.start_soon(later)
        return "ok"

    hooks: Hooks = {"before_tool": remember}
    options = attrs.evolve(agent(call("leave_behind", {}), "Done.", hooks=hooks))
    options = attrs.evolve(options, tools=[leave_behind])
    async with open_runtime() as runtime, trio.open_nursery() as nursery:
        assert (await runtime.run("Go.", options, session_id="top")).text == "Done."
    assert ran == []
    assert observed == [SAID]
    assert seen == [("top", 1, 0), ("top", 2, 0)]


async def test_parent_hook_applies_across_trio_runs() -> None:
    lock = trio.Lock()
    tokens: list[object] = []

    async def locked(event: PreToolUseEvent) -> HookDecision | None:
        async with lock:  # belongs to this trio run
            tokens.append(trio.lowlevel.current_trio_token())
            return await gate(event)

    async def apart() -> str:
        async with open_runtime() as other:
            return " ".join(results(await other.run("Go.", agent(*USE))))

    @tool
    def in_a_thread() -> str:
        """Run another agent in a thread."""
        return trio.run(apart)

    options = agent(call("in_a_thread", {}), "Done.", hooks={"before_tool": locked})
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", attrs.evolve(options, tools=[in_a_thread]))
    assert results(result) == [SAID]
    assert tokens == [trio.lowlevel.current_trio_token()] * 2
    assert ran == []


async def test_parent_hook_is_cancelled_across_runs() -> None:
    ended = trio.Event()
    nested = queue.SimpleQueue[tuple[trio.lowlevel.TrioToken, trio.CancelScope]]()

    async def hang(event: PreToolUseEvent) -> None:
        if event.nested:
            # Cancel here, because a run that is cancelled earlier never calls this hook.
            token, scope = nested.get_nowait()
            token.run_sync_soon(scope.cancel)
            try:
                await trio.sleep_forever()
            finally:
                ended.set()

    async def apart() -> str:
        async with open_runtime() as other:
            with trio.CancelScope() as scope:
                nested.put((trio.lowlevel.current_trio_token(), scope))
                await other.run("Go.", agent(*USE))
        return "gave up" if scope.cancelled_caught else "went on"

    @tool
    def in_a_thread() -> str:
        """Run another agent in a thread."""
        return trio.run(apart)

    options = agent(call("in_a_thread", {}), "Done.", hooks={"before_tool": hang})
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", attrs.evolve(options, tools=[in_a_thread]))
        assert results(result) == ["gave up"]
        with trio.fail_after(60):  # a hook that is not cancelled would wait forever
            await ended.wait()


def nested_in_current_run() -> RunContext:
    parent = current_context.get()
    assert parent is not None
    return attrs.evolve(parent, parent=parent)


async def hooks_of_another_trio_run(
    hook: Callable[[PreToolUseEvent], Awaitable[object]],
    over_there: Callable[[ancestor_hooks.AncestorHooks], Awaitable[None]],
) -> None:
    """Run an agent with this hook in a thread, and call `over_there` before its trio run ends."""

    async def main() -> None:
        found: list[ancestor_hooks.AncestorHooks] = []

        @tool
        async def look() -> str:
            """Get the ancestor hooks of a run that this tool would start."""
            found.extend(filter(None, [ancestor_hooks.ancestor_hooks(nested_in_current_run())]))
            return "ok"

        options = agent(call("look", {}), "Done.", hooks={"before_tool": hook})
        async with open_runtime() as runtime:
            await runtime.run("Go.", attrs.evolve(options, tools=[look]))
        await over_there(found[0])

    await trio.to_thread.run_sync(trio.run, main)


CALL = ToolUseBlock("c", "echo", {"text": "a"})


async def test_hook_of_ended_trio_run_denies() -> None:
    found: list[ancestor_hooks.AncestorHooks] = []

    async def keep(ancestors: ancestor_hooks.AncestorHooks) -> None:
        found.append(ancestors)

    await hooks_of_another_trio_run(gate, keep)
    with pytest.raises(HookError, match="the trio run of that run has ended"):
        await found[0].judge(CALL, Messages())


async def test_hook_ending_during_check_denies() -> None:
    here, failed, asked = trio.lowlevel.current_trio_token(), trio.Event(), threading.Event()

    async def hang(event: PreToolUseEvent) -> None:
        if event.nested:
            asked.set()
            await trio.sleep_forever()

    async def judge(ancestors: ancestor_hooks.AncestorHooks) -> None:
        with pytest.raises(HookError, match="the trio run of that run has ended"):
            await ancestors.judge(CALL, Messages())
        failed.set()

    async def until_asked(ancestors: ancestor_hooks.AncestorHooks) -> None:
        here.run_sync_soon(nursery.start_soon, judge, ancestors)
        await trio.to_thread.run_sync(asked.wait, 10)

    async with trio.open_nursery() as nursery:
        await hooks_of_another_trio_run(hang, until_asked)
        await failed.wait()


async def test_hook_started_run_skips_that_hook() -> None:
    asked: list[str] = []

    async def judge(event: PreToolUseEvent) -> HookDecision | None:
        asked.append(f"{event.tool_name} {event.nested}")
        result = await runtime.run("May it?", agent(call("echo", {"text": "judging"}), "No."))
        return HookDecision(continue_=result.text != "No.", reason="gate")

    async def other(event: PreToolUseEvent) -> None:
        asked.append(f"other {event.tool_name} {event.nested}")

    hooks: Hooks = {"before_tool": [judge, other]}
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", agent(*USE, hooks=hooks))
    assert results(result) == [SAID]
    assert ran == ["judging"]
    assert asked == ["echo False", "other echo True"]


@pytest.mark.parametrize("scope", ["run", "session", "all"])
async def test_rate_limit_counts_nested_calls(
    scope: Literal["run", "session", "all"],
) -> None:
    limit = RateLimit(3, per=60, scope=scope)
    twice = (call("echo", {"text": "a"}), call("echo", {"text": "b"}), "Done.")
    async with open_runtime() as runtime:
        nested_runs = NestedRuns(runtime)
        # The nested run has the very same hook.
        options = nested_runs.parent_agent(agent(*twice, hooks=limit), agent(*twice), hooks=limit)
        await runtime.run("Go.", options)
    assert ran == ["a", "b"]
    assert all("at most 3 calls" in text for text in results(nested_runs.results[1]))


async def test_no_ancestor_hooks_cost_nothing() -> None:
    found: list[ancestor_hooks.AncestorHooks | None] = []

    @tool
    async def look() -> str:
        """Get the ancestor hooks here."""
        found.append(ancestor_hooks.ancestor_hooks(nested_in_current_run()))
        return "ok"

    async def after(event: object) -> None: ...

    options = agent(call("look", {}), "Done.", hooks={"after_tool": after})
    async with open_runtime() as runtime:
        await runtime.run("Go.", attrs.evolve(options, tools=[look]))
    assert found == [None]


async def test_ancestor_hooks_are_released_with_run() -> None:
    contexts: WeakSet[RunContext] = WeakSet()

    async def own(event: PreToolUseEvent) -> None:
        contexts.update(filter(None, [current_context.get()]))

    async with open_runtime() as runtime:
        options = agent(*USE * 20, hooks={"before_tool": own})
        for _ in range(20):
            await runtime.run("Go.", options)
        gc.collect()
        assert len(contexts) < 5  # actors keep their first and their last request
    gc.collect()
    assert not contexts
