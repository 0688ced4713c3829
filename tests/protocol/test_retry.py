"""Which failures are retried, and after what delay."""

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.errors import (
    DeadlineKind,
    ProviderConnectError,
    ProviderDeadlineError,
    ProviderError,
    ProviderInBandError,
    ProviderProtocolError,
    ProviderStatusError,
)
from agent_actors.protocol.retry import RetryBudget, RetryPolicy, Verdict, judge, wanted_pause

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC).timestamp()


def status(code: int, **headers: str) -> ProviderStatusError:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return ProviderStatusError(endpoint="e", status=code, body_message="no", headers=names)


EXHAUSTED = {
    "x_ratelimit_remaining_requests": "0",
    "x_ratelimit_reset_requests": "1m",
}


def in_band(code: str) -> ProviderInBandError:
    return ProviderInBandError("no", endpoint="e", code=code)


def deadline(kind: DeadlineKind) -> ProviderDeadlineError:
    return ProviderDeadlineError(endpoint="e", kind=kind, seconds=1)


@pytest.mark.parametrize("code", [408, 409, 425, 429, 500, 502, 503, 504, 520, 529])
def test_temporary_status_is_retried(code: int) -> None:
    assert judge(status(code), now=NOW).again


@pytest.mark.parametrize("code", [301, 400, 401, 403, 404, 413, 422, 501, 505])
def test_permanent_failures_are_not_retried(code: int) -> None:
    assert judge(status(code), now=NOW) == Verdict(again=False)


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (ProviderConnectError("refused", endpoint="e"), Verdict(again=True)),
        (deadline("connect"), Verdict(again=True)),
        (deadline("first_token"), Verdict(again=False)),
        (deadline("idle"), Verdict(again=False)),
        (deadline("total"), Verdict(again=False)),
        (ProviderProtocolError("html", endpoint="e"), Verdict(again=False)),
        (ProviderError("odd", endpoint="e"), Verdict(again=False)),
        (in_band("overloaded_error"), Verdict(again=True, refused=True)),
        (in_band("429"), Verdict(again=True, refused=True)),
        (in_band("server_error"), Verdict(again=True)),
        (in_band("tool_use_failed"), Verdict(again=True)),
        (in_band("insufficient_system_resource"), Verdict(again=True)),
        (in_band("invalid_request_error"), Verdict(again=False)),
        (in_band("missing_thought_signature"), Verdict(again=False)),
        (in_band(""), Verdict(again=False)),
        (status(429), Verdict(again=True, refused=True)),
        (status(529), Verdict(again=True, refused=True)),
        (status(429, retry_after="7"), Verdict(again=True, refused=True, after=7)),
        (status(429, retry_after="0"), Verdict(again=True, refused=True)),
        (status(503, retry_after="0"), Verdict(again=True, refused=True)),
        (status(500, retry_after="Thu, 01 Jan 1970 00:00:00 GMT"), Verdict(again=True)),
        (status(503), Verdict(again=True)),
        (status(503, retry_after="7"), Verdict(again=True, refused=True, after=7)),
        (status(500, retry_after="7"), Verdict(again=True, after=7)),
        # Only refusals and status 503 may mean that a rate limit was reached.
        (status(503, **EXHAUSTED), Verdict(again=True, refused=True, after=60)),
        (status(504, **EXHAUSTED), Verdict(again=True)),
        (status(429, x_should_retry="false"), Verdict(again=False)),
        (status(400, x_should_retry="true"), Verdict(again=True)),
        (status(400, x_should_retry="perhaps"), Verdict(again=False)),
    ],
)
def test_failures_are_classified(error: ProviderError, verdict: Verdict) -> None:
    assert judge(error, now=NOW) == verdict


def at(seconds: float) -> str:
    return format_datetime(datetime.fromtimestamp(NOW + seconds, UTC), usegmt=True)


@pytest.mark.parametrize(
    ("headers", "pause"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2),
        ({"retry-after": " 2.5 "}, 2.5),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "1_0"}, None),
        ({"retry-after": " 1e1 "}, None),
        ({"retry-after": "+5"}, None),
        ({"retry-after": "5."}, None),
        ({"retry-after": ".5"}, None),
        ({"retry-after": "\u0665"}, None),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after-ms": "1_000", "retry-after": "2"}, 2),
        ({"retry-after": ""}, None),
        ({"retry-after-ms": "250", "retry-after": "2"}, 0.25),
        ({"retry-after": at(30)}, 30),
        ({"retry-after": at(-30)}, 0),
        ({"retry-after": at(30), "date": at(20)}, 10),
        ({"retry-after": at(30), "date": "yesterday"}, 30),
        ({"retry-after": "2026-11-21T12:00:05"}, 5),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m0.5s"}, 60.5),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "120ms"}, 0.12),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6"}, 6),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6 weeks"}, None),
        ({"x-ratelimit-remaining-tokens": "9", "x-ratelimit-reset-tokens": "6"}, None),
        (
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "9s",
            },
            9,
        ),
        (
            {
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": "2026-11-21T12:00:20Z",
            },
            20,
        ),
    ],
)
def test_headers_determine_the_pause(headers: dict[str, str], pause: float | None) -> None:
    found = wanted_pause(headers, now=NOW, limited=True)
    assert found == (pause if pause is None else pytest.approx(pause))


@pytest.mark.parametrize("name", ["retry-after", "date"])
@pytest.mark.parametrize(
    "date",
    [
        "Mon, 01 Jan 2024 00:00:00 +" + "9" * 20,
        "Mon, 01 Jan " + "9" * 20 + " 00:00:00 GMT",
        "Mon, 01 Jan 2024 " + "9" * 30 + ":00:00 GMT",
        "1 1 1",
        "\x00",
    ],
)
def test_invalid_retry_date_is_ignored(name: str, date: str) -> None:
    headers = {"retry-after": "Mon, 01 Jan 2024 00:00:00 GMT", name: date}
    found = wanted_pause(headers, now=NOW, limited=True)
    assert found == (None if name == "retry-after" else 0)


def test_exhausted_limits_ignore_other_failures() -> None:
    used_up = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1s"}
    assert wanted_pause(used_up, now=NOW, limited=False) is None


_TEXT = st.text(st.characters(max_codepoint=255), max_size=20) | st.sampled_from(
    ["1e400", "9" * 400, "Fri, 31 Dec 9999 23:59:59 GMT", "0001-01-01", "1m" * 9, "१"]
)


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "retry-after",
                "retry-after-ms",
                "date",
                "x-should-retry",
                "x-ratelimit-remaining-requests",
                "x-ratelimit-reset-requests",
            ]
        ),
        _TEXT | st.just("0"),
    )
)
def test_pause_is_always_a_valid_duration(headers: dict[str, str]) -> None:
    pause = judge(
        ProviderStatusError(endpoint="e", status=429, body_message="", headers=headers), now=NOW
    ).after
    assert pause is None or pause >= 0


def test_backoff_doubles_with_full_jitter() -> None:
    policy = RetryPolicy()
    assert [policy.pause(n, 1.0) for n in (1, 2, 3, 4)] == [0.5, 1, 2, 4]
    assert policy.pause(3, 0.25) == 0.5
    assert policy.pause(3, 0) == 0
    assert policy.pause(10**6, 1.0) == 60


def test_negative_retries_count_as_zero() -> None:
    assert RetryPolicy(max_retries=-1) == RetryPolicy(max_retries=0)


def test_retry_budget_refills_with_success() -> None:
    budget = RetryBudget()
    assert sum(budget.take(0) for _ in range(1000)) == 500
    budget.earn()
    assert [budget.take(0), budget.take(0)] == [True, False]
    assert [budget.take(0.1), budget.take(0.1)] == [True, False]
    assert sum(budget.take(10**6) for _ in range(1000)) == 500
