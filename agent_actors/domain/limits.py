"""Usage limits for runs and sessions, token prices, and request deadlines.

This module contains only the arithmetic. `runs/model/usage_accounting.py` and `sessions/state.py`
count usage; `runs/model/budget.py` enforces the limits.

A limit is exhausted as soon as it is reached. Requests and tool calls are counted before they
start, and therefore never exceed their limits. Tokens and cost are known only after a response, so
the last response may exceed their limits. It is kept because it has been paid for.

Amounts of money are floats, not Decimals. Tokens are known only per response and are often
estimated, so rounding errors do not matter. Records store floats as JSON numbers, and callers can
add costs without conversion. Comparisons with limits allow for rounding errors.
"""

import math
import sys
from typing import Final, TypeGuard

import attrs

from agent_actors.domain.usage import NO_TOKENS, Usage
from agent_actors.errors import ConfigError

# With floats, adding 0.1 ten times results in slightly less than 1. A cost that is within this
# fraction of its limit counts as having reached the limit.
_ROUNDING: Final = 1e-9
_TOKENS_PER_PRICE: Final = 1_000_000
# The highest accepted price, and the highest number of tokens for which a cost is computed.
# Endpoints may report any number of tokens. The product of these two constants is still finite.
_HIGHEST_PRICE: Final = 1e12
_MOST_TOKENS: Final = 10**15


def _is_number(value: object) -> TypeGuard[float]:
    # Not `math.isfinite`, which raises for an int that is too large for a float.
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and abs(value) <= sys.float_info.max
    )


DEFAULT_MAX_CALLS: Final = 256
"""Default maximum number of tool calls from one response that are run.

A model stuck in a loop once made 792 calls in one response, which occupied its endpoint for hours.
"""

DEFAULT_MAX_RESULT_BYTES: Final = 2**20
"""Default maximum size of the text of a tool result, in bytes: about 250,000 tokens."""

MIN_MAX_RESULT_BYTES: Final = 1024
"""The smallest limit for the text of a tool result, in bytes: it leaves room for the truncation
notice.
"""

DEFAULT_TOOL_TIMEOUT: Final = 300.0
"""Default timeout of one tool call, in seconds.

It is long enough for a build or a crawl, and short enough for a hung tool to be noticed.
"""


@attrs.frozen
class Timeouts:
    """Deadlines for one model request, in seconds; `math.inf` means no deadline.

    Attributes:
        connect: For opening a connection.
        first_token: From the start of the request to the first delta of the response.
        idle: Between two deltas. Comments, pings and empty deltas do not count as deltas.
        total: From the start of the request to the end of the response.
    """

    connect: float = 10.0
    first_token: float = 120.0
    idle: float = 60.0
    total: float = math.inf


@attrs.frozen(kw_only=True)
class UsageLimits:
    """Limits on usage; None means no limit.

    Attributes:
        requests: Requests to the model, including failed attempts.
        tool_calls: Tool calls that are started.
        input_tokens: Tokens in prompts, including cached tokens.
        output_tokens: Tokens in responses, including reasoning.
        total_tokens: Input and output tokens together.
        cost: The amount of money, in the currency of the prices; requires `AgentOptions.prices`.

    Raises:
        ConfigError: A limit is not a finite number above 0, or a count is not an integer.
    """

    requests: int | None = None
    tool_calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cost: float | None = None

    def __attrs_post_init__(self) -> None:
        for name in ("requests", "tool_calls", "input_tokens", "output_tokens", "total_tokens"):
            count: object = getattr(self, name)
            if count is not None and not (
                isinstance(count, int) and not isinstance(count, bool) and count > 0
            ):
                raise ConfigError(
                    f"UsageLimits: {name} must be a whole number above 0, or None for no limit; "
                    f"got {count!r}"
                )
        if self.cost is not None and not (_is_number(self.cost) and self.cost > 0):
            raise ConfigError(
                "UsageLimits: cost must be a finite number above 0, or None for no limit; "
                f"got {self.cost!r}"
            )


NO_LIMITS: Final = UsageLimits()


@attrs.frozen(kw_only=True)
class Prices:
    """Token prices of a model, all in one currency of your choice.

    Attributes:
        input: Price of a million prompt tokens that were neither read from nor written to a cache.
        output: Price of a million response tokens, including reasoning.
        cache_read: Price of a million prompt tokens read from a cache; None means the same as
            `input`.
        cache_write: Price of a million prompt tokens written to a cache; None means the same as
            `input`.

    Raises:
        ConfigError: A price is negative, not finite, or above the maximum of 1e12.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def __attrs_post_init__(self) -> None:
        for name in ("input", "output", "cache_read", "cache_write"):
            price: object = getattr(self, name)
            if price is None and name.startswith("cache"):
                continue
            if not (_is_number(price) and 0 <= price <= _HIGHEST_PRICE):
                raise ConfigError(
                    f"Prices: {name} must be a number from 0 to {_HIGHEST_PRICE:g}; got {price!r}"
                )

    def cost(self, usage: Usage) -> float:
        """Return the cost of these tokens."""
        read, written = usage.cache_read_tokens, usage.cache_creation_tokens
        # Some endpoints violate the protocol and do not include cached tokens in the input tokens.
        fresh = max(0, usage.input_tokens - read - written)
        cache_read = self.input if self.cache_read is None else self.cache_read
        cache_write = self.input if self.cache_write is None else self.cache_write
        return (
            _priced(fresh, self.input)
            + _priced(read, cache_read)
            + _priced(written, cache_write)
            + _priced(usage.output_tokens, self.output)
        )


def _priced(tokens: int, price: float) -> float:
    return min(tokens, _MOST_TOKENS) * price / _TOKENS_PER_PRICE


@attrs.frozen
class Spent:
    """Usage so far. Adding two values returns their sum.

    Attributes:
        requests: Requests started.
        tool_calls: Tool calls started.
        usage: Tokens, including estimated ones.
        cost: Cost of the tokens; 0 without prices.
    """

    requests: int = 0
    tool_calls: int = 0
    usage: Usage = NO_TOKENS
    cost: float = 0.0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(
            self.requests + other.requests,
            self.tool_calls + other.tool_calls,
            self.usage + other.usage,
            self.cost + other.cost,
        )


def refuses_request(limits: UsageLimits, spent: Spent) -> str:
    """Return the name of the limit that prevents another request; empty if none does.

    An exhausted limit on tool calls does not prevent a request, because the model can respond
    without tools.
    """
    if limits.requests is not None and spent.requests >= limits.requests:
        return "requests"
    return _used_up(limits, spent)


def refuses_calls(limits: UsageLimits, spent: Spent, calls: int) -> str:
    """Return the name of the limit that prevents a turn's tool calls; empty if none does.

    Either all calls of a turn start or none, because executing half of the model's calls can do
    more harm than executing none. An exhausted limit on requests does not prevent the calls: as
    with `max_iterations`, the calls in the last response are still run.

    Args:
        limits: The limits.
        spent: Usage so far, including the response with these calls.
        calls: The number of calls in the response.
    """
    what = _used_up(limits, spent)
    if what:
        return what
    if limits.tool_calls is not None and spent.tool_calls + calls > limits.tool_calls:
        return "tool_calls"
    return ""


def output_left(limits: UsageLimits, spent: Spent) -> int | None:
    """Return how many tokens the next response may have, at least 0; None if there is no limit."""
    if limits.output_tokens is None:
        return None
    return max(0, limits.output_tokens - spent.usage.output_tokens)


def find_price_error(
    limits: UsageLimits, session_limits: UsageLimits, prices: Prices | None
) -> str:
    """Return an error message if there is a cost limit without prices; otherwise empty."""
    for name, value in (("limits", limits), ("session_limits", session_limits)):
        if value.cost is not None and prices is None:
            return f"{name}.cost is {value.cost}, but no prices are set; pass prices=Prices(...)"
    return ""


def _used_up(limits: UsageLimits, spent: Spent) -> str:
    usage = spent.usage
    if limits.input_tokens is not None and usage.input_tokens >= limits.input_tokens:
        return "input_tokens"
    if limits.output_tokens is not None and usage.output_tokens >= limits.output_tokens:
        return "output_tokens"
    if limits.total_tokens is not None and usage.total_tokens >= limits.total_tokens:
        return "total_tokens"
    if limits.cost is not None and spent.cost >= limits.cost * (1 - _ROUNDING):
        return "cost"
    return ""
