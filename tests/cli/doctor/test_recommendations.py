"""Recommended settings follow from rejected requests and observed quirks."""

from typing import cast

import pytest

from agent_actors.cli.doctor.recommendations import (
    Recommendation,
    apply_recommendation,
    recommend_after_refusal,
    recommend_profile,
    recommend_text_calls,
    seen,
    slow,
)
from agent_actors.profiles.dialect import PLAIN, ChatDialect
from agent_actors.profiles.registry import builtin_profiles

NEW_FIELD = ChatDialect(max_tokens_field="max_completion_tokens")
ECHOING = ChatDialect(echo_reasoning="reasoning_content")


@pytest.mark.parametrize(
    ("message", "dialect", "name", "value"),
    [
        (
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
            PLAIN,
            "max_tokens_field",
            "max_completion_tokens",
        ),
        ("extra_forbidden: max_completion_tokens", NEW_FIELD, "max_tokens_field", "max_tokens"),
        ("no 'most'", ChatDialect(max_tokens_field="most"), "max_tokens_field", "max_tokens"),
        ("Unknown field stream_options", PLAIN, "include_usage", False),
        ("include_usage is not known", PLAIN, "include_usage", False),
        ("Missing reasoning_content", PLAIN, "echo_reasoning", "reasoning_content"),
        ("reasoning_content must not be there", ECHOING, "echo_reasoning", ""),
        (
            "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.",
            PLAIN,
            "short_call_ids",
            True,
        ),
        ("`temperature` is deprecated for this model.", PLAIN, "refuses", ("temperature",)),
        (
            "TOP_P: not allowed",
            ChatDialect(refuses={"temperature"}),
            "refuses",
            ("temperature", "top_p"),
        ),
    ],
)
def test_refusal_recommends_a_setting(
    message: str, dialect: ChatDialect, name: str, value: object
) -> None:
    recommendation = recommend_after_refusal(message, dialect)

    assert recommendation is not None
    assert (recommendation.place, recommendation.name, recommendation.value) == (
        "profile",
        name,
        value,
    )
    changed = apply_recommendation(recommendation, dialect)
    expected = frozenset(cast("tuple[str, ...]", value)) if name == "refuses" else value
    assert getattr(changed, name) == expected
    assert changed != dialect


@pytest.mark.parametrize(
    ("message", "dialect"),
    [
        ("the model is overloaded", PLAIN),
        ("max_tokensy is odd", PLAIN),
        ("stream_options", ChatDialect(include_usage=False)),
        ("id with a length of 9", ChatDialect(short_call_ids=True)),
        ("temperature", ChatDialect(refuses={"temperature"})),
        ("", PLAIN),
    ],
)
def test_other_refusals_recommend_nothing(message: str, dialect: ChatDialect) -> None:
    assert recommend_after_refusal(message, dialect) is None


def test_inline_calls_recommend_their_markers() -> None:
    tags = recommend_text_calls("<tool_call>{}", PLAIN)
    harmony = recommend_text_calls("commentary to=functions.f {}", PLAIN)

    assert tags is not None
    assert harmony is not None
    assert apply_recommendation(tags, PLAIN).text_tool_calls == "tags"
    assert apply_recommendation(harmony, PLAIN).text_tool_calls == "harmony"
    assert recommend_text_calls("<tool_call>{}", ChatDialect(text_tool_calls="tags")) is None


def test_findings_recommend_settings_that_are_unset() -> None:
    both = seen({23, 41}, PLAIN, cumulative=True)

    assert [recommendation.name for recommendation in both] == ["cumulative", "short_call_ids"]
    # If text repeats without being cumulative, no setting is needed: the client detects it.
    assert [recommendation.name for recommendation in seen({41}, PLAIN, cumulative=False)] == []
    known = ChatDialect(cumulative=True, short_call_ids=True)
    assert seen({23, 41}, known, cumulative=True) == []


def test_slow_first_token_recommends_longer_deadline() -> None:
    assert slow(None) == slow(3.0) == []
    (recommendation,) = slow(70.2)
    assert (recommendation.place, recommendation.name, recommendation.value) == (
        "option",
        "first_token_timeout",
        211.0,
    )


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://127.0.0.1:11434/v1", "ollama"),
        ("http://localhost:1234", "lmstudio"),
        ("https://api.openai.com:443/v1", "openai"),
        ("https://api.anthropic.com", "anthropic"),
    ],
)
def test_url_identifies_the_profile(url: str, name: str) -> None:
    assert [
        recommendation.value for recommendation in recommend_profile(url, builtin_profiles())
    ] == [name]


def test_unknown_url_has_no_profile() -> None:
    assert recommend_profile("http://box:11434/v1", builtin_profiles()) == []
    # A profile without an address of its own matches no endpoint.
    assert recommend_profile("", {"azure": builtin_profiles()["azure"]}) == []


def test_echoing_is_applied() -> None:
    recommendation = Recommendation("profile", "echo_reasoning", "reasoning", "because")
    assert apply_recommendation(recommendation, PLAIN).echo_reasoning == "reasoning"
