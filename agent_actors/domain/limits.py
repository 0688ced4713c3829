"""Limits on what a run or a session may use, what tokens cost, and deadlines of requests.

Owns the arithmetic, and knows nothing of runs: who counts stands in
`run/model/usage_accounting.py` and
`sessions/state.py`, who asks and when in `run/model/budget.py`.

A limit is used up once it is reached. Requests and tool calls are counted before they are made, and
never exceed theirs. Tokens and cost are known after an answer, so the last answer may go beyond
theirs; it was paid for, and is kept.

Money is a float, not a Decimal: tokens are known by whole answers, and often estimated, which errs
by far more than a float does; a record of it stays a JSON number, and a caller's own sums need no
conversion. What rounding does to a sum is made up for where it is compared.
"""

import math
import sys
from typing import Final, TypeGuard

import attrs

from agent_actors.domain.usage import NO_TOKENS, Usage
from agent_actors.errors import ConfigError

# Ten times 0.1 is a little less than 1 in floats; a cost within this share of its limit reached it.
_ROUNDING: Final = 1e-9
_TOKENS_PER_PRICE: Final = 1_000_000
# The highest price that is taken for one, and the most tokens that are priced: endpoints may count
# what they like, and a product of any two of these is still a number.
_HIGHEST_PRICE: Final = 1e12
_MOST_TOKENS: Final = 10**15


def _is_number(value: object) -> TypeGuard[float]:
    # Compared, not converted: `math.isfinite` raises for an int that no float can hold.
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and abs(value) <= sys.float_info.max
    )


DEFAULT_TOOL_TIMEOUT: Final = 300.0
"""Seconds for one tool call, unless the tool or the options set another deadline.

Long enough for a build or a crawl, short enough that somebody notices a hung tool.
"""


@attrs.frozen
class Timeouts:
    """Deadlines of one model request, in seconds; `math.inf` means no deadline.

    Attributes:
        connect: To open a connection.
        first_token: From the start of the request to the first delta of the response.
        idle: Between two deltas; comments, pings and empty deltas do not count.
        total: From the start of the request to the end of the response.
    """

    connect: float = 10.0
    first_token: float = 120.0
    idle: float = 60.0
    total: float = math.inf


@attrs.frozen(kw_only=True)
class UsageLimits:
    """How much may be used; None: any amount.

    Attributes:
        requests: Requests to the model, those that failed and were tried again included.
        tool_calls: Tool calls that are begun.
        input_tokens: Tokens of prompts, cached ones included.
        output_tokens: Tokens of answers, reasoning included.
        total_tokens: Both together.
        cost: Money, in the unit of the prices; needs `AgentOptions.prices`.

    Raises:
        ConfigError: A limit is not a finite number above 0; a count is not a whole one.
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
    """What a model's tokens cost, in any one currency.

    Attributes:
        input: A million tokens of the prompt that no cache had part in.
        output: A million tokens of the answer, reasoning included.
        cache_read: A million tokens of the prompt that came from a cache; None: as `input`.
        cache_write: A million that were written to a cache; None: as `input`.

    Raises:
        ConfigError: A price is negative, no finite number, or too high to be one.
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
        """What these tokens cost."""
        read, written = usage.cache_read_tokens, usage.cache_creation_tokens
        # An endpoint may count cached tokens apart from the input, against its protocol.
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
    """What was used so far. Adding two gives their sum.

    Attributes:
        requests: Requests begun.
        tool_calls: Tool calls begun.
        usage: Tokens, estimated ones included.
        cost: What they cost; 0 without prices.
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
    """The limit that leaves no room for another request, by its field's name; empty: none.

    That all tool calls are used up is no such limit: the model may still answer.
    """
    if limits.requests is not None and spent.requests >= limits.requests:
        return "requests"
    return _used_up(limits, spent)


def refuses_calls(limits: UsageLimits, spent: Spent, calls: int) -> str:
    """The limit that keeps a turn's tool calls from being begun; empty: none.

    The calls of one turn stand or fall together: a half of what the model decided may be worse than
    nothing of it. That all requests are used up is no such limit: as with `max_iterations`, the
    calls of the last answer run.

    Args:
        limits: The limits.
        spent: What was used, the answer with these calls included.
        calls: How many the model wants to begin.
    """
    what = _used_up(limits, spent)
    if what:
        return what
    if limits.tool_calls is not None and spent.tool_calls + calls > limits.tool_calls:
        return "tool_calls"
    return ""


def output_left(limits: UsageLimits, spent: Spent) -> int | None:
    """Tokens that the next answer may have, 0 at least; None: any number."""
    if limits.output_tokens is None:
        return None
    return max(0, limits.output_tokens - spent.usage.output_tokens)


def find_price_error(
    limits: UsageLimits, session_limits: UsageLimits, prices: Prices | None
) -> str:
    """Return which limit needs prices that are missing; empty if none does."""
    for name, value in (("limits", limits), ("session_limits", session_limits)):
        if value.cost is not None and prices is None:
            return f"{name}.cost is {value.cost}, and prices is missing; pass Prices(...)"
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
