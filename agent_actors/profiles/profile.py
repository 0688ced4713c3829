"""The data of one provider as plain values: address, requirements and known quirks.

This module defines the fields of a profile and validates them. `registry` reads profiles from
files, and `resolve` derives the URL and the API key of an endpoint. A profile contains the names of
environment variables but no secrets, so it can be shown, logged and kept in a repository.
"""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, get_args

import attrs

from agent_actors.errors import ConfigError
from agent_actors.profiles.dialect import PLAIN, ChatDialect

Protocol: TypeAlias = Literal["openai", "anthropic"]
PROTOCOLS: Final[tuple[str, ...]] = get_args(Protocol)

_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})

LAST_QUIRK: Final = 50
"""The highest number of a chat completions quirk; `docs/reference/quirks.md` numbers them from 1.
"""


def _texts(value: str | Iterable[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _numbers(value: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(value)))


@attrs.frozen
class ModelRule:
    """A different dialect for some of a provider's models.

    Attributes:
        names: Shell patterns for model names, for example `gpt-5*`; case-sensitive.
        dialect: The complete dialect of these models; no field is inherited from the profile's
            dialect.
    """

    names: tuple[str, ...] = attrs.field(converter=_texts)
    dialect: ChatDialect

    def covers(self, model: str) -> bool:
        """Return whether the rule applies to this model."""
        return any(fnmatchcase(model, pattern) for pattern in self.names)


def _rules(value: Iterable[ModelRule]) -> tuple[ModelRule, ...]:
    return tuple(value)


@attrs.frozen(kw_only=True)
class ProviderProfile:
    """The profile of one provider.

    Attributes:
        name: The name of the provider.
        protocol: `openai` for chat completions, or `anthropic` for Messages.
        base_url: The default base URL; empty: the caller or the environment must specify one.
        base_url_env: Environment variables for the base URL; the first one that is set is used.
        path: Added to a URL from `base_url_env` that has no path. Such a URL may also omit
            `http://`.
        model: The default model; empty: the caller or the environment must specify one.
        model_env: Environment variables for the model.
        model_names: The endpoint's model names, by the names that callers use; a model that is not
            listed keeps its name.
        system_prompt: The system prompt of agents that do not have one.
        api_key_env: Environment variables for the API key.
        api_key_required: Whether the provider refuses requests without an API key.
        api_key_header: The header for the bare API key; empty: the header that the protocol
            defines.
        dialect: The dialect. With Anthropic's protocol, only `refuses` is used.
        models: Dialects for models that need a different one; the first rule that covers a model
            applies.
        quirks: The numbers of the quirks that the provider is known for.
        resend_refused: Whether refused or filtered responses are sent again with later requests. By
            default they are left out, because they can make the endpoint refuse those requests too.
        context_window: The size of the models' context window, in tokens; 0: unknown.
        overflow_texts: Parts of error messages with which the provider refuses a request that is
            too long, in addition to the texts that `protocol/overflow.py` knows.

    Raises:
        ConfigError: A field is invalid. The error names the profile, the field, and the expected
            and actual values.
    """

    name: str
    protocol: Protocol = "openai"
    base_url: str = ""
    base_url_env: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    path: str = ""
    model: str = ""
    model_env: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    model_names: Mapping[str, str] = attrs.field(default=_NO_NAMES, hash=False)
    system_prompt: str = ""
    api_key_env: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    api_key_required: bool = False
    api_key_header: str = ""
    dialect: ChatDialect = PLAIN
    models: tuple[ModelRule, ...] = attrs.field(default=(), converter=_rules)
    quirks: tuple[int, ...] = attrs.field(default=(), converter=_numbers)
    resend_refused: bool = False
    context_window: int = 0
    overflow_texts: tuple[str, ...] = attrs.field(default=(), converter=_texts)

    def __attrs_post_init__(self) -> None:
        error = _find_error(self)
        if error:
            raise ConfigError(f"profile {self.name!r}: {error}")

    def dialect_of(self, model: str) -> ChatDialect:
        """Return the dialect of one of the provider's models."""
        return next((rule.dialect for rule in self.models if rule.covers(model)), self.dialect)


def _find_error(profile: ProviderProfile) -> str:
    if not profile.name.strip():
        return "the field 'name' must not be blank"
    if profile.protocol not in PROTOCOLS:
        return f"the field 'protocol' must be one of {_listed(PROTOCOLS)}; got {profile.protocol!r}"
    if profile.base_url and not profile.base_url.startswith(("http://", "https://")):
        return f"the field 'base_url' must begin with http:// or https://; got {profile.base_url!r}"
    if profile.path and not profile.path.startswith("/"):
        return f"the field 'path' must begin with a slash; got {profile.path!r}"
    if any(not 1 <= number <= LAST_QUIRK for number in profile.quirks):
        return (
            f"the field 'quirks' must contain only numbers from 1 to {LAST_QUIRK}; "
            f"got {list(profile.quirks)}"
        )
    if profile.context_window < 0:
        return f"the field 'context_window' must not be negative; got {profile.context_window}"
    for rule in profile.models:
        if not rule.names:
            return "each rule in the field 'models' must have names, such as ['gpt-5*']"
    for field in ("base_url_env", "model_env", "api_key_env"):
        names: tuple[str, ...] = getattr(profile, field)
        for name in names:
            if not name.isidentifier():
                return (
                    f"the field {field!r} must contain names of environment variables; got {name!r}"
                )
    if profile.protocol == "anthropic":
        return _find_messages_error(profile)
    return ""


def _find_messages_error(profile: ProviderProfile) -> str:
    if profile.api_key_header:
        return "the field 'api_key_header' works only with the protocol 'openai'; leave it out"
    for dialect in (profile.dialect, *(rule.dialect for rule in profile.models)):
        if dialect != ChatDialect(refuses=dialect.refuses):
            return (
                "the protocol 'anthropic' supports only the dialect field 'refuses'; "
                "leave the other dialect fields out"
            )
    return ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
