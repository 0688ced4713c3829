"""Limits, prices, and usage: their arithmetic."""

import math
from typing import Any, cast

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.domain.limits import (
    NO_LIMITS,
    Prices,
    Spent,
    UsageLimits,
    find_price_error,
    output_left,
    refuses_calls,
    refuses_request,
)
from agent_actors.domain.usage import Usage
from agent_actors.errors import ConfigError

COUNTS = ("requests", "tool_calls", "input_tokens", "output_tokens", "total_tokens")

tokens = st.integers(0, 10**6)
usages = st.builds(Usage, tokens, tokens, tokens, tokens, tokens, st.booleans())
money = st.floats(0, 1e4)
spents = st.builds(Spent, st.integers(0, 50), st.integers(0, 50), usages, money)
maybe = st.none() | st.integers(1, 10**6)
limited = st.builds(
    UsageLimits,
    requests=st.none() | st.integers(1, 50),
    tool_calls=st.none() | st.integers(1, 50),
    input_tokens=maybe,
    output_tokens=maybe,
    total_tokens=maybe,
    cost=st.none() | st.floats(0.001, 1e4),
)
prices = st.builds(
    Prices,
    input=money,
    output=money,
    cache_read=st.none() | money,
    cache_write=st.none() | money,
)


def used(spent: Spent, what: str) -> float:
    """Return the usage that the limit of this name counts."""
    if what in {"requests", "tool_calls", "cost"}:
        return float(getattr(spent, what))
    return float(getattr(spent.usage, what))


# --- valid values ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", [0, -1, 1.5, 2.0, math.inf, math.nan, True, "9"])
def test_count_must_be_a_positive_integer(name: str, value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        UsageLimits(**{name: cast(Any, value)})
    assert str(caught.value) == (
        f"UsageLimits: {name} must be a whole number above 0, or None for no limit; got {value!r}"
    )


@pytest.mark.parametrize("value", [0, -0.5, math.inf, -math.inf, math.nan, True, "9", 10**400])
def test_cost_must_be_positive_and_finite(value: object) -> None:
    with pytest.raises(ConfigError, match=r"cost must be a finite number above 0.*; got"):
        UsageLimits(cost=cast(Any, value))


@pytest.mark.parametrize("name", ["input", "output", "cache_read", "cache_write"])
@pytest.mark.parametrize("value", [-0.1, math.inf, math.nan, True, "1", 1e13, 10**400])
def test_invalid_price_is_refused(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"Prices: {name} must be a number from 0 to 1e"):
        Prices(**{"input": 1.0, "output": 1.0, name: cast(Any, value)})


def test_only_cache_prices_are_optional() -> None:
    with pytest.raises(ConfigError, match="Prices: output must be"):
        Prices(input=1.0, output=cast(Any, None))


@pytest.mark.parametrize(
    ("limits", "session_limits", "prices", "error"),
    [
        (UsageLimits(cost=0.5), NO_LIMITS, None, "limits.cost is 0.5, but no prices are set"),
        (NO_LIMITS, UsageLimits(cost=2), None, "session_limits.cost is 2, but no prices are set"),
        (NO_LIMITS, NO_LIMITS, None, ""),
        (UsageLimits(cost=1), NO_LIMITS, Prices(input=1, output=1), ""),
    ],
)
def test_limit_on_cost_needs_prices(
    limits: UsageLimits, session_limits: UsageLimits, prices: Prices | None, error: str
) -> None:
    found = find_price_error(limits, session_limits, prices)
    assert found.startswith(error)
    assert bool(found) == bool(error)


# --- prices ---------------------------------------------------------------------------------------


def test_each_kind_of_token_has_its_price() -> None:
    priced = Prices(input=3, output=15, cache_read=0.3, cache_write=3.75)
    usage = Usage(1_000_000, 200_000, cache_read_tokens=600_000, cache_creation_tokens=100_000)
    assert priced.cost(usage) == pytest.approx(0.3 * 3 + 0.6 * 0.3 + 0.1 * 3.75 + 0.2 * 15)


def test_unpriced_cached_tokens_cost_as_input() -> None:
    usage = Usage(1_000_000, 0, cache_read_tokens=600_000, cache_creation_tokens=100_000)
    assert Prices(input=3, output=15).cost(usage) == pytest.approx(3)
    assert Prices(input=3, output=15, cache_read=0).cost(usage) == pytest.approx(1.2)


def test_cached_tokens_are_priced_once() -> None:
    odd = Usage(10, 0, cache_read_tokens=1_000_000)
    assert Prices(input=100, output=1, cache_read=1).cost(odd) == 1


@given(prices, usages)
def test_cost_is_finite_and_monotonic(priced: Prices, usage: Usage) -> None:
    cost = priced.cost(usage)
    assert 0 <= cost < math.inf
    assert priced.cost(attrs.evolve(usage, output_tokens=usage.output_tokens + 1)) >= cost


def test_absurd_counts_have_finite_cost() -> None:
    assert Prices(input=1e12, output=1e12).cost(Usage(10**400, 10**400)) < math.inf


# --- exhausted limits -----------------------------------------------------------------------------


@given(spents, st.integers(0, 100))
def test_without_limits_nothing_is_refused(spent: Spent, calls: int) -> None:
    assert refuses_request(NO_LIMITS, spent) == ""
    assert refuses_calls(NO_LIMITS, spent, calls) == ""
    assert output_left(NO_LIMITS, spent) is None


@given(limited, spents)
def test_request_is_refused_exactly_at_limit(limits: UsageLimits, spent: Spent) -> None:
    reached = [
        name
        for name, limit in attrs.asdict(limits).items()
        if limit is not None and name != "tool_calls" and used(spent, name) >= limit * (1 - 1e-9)
    ]
    what = refuses_request(limits, spent)
    assert (what in reached) if reached else (what == "")


@given(limited, spents, st.integers(1, 60))
def test_calls_are_refused_exactly_at_limit(limits: UsageLimits, spent: Spent, calls: int) -> None:
    paid = attrs.evolve(limits, requests=None)
    too_many = limits.tool_calls is not None and spent.tool_calls + calls > limits.tool_calls
    what = refuses_calls(limits, spent, calls)
    assert what == (refuses_request(paid, spent) or ("tool_calls" if too_many else ""))


@given(limited, spents, spents)
def test_exhausted_limit_stays_exhausted(limits: UsageLimits, spent: Spent, more: Spent) -> None:
    if refuses_request(limits, spent):
        assert refuses_request(limits, spent + more)
    if refuses_calls(limits, spent, 1):
        assert refuses_calls(limits, spent + more, 1)


@given(limited, spents)
def test_capped_response_stays_within_limit(limits: UsageLimits, spent: Spent) -> None:
    left = output_left(limits, spent)
    assert (left is None) == (limits.output_tokens is None)
    if left:
        assert limits.output_tokens == spent.usage.output_tokens + left


@given(spents, spents)
def test_usage_adds_up(one: Spent, other: Spent) -> None:
    both = one + other
    assert (both.requests, both.tool_calls) == (
        one.requests + other.requests,
        one.tool_calls + other.tool_calls,
    )
    assert both.usage == one.usage + other.usage
    assert both.cost == one.cost + other.cost
    assert Spent() + one == one


def test_rounding_leaves_no_room() -> None:
    spent = sum((Spent(cost=0.1) for _ in range(10)), Spent())
    assert spent.cost < 1
    assert refuses_request(UsageLimits(cost=1.0), spent) == "cost"
    assert refuses_request(UsageLimits(cost=1.001), spent) == ""


def test_last_request_may_run_its_calls() -> None:
    limits = UsageLimits(requests=2, tool_calls=3)
    assert refuses_request(limits, Spent(requests=1, tool_calls=3)) == ""
    assert refuses_request(limits, Spent(requests=2)) == "requests"
    assert refuses_calls(limits, Spent(requests=2), 3) == ""
    assert refuses_calls(limits, Spent(requests=2), 4) == "tool_calls"
