"""Opening and closing a runtime: calls that wait, calls that are refused, and errors."""

import signal
from collections.abc import Iterable
from functools import partial

import attrs
import pytest
import trio
from trio.testing import MockClock

from agent_actors import AgentOptions, Runtime, open_runtime, tool
from agent_actors.domain.events import Event
from agent_actors.errors import (
    AgentError,
    RuntimeClosed,
    RuntimeFailure,
    SessionStoreError,
)
from agent_actors.hooks import SessionEndEvent
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import ScriptedModel, Turn, call, hang, pause, say
from tests.runs.helpers import check_quiet, check_records


def scripted(*turns: Turn, tools: Iterable[object] = ()) -> AgentOptions:
    return AgentOptions(model="m", provider=ScriptedModel(turns), tools=tools)


@attrs.define(eq=False)
class Caller:
    """A run in its own task, and its outcome."""

    runtime: Runtime
    outcomes: list[str] = attrs.field(factory=list[str])

    async def run(self, options: AgentOptions) -> None:
        try:
            self.outcomes.append((await self.runtime.run("go", options, session_id="s")).text)
        except AgentError as error:
            self.outcomes.append(type(error).__name__)


@pytest.mark.feature("ASDK-034")
async def test_closing_is_idempotent(autojump_clock: MockClock) -> None:
    async with open_runtime() as runtime:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(runtime.run, "hi", scripted([pause(5), say("Hello.")]))
            await trio.sleep(1)

            async def close() -> None:
                await runtime.aclose()
                # Each call returns only after everything has ended, whichever call came first.
                assert trio.current_time() == pytest.approx(5)
                assert all(owner.ended.is_set() for owner in runtime._actors._owners)

            nursery.start_soon(close)
            nursery.start_soon(close)
        await runtime.aclose(drain=0)
    await runtime.aclose()


@pytest.mark.feature("ASDK-094")
async def test_closing_waits_for_runs_in_flight(autojump_clock: MockClock) -> None:
    caller = Caller(open_runtime())
    async with trio.open_nursery() as nursery, caller.runtime:
        nursery.start_soon(caller.run, scripted([pause(20), say("Done.")]))
        await trio.sleep(1)
    assert trio.current_time() == pytest.approx(20)
    assert caller.outcomes == ["Done."]


async def test_close_cancels_remaining_runs_after_drain(
    autojump_clock: MockClock,
) -> None:
    ended: list[float] = []

    @tool
    async def linger() -> str:
        """Take some time to end."""
        try:
            await trio.sleep(100)
            return "done"
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(5)
            ended.append(trio.current_time())

    store = MemoryStore()
    caller = Caller(open_runtime(drain=3, store=store))
    async with trio.open_nursery() as nursery, caller.runtime:
        nursery.start_soon(caller.run, scripted([call("linger")], tools=[linger]))
        await trio.sleep(1)
    assert ended == [pytest.approx(1 + 3 + 5)]
    assert caller.outcomes == ["RuntimeShutdown"]
    check_quiet(caller.runtime)
    check_records(await store.load("s"))


@pytest.mark.feature("ASDK-095")
async def test_a_run_after_the_close_is_refused(autojump_clock: MockClock) -> None:
    async with open_runtime() as runtime:
        await runtime.aclose()
        with pytest.raises(RuntimeClosed, match="open a new runtime"):
            await runtime.run("hi", scripted("Hello."))
        with pytest.raises(RuntimeClosed):
            async with runtime.stream("hi", scripted("Hello.")):
                pass
        with pytest.raises(RuntimeClosed):
            runtime.subscribe(ignore)
    with pytest.raises(RuntimeClosed):
        await runtime.run("hi", scripted("Hello."))


async def ignore(_: Event) -> None:
    pass


async def test_draining_refuses_roots_admits_children(
    autojump_clock: MockClock,
) -> None:
    runtime = open_runtime()
    caller = Caller(runtime)

    @tool
    async def delegate() -> str:
        """Run another agent while the runtime is closing."""
        await trio.sleep(5)
        with pytest.raises(RuntimeClosed):
            runtime.subscribe(ignore)
        return (await runtime.run("go", scripted([pause(5), say("Child.")]))).text

    async with trio.open_nursery() as nursery, runtime:
        options = scripted([call("delegate")], "Parent.", tools=[delegate])
        nursery.start_soon(caller.run, options)
        await trio.sleep(1)
        nursery.start_soon(runtime.aclose)
        await trio.sleep(1)
        with pytest.raises(RuntimeClosed):
            await runtime.run("hi", scripted("Hello."))
    assert caller.outcomes == ["Parent."]
    assert runtime.statistics().runs_started == 2


async def test_tool_cannot_close_own_runtime(
    autojump_clock: MockClock,
) -> None:
    async with open_runtime() as runtime:

        @tool
        async def close() -> str:
            """Close the runtime, which would wait for this very call."""
            await runtime.aclose()
            return "closed"

        @tool
        async def delegate() -> str:
            """Run the agent that tries to close the runtime."""
            child = scripted([call("close")], "I could not.", tools=[close])
            return (await runtime.run("go", child)).text

        options = scripted([call("close")], [call("delegate")], "No.", tools=[close, delegate])
        result = await runtime.run("go", options)
        outcomes, delegated = result.tool_calls
        assert "raised RuntimeError: a tool or a hook cannot close the runtime" in str(
            outcomes.content
        )
        assert outcomes.is_error
        assert delegated.content == "I could not."
        # A tool of one runtime may close another runtime that an outer task opened.
        async with open_runtime() as other:

            @tool
            async def close_other() -> str:
                """Close a runtime that has no runs."""
                await other.aclose()
                return "closed"

            options = scripted([call("close_other")], "Yes.", tools=[close_other])
            result = await runtime.run("go", options)
            assert [one.content for one in result.tool_calls] == ["closed"]


async def test_cancelled_drain_cancels_runs(
    autojump_clock: MockClock,
) -> None:
    caller = Caller(open_runtime(drain=1_000))
    async with trio.open_nursery() as nursery:
        with trio.move_on_after(5) as scope:
            async with caller.runtime:
                nursery.start_soon(caller.run, scripted(hang()))
                await trio.sleep(1)
        assert scope.cancelled_caught
        assert trio.current_time() == pytest.approx(5)
        check_quiet(caller.runtime)
    assert caller.outcomes == ["RuntimeShutdown"]


async def test_shortest_drain_wins(
    autojump_clock: MockClock,
) -> None:
    caller = Caller(open_runtime())
    async with trio.open_nursery() as nursery, caller.runtime as runtime:
        nursery.start_soon(caller.run, scripted(hang()))
        await trio.sleep(1)
        async with trio.open_nursery() as closers:
            for drain in (50.0, 10.0, 30.0):
                closers.start_soon(partial(runtime.aclose, drain=drain))
                await trio.sleep(1)
        assert trio.current_time() == pytest.approx(2 + 10)
    assert caller.outcomes == ["RuntimeShutdown"]


async def test_failed_body_waits_for_nothing(
    autojump_clock: MockClock,
) -> None:
    caller, error = Caller(open_runtime()), ValueError("mine")

    async def body() -> None:
        async with caller.runtime:
            nursery.start_soon(caller.run, scripted(hang()))
            await trio.sleep(1)
            raise error

    async with trio.open_nursery() as nursery:
        with pytest.raises(ValueError, match="mine") as caught:
            await body()
        assert caught.value is error
        assert not hasattr(error, "__notes__")
        assert trio.current_time() == pytest.approx(1)
    assert caller.outcomes == ["RuntimeShutdown"]


async def test_runtime_is_entered_once_before_use(autojump_clock: MockClock) -> None:
    runtime = open_runtime()
    with pytest.raises(RuntimeFailure, match="async with open_runtime"):
        await runtime.run("hi", scripted("Hello."))
    with pytest.raises(RuntimeFailure, match="async with open_runtime"):
        await runtime.aclose()
    async with runtime:
        with pytest.raises(RuntimeFailure, match="opened only once"):
            await runtime.__aenter__()
        assert (await runtime.run("hi", scripted("Hello."))).text == "Hello."
    with pytest.raises(RuntimeFailure, match="opened only once"):
        await runtime.__aenter__()


async def test_runtime_belongs_to_its_trio_run() -> None:
    async with open_runtime() as runtime:

        async def use_it() -> None:
            with pytest.raises(RuntimeFailure, match="to another trio"):
                await runtime.run("hi", scripted("Hello."))
            with pytest.raises(RuntimeFailure, match="to another trio"):
                async with runtime.stream("hi", scripted("Hello.")):
                    pass
            with pytest.raises(RuntimeFailure, match="to another trio"):
                await runtime.aclose()

        await trio.to_thread.run_sync(trio.run, use_it)
        assert (await runtime.run("hi", scripted("Hello."))).text == "Hello."


@pytest.mark.parametrize("turns", range(4))
def test_interrupt_in_tool_ends_everything(turns: int) -> None:
    store, caught = MemoryStore(), list[str]()

    @tool
    async def interrupt() -> str:
        """Raise KeyboardInterrupt, as Ctrl-C would."""
        for _ in range(turns):
            await trio.lowlevel.checkpoint()
        raise KeyboardInterrupt

    @tool
    async def wait() -> str:
        """Wait until cancelled."""
        try:
            await trio.sleep_forever()
        finally:
            caught.append("wait")
        raise AssertionError

    async def main() -> None:
        with trio.fail_after(100):
            async with open_runtime(store=store) as runtime:
                options = scripted([call("wait"), call("interrupt")], tools=[wait, interrupt])
                await runtime.run("go", options, session_id="s")

    with pytest.raises(KeyboardInterrupt):
        trio.run(main, clock=MockClock(autojump_threshold=0))
    assert caught == ["wait"]


@pytest.mark.parametrize("strikes", [1, 2])
def test_ctrl_c_during_drain_ends_cleanly(
    strikes: int,
) -> None:
    runtime, ended = open_runtime(drain=1_000), list[float]()
    caller = Caller(runtime)

    @tool
    async def linger() -> str:
        """Take some time to end."""
        try:
            await trio.sleep(1_000)
            return "done"
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(5)
            ended.append(trio.current_time())

    async def strike() -> None:
        for _ in range(strikes):
            await trio.sleep(3)
            signal.raise_signal(signal.SIGINT)

    async def main() -> None:
        async with trio.open_nursery() as nursery, runtime:
            # Trio does not raise the interrupt in this system task, but in the main task.
            trio.lowlevel.spawn_system_task(strike)
            nursery.start_soon(caller.run, scripted([call("linger")], tools=[linger]))
            await trio.sleep(1)

    with pytest.raises(BaseExceptionGroup) as caught:  # noqa: ASYNC401 - how deep is not the point
        trio.run(main, clock=MockClock(autojump_threshold=0))
    assert caught.group_contains(KeyboardInterrupt, depth=1)
    assert len(caught.value.exceptions) == 1
    # The runtime still waits for work that a tool does in a shielded scope.
    assert ended == [pytest.approx(3 + 5)]
    assert caller.outcomes == ["RuntimeShutdown"]
    check_quiet(runtime)


@attrs.define(eq=False)
class BadCloser(MemoryStore):
    """A store that cannot be closed."""

    failure: Exception | None = None

    async def aclose(self) -> None:
        await trio.sleep(1)
        if self.failure is None:
            await trio.sleep_forever()
        else:
            raise self.failure


async def test_failing_store_does_not_stop_close(
    autojump_clock: MockClock,
) -> None:
    error = SessionStoreError("the disk is gone", session_id="")
    seen: list[Event] = []

    async def note(event: Event) -> None:
        await trio.sleep(0.5)  # longer than the store takes
        seen.append(event)

    async def body() -> None:
        async with open_runtime(store=BadCloser(error)) as runtime:
            runtime.subscribe(note)
            await runtime.run("hi", scripted("Hello."))

    with pytest.raises(SessionStoreError) as caught:
        await body()
    assert caught.value is error
    assert seen[-1].type == "result"


async def test_hanging_store_close_is_bounded(
    autojump_clock: MockClock,
) -> None:
    async with open_runtime(store=BadCloser()) as runtime:
        await runtime.run("hi", scripted("Hello."))
    assert trio.current_time() == pytest.approx(10)


@attrs.define(eq=False)
class BadOpener(MemoryStore):
    """A store that fails to open, or takes too long."""

    failure: Exception | None = None

    async def open(self) -> int:
        if self.failure is not None:
            raise self.failure
        await trio.sleep(1_000)
        return 0


@pytest.mark.parametrize("failure", [None, SessionStoreError("no disk", session_id="")])
async def test_unopenable_store_fails_on_entry(
    failure: Exception | None, autojump_clock: MockClock
) -> None:
    runtime = open_runtime(store=BadOpener(failure))
    with pytest.raises(RuntimeFailure if failure is None else SessionStoreError) as caught:
        await runtime.__aenter__()
    assert failure is None or caught.value is failure
    with pytest.raises(RuntimeClosed):
        await runtime.run("hi", scripted("Hello."))


async def test_session_hook_cannot_close_runtime(
    autojump_clock: MockClock,
) -> None:
    outcomes: list[str] = []

    async def end(event: SessionEndEvent) -> None:
        try:
            await runtime.aclose()
        except RuntimeError as error:
            outcomes.append(f"{event.reason}: {error}")

    def agent(text: str) -> AgentOptions:
        return attrs.evolve(scripted(text), hooks={"session_end": end})

    async with open_runtime(max_sessions=1) as runtime:
        for session_id in ("a", "b"):
            await runtime.run("go", agent("Hi."), session_id=session_id)
        await trio.sleep(1)
    assert [one.partition(", since")[0] for one in outcomes] == [
        "evicted: a tool or a hook cannot close the runtime that runs it",
        "closed: a tool or a hook cannot close the runtime that runs it",
    ]
