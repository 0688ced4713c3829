"""What every HTTP provider needs to know of its endpoint: a URL that is one, and headers that hold.

Owns the checks, made where a provider is made, and the form in which errors and logs show a URL.
"""

from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit, urlunsplit

from agent_actors.domain.model import ModelRequest
from agent_actors.errors import ConfigError


def split_base_url(base_url: str, *, example: str) -> SplitResult:
    """Take a base URL apart.

    Args:
        base_url: What the caller gave; blanks around it do not count.
        example: A URL that would do, for the error.

    Raises:
        ConfigError: It is not http(s), or names no host.
    """
    try:
        base = urlsplit(base_url.strip())
        usable = base.scheme in {"http", "https"} and base.hostname and base.port != 0
    except ValueError as error:
        raise ConfigError(f"base_url {base_url!r} is no URL: {error}") from error
    if not usable:
        raise ConfigError(
            f"base_url must begin with http:// or https:// and name a host, got {base_url!r}; "
            f"for example {example}"
        )
    return base


def shown_url(base: SplitResult) -> str:
    """A base URL as errors and logs show it: no password, and no key in a query."""
    host = base.netloc.rpartition("@")[2]
    return urlunsplit((base.scheme, host, base.path.rstrip("/"), "", ""))


def checked_headers(
    made: Mapping[str, str], own: Mapping[str, str], *, key: str
) -> Mapping[str, str]:
    """The headers of a provider's requests, names in lower case.

    Args:
        made: Those that the provider makes.
        own: The caller's; they win.
        key: The API key, so that an error can say that it is at fault without showing it.

    Raises:
        ConfigError: A name or a value is not printable ASCII.
    """
    headers = {name.lower(): value for name, value in (*made.items(), *own.items())}
    for name, value in headers.items():
        if not (name and name.isascii() and name.isprintable() and " " not in name):
            raise ConfigError(f"{name!r} is no name of an HTTP header")
        if not (value.isascii() and value.isprintable()):
            what = "the API key" if key and key in value else "its value"
            raise ConfigError(
                f"header {name!r}: {what} must be printable ASCII without line breaks; "
                "look for a stray newline or quotation mark"
            )
    return headers


def keyed_headers(headers: Mapping[str, str], request: ModelRequest) -> Mapping[str, str]:
    """The headers of one request: with its idempotency key, unless the caller set one."""
    if not request.idempotency_key:
        return headers
    return {"idempotency-key": request.idempotency_key, **headers}
