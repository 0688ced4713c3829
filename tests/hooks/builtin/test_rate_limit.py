"""A limit on the tool calls in a sliding time window, per session, run or tool."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.errors import ConfigError
from agent_actors.hooks import SessionEndEvent
from agent_actors.hooks.builtin import RateLimit
from agent_actors.hooks.builtin.rate_limit import Scope
from tests.hooks.builtin.helpers import Clock, Run, before


async def passes(hook: RateLimit, run: Run, name: str = "echo") -> bool:
    return await hook.before_tool(before(name, session_id=run.session_id), run) is None


async def test_excess_call_waits_for_the_window() -> None:
    clock, run = Clock(), Run()
    hook = RateLimit(2, 10, clock=clock)
    assert [await passes(hook, run) for _ in range(3)] == [True, True, False]
    clock.now += 6.5
    decision = await hook.before_tool(before(), run)
    assert decision is not None
    assert decision.reason == "at most 2 calls in 10 s; try again in 4 s"
    clock.now += 3.5
    assert [await passes(hook, run) for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize(
    ("scope", "same_run", "other_run", "other_session"),
    [("run", False, True, True), ("session", False, False, True), ("all", False, False, False)],
)
async def test_calls_count_per_run_or_session(
    scope: Scope, same_run: bool, other_run: bool, other_session: bool
) -> None:
    hook, first = RateLimit(1, 10, scope=scope, clock=Clock()), Run()
    assert await passes(hook, first)
    assert await passes(hook, first) == same_run
    assert await passes(hook, Run(run_id="r2")) == other_run
    assert await passes(hook, Run(session_id="s2", run_id="r3")) == other_session


async def test_calls_can_count_per_tool() -> None:
    run = Run()
    apart = RateLimit(1, 10, each_tool=True, clock=Clock())
    assert [await passes(apart, run, name) for name in ("a", "b", "a")] == [True, True, False]
    decision = await apart.before_tool(before("a"), run)
    assert decision is not None
    assert decision.reason.startswith("at most 1 calls of a in 10 s")
    together = RateLimit(1, 10, clock=Clock())
    assert [await passes(together, run, name) for name in ("a", "b")] == [True, False]


async def test_repeated_call_counts_once() -> None:
    hook, run = RateLimit(1, 10, clock=Clock()), Run()
    assert await passes(hook, run)
    assert await hook.before_tool(before(recheck=True), run) is None
    assert not await passes(hook, run)


async def test_two_limits_count_separately() -> None:
    run = Run()
    hooks = [RateLimit(n, 10, scope="run", name=f"l{n}", clock=Clock()) for n in (1, 2)]
    assert [[await passes(hook, run) for hook in hooks] for _ in range(2)] == [
        [True, True],
        [False, True],
    ]


async def test_session_end_removes_its_counts() -> None:
    hook, run = RateLimit(1, 10, each_tool=True, clock=Clock()), Run()
    assert await passes(hook, run)
    await hook.session_end(SessionEndEvent(session_id="other", reason="closed"), run)
    assert not await passes(hook, run)
    await hook.session_end(SessionEndEvent(session_id="s", reason="closed"), run)
    assert await passes(hook, run)


@given(st.lists(st.floats(0, 5), min_size=1, max_size=60), st.integers(1, 4))
async def test_limit_is_exact_in_every_window(gaps: list[float], calls: int) -> None:
    clock, run = Clock(), Run()
    hook = RateLimit(calls, 10, clock=clock)
    passed: list[float] = []
    for gap in gaps:
        clock.now += gap
        recent = sum(clock.now - at < 10 for at in passed)
        let = await passes(hook, run)
        assert let == (recent < calls)
        if let:
            passed.append(clock.now)
    assert not Counter(passed) or max(Counter(passed).values()) <= calls


@pytest.mark.parametrize(
    ("calls", "per", "scope"), [(0, 1, "run"), (1, 0, "run"), (1, float("inf"), "run"), (1, 1, "x")]
)
def test_invalid_limit_is_refused(calls: int, per: float, scope: Scope) -> None:
    with pytest.raises(ConfigError, match=r"RateLimit: (calls|scope) must be"):
        RateLimit(calls, per, scope=scope)
