"""Recommended settings for an endpoint, based on its rejections and its quirks. Pure.

A recommendation is a field of a provider profile or an option of an agent, with a value and the
reason for it.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final, Literal, TypeAlias, cast
from urllib.parse import urlsplit

import attrs

from agent_actors.profiles.dialect import ChatDialect, TextToolCalls
from agent_actors.profiles.profile import ProviderProfile

SettingKind: TypeAlias = Literal["profile", "option"]

_OTHER_FIELD: Final[Mapping[str, str]] = {
    "max_tokens": "max_completion_tokens",
    "max_completion_tokens": "max_tokens",
}
# Fields of a request that can be omitted.
_DISPENSABLE: Final = ("temperature", "parallel_tool_calls", "tool_choice", "top_p", "seed")
_NINE: Final = re.compile(r"length of 9|9 characters|nine")
_HARMONY: Final = re.compile(r"to=functions\.|<\|channel\|>")
# If the first token takes longer than this many seconds, a longer timeout is recommended.
_SLOW: Final = 60.0


@attrs.frozen
class Recommendation:
    """A recommended setting.

    Attributes:
        place: `profile` for a field of the provider profile, `option` for an option of the agent.
        name: The name of the field or option.
        value: The recommended value.
        why: The reason.
    """

    place: SettingKind
    name: str
    value: str | bool | float | tuple[str, ...]
    why: str


def recommend_after_refusal(message: str, dialect: ChatDialect) -> Recommendation | None:
    """Return the setting to change after a rejection; None if the message does not name one."""
    message = message.lower()
    current = dialect.max_tokens_field
    if _names(current, message):
        other = _OTHER_FIELD.get(current, "max_tokens")
        return _profile("max_tokens_field", other, f"{current} is rejected")
    if dialect.include_usage and (_names("stream_options", message) or "include_usage" in message):
        return _profile("include_usage", False, "the request for token counts is rejected")
    if _names("reasoning_content", message):
        return _echo(dialect)
    if not dialect.short_call_ids and "id" in message and _NINE.search(message):
        return _profile("short_call_ids", True, "longer call ids are rejected")
    for field in _DISPENSABLE:
        if _names(field, message) and field not in dialect.refuses:
            fields = tuple(sorted((*dialect.refuses, field)))
            return _profile("refuses", fields, f"{field} is rejected")
    return None


def recommend_text_calls(text: str, dialect: ChatDialect) -> Recommendation | None:
    """Return the setting for calls that are written as text; None if the dialect already has it."""
    kind: TextToolCalls = "harmony" if _HARMONY.search(text) else "tags"
    if dialect.text_tool_calls == kind:
        return None
    return _profile("text_tool_calls", kind, "the model writes calls into the text")


def seen(
    numbers: Collection[int], dialect: ChatDialect, *, cumulative: bool
) -> list[Recommendation]:
    """Return settings for observed quirks, in addition to those found through rejections."""
    found: list[Recommendation] = []
    if cumulative and not dialect.cumulative:
        found.append(_profile("cumulative", True, "each delta repeats all text so far"))
    if 23 in numbers and not dialect.short_call_ids:
        found.append(
            _profile(
                "short_call_ids",
                True,
                "its call ids have nine letters and digits, so it may reject others",
            )
        )
    return found


def slow(first_token: float | None) -> list[Recommendation]:
    """Return settings for an endpoint whose first token takes this many seconds."""
    if first_token is None or first_token < _SLOW:
        return []
    seconds = float(round(3 * first_token))
    return [Recommendation("option", "first_token_timeout", seconds, "the first token takes long")]


def recommend_profile(
    base_url: str, profiles: Mapping[str, ProviderProfile]
) -> list[Recommendation]:
    """Return the profile of this endpoint, if there is one."""
    where = _place(base_url)
    for name, profile in profiles.items():
        if profile.base_url and _place(profile.base_url) == where:
            why = "there is a profile for this endpoint"
            return [Recommendation("option", "provider", name, why)]
    return []


def apply_recommendation(recommendation: Recommendation, dialect: ChatDialect) -> ChatDialect:
    """Return the dialect with a recommendation for the profile applied."""
    match recommendation.name:
        case "max_tokens_field":
            return attrs.evolve(dialect, max_tokens_field=str(recommendation.value))
        case "include_usage":
            return attrs.evolve(dialect, include_usage=bool(recommendation.value))
        case "echo_reasoning":
            return attrs.evolve(dialect, echo_reasoning=str(recommendation.value))
        case "short_call_ids":
            return attrs.evolve(dialect, short_call_ids=bool(recommendation.value))
        case "text_tool_calls":
            return attrs.evolve(dialect, text_tool_calls=cast(TextToolCalls, recommendation.value))
        case _:
            return attrs.evolve(dialect, refuses=cast("tuple[str, ...]", recommendation.value))


def _profile(name: str, value: str | bool | tuple[str, ...], why: str) -> Recommendation:
    return Recommendation("profile", name, value, why)


def _echo(dialect: ChatDialect) -> Recommendation:
    if dialect.echo_reasoning:
        return _profile("echo_reasoning", "", "thinking that is sent back is rejected")
    return _profile("echo_reasoning", "reasoning_content", "thinking must be sent back")


def _names(field: str, message: str) -> bool:
    return re.search(rf"(?<![\w]){field}(?![\w])", message) is not None


def _place(url: str) -> tuple[str, int | None]:
    parts = urlsplit(url)
    host = (parts.hostname or "").replace("127.0.0.1", "localhost")
    return host, parts.port or (443 if parts.scheme == "https" else 80)
