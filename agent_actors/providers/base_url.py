"""Validation of an endpoint's base URL and headers, for all HTTP providers.

Providers call these checks in their constructors. This module also defines how errors and logs show
a URL.
"""

from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit, urlunsplit

from agent_actors.domain.model import ModelRequest
from agent_actors.errors import ConfigError


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
            f"base_url must begin with http:// or https:// and name a host, got {base_url!r}; "
            f"for example {example}"
        )
    return base


def shown_url(base: SplitResult) -> str:
    """Return a base URL for errors and logs, without the password and the query."""
    host = base.netloc.rpartition("@")[2]
    return urlunsplit((base.scheme, host, base.path.rstrip("/"), "", ""))


def checked_headers(
    made: Mapping[str, str], own: Mapping[str, str], *, key: str
) -> Mapping[str, str]:
    """Merge and validate the headers of a provider's requests; names become lower case.

    Args:
        made: The headers that the provider sets.
        own: The caller's headers; they override those of the provider.
        key: The API key. An error can then name the API key as the cause without showing it.

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
    """Return the headers of one request, with its idempotency key unless the caller set one."""
    if not request.idempotency_key:
        return headers
    return {"idempotency-key": request.idempotency_key, **headers}
