"""Decide which failures of a model call are retried, and when.

This module owns the verdict on a failure, the backoff between attempts, and the budgets that
prevent a flood of retries. It is pure: the caller passes in times and random numbers. The runtime
performs the retries and notifies subscribers.

The rules follow the official clients. These failures are retried: a failed or broken connection; a
response with status 408, 409, 425, 429 or 5xx; and the same errors when they are reported inside a
response or as its finish reason. If an endpoint sends the header `x-should-retry`, that header
decides.
"""

import math
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

import attrs

from agent_actors.errors import (
    ProviderConnectError,
    ProviderDeadlineError,
    ProviderError,
    ProviderInBandError,
    ProviderStatusError,
)

_TRANSIENT: Final = frozenset({408, 409, 425, 429})
_NEVER: Final = frozenset({501, 505})
"""5xx statuses for which a retry does not help."""

_REFUSALS: Final = frozenset({429, 529})
"""Statuses that mean "too many requests". A 503 has the same meaning if it names a time; otherwise
it may report any outage.
"""

_IN_BAND_REFUSALS: Final = frozenset(
    {"429", "503", "529", "overloaded_error", "rate_limit_error", "rate_limit_exceeded"}
)
_IN_BAND_TRANSIENT: Final = frozenset(
    {
        "408",
        "500",
        "502",
        "504",
        "api_error",
        "server_error",
        "internal_error",
        "timeout_error",
        # Finish reasons that report a failure.
        "error",
        "abort",
        "aborted",
        "cancelled",
        "insufficient_system_resource",
        "network_error",
        "timeout",
        # Groq's reason for stopping a stream early.
        "x_groq.error",
        # The model wrote something that the endpoint cannot parse. Sampling again often helps.
        "malformed_function_call",
        "malformed_response",
        "malformed_model_output",
        "malformed_tool_use",
        "unexpected_tool_call",
        "tool_use_failed",
    }
)

_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")

# Values of `x-ratelimit-reset-…`, for example "6m0s", "1.5s", "250ms" or plain seconds.
_SPAN: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)?")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, None: 1.0}

_WHAT_IS_LIMITED: Final = ("requests", "tokens", "input-tokens", "output-tokens")

LONGEST_PAUSE: Final = 60.0
"""Seconds. The longest pause that an endpoint can ask for; a longer one is treated as an outage."""

_ENDPOINT_TRIES: Final = 500.0
"""The number of retries that an endpoint gets immediately; each response earns one back."""

_EARNED_PER_SECOND: Final = 10.0


def _at_least_none(retries: int) -> int:
    return max(retries, 0)


@attrs.frozen(kw_only=True)
class RetryPolicy:
    """Limits on the retries of a model call. Durations are in seconds.

    Attributes:
        max_retries: The maximum number of retries of one model call; 0 or less for no retries. A
            refusal (for example 429) does not count while the endpoint accepts other requests. In
            that case, the refused call only waits, with pauses that grow up to one minute.
        base: The upper bound of the first random pause. The bound doubles with each retry, up to
            one minute.
        patience: How long a refused call keeps waiting. Its last attempt is made at the end of this
            time at the latest: if a pause would end later, the call does not wait for it. If the
            endpoint has refused all requests for this long, calls that are waiting to be sent give
            up.
        run_budget: The maximum number of retries of all model calls of one run.
    """

    max_retries: int = attrs.field(default=2, converter=_at_least_none)
    base: float = 0.5
    patience: float = 300.0
    run_budget: int = 50

    def pause(self, retry: int, chance: float) -> float:
        """Return the pause before a retry, in seconds: exponential backoff with full jitter.

        Args:
            retry: The number of the retry, from 1; 0 is treated as 1.
            chance: A random number from 0 to 1.
        """
        return chance * min(LONGEST_PAUSE, self.base * 2.0 ** min(max(retry - 1, 0), 32))


@attrs.frozen
class Verdict:
    """The decision on a failure.

    Attributes:
        again: True if a retry may help.
        refused: True if the endpoint reported too many requests, so that all sessions that use it
            slow down.
        after: The pause that the endpoint asked for, in seconds; None if it named no time, or a
            time that has passed.
    """

    again: bool
    refused: bool = False
    after: float | None = None


def judge(error: ProviderError, *, now: float) -> Verdict:
    """Return the verdict on a failure.

    Args:
        error: The failure.
        now: The current time in seconds since the epoch, for endpoints that name a date.
    """
    match error:
        case ProviderStatusError(status=status, headers=headers):
            again = status in _TRANSIENT or (status >= 500 and status not in _NEVER)
            should_retry = headers.get("x-should-retry", "").lower()
            if should_retry in ("true", "false"):
                again = should_retry == "true"
            limited = status in _REFUSALS or status == 503
            after = wanted_pause(headers, now=now, limited=limited)
            refused = status in _REFUSALS or (status == 503 and after is not None)
            # With a pause of zero, all attempts would be used up within milliseconds, so zero is
            # treated as no time.
            return Verdict(again, again and refused, after or None)
        case ProviderInBandError(code=code):
            refused = code.lower() in _IN_BAND_REFUSALS
            return Verdict(refused or code.lower() in _IN_BAND_TRANSIENT, refused)
        case ProviderConnectError():
            return Verdict(True)
        case ProviderDeadlineError(kind="connect"):
            return Verdict(True)
        case _:
            return Verdict(False)


def wanted_pause(headers: dict[str, str], *, now: float, limited: bool) -> float | None:
    """Return the pause that a response asks for, in seconds; None if it names no time.

    Args:
        headers: The headers of the response, with names in lower case.
        now: The current time in seconds since the epoch. If the response has a `date` header, that
            date is used instead.
        limited: True if an exhausted limit may be the reason. Only then are the rate limit headers
            read.
    """
    span = _number(headers.get("retry-after-ms", ""))
    if span is not None:
        return span / 1000
    after = headers.get("retry-after", "").strip()
    span = _number(after)
    if span is None and after:
        span = _until(after, headers, now)
    if span is None and limited:
        spans = [_reset(headers, what, now) for what in _WHAT_IS_LIMITED]
        span = max((s for s in spans if s is not None), default=None)
    return span


def _reset(headers: dict[str, str], what: str, now: float) -> float | None:
    """Return the seconds until an exhausted limit is reset; None if no limit is exhausted."""
    for stem in ("x-ratelimit-{0}-{1}", "anthropic-ratelimit-{1}-{0}"):
        if _number(headers.get(stem.format("remaining", what), "")) == 0:
            reset = headers.get(stem.format("reset", what), "").strip()
            return _span(reset) if _span(reset) is not None else _until(reset, headers, now)
    return None


def _number(text: str) -> float | None:
    text = text.strip()
    # `float` accepts more than HTTP allows: `1_0`, `1e1`, digits of other scripts.
    number = float(text) if _NUMBER.fullmatch(text) else math.inf
    return number if number < math.inf else None


def _span(text: str) -> float | None:
    parts = list(_SPAN.finditer(text))
    if not parts or "".join(part.group() for part in parts) != text:
        return None
    return sum(float(part[1]) * _UNITS[part[2]] for part in parts)


def _until(text: str, headers: dict[str, str], now: float) -> float | None:
    """Return the seconds until a date, by the endpoint's own clock if the response shows it."""
    date = _date(text)
    if date is None:
        return None
    sent = _date(headers.get("date", ""))
    return max(0.0, date - (now if sent is None else sent))


def _date(text: str) -> float | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # the numbers in a date may have any length
        try:
            date = datetime.fromisoformat(text)
        except ValueError:
            return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return date.timestamp()


@attrs.define(eq=False)
class RetryBudget:
    """A budget that prevents a flood of retries if an endpoint does not answer any request.

    The budget starts at its maximum of 500. Each response adds one, and so does every tenth of a
    second.
    """

    _left: float = attrs.field(default=_ENDPOINT_TRIES, init=False)
    _at: float | None = attrs.field(default=None, init=False)

    def take(self, now: float) -> bool:
        """Take one retry from the budget. Return False if the budget is empty.

        Args:
            now: The current time in seconds, on any monotonic clock.
        """
        if self._at is not None:
            self._left += (now - self._at) * _EARNED_PER_SECOND
        self._at = now
        self._left = min(self._left, _ENDPOINT_TRIES)
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def earn(self) -> None:
        """Record a response from the endpoint, which adds one retry to the budget."""
        self._left += 1
