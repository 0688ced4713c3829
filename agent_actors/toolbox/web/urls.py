"""Read URLs that a model, a page or a redirect names, and refuse those that must not be requested.

URLs are read as browsers read them (WHATWG URL Standard) and are then requested in their normal
form. A second parser therefore cannot find a different host in the same text.
"""

from typing import Final

import attrs

from agent_actors.domain.workspace.report import Network
from agent_actors.errors import ConfigError
from agent_actors.permissions.urls import DomainPattern
from agent_actors.transport.addresses import find_address_error

LONGEST_URL: Final = 8_192
"""Characters. Servers reject longer URLs."""

_PARTS: Final = ("href", "protocol", "username", "password", "hostname", "port")
_SHOWN: Final = 200


class WebError(Exception):
    """A request was refused or failed; the message is for the model."""


@attrs.frozen
class WebUrl:
    """A URL in its normal form.

    Attributes:
        text: The complete URL, without a fragment.
        host: The host, in lower case and ASCII; an address without brackets.
        secure: True for https.
        port: The port, also if it is the default port of the scheme.
    """

    text: str
    host: str
    secure: bool
    port: int


def read_url(text: str, *, base: str = "") -> WebUrl:
    """Read a URL.

    Args:
        text: The URL, or a reference relative to `base`.
        base: The URL of the page that contains the reference; empty if there is none.

    Raises:
        WebError: The text is not a URL that can be requested.
    """
    import ada_url  # noqa: PLC0415 - imported on first use, because most programs fetch no pages

    if len(text) > LONGEST_URL:
        raise WebError(f"the URL has {len(text)} characters; at most {LONGEST_URL} are allowed")
    try:
        found = ada_url.parse_url(ada_url.join_url(base, text) if base else text, _PARTS)
    except ValueError:
        raise WebError(
            f"{_shown(text)} is not a URL; expected, for example, https://example.com/page"
        ) from None
    href, scheme, user, password, host, port = (str(found.get(part, "")) for part in _PARTS)
    if scheme not in {"http:", "https:"}:
        raise WebError(f"{_shown(text)}: only http:// and https:// URLs can be requested")
    if user or password:
        raise WebError("the URL contains a user name or a password, which is not allowed")
    host = host.removesuffix(".")
    if not host:
        raise WebError(f"{_shown(text)}: the URL has no host")
    secure = scheme == "https:"
    return WebUrl(
        text=href.partition("#")[0],
        host=host.removeprefix("[").removesuffix("]"),
        secure=secure,
        port=int(port or (443 if secure else 80)),
    )


def refuse_private_host(url: WebUrl) -> None:
    """Refuse a host that is certainly not public: a local name, or an address that is not public.

    Other names are checked when they have been resolved.

    Raises:
        WebError: The host is not public.
    """
    name = url.host
    if name == "localhost" or name.endswith(".localhost"):
        raise WebError(f"the host {name!r} is this machine, which may not be requested")
    if ":" in name or name.replace(".", "").isdigit():
        error = find_address_error(name)
        if error:
            raise WebError(f"the host {name} is {error}, which may not be requested")


def refuse_host(url: WebUrl, network: Network) -> None:
    """Refuse a host that the workspace does not allow.

    Raises:
        WebError: The workspace does not allow the host.
    """
    if network is True:
        return
    if network is False:
        raise WebError(f"the workspace has no network, so {url.host!r} cannot be requested")
    if not any(_matches(pattern, url.text) for pattern in network):
        allowed = ", ".join(network)
        raise WebError(f"the workspace does not allow the host {url.host!r}; allowed: {allowed}")


def _matches(pattern: str, url: str) -> bool:
    try:
        return DomainPattern.parse(pattern).permits(url)
    except ConfigError:  # a workspace of the caller's own may name hosts in another form
        return False


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
