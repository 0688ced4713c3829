"""Cancelled runs: the work that they keep, the resources that they release, and their errors."""

import threading
from collections.abc import Iterable
from contextvars import ContextVar

import attrs
import pytest
import trio

from agent_actors import AgentOptions, RunResult, ToolContext, open_runtime, tool
from agent_actors.actors.session_gate import Lease, SessionGate
from agent_actors.domain.events import ResultEvent, ToolResult, UsageEvent
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import ScriptedModel, Turn, call, hang, pause, say
from tests.runs.helpers import SlowStore, check_history, check_quiet, check_records, house


def scripted(*turns: Turn, tools: Iterable[object] = ()) -> AgentOptions:
    return AgentOptions(model="m", provider=ScriptedModel(turns), tools=tools)


@attrs.define(eq=False)
class GrantAndCancel(trio.abc.Instrument):
    """Releases the session some steps after a run began to wait for it, then cancels the run."""

    gate: SessionGate
    lease: Lease
    scope: trio.CancelScope
    release_after: int
    cancel_after: int
    steps: int = -1

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.steps < 0 and not self.gate.statistics().waiting:
            return
        self.steps += 1
        if self.steps == self.release_after:
            self.lease.release()
        if self.steps == self.release_after + self.cancel_after:
            self.scope.cancel()


async def tick() -> None:
    """Take steps while all other tasks wait."""
    while True:  # noqa: ASYNC110 - it exists to take steps
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("release_after", [0, 1, 2, 4])
@pytest.mark.parametrize("cancel_after", [0, 1, 2, 3, 5, 8, 13])
async def test_lease_granted_during_cancel_is_returned(
    release_after: int, cancel_after: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_runtime() as runtime:
        gate = runtime._actors.gate
        scope = trio.CancelScope()
        lease = gate.acquire_nowait("s", "another run")
        instrument = GrantAndCancel(gate, lease, scope, release_after, cancel_after)
        trio.lowlevel.add_instrument(instrument)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tick)
            with scope:
                await runtime.run("hi", scripted(hang()), session_id="s", on_busy="queue")
            nursery.cancel_scope.cancel()
        trio.lowlevel.remove_instrument(instrument)
        assert instrument.steps >= release_after + cancel_after
        assert not runtime.is_busy("s")
        check_quiet(runtime)
        assert (await runtime.run("hi", scripted("Hello."), session_id="s")).text == "Hello."


async def test_tool_effects_survive_cancellation(
    autojump_clock: trio.testing.MockClock,
) -> None:
    @tool
    async def pay() -> str:
        """Pay. A payment cannot be undone, so the tool shields itself from cancellation."""
        with trio.CancelScope(shield=True):
            await trio.sleep(2)
        return "paid"

    @tool
    async def wait() -> str:
        """Wait forever."""
        await trio.sleep(1_000)
        return "waited"

    store = MemoryStore()
    async with open_runtime(store=store) as runtime:
        with trio.move_on_after(1):
            options = scripted([call("wait"), call("pay")], tools=[pay, wait])
            await runtime.run("pay", options, session_id="s")
        assert trio.current_time() == pytest.approx(2)
        results = [r for r in await store.load("s") if isinstance(r, ToolResult)]
        assert [(r.name, r.content, r.synthetic) for r in results if r.name == "pay"] == [
            ("pay", "paid", False)
        ]
        (waited,) = [r for r in results if r.name == "wait"]
        assert waited.synthetic
        assert "the run was stopped (caller)" in str(waited.content)
        history = runtime.history("s")
        assert history is not None
        check_history(history)
        assert [m.content for m in history.by_role("tool")] == [waited.content, "paid"]


async def test_reached_result_survives_cancellation(
    autojump_clock: trio.testing.MockClock,
) -> None:
    results: list[RunResult] = []
    async with open_runtime(store=SlowStore()) as runtime:
        # Loading, the prompt, and the response with the end of the run take a quarter of a second
        # each.
        with trio.move_on_after(0.6) as scope:
            results.append(await runtime.run("hi", scripted("Hello."), session_id="s"))
            await trio.lowlevel.checkpoint()
        assert scope.cancelled_caught
        assert [(result.text, result.stop_reason) for result in results] == [
            ("Hello.", "completed")
        ]


async def test_truncated_response_usage_is_estimated(
    autojump_clock: trio.testing.MockClock,
) -> None:
    store = MemoryStore()
    async with open_runtime(store=store) as runtime:
        with trio.move_on_after(1):
            options = scripted([say("word" * 10), hang()])
            await runtime.run("hi", options, session_id="s")
        *_, used, last = await store.load("s")
        assert isinstance(used, UsageEvent)
        assert used.usage.estimated
        assert used.usage.output_tokens == 10
        assert isinstance(last, ResultEvent)
        assert last.stop_reason == "interrupted"


async def test_cancel_propagates_through_run_and_stream(
    autojump_clock: trio.testing.MockClock,
) -> None:
    seen: list[type[BaseException]] = []
    async with open_runtime() as runtime:
        with trio.move_on_after(1):
            try:
                await runtime.run("hi", scripted(hang()))
            except BaseException as error:
                seen.append(type(error))
                raise
        with trio.move_on_after(1):
            try:
                async with runtime.stream("hi", scripted(hang())) as events:
                    async for _ in events:
                        pass
            except BaseException as error:
                seen.append(type(error))
                raise
    assert seen == [trio.Cancelled, trio.Cancelled]


async def test_outer_deadline_propagates_unwrapped(
    autojump_clock: trio.testing.MockClock,
) -> None:
    store = MemoryStore()
    with trio.move_on_after(1) as scope:
        async with open_runtime(store=store) as runtime:
            await runtime.run("hi", scripted(hang()), session_id="s")
    assert scope.cancelled_caught
    check_records(await store.load("s"))


who: ContextVar[str] = ContextVar("who", default="nobody")


async def test_context_variables_reach_tools_and_children() -> None:
    @tool
    async def in_a_task() -> str:
        """Run on the event loop."""
        return who.get()

    @tool
    def in_a_thread() -> str:
        """Run in a thread."""
        return who.get()

    @tool
    async def in_a_child() -> str:
        """Run an agent with these tools."""
        tools = [in_a_task, in_a_thread]
        turns: list[Turn] = [[call("in_a_task"), call("in_a_thread")], "Done."]
        result = await runtime.run("look", scripted(*turns, tools=tools))
        return " and ".join(str(one.content) for one in result.tool_calls)

    async with open_runtime() as runtime:
        tools = [in_a_task, in_a_thread, in_a_child]
        calls = [call("in_a_task"), call("in_a_thread"), call("in_a_child")]
        for name in ("ada", "grace"):
            who.set(name)
            result = await runtime.run("look", scripted(calls, "Done.", tools=tools))
            seen = [one.content for one in result.tool_calls]
            assert seen == [name, name, f"{name} and {name}"]


async def test_abandoned_thread_is_counted_not_awaited() -> None:
    begun, free = threading.Event(), threading.Event()
    seen: list[bool] = []

    @tool(on_cancel="abandon")
    def dig(ctx: ToolContext) -> str:
        """Dig; it cannot be stopped."""
        begun.set()
        free.wait(10)
        ctx.report("nobody hears this")
        seen.append(ctx.cancelled)
        return "dug"

    async with open_runtime() as runtime:
        with trio.CancelScope() as scope:
            async with runtime.stream("dig", scripted(call("dig"), tools=[dig])) as events:
                async for event in events:
                    if event.type == "tool.use":
                        await trio.to_thread.run_sync(begun.wait)
                        scope.cancel()
        try:
            check_quiet(runtime)
            assert runtime.statistics().tools.abandoned == 1
            assert not seen
            assert (await runtime.run("hi", scripted("Hello."))).text == "Hello."
        finally:
            free.set()
        # No event reports the end of an abandoned thread.
        while runtime.statistics().tools.abandoned:  # noqa: ASYNC110
            await trio.sleep(0.001)
        assert seen == [True]


async def test_joined_thread_is_cancelled_and_awaited() -> None:
    begun = threading.Event()
    ended: list[str] = []

    @tool
    def dig(ctx: ToolContext) -> str:
        """Dig until the call is cancelled."""
        begun.set()
        while not ctx.cancelled:
            threading.Event().wait(0.001)
        ended.append("dig")
        return "half dug"

    store = MemoryStore()
    async with open_runtime(store=store) as runtime:
        with trio.CancelScope() as scope:
            async with runtime.stream(
                "dig", scripted(call("dig"), tools=[dig]), session_id="s"
            ) as events:
                async for event in events:
                    if event.type == "tool.use":
                        await trio.to_thread.run_sync(begun.wait)
                        scope.cancel()
        assert ended == ["dig"]
        check_quiet(runtime)
        check_records(await store.load("s"))


async def test_queued_run_is_cancelled_alone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with house() as home, trio.open_nursery() as nursery:
        slow = scripted([pause(5), say("First.")])

        async def first() -> None:
            assert (await home.runtime.run("hi", slow, session_id="s")).text == "First."

        nursery.start_soon(first)
        await trio.sleep(1)
        with trio.move_on_after(1) as scope:
            await home.runtime.run("go", home.options, session_id="s", on_busy="queue")
        assert scope.cancelled_caught
        assert home.runtime.statistics().runs == 1
        assert home.runtime.statistics().gate.waiting == 0
