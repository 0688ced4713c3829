"""Resolve the URL, model, API key and dialect of one endpoint.

The sources, in order of precedence, are the caller's arguments, the `AGENT_ACTORS_*` variables, the
provider's own variables, and the profile's default. The environment is passed as an argument. A
blank variable is treated as not set. No `repr` and no error shows an API key.
"""

from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import urlsplit

import attrs

from agent_actors.domain.provenance import public_url
from agent_actors.errors import ConfigError
from agent_actors.profiles.dialect import ChatDialect
from agent_actors.profiles.profile import ProviderProfile
from agent_actors.profiles.registry import find_profile, known_profiles

BASE_URL_ENV: Final = "AGENT_ACTORS_BASE_URL"
MODEL_ENV: Final = "AGENT_ACTORS_MODEL"
API_KEY_ENV: Final = "AGENT_ACTORS_API_KEY"

NO_API_KEY: Final = "not-needed"
"""Sent if no API key was given: some local servers refuse an empty key, but none of them checks it.
"""

# Headers in which a caller may send an API key, with any protocol.
_KEY_HEADERS: Final = frozenset({"authorization", "x-api-key", "api-key", "x-goog-api-key"})
# A server that listens on all addresses can be reached at the loopback address.
_EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})
_LOOPBACK: Final = "127.0.0.1"

OPENAI_COMPATIBLE: Final = ProviderProfile(name="openai-compatible")
"""Any endpoint that speaks chat completions and about which nothing else is known."""


def _shown(url: str) -> str:
    return repr(public_url(url))


@attrs.frozen(kw_only=True)
class ResolvedProvider:
    """An endpoint with everything that a request needs.

    Attributes:
        profile: The profile of the provider.
        base_url: The base URL; empty if no source specifies one.
        model: The name of the model at the endpoint; empty if no source specifies one.
        api_key: The API key; None if no source has one, empty if no key must be sent.
        api_key_header: The header for the bare API key; None: the header that the protocol defines.
        dialect: The dialect of this model at this endpoint.
    """

    profile: ProviderProfile
    base_url: str = attrs.field(repr=_shown)
    model: str
    api_key: str | None = attrs.field(repr=False)
    api_key_header: str | None
    dialect: ChatDialect


def resolve(
    profile: ProviderProfile,
    environ: Mapping[str, str],
    *,
    base_url: str = "",
    model: str = "",
    api_key: str | None = None,
    api_key_header: str | None = None,
    headers: Collection[str] = (),
) -> ResolvedProvider:
    """Resolve an endpoint from a profile, the caller's arguments and the environment.

    Args:
        profile: The profile of the provider.
        environ: The environment variables.
        base_url: The caller's base URL; blank if not given.
        model: The caller's model; blank if not given.
        api_key: The caller's API key; None if not given, empty to send no key.
        api_key_header: The caller's header for the bare API key; None if not given.
        headers: The names of the headers that the caller sends. If one of them carries an API key,
            no other key is required.

    Raises:
        ConfigError: The provider requires an API key but there is none, or a variable does not
            contain a valid URL.
    """
    if not model.strip():
        model = _first(environ, (MODEL_ENV, *profile.model_env)) or profile.model
    model = profile.model_names.get(model, model)
    header = api_key_header or profile.api_key_header or None
    if api_key is None:
        api_key = _first(environ, (API_KEY_ENV, *profile.api_key_env)) or None
    if api_key is None and profile.api_key_required and not _brings_key(headers, header):
        raise ConfigError(_missing_key(profile))
    return ResolvedProvider(
        profile=profile,
        base_url=base_url.strip() or _base_url(profile, environ),
        model=model,
        api_key=api_key,
        api_key_header=header,
        dialect=profile.dialect_of(model),
    )


def resolve_provider(
    provider: object,
    environ: Mapping[str, str],
    *,
    base_url: str,
    model: str,
    api_key: str,
    api_key_header: str | None,
    headers: Collection[str],
) -> ResolvedProvider | None:
    """Resolve the `provider` of an agent's options; the other arguments are those of `resolve`.

    Args:
        provider: The name of a profile; a profile; a provider object of the caller; or None for any
            endpoint that speaks chat completions.
        environ: The environment variables.
        base_url: The option; blank if not given.
        model: The option; blank if not given.
        api_key: The option; `NO_API_KEY` if not given.
        api_key_header: The option; None if not given.
        headers: The names of the headers that the caller sends.

    Returns:
        The endpoint; None if the caller passed a provider object.

    Raises:
        ConfigError: There is no such profile, a key is missing, or a variable does not contain a
            valid URL.
    """
    if isinstance(provider, str):
        profile = find_profile(provider, known_profiles(environ))
    elif isinstance(provider, ProviderProfile):
        profile = provider
    elif provider is None:
        profile = OPENAI_COMPATIBLE
    else:
        return None
    return resolve(
        profile,
        environ,
        base_url=base_url,
        model=model,
        api_key=None if api_key == NO_API_KEY else api_key,
        api_key_header=api_key_header,
        headers=headers,
    )


def default_model(environ: Mapping[str, str]) -> str:
    """Return the model that the environment specifies; empty if it specifies none."""
    return _first(environ, (MODEL_ENV,))


def _first(environ: Mapping[str, str], names: Collection[str]) -> str:
    """Return the value of the first variable that is set."""
    return next(filter(None, (environ.get(name, "").strip() for name in names)), "")


def _base_url(profile: ProviderProfile, environ: Mapping[str, str]) -> str:
    for name in (BASE_URL_ENV, *profile.base_url_env):
        value = environ.get(name, "").strip()
        if value:
            return value if name == BASE_URL_ENV else _completed(value, name, profile)
    return profile.base_url


def _completed(value: str, variable: str, profile: ProviderProfile) -> str:
    """Complete the URL in a provider's own variable, which may contain only a host name.

    If the value has no scheme, the missing parts, including the port, are taken from the profile's
    URL. If the value has a scheme, the default port of that scheme applies.
    """
    usual = urlsplit(profile.base_url)
    bare = "://" not in value
    try:
        url = urlsplit(f"{usual.scheme or 'https'}://{value}" if bare else value)
        port = url.port or (usual.port if bare else None)
    except ValueError:
        # The error must not show the value, because it may contain a password. The text of the
        # ValueError quotes the value, so the error does not show that text either.
        raise ConfigError(
            f"the environment variable {variable} does not contain a valid URL; expected a URL "
            f"such as {profile.base_url or 'https://host' + profile.path}"
        ) from None
    host = url.hostname or _LOOPBACK
    if host in _EVERYWHERE:
        host = _LOOPBACK
    login, at, _ = url.netloc.rpartition("@")
    place = f"[{host}]" if ":" in host else host
    path = url.path.rstrip("/") or profile.path
    query = f"?{url.query}" if url.query else ""
    return f"{url.scheme}://{login}{at}{place}{f':{port}' if port else ''}{path}{query}"


def _brings_key(headers: Collection[str], header: str | None) -> bool:
    header_names = _KEY_HEADERS | {(header or "").lower()}
    return any(name.lower() in header_names for name in headers)


def _missing_key(profile: ProviderProfile) -> str:
    variables = " or ".join((*profile.api_key_env, API_KEY_ENV))
    return (
        f"there is no API key for the provider {profile.name!r}: set {variables}, or pass api_key "
        "(an empty one if a gateway adds the key)"
    )
