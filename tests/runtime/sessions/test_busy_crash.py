"""Crashes of an actor while a run is being stopped or steered: every caller gets an outcome."""

from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio
from trio.testing import MockClock

from agent_actors import Runtime, open_runtime
from agent_actors.actors.session_gate import OnBusy
from agent_actors.errors import ActorCrashed, SessionStoreError
from agent_actors.kernel.actor_loop import ActorLoop
from tests.runs.helpers import SlowStore
from tests.runtime.sessions.busy_helpers import an_agent
from tests.runtime.test_crash import break_background, break_loop

OWNERS: dict[str, Callable[[Runtime], ActorLoop]] = {
    "runs": lambda runtime: runtime._actors.runs,
    "session_gate": lambda runtime: runtime._actors.gate.owner,
    "session_log": lambda runtime: runtime._actors.log.owner,
}


@attrs.define(eq=False)
class Two:
    """A run, a second run that wants the session of the first, and an actor that crashes."""

    on_busy: OnBusy
    outcomes: dict[str, str] = attrs.field(factory=dict[str, str])

    async def run(self, runtime: Runtime, prompt: str) -> None:
        try:
            result = await runtime.run(prompt, an_agent(), session_id="s", on_busy=self.on_busy)
            self.outcomes[prompt] = result.stop_reason
        except (ActorCrashed, SessionStoreError) as error:
            self.outcomes[prompt] = type(error).__name__

    async def run_until_crash(self, broken: Callable[[Runtime], Awaitable[None]]) -> None:
        async with open_runtime(store=SlowStore()) as runtime, trio.open_nursery() as nursery:
            nursery.start_soon(self.run, runtime, "one")
            await trio.sleep(0.375)
            nursery.start_soon(self.run, runtime, "two")
            await broken(runtime)
            await trio.sleep_forever()


@pytest.mark.parametrize("owner_of", OWNERS.values(), ids=OWNERS.keys())
@pytest.mark.parametrize("break_it", [break_loop, break_background])
@pytest.mark.parametrize("on_busy", ["interrupt", "rollback", "steer", "queue"])
@pytest.mark.parametrize("at", [0.25, 1.125, 1.375])
async def test_crash_reaches_every_waiting_caller(
    on_busy: OnBusy,
    break_it: Callable[[ActorLoop], None],
    owner_of: Callable[[Runtime], ActorLoop],
    at: float,
    autojump_clock: MockClock,
) -> None:
    """At the last of these times, an input is being recorded."""
    two = Two(on_busy)

    async def broken(runtime: Runtime) -> None:
        await trio.sleep(at)
        break_it(owner_of(runtime))

    with trio.fail_after(1_000), pytest.raises(ActorCrashed):
        await two.run_until_crash(broken)
    assert set(two.outcomes) == {"one", "two"}
    # The outcome is also correct if the input had already been taken.
    taken = {"steered"} if on_busy == "steer" else set[str]()
    assert two.outcomes["two"] in {"ActorCrashed", "SessionStoreError"} | taken


async def test_crash_during_recording_does_not_hang(autojump_clock: MockClock) -> None:
    """The run that took the input never ends normally."""
    two = Two("steer")

    async def broken(runtime: Runtime) -> None:
        inbox = runtime._actors.services.inbox_of("s")
        assert inbox is not None
        while not inbox._heard:  # noqa: ASYNC110 - the tick in which the run takes it
            await trio.sleep(0.05)
        break_loop(runtime._actors.runs)

    with trio.fail_after(1_000), pytest.raises(ActorCrashed):
        await two.run_until_crash(broken)
    assert set(two.outcomes) == {"one", "two"}
