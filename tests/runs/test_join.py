"""A run that is cancelled at any step leaves nothing behind, and its session stays usable."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio

from agent_actors import AgentOptions, RunResult, tool
from agent_actors.domain.events import ErrorEvent, Event, ResultEvent
from agent_actors.domain.model import ModelRequest
from agent_actors.errors import RuntimeClosed, RuntimeShutdown
from agent_actors.testing import ScriptedModel, StepOutcome, Turn, call, cancel_at_every_step
from tests.runs.helpers import House, check_quiet, check_records, house
from tests.sweeps import DEEP, STRIDE

# Each seed gives another order of the tasks within a tick. A deep run tries more of them.
SEEDS = (0, 1, 2) if DEEP else (0,)
sweep = partial(cancel_at_every_step, stride=STRIDE)


async def check(_: int, outcome: StepOutcome[House]) -> None:
    home = outcome.subject
    if not outcome.requested:
        assert sorted(set(home.probe.begun)) == ["careful", "deaf", "quick"]
    await home.check("s")


async def run(home: House) -> RunResult:
    return await home.runtime.run("go", home.options, session_id="s")


async def read(home: House) -> None:
    events = home.runtime.stream("go", home.options, session_id="s")
    home.streams.append(events)
    async with events:
        seen = [event async for event in events]
    assert isinstance(seen[-1], ResultEvent)


@pytest.mark.parametrize("seed", SEEDS)
def test_cancelled_run_leaves_nothing_alive(
    seed: int,
) -> None:
    assert sweep(run, around=house, check=check, seed=seed) > 30


@pytest.mark.parametrize("seed", SEEDS)
def test_cancelled_reader_leaves_nothing_alive(
    seed: int,
) -> None:
    assert sweep(read, around=house, check=check, seed=seed) > 30


@pytest.mark.parametrize("code", [run, read], ids=["run", "stream"])
def test_cancel_during_commit_is_exact(
    code: Callable[[House], Awaitable[object]],
) -> None:
    slow = partial(house, slow=True)
    assert sweep(code, around=slow, check=check) > 50


def test_cancel_while_session_loads() -> None:
    async def run_new(home: House) -> RunResult:
        return await home.runtime.run("go", home.options, session_id="new")

    async def check_both(_: int, outcome: StepOutcome[House]) -> None:
        await outcome.subject.check("s", "new")

    slow = partial(house, slow=True)
    assert sweep(run_new, around=slow, check=check_both) > 50


@pytest.mark.parametrize("seed", SEEDS[:1])
def test_cancelled_queued_runs_leave_no_lease(seed: int) -> None:
    async def run_three(home: House) -> None:
        async def run_one(prompt: str) -> None:
            await home.runtime.run(prompt, home.options, session_id="s", on_busy="queue")

        async with trio.open_nursery() as nursery:
            for prompt in ("go", "more", "go"):
                nursery.start_soon(run_one, prompt)

    assert sweep(run_three, around=house, check=check, seed=seed) > 60


@pytest.mark.parametrize("seed", SEEDS[:1])
def test_cancelled_parent_cancels_child_run(seed: int) -> None:
    def script(request: ModelRequest) -> Turn:
        last = request.messages.last()
        assert last is not None
        if last.role != "tool" and last.content == "delegate":
            return [call("delegate"), call("delegate")]
        return "Delegated."

    async def run_parent(home: House) -> None:
        @tool
        async def delegate() -> str:
            """Run another agent."""
            home.probe.begun.append("delegate")
            try:
                return (await home.runtime.run("go", home.options)).text
            finally:
                home.probe.ended.append("delegate")

        parent = AgentOptions(model="m", provider=ScriptedModel(script), tools=[delegate])
        result = await home.runtime.run("delegate", parent, session_id="s")
        assert [one.content for one in result.tool_calls] == ["It rains."] * 2

    async def check_all(step: int, outcome: StepOutcome[House]) -> None:
        home = outcome.subject
        for session_id in tuple(home.store._logs):
            check_records(await home.store.load(session_id))
        await home.check(*home.store._logs)

    tight = partial(house, tools_per_runtime=1)
    steps = sweep(run_parent, around=tight, check=check_all, seed=seed, may_stay=is_service)
    assert steps > 70


def is_service(task: trio.lowlevel.Task) -> bool:
    """Return whether this is the endpoint actor that the cancelled code starts."""
    return task.name.startswith("agent_actors.kernel.actor_loop.ActorLoop")


def test_closed_runtime_ends_run_with_error() -> None:
    async def read_all(home: House) -> None:
        events = home.runtime.stream("go", home.options, session_id="s")
        home.streams.append(events)
        seen: list[Event] = []
        try:
            async with events:
                async for event in events:
                    seen.append(event)  # noqa: PERF401 - keeps what came before the error
        except RuntimeShutdown:
            assert not seen or isinstance(seen[-1], ErrorEvent)
            raise
        assert isinstance(seen[-1], ResultEvent)

    def close(home: House) -> None:
        trio.lowlevel.spawn_system_task(partial(home.runtime.aclose, drain=0.0), name="closing")

    async def check_closed(_: int, outcome: StepOutcome[House]) -> None:
        home = outcome.subject
        if outcome.requested:
            await home.runtime.aclose()
            with pytest.raises(RuntimeClosed):
                await home.runtime.run("again", home.options)
        home.probe.check()
        check_quiet(home.runtime)
        check_records(await home.store.load("s"))

    steps = sweep(
        read_all,
        around=house,
        check=check_closed,
        cancel=close,
        allowed=(RuntimeShutdown, RuntimeClosed),
        # `_close_apart` is the task in which `aclose` closes the actors.
        may_stay=lambda task: task.name == "closing" or task.name.endswith("._close_apart"),
    )
    assert steps > 30
