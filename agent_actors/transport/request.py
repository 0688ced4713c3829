"""A request as the wire has it: its origin, its head in bytes, and what may be done with it.

Owns URLs, the refusal of headers that would split a request in two, and which methods may be sent
again. It does no I/O.
"""

import functools
import re
from collections.abc import Iterable
from typing import Final

import attrs
import httpx

from agent_actors.transport.connect import Origin
from agent_actors.transport.errors import BadRequest

# RFC 9110, 9.2.2: sending them twice does what sending them once does.
_IDEMPOTENT: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})

_TOKEN: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE: Final = re.compile(rb"[^\x00-\x08\x0a-\x1f\x7f]*")
_TARGET: Final = re.compile(rb"[\x21-\x7e]+")


@attrs.frozen
class Target:
    """What a URL says.

    Attributes:
        origin: Where it leads.
        host: The value of the `host` header.
        path: Path and query, as sent.
    """

    origin: Origin
    host: bytes
    path: bytes


@attrs.frozen
class WireRequest:
    """A request, ready to be sent.

    Attributes:
        origin: Where it goes.
        head: The request line and the headers, with the blank line that ends them.
        head_only: True if its answer has no body (HEAD).
        idempotent: True if it may be sent again when nobody knows whether it arrived.
    """

    origin: Origin
    head: bytes
    head_only: bool
    idempotent: bool


@functools.lru_cache(maxsize=1024)
def parse_url(url: str) -> Target:
    """Take a URL apart.

    Raises:
        BadRequest: It is none that a request can be sent to.
    """
    try:
        return target_of(httpx.URL(url))
    except httpx.InvalidURL as error:
        raise BadRequest(str(error)) from error


def target_of(url: httpx.URL) -> Target:
    """Where a URL leads.

    Raises:
        BadRequest: It is none that a request can be sent to.
    """
    if url.scheme not in {"http", "https"}:
        raise BadRequest(f"the URL must begin with http:// or https://, not {url.scheme!r}")
    secure = url.scheme == "https"
    host = url.raw_host.decode("ascii")
    port = url.port if url.port is not None else (443 if secure else 80)
    if not host or not 0 < port < 65536:
        raise BadRequest("the URL names no host, or no port that there is")
    return Target(Origin(secure, host, port), url.netloc, url.raw_path)


def build_request(
    method: str, target: Target, headers: Iterable[tuple[bytes, bytes]]
) -> WireRequest:
    """Put a request into bytes.

    Args:
        method: In capitals.
        target: Where it goes.
        headers: Names and values, in order, with the length or coding of the body among them; a
            `host` is put before them if there is none.

    Raises:
        BadRequest: A header or the method would not be what it seems to be on the wire.
    """
    raw_method = method.encode("ascii", "replace")
    if _TOKEN.fullmatch(raw_method) is None or _TARGET.fullmatch(target.path) is None:
        raise BadRequest(f"{method!r} {target.path!r} is no line of a request")
    lines = [b"%b %b HTTP/1.1" % (raw_method, target.path)]
    named = False
    for name, value in headers:
        if _TOKEN.fullmatch(name) is None:
            raise BadRequest(f"{name!r} is no name of a header")
        if _VALUE.fullmatch(value) is None:
            raise BadRequest(f"the value of the header {name!r} holds control characters")
        named = named or name.lower() == b"host"
        lines.append(b"%b: %b" % (name, value))
    if not named:
        lines.insert(1, b"host: " + target.host)
    lines.append(b"\r\n")
    return WireRequest(target.origin, b"\r\n".join(lines), method == "HEAD", method in _IDEMPOTENT)
