"""Many concurrent runs that fail, are cancelled or are left at any time leave nothing behind."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Literal

import attrs
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from agent_actors import AgentOptions, Runtime, open_runtime, tool
from agent_actors.actors.session_gate import OnBusy
from agent_actors.domain.events import ErrorEvent, Event, ResultEvent
from agent_actors.domain.model import ModelRequest
from agent_actors.errors import (
    AgentError,
    ProviderConnectError,
    RunStopped,
    RuntimeShutdown,
    SessionBusy,
)
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import ScriptedModel, Turn, call, fail, pause, say
from tests.runs.helpers import Probe, SlowStore, check_history, check_quiet, check_records

# Seconds of the virtual clock; few values, so that many things happen in the same tick.
TIMES = st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 4.0])
Ending = Literal["answer", "fail", "fail late"]


@attrs.frozen
class Job:
    """A tool call: its duration, how long it ignores cancellation, and whether it fails."""

    takes: float
    deaf: float
    fails: bool


@attrs.frozen
class Plan:
    """A run: its start, its behavior, and the actions of its caller."""

    session: str
    begins: float
    jobs: tuple[Job, ...]
    ending: Ending
    on_busy: OnBusy
    timeout: float | None
    run_timeout: float | None
    # None: use `run`; otherwise use `stream`, and leave after this many events.
    reads: int | None


def plans() -> st.SearchStrategy[Plan]:
    return st.builds(
        Plan,
        session=st.sampled_from("ab"),
        begins=TIMES,
        jobs=st.lists(st.builds(Job, TIMES, TIMES, st.booleans()), max_size=3).map(tuple),
        ending=st.sampled_from(["answer", "answer", "fail", "fail late"]),
        on_busy=st.sampled_from(["reject", "queue", "interrupt", "rollback", "steer"]),
        timeout=st.none() | TIMES,
        run_timeout=st.none() | TIMES.filter(bool),
        reads=st.none() | st.sampled_from([0, 1, 3, 7, 1_000]),
    )


@attrs.define(eq=False)
class Crowd:
    """Concurrent runs of many plans on one runtime."""

    runtime: Runtime
    probe: Probe = attrs.field(factory=Probe)
    models: list[ScriptedModel] = attrs.field(factory=list[ScriptedModel])
    numbers: Iterator[int] = attrs.field(factory=lambda: iter(range(10_000)))

    async def carry_out(self, plan: Plan) -> None:
        """Carry out a plan; a run may raise only the expected errors."""
        await trio.sleep(plan.begins)
        options = self.options(plan)
        timeout = float("inf") if plan.timeout is None else plan.timeout
        try:
            with trio.move_on_after(timeout):
                await self.run(plan, options)
        except (SessionBusy, ProviderConnectError, RunStopped):
            pass

    async def run(self, plan: Plan, options: AgentOptions) -> None:
        stream = self.runtime.stream("go", options, session_id=plan.session, on_busy=plan.on_busy)
        if plan.reads is None:
            await self.runtime.run("go", options, session_id=plan.session, on_busy=plan.on_busy)
            return
        seen: list[Event] = []
        try:
            async with stream:
                while len(seen) < plan.reads:
                    seen.append(await anext(stream))
            # The event at which the reader leaves may be the last one.
            if not (seen and isinstance(seen[-1], ResultEvent)):
                assert stream.result.stop_reason in ("interrupted", "rolled_back", "steered")
        except StopAsyncIteration:
            assert isinstance(seen[-1], ResultEvent)
        except AgentError:
            # A reader at the end of the stream saw the error event; a reader that left gets it on
            # leaving.
            ends = [event for event in seen if isinstance(event, ErrorEvent | ResultEvent)]
            assert ends == seen[-1:] if ends else len(seen) <= plan.reads
            raise

    def options(self, plan: Plan) -> AgentOptions:
        def script(request: ModelRequest) -> Turn:
            check_history(request.messages)
            last = request.messages.last()
            assert last is not None
            broken = fail(ProviderConnectError("it broke", endpoint="scripted"))
            if last.role == "tool" or not plan.jobs:
                return [say("It "), broken] if plan.ending == "fail late" else [say("It rains.")]
            if plan.ending == "fail":
                return [say("Let me"), pause(0.5), broken]
            calls = [call("work", {"number": number}) for number in range(len(plan.jobs))]
            return [say("Let me "), pause(0.5), say("look."), *calls]

        @tool
        async def work(number: int) -> str:
            """Work for a while."""
            job, name = plan.jobs[number], f"work {next(self.numbers)}"
            self.probe.begun.append(name)
            try:
                await trio.sleep(job.takes)
                if job.fails:
                    raise ValueError("no")
                return "done"
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(job.deaf)
                self.probe.ended.append(name)

        model = ScriptedModel(script)
        self.models.append(model)
        run_timeout = float("inf") if plan.run_timeout is None else plan.run_timeout
        return AgentOptions(model="m", provider=model, tools=[work], run_timeout=run_timeout)

    async def check(self, store: MemoryStore) -> None:
        self.probe.check()
        assert all(model.live == 0 for model in self.models)
        check_quiet(self.runtime)
        for session_id in ("a", "b"):
            check_records(await store.load(session_id))
            history = self.runtime.history(session_id)
            if history is not None:
                check_history(history)


def run_bounded(main: Callable[[], Awaitable[None]]) -> None:
    """Run on the virtual clock with a time limit, because a lost lease would block forever."""

    async def bounded() -> None:
        with trio.fail_after(86_400):
            await main()

    trio.run(bounded, clock=MockClock(autojump_threshold=0))


@given(st.lists(plans(), max_size=6), st.booleans(), st.sampled_from([1, 2, 256]))
def test_random_failures_leave_nothing_alive(
    several: Sequence[Plan], slow: bool, slots: int
) -> None:
    async def main() -> None:
        store = SlowStore() if slow else MemoryStore()
        async with open_runtime(store=store, tools_per_runtime=slots) as runtime:
            crowd = Crowd(runtime)
            async with trio.open_nursery() as nursery:
                for plan in several:
                    nursery.start_soon(crowd.carry_out, plan)
            await crowd.check(store)
            plain = AgentOptions(model="m", provider=ScriptedModel(["Fine.", "Fine."]))
            for session_id in ("a", "b"):
                result = await runtime.run("again", plain, session_id=session_id)
                check_history(result.messages)
            await crowd.check(store)

    run_bounded(main)


@given(st.lists(plans(), max_size=6), TIMES, TIMES)
def test_runtime_close_ends_all_runs(several: Sequence[Plan], closes: float, drain: float) -> None:
    async def main() -> None:
        store = MemoryStore()
        runtime = open_runtime(store=store, drain=drain)
        crowd = Crowd(runtime)

        async def carry_out(plan: Plan) -> None:
            try:
                await crowd.carry_out(plan)
            except (AgentError, RuntimeShutdown):
                assert runtime._actors.closing

        async with trio.open_nursery() as nursery:
            async with runtime:
                for plan in several:
                    nursery.start_soon(carry_out, plan)
                await trio.sleep(closes)
            await crowd.check(store)
            assert runtime.statistics().bus.subscriptions == 0

    run_bounded(main)
