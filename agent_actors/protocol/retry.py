"""Which failures of a model call are worth another try, and when.

Owns the verdict on a failure, the backoff between tries, and the budgets that keep tries from
becoming a flood. Pure: times and random numbers are passed in. Who tries again, and what a reader
is told of it, is the runtime's.

What is tried again follows what the official clients do: no connection, a broken one, a status of
408, 409, 425, 429 or 5xx, and the same told inside an answer. An endpoint that says itself whether
it wants another try (`x-should-retry`) is believed.
"""

import math
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

import attrs

from agent_actors.errors import (
    ConfigError,
    ProviderConnectError,
    ProviderDeadlineError,
    ProviderError,
    ProviderInBandError,
    ProviderStatusError,
)

_TRANSIENT: Final = frozenset({408, 409, 425, 429})
_NEVER: Final = frozenset({501, 505})
"""Of the 5xx, those that another try cannot change."""

_REFUSALS: Final = frozenset({429, 529})
"""Too much, for now. 503 says so as well where it names a time, else it may be any breakdown."""

_IN_BAND_REFUSALS: Final = frozenset(
    {"429", "503", "529", "overloaded_error", "rate_limit_error", "rate_limit_exceeded"}
)
_IN_BAND_TRANSIENT: Final = frozenset(
    {"408", "500", "502", "504", "api_error", "server_error", "internal_error", "timeout_error"}
)

_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")

# "6m0s", "1.5s", "250ms", or seconds alone: what endpoints put into `x-ratelimit-reset-…`.
_SPAN: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)?")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, None: 1.0}

_WHAT_IS_LIMITED: Final = ("requests", "tokens", "input-tokens", "output-tokens")

LONGEST_PAUSE: Final = 60.0
"""Seconds: the longest that an endpoint's word makes anybody wait; more is an outage."""

_ENDPOINT_TRIES: Final = 500.0
"""Further tries that an endpoint gets at once; each answer earns one back."""

_EARNED_PER_SECOND: Final = 10.0


@attrs.frozen(kw_only=True)
class RetryPolicy:
    """How often and how long a model call is tried again. Durations in seconds.

    Attributes:
        max_retries: Further tries of one model call; 0: none. A refusal (such as 429) does not
            count while the endpoint answers others: then the call only waits its turn, with pauses
            that grow to a minute's.
        base: The bound of the first random pause; it doubles with each try, up to a minute.
        patience: How long a refused call goes on waiting its turn; its last try is made then at
            the latest, and nothing is waited for that would be over later. Where the endpoint has
            refused everybody for that long, whoever waits to be sent gives up.
        run_budget: Further tries of all model calls of one run.
    """

    max_retries: int = 2
    base: float = 0.5
    patience: float = 300.0
    run_budget: int = 50

    def __attrs_post_init__(self) -> None:
        if self.max_retries < 0:
            raise ConfigError(f"max_retries must be at least 0, for none; got {self.max_retries}")

    def pause(self, retry: int, chance: float) -> float:
        """Seconds before a further try: exponential, with full jitter.

        Args:
            retry: Its number, from 1; 0 counts as 1.
            chance: A random number from 0 to 1.
        """
        return chance * min(LONGEST_PAUSE, self.base * 2.0 ** min(max(retry - 1, 0), 32))


@attrs.frozen
class Verdict:
    """What a failure means.

    Attributes:
        again: Whether another try may help.
        refused: Whether the endpoint said "too much": all its sessions slow down.
        after: Seconds for which it asked; None if it named no time, or none that is left.
    """

    again: bool
    refused: bool = False
    after: float | None = None


def judge(error: ProviderError, *, now: float) -> Verdict:
    """What this failure means.

    Args:
        error: The failure.
        now: Seconds since the epoch, for an endpoint that names a date.
    """
    match error:
        case ProviderStatusError(status=status, headers=headers):
            again = status in _TRANSIENT or (status >= 500 and status not in _NEVER)
            said = headers.get("x-should-retry", "").lower()
            if said in ("true", "false"):
                again = said == "true"
            limited = status in _REFUSALS or status == 503
            after = wanted_pause(headers, now=now, limited=limited)
            refused = status in _REFUSALS or (status == 503 and after is not None)
            # "At once" would use up all tries within milliseconds: it counts as no time.
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
    """Seconds for which an answer asks to be left alone; None if it names no time.

    Args:
        headers: Of the answer, names in lower case.
        now: Seconds since the epoch; the answer's own `date` counts instead, if it has one.
        limited: Whether limits that are used up may be why: only then do they count.
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
    """Seconds until a limit that is used up is filled again."""
    for stem in ("x-ratelimit-{0}-{1}", "anthropic-ratelimit-{1}-{0}"):
        if _number(headers.get(stem.format("remaining", what), "")) == 0:
            reset = headers.get(stem.format("reset", what), "").strip()
            return _span(reset) if _span(reset) is not None else _until(reset, headers, now)
    return None


def _number(text: str) -> float | None:
    text = text.strip()
    # `float` takes more than HTTP knows: `1_0`, `1e1`, digits of other scripts.
    number = float(text) if _NUMBER.fullmatch(text) else math.inf
    return number if number < math.inf else None


def _span(text: str) -> float | None:
    parts = list(_SPAN.finditer(text))
    if not parts or "".join(part.group() for part in parts) != text:
        return None
    return sum(float(part[1]) * _UNITS[part[2]] for part in parts)


def _until(text: str, headers: dict[str, str], now: float) -> float | None:
    """Seconds until a date, by the endpoint's own clock where it tells it."""
    date = _date(text)
    if date is None:
        return None
    sent = _date(headers.get("date", ""))
    return max(0.0, date - (now if sent is None else sent))


def _date(text: str) -> float | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # a number in it may be as long as it likes
        try:
            date = datetime.fromisoformat(text)
        except ValueError:
            return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return date.timestamp()


@attrs.define(eq=False)
class RetryBudget:
    """Keeps tries from becoming a flood: an endpoint that answers nobody gets few of them.

    It holds 500 to begin with, and never more; each answer brings one back, and so does a tenth of
    a second.
    """

    _left: float = attrs.field(default=_ENDPOINT_TRIES, init=False)
    _at: float | None = attrs.field(default=None, init=False)

    def take(self, now: float) -> bool:
        """Take one; False if there is none.

        Args:
            now: Seconds of any clock that never goes back.
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
        """The endpoint answered."""
        self._left += 1
