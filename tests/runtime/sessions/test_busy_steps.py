"""Stop, roll back and steer a run at each of its steps, one step after another.

The same conditions hold each time. Every caller gets an outcome. The records and the history are
valid. An input that was reported as taken is in the history exactly once. The session can be used
afterwards.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import attrs
import pytest
import trio

from agent_actors import AgentOptions, RunResult, Runtime, open_runtime
from agent_actors.actors.session_gate import OnBusy
from agent_actors.domain.events import AnyEvent, SessionRewind
from agent_actors.errors import SessionIdle
from agent_actors.sessions import fold
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import ScriptedModel, StepOutcome, cancel_at_every_step
from tests.runs.helpers import (
    Probe,
    SlowStore,
    check_history,
    check_quiet,
    check_records,
    three_tools,
)
from tests.runtime.sessions.busy_helpers import asked
from tests.sweeps import STRIDE


def anything(_: object) -> bool:
    """Allow any task: the other run may still be in progress. Later checks see that it left
    nothing.
    """
    return True


@attrs.define(eq=False)
class Contest:
    """A run `go` on session `s`, and an action that happens at any step of the run."""

    runtime: Runtime
    store: MemoryStore
    probe: Probe
    options: AgentOptions
    nursery: trio.Nursery
    outcomes: dict[str, RunResult[object]] = attrs.field(factory=dict[str, RunResult[object]])
    absent: bool = False
    stopped: bool | None = None
    begun: bool = False
    ended: trio.Event = attrs.field(factory=trio.Event)

    def happens(self, work: Callable[[], Awaitable[None]]) -> None:
        """Start the action in its own task, at a step of the run."""

        async def to_the_end() -> None:
            await work()
            self.ended.set()

        self.begun = True
        self.nursery.start_soon(to_the_end)

    async def run(self, prompt: str, on_busy: OnBusy = "queue") -> None:
        self.outcomes[prompt] = await self.runtime.run(
            prompt, self.options, session_id="s", on_busy=on_busy
        )

    async def steer(self) -> None:
        try:
            self.outcomes["second"] = await self.runtime.steer("s", "second")
        except SessionIdle:
            self.absent = True

    async def interrupt(self) -> None:
        self.stopped = await self.runtime.interrupt("s", "stop")

    async def records(self) -> list[AnyEvent]:
        return list(await self.store.load("s"))


@asynccontextmanager
async def contest(slow: bool) -> AsyncGenerator[Contest]:
    store = SlowStore() if slow else MemoryStore()
    probe = Probe()
    options = AgentOptions(model="m", provider=ScriptedModel(three_tools), tools=probe.tools())
    async with open_runtime(store=store) as runtime, trio.open_nursery() as nursery:
        await runtime.run("before", options, session_id="s")
        yield Contest(runtime, store, probe, options, nursery)


async def check_all(at: Contest) -> None:
    """Check the conditions that hold for every action at every step."""
    await at.ended.wait()
    at.probe.check()
    check_quiet(at.runtime)
    assert not at.runtime._actors.services.inboxes
    records = await at.records()
    check_records(records)
    history = at.runtime.history("s")
    assert history is not None
    check_history(history)
    assert fold(records).history() == history, "the history in memory differs from the log"
    for prompt, outcome in at.outcomes.items():
        check_history(outcome.messages)
        assert asked(history).count(prompt) <= 1
        if outcome.stop_reason == "completed":
            assert prompt in asked(outcome.messages)
    again = await at.runtime.run("again", at.options, session_id="s")
    assert again.text == "Fine."
    check_records(await at.records())


def at_every_step(
    happens: Callable[[Contest], Awaitable[None]],
    check: Callable[[Contest], Awaitable[None]],
    slow: bool,
) -> None:
    """Perform the action at each step of the run in turn."""

    async def look(step: int, outcome: StepOutcome[Contest]) -> None:
        at = outcome.subject
        if not outcome.requested:
            return
        await at.ended.wait()
        await check(at)
        await check_all(at)

    steps = cancel_at_every_step(
        lambda at: at.run("go"),
        around=partial(contest, slow),
        cancel=lambda at: at.happens(partial(happens, at)),
        check=look,
        may_stay=anything,
        stride=STRIDE,
    )
    assert steps > 20


slow_or_not = pytest.mark.parametrize("slow", [False, True])


@slow_or_not
def test_interrupt_keeps_both_prompts(slow: bool) -> None:
    async def check(at: Contest) -> None:
        first, second = at.outcomes["go"], at.outcomes["second"]
        assert second.stop_reason == "completed"
        assert first.stop_reason in ("interrupted", "completed")
        assert asked(second.messages) in (["before", "go", "second"], ["before", "second"])
        if asked(second.messages) == ["before", "second"]:
            # The second run came first: the observed run had not even asked for the session.
            assert first.stop_reason == "completed"

    at_every_step(lambda at: at.run("second", "interrupt"), check, slow)


@slow_or_not
def test_rollback_leaves_nothing_of_run(slow: bool) -> None:
    async def check(at: Contest) -> None:
        first, second = at.outcomes["go"], at.outcomes["second"]
        rewinds = [e for e in await at.records() if isinstance(e, SessionRewind)]
        assert second.stop_reason == "completed"
        assert len(rewinds) == (first.stop_reason == "rolled_back")
        assert first.stop_reason in ("rolled_back", "completed")
        kept = "go" in asked(second.messages)
        if first.stop_reason == "rolled_back":
            assert not kept
            assert asked(first.messages) == ["before"]
            assert rewinds[0].run_id == first.run_id

    at_every_step(lambda at: at.run("second", "rollback"), check, slow)


@slow_or_not
def test_interrupt_call_yields_a_result(slow: bool) -> None:
    async def check(at: Contest) -> None:
        first = at.outcomes["go"]
        assert first.stop_reason in ("interrupted", "completed")
        if first.stop_reason == "interrupted":
            assert at.stopped
        assert asked(first.messages) == ["before", "go"], "the prompt of a started run stays"

    at_every_step(lambda at: at.interrupt(), check, slow)


@slow_or_not
def test_steered_input_is_recorded_once(slow: bool) -> None:
    ways: set[str] = set()

    async def check(at: Contest) -> None:
        first = at.outcomes["go"]
        assert first.stop_reason == "completed"
        history = at.runtime.history("s")
        assert history is not None
        if at.absent:
            ways.add("absent")
            assert asked(history) == ["before", "go"]
            return
        second = at.outcomes["second"]
        ways.add(second.stop_reason)
        assert asked(history) == ["before", "go", "second"]
        inside = "second" in asked(first.messages)
        assert inside == (second.stop_reason == "steered")
        assert second.stop_reason in ("steered", "completed")

    at_every_step(lambda at: at.steer(), check, slow)
    assert ways == {"absent", "steered", "completed"}


@slow_or_not
@pytest.mark.parametrize("on_busy", ["interrupt", "rollback", "steer", "queue"])
@pytest.mark.no_cover
def test_second_caller_may_be_cancelled_anywhere(on_busy: OnBusy, slow: bool) -> None:
    async def second(at: Contest) -> None:
        at.happens(partial(at.run, "go"))
        await trio.sleep(2)
        await at.run("second", on_busy)

    async def check(_: int, outcome: StepOutcome[Contest]) -> None:
        at = outcome.subject
        if not at.begun:
            return
        await check_all(at)
        history = at.runtime.history("s")
        assert history is not None
        second = at.outcomes.get("second")
        if second is None and on_busy == "steer":
            # The caller was cancelled, so the other run did not take its input.
            assert "second" not in asked(at.outcomes["go"].messages)
        if second is not None and second.stop_reason == "steered":
            assert "second" in asked(at.outcomes["go"].messages)

    steps = cancel_at_every_step(
        second,
        around=partial(contest, slow),
        check=check,
        may_stay=anything,
        stride=STRIDE,
    )
    assert steps > 5
