"""Requests in wire format: the origin, the request line and headers, and whether it is idempotent.

This module parses URLs, refuses headers that would split a request in two, and knows which methods
are idempotent. It does no I/O.
"""

import functools
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import attrs

from agent_actors.transport.connect import Origin
from agent_actors.transport.errors import BadRequest

if TYPE_CHECKING:
    import httpx

# RFC 9110, 9.2.2: sending one of these requests twice has the same effect as sending it once.
_IDEMPOTENT: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})

_TOKEN: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE: Final = re.compile(rb"[^\x00-\x08\x0a-\x1f\x7f]*")
_TARGET: Final = re.compile(rb"[\x21-\x7e]+")


@attrs.frozen
class Target:
    """A parsed URL.

    Attributes:
        origin: The destination.
        host: The value of the `host` header.
        path: The path and the query, as sent.
    """

    origin: Origin
    host: bytes
    path: bytes


@attrs.frozen
class WireRequest:
    """A request that is ready to be sent.

    Attributes:
        origin: The destination.
        head: The request line and the headers, including the blank line at the end.
        head_only: True if the response has no body, as for HEAD.
        idempotent: True if the request may be sent again when it is unknown whether it was
            processed.
    """

    origin: Origin
    head: bytes
    head_only: bool
    idempotent: bool


@functools.lru_cache(maxsize=1024)
def parse_url(url: str) -> Target:
    """Split a URL into its parts.

    Raises:
        BadRequest: No request can be sent to this URL.
    """
    import httpx  # noqa: PLC0415 - slow to import, and only needed for requests

    try:
        return target_of(httpx.URL(url))
    except httpx.InvalidURL as error:
        raise BadRequest(str(error)) from error


def target_of(url: "httpx.URL") -> Target:
    """Return the destination of a URL.

    Raises:
        BadRequest: No request can be sent to this URL.
    """
    if url.scheme not in {"http", "https"}:
        raise BadRequest(f"the URL must begin with http:// or https://, not {url.scheme!r}")
    secure = url.scheme == "https"
    host = url.raw_host.decode("ascii")
    port = url.port if url.port is not None else (443 if secure else 80)
    if not host or not 0 < port < 65536:
        raise BadRequest("the URL must have a host and a port from 1 to 65535")
    return Target(Origin(secure, host, port), url.netloc, url.raw_path)


def build_request(
    method: str, target: Target, headers: Iterable[tuple[bytes, bytes]]
) -> WireRequest:
    """Encode a request.

    Args:
        method: The method, in capitals.
        target: The destination.
        headers: The names and values in order, including the length or transfer coding of the body.
            A `host` header is added first if there is none.

    Raises:
        BadRequest: The method or a header would have a different meaning on the wire.
    """
    raw_method = method.encode("ascii", "replace")
    if _TOKEN.fullmatch(raw_method) is None or _TARGET.fullmatch(target.path) is None:
        raise BadRequest(f"the method {method!r} or the path {target.path!r} is not valid")
    lines = [b"%b %b HTTP/1.1" % (raw_method, target.path)]
    named = False
    for name, value in headers:
        if _TOKEN.fullmatch(name) is None:
            raise BadRequest(f"{name!r} is not a valid header name")
        if _VALUE.fullmatch(value) is None:
            raise BadRequest(f"the value of the header {name!r} contains control characters")
        named = named or name.lower() == b"host"
        lines.append(b"%b: %b" % (name, value))
    if not named:
        lines.insert(1, b"host: " + target.host)
    lines.append(b"\r\n")
    return WireRequest(target.origin, b"\r\n".join(lines), method == "HEAD", method in _IDEMPOTENT)
