"""Runs that tools start: they share the slots, use other sessions, and never use their own."""

from collections.abc import Callable, Iterable
from contextvars import copy_context
from functools import partial

import pytest
import trio
from trio.testing import MockClock

from agent_actors import AgentOptions, Runtime, Tool, open_runtime, tool
from agent_actors.actors.session_gate import OnBusy
from agent_actors.domain.events import ToolUse, UserMessage
from agent_actors.domain.model import ModelRequest
from agent_actors.errors import SessionBusy
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import ScriptedModel, Turn, call, cancel_at_every_step, hang, pause, say
from tests.runs.helpers import check_history, check_quiet, check_records
from tests.sweeps import STRIDE


def scripted(*turns: Turn, tools: Iterable[object] = ()) -> AgentOptions:
    return AgentOptions(model="m", provider=ScriptedModel(turns), tools=tools)


CAPS: dict[str, Callable[[], Runtime]] = {
    "a slot a runtime": partial(open_runtime, tools_per_runtime=1),
    "a slot a run": partial(open_runtime, tools_per_run=1),
    "a slot and a thread": partial(open_runtime, tools_per_runtime=1, threads=1),
}
capped = pytest.mark.parametrize("opened", CAPS.values(), ids=CAPS.keys())


def delegate_to(runtime: Runtime, *agents: AgentOptions) -> Tool:
    """Return a tool that runs these agents concurrently."""

    @tool
    async def delegate() -> str:
        """Run other agents."""
        texts = [""] * len(agents)

        async def run(number: int) -> None:
            texts[number] = (await runtime.run("go", agents[number])).text

        async with trio.open_nursery() as nursery:
            for number in range(len(agents)):
                nursery.start_soon(run, number)
        return " and ".join(texts)

    return delegate


@tool
async def work() -> str:
    """Work; it needs a slot."""
    await trio.sleep(1)
    return "worked"


@tool
def work_in_a_thread() -> str:
    """Work; it needs a slot and a thread."""
    return "worked"


def worker(name: str, uses: Tool = work) -> AgentOptions:
    """Return an agent for any number of runs."""

    def script(request: ModelRequest) -> Turn:
        last = request.messages.last()
        assert last is not None
        return f"{name} is done." if last.role == "tool" else [call(uses.name)]

    return AgentOptions(model="m", provider=ScriptedModel(script), tools=[uses])


@capped
async def test_child_run_uses_slot_of_parent(
    opened: Callable[[], Runtime], autojump_clock: MockClock
) -> None:
    async with opened() as runtime:
        delegate = delegate_to(runtime, worker("A"))
        parent = scripted([call("delegate")], "Done.", tools=[delegate])
        result = await runtime.run("go", parent)
        assert [one.content for one in result.tool_calls] == ["A is done."]
        assert runtime.statistics().tools.tools.peak == 1
        check_quiet(runtime)


@capped
async def test_three_levels_of_runs_share_one_slot(
    opened: Callable[[], Runtime], autojump_clock: MockClock
) -> None:
    async with opened() as runtime:
        options = worker("The innermost")
        for level in ("second", "outermost"):
            tools = [delegate_to(runtime, options)]
            options = scripted([call("delegate")], f"The {level} is done.", tools=tools)
        result = await runtime.run("go", options)
        assert result.text == "The outermost is done."
        assert [one.content for one in result.tool_calls] == ["The second is done."]
        check_quiet(runtime)


@capped
async def test_parallel_children_share_one_slot(
    opened: Callable[[], Runtime], autojump_clock: MockClock
) -> None:
    async with opened() as runtime:
        delegate = delegate_to(runtime, worker("A"), worker("B"))
        parent = scripted([call("delegate"), call("delegate")], "Done.", tools=[delegate])
        result = await runtime.run("go", parent)
        assert [one.content for one in result.tool_calls] == ["A is done. and B is done."] * 2
        check_quiet(runtime)


@capped
async def test_parent_call_regains_its_slot(
    opened: Callable[[], Runtime], autojump_clock: MockClock
) -> None:
    alone: list[bool] = []

    async with opened() as runtime:
        delegate = delegate_to(runtime, worker("A"))

        @tool
        async def then_work() -> str:
            """Let a child do some of the work, then do the rest."""
            await delegate.execute({})
            for _ in range(5):
                await trio.sleep(1)
                alone.append(runtime.statistics().tools.tools.used == 1)
            return "worked"

        tools = [then_work, work]
        parent = scripted([call("then_work"), call("work"), call("work")], "Done.", tools=tools)
        assert (await runtime.run("go", parent)).text == "Done."
        assert alone == [True] * 5
        check_quiet(runtime)


async def test_threads_are_lent_to_child_runs_too() -> None:
    async with open_runtime(tools_per_runtime=1, threads=1) as runtime:

        @tool
        def delegate() -> str:
            """Run an agent from this thread."""
            agent = worker("A", work_in_a_thread)
            return trio.from_thread.run(runtime.run, "go", agent).text

        parent = scripted([call("delegate")], "Done.", tools=[delegate])
        result = await runtime.run("go", parent)
        assert [one.content for one in result.tool_calls] == ["A is done."]
        check_quiet(runtime)


def test_cancelled_reacquire_holds_no_slot() -> None:
    async def main() -> None:
        async with open_runtime(tools_per_runtime=1) as runtime:
            agent = worker("A")

            @tool(max_concurrency=1)
            async def delegate() -> str:
                """Delegate; the call takes two slots, one of the tool and one of the runtime."""
                return (await runtime.run("go", agent)).text

            @tool
            async def hog() -> str:
                """Hold the runtime's only slot when the child has ended."""
                await trio.sleep(10)
                return "free"

            parent = scripted([call("delegate")], tools=[delegate])
            async with trio.open_nursery() as nursery:
                nursery.start_soon(runtime.run, "go", scripted([call("hog")], "Done.", tools=[hog]))
                await trio.sleep(0.5)
                with trio.move_on_after(11) as scope:
                    nursery.start_soon(hold_later, runtime, hog)
                    await runtime.run("go", parent)
                assert scope.cancelled_caught
            check_quiet(runtime)
            limits = runtime._actors.executor._by_tool[delegate].statistics()
            assert (limits.used, limits.waiting) == (0, 0)

    async def hold_later(runtime: Runtime, hog: Tool) -> None:
        # Queue for the slot before the parent's call wants it back.
        await trio.sleep(9.75)
        await runtime.run("go", scripted([call("hog")], "Done.", tools=[hog]))

    trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize("on_busy", ["reject", "queue"])
async def test_own_session_is_busy_for_tool(on_busy: OnBusy, autojump_clock: MockClock) -> None:
    errors: list[Exception] = []
    async with open_runtime() as runtime:

        @tool
        async def ask_myself() -> str:
            """Run in the session of this very run, which would wait for itself."""
            try:
                agent = scripted("Never said.")
                return (await runtime.run("go", agent, session_id="s", on_busy=on_busy)).text
            except SessionBusy as error:
                errors.append(error)
                raise

        options = scripted([call("ask_myself")], "I could not.", tools=[ask_myself])
        result = await runtime.run("go", options, session_id="s")
        assert result.text == "I could not."
        (refused_call,) = result.tool_calls
        assert refused_call.is_error
        assert "SessionBusy: session 's'" in str(refused_call.content)
        (error,) = errors
        assert isinstance(error, SessionBusy)
        assert (error.session_id, error.run_id) == ("s", result.run_id)
        assert "waiting would deadlock" in str(error)
        check_history(result.messages)
        check_quiet(runtime)


def caller_of(
    runtime: Runtime, session_id: str, on_busy: OnBusy, ready: trio.Event
) -> AgentOptions:
    """Return an agent whose tool runs another session as soon as `ready` is set."""

    @tool
    async def delegate() -> str:
        """Run in another session."""
        await ready.wait()
        agent = scripted("Fine.")
        return (await runtime.run("go", agent, session_id=session_id, on_busy=on_busy)).text

    return scripted([call("delegate")], "Done.", tools=[delegate])


@pytest.mark.parametrize("on_busy", ["queue", "steer"])
@pytest.mark.parametrize("count", [2, 4])
async def test_runs_that_await_each_other_are_refused(
    on_busy: OnBusy, count: int, autojump_clock: MockClock
) -> None:
    """Each session waits for the next one in a circle; the last wait would close the circle."""
    outcomes: list[str] = []
    sessions = [f"s{number}" for number in range(count)]
    async with open_runtime() as runtime:

        async def run(number: int) -> None:
            target = sessions[(number + 1) % count]
            options = caller_of(runtime, target, on_busy, ready[number])
            result = await runtime.run("go", options, session_id=sessions[number])
            (one,) = result.tool_calls
            outcomes.append(str(one.content))

        ready = [trio.Event() for _ in sessions]
        async with trio.open_nursery() as nursery:
            for number in range(count):
                nursery.start_soon(run, number)
            for event in ready:
                await trio.sleep(1)
                event.set()
        assert trio.current_time() < 10  # no timeout has passed
        check_quiet(runtime)
    ring = " -> ".join(map(repr, [sessions[-1], *sessions]))
    taken = "Fine." if on_busy == "queue" else ""  # a steered run has no text of its own
    assert outcomes[1:] == [taken] * (count - 1)
    assert ring in outcomes[0]
    assert "SessionBusy: session 's0'" in outcomes[0]


async def test_cycle_across_two_runtimes_is_refused(autojump_clock: MockClock) -> None:
    async with open_runtime() as one, open_runtime() as other, trio.open_nursery() as nursery:
        ready = trio.Event()
        ready.set()
        first = caller_of(other, "b", "queue", ready)
        second = caller_of(one, "a", "queue", closing := trio.Event())
        nursery.start_soon(partial(other.run, "go", second, session_id="b"))
        await trio.sleep(1)
        nursery.start_soon(partial(one.run, "go", first, session_id="a"))
        await trio.sleep(1)
        assert other.statistics().gate.waiting == 1
        closing.set()
        await trio.sleep(1)
        assert (one.statistics().runs, other.statistics().runs) == (0, 0)
        assert one.statistics().gate.rejected == 1


async def test_interrupt_ends_mutual_wait(autojump_clock: MockClock) -> None:
    results: dict[str, str] = {}
    async with open_runtime() as runtime, trio.open_nursery() as nursery:

        async def run(session_id: str, options: AgentOptions) -> None:
            results[session_id] = (
                await runtime.run("go", options, session_id=session_id)
            ).stop_reason

        ready = [trio.Event(), trio.Event()]
        nursery.start_soon(run, "a", caller_of(runtime, "b", "queue", ready[0]))
        nursery.start_soon(run, "b", caller_of(runtime, "a", "interrupt", ready[1]))
        for event in ready:
            await trio.sleep(1)
            event.set()
    assert results == {"a": "interrupted", "b": "completed"}


async def test_ended_call_does_not_delay_parent(autojump_clock: MockClock) -> None:
    """A run that outlives the call that started it does not delay the parent run."""
    async with open_runtime() as runtime, trio.open_nursery() as nursery:

        @tool
        async def begin() -> str:
            """Start a run in the background."""
            agent = scripted("Fine.")
            background = partial(runtime.run, "go", agent, session_id="b", on_busy="queue")
            context = copy_context()
            trio.lowlevel.spawn_system_task(background, context=context)
            return "begun"

        turns: list[Turn] = [[call("begin")], [pause(20), say("Done.")]]
        ready = trio.Event()
        second = caller_of(runtime, "a", "queue", ready)
        nursery.start_soon(partial(runtime.run, "go", second, session_id="b"))
        await trio.sleep(1)
        nursery.start_soon(
            partial(runtime.run, "go", scripted(*turns, tools=[begin]), session_id="a")
        )
        await trio.sleep(1)
        assert runtime.statistics().gate.waiting == 1
        ready.set()
        await trio.sleep(30)
        assert runtime.statistics().gate.rejected == 0
        assert runtime.statistics().runs == 0


async def test_session_of_grandparent_is_busy(
    autojump_clock: MockClock,
) -> None:
    async with open_runtime(on_busy="queue") as runtime:

        @tool
        async def ask_the_top() -> str:
            """Wait for the grandparent run."""
            return (await runtime.run("go", scripted("No."), session_id="top")).text

        child = scripted([call("ask_the_top")], "It is busy.", tools=[ask_the_top])
        parent = scripted([call("delegate")], "Done.", tools=[delegate_to(runtime, child)])
        result = await runtime.run("go", parent, session_id="top")
        assert [one.content for one in result.tool_calls] == ["It is busy."]


async def test_child_run_knows_parent_call(
    autojump_clock: MockClock,
) -> None:
    store = MemoryStore()
    async with open_runtime(store=store) as runtime:

        @tool
        async def delegate() -> str:
            """Run another agent."""
            return (await runtime.run("go", worker("A"), session_id="child")).text

        parent = scripted([call("delegate", id="call_7")], "Done.", tools=[delegate])
        result = await runtime.run("go", parent, session_id="parent")
        assert [one.content for one in result.tool_calls] == ["A is done."]
    records = await store.load("child")
    check_records(records)
    said = [record for record in records if isinstance(record, UserMessage | ToolUse)]
    assert [record.parent_tool_use_id for record in said] == ["call_7", "call_7"]
    own = [record for record in await store.load("parent") if isinstance(record, UserMessage)]
    assert [record.parent_tool_use_id for record in own] == [None]


async def test_cancelled_parent_awaits_child_run(
    autojump_clock: MockClock,
) -> None:
    ended: list[str] = []

    @tool
    async def linger() -> str:
        """Take some time to end."""
        try:
            await trio.sleep(100)
            return "done"
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(5)
            ended.append("linger")

    store = MemoryStore()
    async with open_runtime(store=store) as runtime:

        @tool
        async def delegate() -> str:
            """Run another agent."""
            child = scripted([call("linger")], tools=[linger])
            try:
                return (await runtime.run("go", child, session_id="child")).text
            finally:
                ended.append("delegate")

        with trio.move_on_after(1):
            parent = scripted([call("delegate")], tools=[delegate])
            await runtime.run("go", parent, session_id="parent")
        assert ended == ["linger", "delegate"]
        assert trio.current_time() == pytest.approx(6)
        check_quiet(runtime)
        for session_id in ("child", "parent"):
            check_records(await store.load(session_id))


async def test_outliving_context_is_no_descendant(
    autojump_clock: MockClock,
) -> None:
    async with open_runtime() as runtime, trio.open_nursery() as nursery:
        texts: list[str] = []

        async def later() -> None:
            await trio.sleep(10)
            again = scripted("Later.")
            result = await runtime.run("go", again, session_id="s", on_busy="queue")
            texts.append(result.text)

        @tool
        async def leave_a_task() -> str:
            """Start a task outside this call."""
            nursery.start_soon(later)
            return "left"

        options = scripted([call("leave_a_task")], "Done.", tools=[leave_a_task])
        await runtime.run("go", options, session_id="s")
        await trio.sleep(5)
        # By now another run holds the session, so the task may wait for it.
        await runtime.run("go", scripted([pause(10), say("Now.")]), session_id="s")
        await trio.sleep(5)
        assert texts == ["Later."]


def test_cancel_at_any_step_while_reading_child() -> None:
    async def main() -> None:
        async with open_runtime(tools_per_runtime=1) as runtime:

            @tool
            async def watch() -> str:
                """Read another agent's events, and leave early."""
                async with runtime.stream(
                    "go", scripted([call("work")], hang(), tools=[work])
                ) as s:
                    async for event in s:
                        if event.type == "tool.result":
                            break
                return s.result.stop_reason

            parent = scripted([call("watch")], "Done.", tools=[watch])
            result = await runtime.run("go", parent)
            assert [one.content for one in result.tool_calls] == ["interrupted"]

    assert cancel_at_every_step(main, stride=STRIDE) > 80
