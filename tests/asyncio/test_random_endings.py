"""Runs that end in any way, in loops that end in any way, leave nothing behind."""

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from typing import Literal

import attrs
import pytest
import trio
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from agent_actors import AgentOptions, tool
from agent_actors import open_runtime as open_trio_runtime
from agent_actors.asyncio import Runtime, open_runtime
from agent_actors.asyncio import bridge as bridge_module
from agent_actors.errors import AgentError
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import ScriptedModel, Turn, call, fail, hang, pause, say
from tests.asyncio.helpers import ignore_pending
from tests.runs.helpers import check_history, check_quiet

RUNS = 10
# Seconds; short, because the clock is real.
TIMES = st.sampled_from([0.0, 0.001, 0.002, 0.004, 0.008])
Ending = Literal["end", "cancel", "cancel twice", "raise", "leave"]
LoopEnding = Literal["end", "close", "interrupt", "interrupt twice", "raise"]


@attrs.frozen
class Plan:
    """A run: its session, its turns, and how its task ends."""

    session: str
    turns: tuple[int, ...]
    start: float
    ending: Ending
    after: float
    streams: bool


plans = st.builds(
    Plan,
    session=st.sampled_from(["a", "b", "c", "d", "e"]),
    turns=st.lists(st.integers(0, 6), min_size=1, max_size=3).map(tuple),
    start=TIMES,
    ending=st.sampled_from(["end", "cancel", "cancel twice", "raise", "leave"]),
    after=TIMES,
    streams=st.booleans(),
)


class Tools:
    """Tools that count their beginnings and ends."""

    def __init__(self) -> None:
        self.begun = self.ended = 0

    def agent(self, plan: Plan) -> AgentOptions:
        @tool
        async def careful() -> str:
            """Clean up, which takes a while."""
            self.begun += 1
            try:
                await asyncio.sleep(0.002)
            except asyncio.CancelledError:
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.001)  # noqa: ASYNC102, ASYNC120 - a short time
                raise
            finally:
                self.ended += 1
            return "done"

        @tool
        async def stubborn() -> str:
            """Return a value although the call was cancelled."""
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
            return "still here"

        @tool
        def threaded() -> str:
            """Run in a worker thread."""
            return "done"

        kinds: Sequence[Turn] = (
            [say("Hello.")],
            [say("a", "b", "c", every=0.001)],
            [call("careful", {}), call("threaded", {})],
            [call("stubborn", {})],
            [pause(0.003), say("Late.")],
            [hang()],
            [fail(ValueError("no luck"))],
        )
        turns = [kinds[kind] for kind in plan.turns]
        return AgentOptions(
            model="scripted",
            provider=ScriptedModel([*turns, [say("Done.")]]),
            tools=[careful, stubborn, threaded],
            auto_execute_tools=True,
            tool_timeout=0.02,
            max_retries=0,
        )


async def perform(runtime: Runtime, plan: Plan, tools: Tools) -> None:
    """Do what the plan says; its errors are expected."""
    options = tools.agent(plan)
    await asyncio.sleep(plan.start)
    if not plan.streams:
        await runtime.run("Go.", options, session_id=plan.session)
        return
    async with runtime.stream("Go.", options, session_id=plan.session) as events:
        async for event in events:
            if plan.ending == "raise" and event.type == "assistant.delta":
                raise ValueError("the body failed")
            if plan.ending == "leave" and event.type == "assistant.delta":
                return


async def supervise(runtime: Runtime, plan: Plan, tools: Tools) -> None:
    """Run a plan in a task, and cancel the task as the plan says."""
    task = asyncio.create_task(perform(runtime, plan, tools))
    limit = plan.after if plan.ending.startswith("cancel") else 0.05
    await asyncio.wait([task], timeout=limit)
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=0.001 if plan.ending == "cancel twice" else None)
    if not task.cancelled():
        error = task.exception()
        assert error is None or isinstance(error, AgentError | ValueError), repr(error)


def carry_out(
    factory: Callable[[], asyncio.AbstractEventLoop],
    store: MemoryStore,
    group: Sequence[Plan],
    ending: LoopEnding,
    after: float,
) -> None:
    """Run the plans in one loop, which ends as requested; check that nothing is left."""
    tools = Tools()
    runtime = open_runtime(store=store, drain=0.05)

    async def main() -> None:
        async with runtime:
            if ending.startswith("interrupt"):
                for count in range(1 + ending.endswith("twice")):
                    asyncio.get_running_loop().call_later(after + 0.001 * count, press)
            await asyncio.gather(*(supervise(runtime, plan, tools) for plan in group))
            if ending == "raise":
                raise ValueError("the body failed")

    if ending == "close":
        close_early(factory(), main, after)
    else:
        with (
            suppress(KeyboardInterrupt, ValueError),
            asyncio.Runner(loop_factory=factory) as runner,
        ):
            runner.run(main())
        # A late Ctrl-C is not pressed, because its loop is closed.
    thread = runtime.bridge._thread
    if thread is not None:
        thread.join(20)
        assert not thread.is_alive()
        check_quiet(runtime.trio_object)
    if ending != "close":  # Python closes the coroutines of a closed loop later
        assert tools.begun == tools.ended


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def close_early(
    loop: asyncio.AbstractEventLoop, main: Callable[[], Coroutine[None, None, None]], after: float
) -> None:
    """Close a loop whose tasks have not ended."""
    task = loop.create_task(main())
    with suppress(TimeoutError):
        loop.run_until_complete(asyncio.wait_for(asyncio.shield(task), after + 0.001))
    for pending in asyncio.all_tasks(loop):
        ignore_pending(pending)
    loop.close()


async def check_store(store: MemoryStore) -> None:
    """Check that every session in the store is valid."""
    async with open_trio_runtime(store=store) as runtime:
        for info in (await runtime.sessions.list()).sessions:
            assert await runtime.sessions.check(info.session_id) == ()
            history = await runtime.sessions.history(info.session_id)
            assert history is not None
            check_history(history)


@pytest.fixture(autouse=True, scope="module")
def short_watch() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bridge_module, "WATCH", 0.005)
        yield


@given(
    group=st.lists(plans, min_size=1, max_size=RUNS),
    ending=st.sampled_from(["end", "close", "interrupt", "interrupt twice", "raise"]),
    after=TIMES,
    on_uvloop=st.booleans(),
)
def test_random_endings_leave_nothing_behind(
    group: Sequence[Plan], ending: LoopEnding, after: float, on_uvloop: bool
) -> None:
    """With the profile `deep`, this test does more than 1,000 runs."""
    threads = {t for t in threading.enumerate() if not t.name.startswith("Trio thread")}
    store = MemoryStore()
    carry_out(
        uvloop.new_event_loop if on_uvloop else asyncio.new_event_loop, store, group, ending, after
    )
    trio.run(check_store, store)
    left = {t for t in threading.enumerate() if not t.name.startswith("Trio thread")}
    assert left <= threads
