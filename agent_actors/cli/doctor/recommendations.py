"""What to set for an endpoint, read from what it refused and from what it was seen to do.

Pure. A remedy is a field of a provider profile or an option of an agent, with its value and the
reason for it.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final, Literal, TypeAlias, cast
from urllib.parse import urlsplit

import attrs

from agent_actors.profiles.dialect import ChatDialect, TextToolCalls
from agent_actors.profiles.profile import ProviderProfile

Place: TypeAlias = Literal["profile", "option"]

_OTHER_FIELD: Final[Mapping[str, str]] = {
    "max_tokens": "max_completion_tokens",
    "max_completion_tokens": "max_tokens",
}
# Fields of a request that an endpoint may do without.
_DISPENSABLE: Final = ("temperature", "parallel_tool_calls", "tool_choice", "top_p", "seed")
_NINE: Final = re.compile(r"length of 9|9 characters|nine")
_HARMONY: Final = re.compile(r"to=functions\.|<\|channel\|>")
# Seconds to the first token beyond which a longer deadline is worth a word.
_SLOW: Final = 60.0


@attrs.frozen
class Remedy:
    """A thing to set.

    Attributes:
        place: A field of the endpoint's profile, or an option of the agent.
        name: What is set.
        value: To what.
        why: Why.
    """

    place: Place
    name: str
    value: str | bool | float | tuple[str, ...]
    why: str


def refused(message: str, dialect: ChatDialect) -> Remedy | None:
    """What to change after a request was refused with this message; None if it does not tell."""
    told = message.lower()
    current = dialect.max_tokens_field
    if _names(current, told):
        other = _OTHER_FIELD.get(current, "max_tokens")
        return _profile("max_tokens_field", other, f"{current} is refused")
    if dialect.include_usage and (_names("stream_options", told) or "include_usage" in told):
        return _profile("include_usage", False, "the question for token counts is refused")
    if _names("reasoning_content", told):
        return _echo(dialect)
    if not dialect.short_call_ids and "id" in told and _NINE.search(told):
        return _profile("short_call_ids", True, "longer ids of calls are refused")
    for field in _DISPENSABLE:
        if _names(field, told) and field not in dialect.refuses:
            fields = tuple(sorted((*dialect.refuses, field)))
            return _profile("refuses", fields, f"{field} is refused")
    return None


def in_text(text: str, dialect: ChatDialect) -> Remedy | None:
    """What to change after calls were written into this text; None if the dialect knows of it."""
    kind: TextToolCalls = "harmony" if _HARMONY.search(text) else "tags"
    if dialect.text_tool_calls == kind:
        return None
    return _profile("text_tool_calls", kind, "the model writes its calls into the text")


def seen(numbers: Collection[int], dialect: ChatDialect, *, cumulative: bool) -> list[Remedy]:
    """What to set for quirks that were seen, beyond what is found out on the way."""
    found: list[Remedy] = []
    if cumulative and not dialect.cumulative:
        found.append(_profile("cumulative", True, "each piece repeats all the text so far"))
    if 23 in numbers and not dialect.short_call_ids:
        found.append(
            _profile("short_call_ids", True, "its own ids are nine letters and digits; others fail")
        )
    return found


def slow(first_token: float | None) -> list[Remedy]:
    """What to set for an endpoint that takes this many seconds to its first token."""
    if first_token is None or first_token < _SLOW:
        return []
    seconds = float(round(3 * first_token))
    return [Remedy("option", "first_token_timeout", seconds, "the first token takes its time")]


def at_home(base_url: str, profiles: Mapping[str, ProviderProfile]) -> list[Remedy]:
    """The profile whose endpoint this is, for whoever named none."""
    where = _place(base_url)
    for name, profile in profiles.items():
        if profile.base_url and _place(profile.base_url) == where:
            return [Remedy("option", "provider", name, "there is a profile of this endpoint")]
    return []


def applied(remedy: Remedy, dialect: ChatDialect) -> ChatDialect:
    """The dialect with what a remedy for the profile sets."""
    match remedy.name:
        case "max_tokens_field":
            return attrs.evolve(dialect, max_tokens_field=str(remedy.value))
        case "include_usage":
            return attrs.evolve(dialect, include_usage=bool(remedy.value))
        case "echo_reasoning":
            return attrs.evolve(dialect, echo_reasoning=str(remedy.value))
        case "short_call_ids":
            return attrs.evolve(dialect, short_call_ids=bool(remedy.value))
        case "text_tool_calls":
            return attrs.evolve(dialect, text_tool_calls=cast(TextToolCalls, remedy.value))
        case _:
            return attrs.evolve(dialect, refuses=cast("tuple[str, ...]", remedy.value))


def _profile(name: str, value: str | bool | tuple[str, ...], why: str) -> Remedy:
    return Remedy("profile", name, value, why)


def _echo(dialect: ChatDialect) -> Remedy:
    if dialect.echo_reasoning:
        return _profile("echo_reasoning", "", "thoughts that are sent back are refused")
    return _profile("echo_reasoning", "reasoning_content", "it wants its thoughts back")


def _names(field: str, message: str) -> bool:
    return re.search(rf"(?<![\w]){field}(?![\w])", message) is not None


def _place(url: str) -> tuple[str, int | None]:
    parts = urlsplit(url)
    host = (parts.hostname or "").replace("127.0.0.1", "localhost")
    return host, parts.port or (443 if parts.scheme == "https" else 80)
