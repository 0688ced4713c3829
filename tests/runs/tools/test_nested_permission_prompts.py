"""The time a person needs counts neither for the run that asks nor for the runs around it."""

import math
from collections.abc import Callable
from functools import partial

import attrs
import pytest
import trio
from trio.testing import MockClock

from agent_actors import AgentOptions, Runtime, Tool, open_runtime, tool
from agent_actors.actors.run_tree import CallSlots, RunNode
from agent_actors.domain.run import RunResult
from agent_actors.errors import RunDeadlineExceeded
from agent_actors.hooks import PreToolUseEvent
from agent_actors.kernel.pausable_deadline import PausableDeadline, TrioRunRef
from agent_actors.permissions import PermissionPolicy, PermissionRequest
from agent_actors.testing import ScriptedModel, call
from tests.runs.hooks.helpers import USE, agent, results

ASKS = attrs.evolve(agent(*USE), permissions=PermissionPolicy(ask=["echo"]))
# If hooks surround a call, its deadline is set in another place.
GUARDED = pytest.mark.parametrize("guarded", [False, True], ids=["plain", "guarded"])


async def look(event: PreToolUseEvent) -> None: ...


def asking_agent() -> AgentOptions:
    return attrs.evolve(agent(*USE), permissions=PermissionPolicy(ask=["echo"]))


def over(*tools: Tool, guarded: bool = False, **options: object) -> AgentOptions:
    """Return an agent that calls these tools one after the other."""
    model = ScriptedModel([*([call(one.name, {})] for one in tools), "Done."])
    made = AgentOptions(model="m", provider=model, tools=tools, max_retries=0)
    made = attrs.evolve(made, **options)  # type: ignore[arg-type]
    return attrs.evolve(made, hooks={"before_tool": look}) if guarded else made


def delegate_to(
    runtime: Callable[[], Runtime], *agents: AgentOptions, first: float = 0.0, then: float = 0.0
) -> Tool:
    """Return a tool that runs these agents concurrently, and works for a time before and after."""

    @tool
    async def delegate() -> str:
        """Run other agents."""
        await trio.sleep(first)
        async with trio.open_nursery() as nursery:
            for options in agents:
                nursery.start_soon(runtime().run, "Help.", options)
        await trio.sleep(then)
        return "delegated"

    return delegate


async def answer_after(runtime: Runtime, *seconds: float) -> None:
    """Answer the oldest question after each of these pauses."""
    for wait in seconds:
        await trio.sleep(wait)
        runtime.answer(runtime.questions()[0].id, "yes")


async def run_asking(
    options: Callable[[Callable[[], Runtime]], AgentOptions], *answers: float
) -> RunResult:
    found: list[RunResult] = []
    async with open_runtime() as runtime, trio.open_nursery() as nursery:

        async def go() -> None:
            found.append(await runtime.run("Go.", options(lambda: runtime)))

        nursery.start_soon(go)
        await answer_after(runtime, *answers)
    return found[0]


@GUARDED
@pytest.mark.parametrize("limit", ["run_timeout", "tool_timeout"])
async def test_nested_question_pauses_all_outer_deadlines(
    limit: str, guarded: bool, autojump_clock: MockClock
) -> None:
    result = await run_asking(
        lambda rt: over(delegate_to(rt, asking_agent()), guarded=guarded, **{limit: 50}), 100
    )
    assert results(result) == ["delegated"]
    assert trio.current_time() == pytest.approx(100)


@GUARDED
async def test_call_keeps_its_remaining_time(guarded: bool, autojump_clock: MockClock) -> None:
    for then, says in ((9, "delegated"), (11, "did not finish within 50 s")):
        result = await run_asking(
            lambda rt, then=then: over(  # type: ignore[misc]
                delegate_to(rt, asking_agent(), first=40, then=then),
                guarded=guarded,
                tool_timeout=50,
            ),
            100,
        )
        assert says in results(result)[0]


async def test_run_keeps_its_remaining_time(
    autojump_clock: MockClock,
) -> None:
    with pytest.RaisesGroup(RunDeadlineExceeded, flatten_subgroups=True):
        await run_asking(
            lambda rt: over(delegate_to(rt, asking_agent(), first=40, then=11), run_timeout=50), 100
        )
    assert trio.current_time() == pytest.approx(110)


async def test_parallel_nested_questions_pause_once(autojump_clock: MockClock) -> None:
    # Both questions are open from 40 s. They are answered at 100 s and at 200 s; 8 s remain then.
    def options(rt: Callable[[], Runtime]) -> AgentOptions:
        both = delegate_to(rt, asking_agent(), asking_agent(), first=40, then=7)
        return over(both, run_timeout=48, tool_timeout=48)

    result = await run_asking(options, 100, 100)
    assert results(result) == ["delegated"]
    assert trio.current_time() == pytest.approx(207)


@pytest.mark.parametrize("levels", [2, 3])
async def test_deadlines_pause_at_all_levels(levels: int, autojump_clock: MockClock) -> None:
    def options(rt: Callable[[], Runtime]) -> AgentOptions:
        found = asking_agent()
        for _ in range(levels):
            found = over(delegate_to(rt, found), run_timeout=50, tool_timeout=50)
        return found

    result = await run_asking(options, 100)
    assert results(result) == ["delegated"]


async def test_automatic_decision_pauses_outer_deadlines(
    autojump_clock: MockClock,
) -> None:
    async def slow(request: PermissionRequest) -> bool:
        await trio.sleep(100)
        return True

    below = attrs.evolve(asking_agent(), can_use_tool=slow)
    result = await run_asking(lambda rt: over(delegate_to(rt, below), tool_timeout=50))
    assert results(result) == ["delegated"]


async def test_hook_run_question_pauses_outer_run(
    autojump_clock: MockClock,
) -> None:
    def options(rt: Callable[[], Runtime]) -> AgentOptions:
        async def judge(event: object) -> None:
            await rt().run("Help.", asking_agent())

        made = attrs.evolve(agent("Done."), hooks={"before_agent": judge}, hook_timeout=1000)
        return attrs.evolve(made, run_timeout=50)

    assert (await run_asking(options, 100)).text == "Done."


async def test_question_in_other_runtime_pauses_deadlines(
    autojump_clock: MockClock,
) -> None:
    @tool
    async def apart() -> str:
        """Open another runtime."""
        async with open_runtime() as other, trio.open_nursery() as nursery:
            nursery.start_soon(other.run, "Help.", asking_agent())
            await answer_after(other, 100)
        return "asked"

    async with open_runtime() as runtime:
        result = await runtime.run("Go.", over(apart, run_timeout=50, tool_timeout=50))
    assert results(result) == ["asked"]


async def test_sibling_calls_keep_their_deadlines(
    autojump_clock: MockClock,
) -> None:
    @tool
    async def hang() -> str:
        """Sleep longer than the timeout."""
        await trio.sleep(10_000)
        return ""

    def options(rt: Callable[[], Runtime]) -> AgentOptions:
        delegate = delegate_to(rt, asking_agent())
        model = ScriptedModel([[call("hang", {}), call("delegate", {})], "Done."])
        return AgentOptions(model="m", provider=model, tools=[hang, delegate], tool_timeout=50)

    result = await run_asking(options, 100)
    assert sorted(results(result)) == ["delegated", "tool 'hang' did not finish within 50 s"]


async def test_other_trio_run_is_paused_there() -> None:
    now = trio.current_time()
    scope, call_scope = trio.CancelScope(deadline=now + 1000), trio.CancelScope(deadline=now + 500)
    parent, held = RunNode("s", "r", None), CallSlots("c")
    parent.home = home = TrioRunRef(PausableDeadline(scope))
    held.scope = call_scope
    seen: list[tuple[float, float]] = []

    tokens: list[trio.lowlevel.TrioToken] = []

    def look_here() -> None:
        seen.append((scope.deadline, call_scope.deadline))

    async def over_there() -> None:
        child = RunNode("t", "q", None, parent, held)
        child.home = TrioRunRef(PausableDeadline(trio.CancelScope()))
        child.pause_deadlines()
        home.run_sync(lambda: tokens.append(trio.lowlevel.current_trio_token()))
        # This call arrives after the earlier messages to the trio run.
        await trio.to_thread.run_sync(
            partial(trio.from_thread.run_sync, look_here, trio_token=here)
        )
        child.resume_deadlines()

    here = trio.lowlevel.current_trio_token()
    await trio.to_thread.run_sync(trio.run, over_there)
    await trio.testing.wait_all_tasks_blocked()
    look_here()
    assert tokens == [here]
    assert seen[0] == (math.inf, math.inf)
    assert seen[1][0] == pytest.approx(now + 1000, abs=100)
    assert seen[1][1] == pytest.approx(now + 500, abs=100)


def test_ended_trio_run_is_ignored() -> None:
    async def make() -> RunNode:
        node = RunNode("s", "r", None)
        node.home = TrioRunRef(PausableDeadline(trio.CancelScope()))
        return node

    parent = trio.run(make)

    async def later() -> None:
        child = RunNode("t", "q", None, parent, CallSlots("c"))
        child.pause_deadlines()
        child.resume_deadlines()

    trio.run(later)


async def test_call_without_deadline_can_be_paused() -> None:
    held = CallSlots("c")
    held.pause_deadlines()
    held.resume_deadlines()
    assert held.scope is None
