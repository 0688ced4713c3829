"""Validate an endpoint's base URL and headers, for all HTTP providers.

The constructors of providers call these checks. This module also defines how errors and logs show a
URL.
"""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, urlsplit, urlunsplit

from agent_actors.domain.model import ModelRequest
from agent_actors.domain.provenance import public_url
from agent_actors.errors import (
    ConfigError,
    ProviderError,
    ProviderInBandError,
    ProviderStatusError,
)
from agent_actors.providers.response_body import GOT_PAGE

_VERSION: Final = re.compile(r"/v[0-9]+[a-z0-9]*(?:/|$)", re.IGNORECASE)
_MODEL: Final = re.compile(r"\b(?:model|deployment|engine)s?\b", re.IGNORECASE)
_UNKNOWN_PATH: Final = re.compile(
    r"\b(?:unexpected|unknown|invalid|unsupported) (?:endpoint|path|route|url)\b"
    r"|\b(?:endpoint|path|route|url|page) not found\b|\bno (?:such )?(?:endpoint|path|route)\b",
    re.IGNORECASE,
)


def split_base_url(base_url: str, *, example: str) -> SplitResult:
    """Split and validate a base URL.

    Args:
        base_url: The caller's URL; surrounding whitespace is ignored.
        example: A valid URL to show in the error.

    Raises:
        ConfigError: The scheme is not http or https, or the URL names no host.
    """
    try:
        base = urlsplit(base_url.strip())
        usable = base.scheme in {"http", "https"} and base.hostname and base.port != 0
    except ValueError as error:
        raise ConfigError(f"base_url {base_url!r} is not a valid URL: {error}") from error
    if not usable:
        raise ConfigError(
            "base_url must begin with http:// or https:// and name a host, "
            f"for example {example}; got {base_url!r}"
        )
    return base


def shown_url(base: SplitResult) -> str:
    """Return a base URL for errors and logs, without the password and the query."""
    host = base.netloc.rpartition("@")[2]
    return urlunsplit((base.scheme, host, base.path.rstrip("/"), "", ""))


def url_with_version(base: SplitResult, path: str) -> str:
    """Return a base URL with `/v1` added, or nothing if the URL already has a version.

    Args:
        base: The base URL that the caller passed.
        path: The path that the provider adds; the base URL may already end with it.
    """
    if _VERSION.search(base.path) is not None:
        return ""
    return shown_url(base).removesuffix(path) + "/v1"


def explain_unknown_path(error: ProviderError, url: str, *, suggestion: str = "") -> None:
    """Add a hint to the failure if the base URL is its likely cause.

    Servers report an unknown path in three ways: with status 404 or 405, with a JSON error and
    status 200, or with a page of their web application. The hint names the requested URL.

    Args:
        error: The failure of a request.
        url: The requested URL.
        suggestion: A base URL that may be correct; empty if none is known.
    """
    if isinstance(error, ProviderStatusError):
        # A server that knows the path may also respond with 404, if it does not know the model.
        unknown = error.status in {404, 405} and _MODEL.search(error.body_message) is None
    elif isinstance(error, ProviderInBandError):
        unknown = _UNKNOWN_PATH.search(str(error)) is not None
    else:
        unknown = GOT_PAGE in str(error)
    if unknown:
        remedy = f"; base_url may lack a version: try {suggestion}" if suggestion else ""
        error.add_hint(f"the request was POST {public_url(url)}{remedy}")


def checked_headers(
    made: Mapping[str, str], own: Mapping[str, str], *, key: str
) -> Mapping[str, str]:
    """Merge and validate the headers of a provider's requests; names become lower case.

    Args:
        made: The headers that the provider sets.
        own: The caller's headers; they override those of the provider.
        key: The API key, so that an error can name it as the cause without showing it.

    Raises:
        ConfigError: A name or a value is not printable ASCII.
    """
    headers = {name.lower(): value for name, value in (*made.items(), *own.items())}
    for name, value in headers.items():
        if not (name and name.isascii() and name.isprintable() and " " not in name):
            raise ConfigError(f"{name!r} is not a valid HTTP header name")
        if not (value.isascii() and value.isprintable()):
            what = "the API key" if key and key in value else "its value"
            raise ConfigError(
                f"header {name!r}: {what} must be printable ASCII without line breaks; "
                "look for a stray newline or quotation mark"
            )
    return headers


def keyed_headers(headers: Mapping[str, str], request: ModelRequest) -> Mapping[str, str]:
    """Return the headers of one request, with an idempotency key unless the caller set one."""
    if request.headers:
        headers = {**request.headers, **headers}
    if not request.idempotency_key:
        return headers
    return {"idempotency-key": request.idempotency_key, **headers}
