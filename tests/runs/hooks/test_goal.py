"""Hooks that make a run continue, and `Goal`."""

import pytest

from agent_actors import AgentOptions, UsageLimits, open_runtime
from agent_actors.errors import ConfigError
from agent_actors.hooks import Hook, HookContext, HookDecision, StopEvent
from agent_actors.hooks.builtin import Goal
from agent_actors.runs.driver import MAX_CONTINUED
from agent_actors.testing import ScriptedModel
from tests.runs.helpers import check_history


def counting() -> ScriptedModel:
    """Return a model that answers with the number of its response."""
    left = iter(range(1, 100))
    return ScriptedModel(lambda _: str(next(left)))


async def is_three(text: str) -> bool | str:
    return text == "3" or f"{text} is not 3"


def at_least_two(text: str) -> bool:
    return int(text) >= 2


@pytest.mark.parametrize(
    ("goal", "answers", "inputs"),
    [
        (Goal(is_three), ["1", "2", "3"], ["go", "1 is not 3", "2 is not 3"]),
        (Goal(at_least_two), ["1", "2"], ["go", "The goal is not reached yet. Continue."]),
    ],
)
async def test_run_continues_until_goal(goal: Goal, answers: list[str], inputs: list[str]) -> None:
    options = AgentOptions(model="m", provider=counting(), hooks=goal)
    async with open_runtime() as runtime:
        result = await runtime.run("go", options)
    check_history(result.messages)
    assert (result.stop_reason, result.text) == ("completed", answers[-1])
    assert [one.content for one in result.messages if one.role == "assistant"] == answers
    assert [one.content for one in result.messages if one.role == "user"] == inputs


class Never(Hook):
    """Refuses to stop, and counts the stops."""

    def __init__(self, *, stop: bool = False) -> None:
        self.stops: list[str] = []
        self._stop = stop

    async def on_stop(self, event: StopEvent, ctx: HookContext) -> HookDecision:
        self.stops.append(event.stop_reason)
        return HookDecision(continue_=False, stop=self._stop)


@pytest.mark.parametrize(
    ("most", "limits", "calls", "stop_reason"),
    [
        (25, UsageLimits(), 1 + MAX_CONTINUED, "completed"),
        (3, UsageLimits(), 3, "max_iterations"),
        (25, UsageLimits(requests=2), 2, "budget:requests"),
    ],
)
async def test_limits_bind_runs_that_continue(
    most: int, limits: UsageLimits, calls: int, stop_reason: str
) -> None:
    model = counting()
    options = AgentOptions(
        model="m", provider=model, hooks=Never(), max_iterations=most, limits=limits
    )
    async with open_runtime() as runtime:
        result = await runtime.run("go", options)
    check_history(result.messages)
    assert (len(model.requests), result.stop_reason) == (calls, stop_reason)


async def test_stop_ends_the_run() -> None:
    hook = Never(stop=True)
    options = AgentOptions(model="m", provider=counting(), hooks=hook)
    async with open_runtime() as runtime:
        result = await runtime.run("go", options)
    assert (result.stop_reason, hook.stops) == ("completed", ["completed"])


def test_goal_needs_a_check() -> None:
    with pytest.raises(ConfigError, match="check must be a function"):
        Goal("done")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
