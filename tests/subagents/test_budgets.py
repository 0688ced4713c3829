"""The limits of ancestors over trees of agents, and the slots of agents."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from agent_actors import AgentOptions, Prices, RunResult, Runtime, UsageLimits, open_runtime
from agent_actors.domain.model import ModelRequest
from agent_actors.stores.memory import MemoryStore
from agent_actors.subagents.task_tool import MAX_RUNNING
from agent_actors.testing import (
    ScriptedModel,
    StepOutcome,
    Turn,
    cancel_at_every_step,
    pause,
)
from tests.runs.helpers import check_history, check_quiet, check_records
from tests.subagents.helpers import Plan, follow, plan, team

PRICES = Prices(input=1e6, output=0)


@attrs.frozen
class Tree:
    """An agent that starts agents."""

    below: tuple["Tree", ...] = ()

    @property
    def size(self) -> int:
        """The number of agents, with this one."""
        return 1 + sum(one.size for one in self.below)

    @property
    def depth(self) -> int:
        """The number of levels of agents below this one."""
        return max((1 + one.depth for one in self.below), default=0)

    @property
    def requests(self) -> int:
        """The number of requests without limits."""
        return (2 if self.below else 1) + sum(one.requests for one in self.below)

    @property
    def parts(self) -> list[Plan]:
        """The plan for the agent."""
        return [one.parts for one in self.below]


def trees() -> st.SearchStrategy[Tree]:
    """Return a strategy for trees with at most three levels below the root."""
    level = st.builds(Tree)
    for _ in range(3):
        level = st.builds(Tree, st.lists(level, max_size=3).map(tuple))
    return level


async def run_tree(tree: Tree, limits: UsageLimits) -> tuple[RunResult, int]:
    """Run a tree under one tool slot; return the result and the number of requests."""
    options = team(limits=limits, prices=PRICES)
    store = MemoryStore()
    async with open_runtime(store=store, tools_per_runtime=1, threads=1) as runtime:
        result = await runtime.run(plan(*tree.parts), options)
        check_quiet(runtime)
        for info in (await runtime.sessions.list()).sessions:
            check_records(await store.load(info.session_id))
    check_history(result.messages)
    return result, len(model_of(options).requests)


def model_of(options: AgentOptions) -> ScriptedModel:
    assert isinstance(options.provider, ScriptedModel)
    return options.provider


def at_once(body: Callable[[], Awaitable[None]]) -> None:
    """Run an async function under a virtual clock."""
    trio.run(body, clock=MockClock(autojump_threshold=0))


@settings(max_examples=25, deadline=None)
@given(trees(), st.integers(1, 20))
def test_trees_make_exactly_the_allowed_requests(tree: Tree, limit: int) -> None:
    async def body() -> None:
        result, requests = await run_tree(tree, UsageLimits(requests=limit))
        assert requests == min(tree.requests, limit)
        assert result.usage_total.input_tokens == 10 * requests
        done = tree.requests <= limit
        assert result.stop_reason == ("completed" if done else "budget:requests")

    at_once(body)


@settings(max_examples=15, deadline=None)
@given(trees(), st.integers(1, 200), st.sampled_from(["total_tokens", "cost"]))
def test_trees_overshoot_only_by_calls_in_flight(tree: Tree, limit: int, name: str) -> None:
    async def body() -> None:
        limits = UsageLimits(cost=limit) if name == "cost" else UsageLimits(total_tokens=limit)
        result, requests = await run_tree(tree, limits)
        per_call = 10 if name == "cost" else 11
        spent = per_call * requests
        assert spent < limit + per_call * min(tree.size, MAX_RUNNING)
        if tree.requests * per_call < limit:
            assert (result.stop_reason, requests) == ("completed", tree.requests)

    at_once(body)


async def test_agent_names_the_limit_of_its_ancestor() -> None:
    async with open_runtime() as runtime:
        result = await runtime.run(plan([[]]), team(limits=UsageLimits(requests=2)))
    assert result.stop_reason == "budget:requests"
    assert [one.stop_reason for one in result.subagents] == ["budget:ancestor_requests"]
    assert "stop reason: budget:ancestor_requests" in str(result.tool_calls[0].content)


_FOUR: Plan = [[], [], [], []]
WIDE = plan(*[_FOUR] * 20)
"""Twenty agents, each of which starts four."""


def slow(request: ModelRequest) -> Turn:
    """Follow the plan, and take a second for each response."""
    turn = follow(request)
    assert isinstance(turn, list)
    return [pause(1), *turn]


@pytest.mark.parametrize("slots", [1, 256])
async def test_agents_that_wait_do_not_count(slots: int, autojump_clock: MockClock) -> None:
    options = team(slow)
    async with open_runtime(tools_per_runtime=slots, threads=1) as runtime:
        result = await runtime.run(WIDE, options)
        check_quiet(runtime)
    assert len(result.subagents) == 20
    assert all(one.stop_reason == "completed" for one in result.subagents)
    assert model_of(options).peak_live == MAX_RUNNING


@attrs.frozen
class Place:
    """A runtime and its store."""

    runtime: Runtime
    store: MemoryStore
    options: AgentOptions


@asynccontextmanager
async def place() -> AsyncGenerator[Place]:
    store = MemoryStore()
    async with open_runtime(store=store, tools_per_runtime=1) as runtime:
        options = team(slow)
        await runtime.run(plan([]), options)  # starts all actors
        yield Place(runtime, store, options)


async def check_place(_: int, outcome: StepOutcome[Place]) -> None:
    runtime, store = outcome.subject.runtime, outcome.subject.store
    check_quiet(runtime)
    assert model_of(outcome.subject.options).live == 0
    for info in (await runtime.sessions.list()).sessions:
        check_records(await store.load(info.session_id))
        snapshot = await runtime.sessions.snapshot(info.session_id)
        assert snapshot is not None
        check_history(snapshot.messages)


def test_cancelled_tree_leaves_nothing() -> None:
    async def body(here: Place) -> None:
        await here.runtime.run(plan([[]], []), here.options, session_id="s")

    assert cancel_at_every_step(body, around=place, check=check_place) > 50
