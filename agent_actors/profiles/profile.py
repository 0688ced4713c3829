"""What is known of one provider, as plain values: where it is, what it wants, how it errs.

Owns the shape of a profile and its checks. Where profiles come from stands in `profiles`, how one
becomes an endpoint's URL and key in `resolve`. A profile holds names of environment variables and
no secrets, so it may be shown, logged and kept in a repository.
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final, Literal, TypeAlias, get_args

import attrs

from agent_actors.errors import ConfigError
from agent_actors.profiles.dialect import PLAIN, ChatDialect

Protocol: TypeAlias = Literal["openai", "anthropic"]
PROTOCOLS: Final[tuple[str, ...]] = get_args(Protocol)

LAST_QUIRK: Final = 50
"""The quirks of chat completions are numbered from 1 up to here, in `docs/reference/quirks.md`."""


def _texts(value: str | Iterable[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _numbers(value: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(value)))


@attrs.frozen
class ModelRule:
    """What some of a provider's models want otherwise.

    Attributes:
        names: Shell patterns of model names, such as `gpt-5*`; capitals count.
        dialect: Their ways, whole: nothing is added from the profile's.
    """

    names: tuple[str, ...] = attrs.field(converter=_texts)
    dialect: ChatDialect

    def covers(self, model: str) -> bool:
        """True if this model is one of them."""
        return any(fnmatchcase(model, pattern) for pattern in self.names)


def _rules(value: Iterable[ModelRule]) -> tuple[ModelRule, ...]:
    return tuple(value)


@attrs.frozen(kw_only=True)
class ProviderProfile:
    """One provider.

    Attributes:
        name: What it is called.
        protocol: `openai` is chat completions, `anthropic` is Messages.
        base_url: Where it is; empty: it has to be given.
        base_url_env: Environment variables that say where it is, the first that is set counts.
        path: Added to what they say, if that names no path; it need not begin with `http://`.
        model: The model to ask if nobody names one; empty: one has to be named.
        model_env: Environment variables that name the model.
        api_key_env: Environment variables that hold the key.
        api_key_required: Whether it answers nobody without a key.
        api_key_header: The header that gets the bare key; empty: as the protocol has it.
        dialect: Its ways. Of Anthropic's protocol only `refuses` counts.
        models: Models whose ways differ; the first rule that covers a model counts.
        quirks: Which quirks it is known for, by number.
        resend_refused: Whether responses that were refused or filtered are sent again with later
            requests; by default they are left out, since they make endpoints refuse again.

    Raises:
        ConfigError: Naming the profile, the field, what was expected and what came.
    """

    name: str
    protocol: Protocol = "openai"
    base_url: str = ""
    base_url_env: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    path: str = ""
    model: str = ""
    model_env: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    api_key_env: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    api_key_required: bool = False
    api_key_header: str = ""
    dialect: ChatDialect = PLAIN
    models: tuple[ModelRule, ...] = attrs.field(default=(), converter=_rules)
    quirks: tuple[int, ...] = attrs.field(default=(), converter=_numbers)
    resend_refused: bool = False

    def __attrs_post_init__(self) -> None:
        error = _find_error(self)
        if error:
            raise ConfigError(f"profile {self.name!r}: {error}")

    def dialect_of(self, model: str) -> ChatDialect:
        """The ways of one of its models."""
        return next((rule.dialect for rule in self.models if rule.covers(model)), self.dialect)


def _find_error(profile: ProviderProfile) -> str:
    if not profile.name.strip():
        return "field name must not be blank"
    if profile.protocol not in PROTOCOLS:
        return f"field protocol must be one of {_listed(PROTOCOLS)}; got {profile.protocol!r}"
    if profile.base_url and not profile.base_url.startswith(("http://", "https://")):
        return f"field base_url must begin with http:// or https://; got {profile.base_url!r}"
    if profile.path and not profile.path.startswith("/"):
        return f"field path must begin with a slash; got {profile.path!r}"
    if any(not 1 <= number <= LAST_QUIRK for number in profile.quirks):
        return f"field quirks must hold numbers from 1 to {LAST_QUIRK}; got {list(profile.quirks)}"
    for rule in profile.models:
        if not rule.names:
            return "field models: each rule needs names, such as ['gpt-5*']"
    for field in ("base_url_env", "model_env", "api_key_env"):
        names: tuple[str, ...] = getattr(profile, field)
        for name in names:
            if not name.isidentifier():
                return f"field {field} must hold names of environment variables; got {name!r}"
    if profile.protocol == "anthropic":
        return _find_messages_error(profile)
    return ""


def _find_messages_error(profile: ProviderProfile) -> str:
    if profile.api_key_header:
        return "field api_key_header belongs to the protocol 'openai'; the key goes by x-api-key"
    for dialect in (profile.dialect, *(rule.dialect for rule in profile.models)):
        if dialect != ChatDialect(refuses=dialect.refuses):
            return "of the dialect, only field refuses counts with the protocol 'anthropic'"
    return ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
