"""The normal form of URLs and hosts, used for both rules and arguments.

The parser is ada, an implementation of the WHATWG URL Standard (https://url.spec.whatwg.org).
Browsers, Node.js and Python clients based on ada parse URLs in the same way. A URL may have more
than one reading: after a backslash, parsers that follow RFC 3986 find a different host, and a text
without a scheme can mean `http` or `https`. A text that ada cannot parse has no reading.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final
from urllib.parse import unquote

import attrs

from agent_actors.permissions.globs import folded

# Maximum number of characters. Servers reject even much shorter URLs. This limits the time to parse
# a URL.
LONGEST_URL: Final = 65_536
PORTS: Final = {"http": "80", "https": "443"}

# In the order of the fields in `Parsed`.
_PARTS: Final = ("hostname", "port", "pathname", "search", "hash")
_ENDS: Final = "".join(map(chr, range(0x21)))
_REMOVED: Final = str.maketrans("", "", "\t\n\r")
_WEB: Final = re.compile(r"(https?):", re.IGNORECASE | re.ASCII)
_SCHEME: Final = re.compile(
    r"(?:https?:|[a-z][a-z0-9+.-]*:(?=[/\\]{2}))?[/\\]*", re.IGNORECASE | re.ASCII
)
_AUTHORITY: Final = re.compile(r"[^/?#]*")
_SLASHES: Final = re.compile(r"/{2,}")
_PARAMETERS: Final = re.compile(r";[^/]*")
# How many levels of nested percent-encoding are decoded. Servers decode one or two levels.
_MOST_DECODINGS: Final = 8
# Prefixes of addresses that contain an IPv4 address in the last 32 bits: those of RFC 6052 and RFC
# 8215, and those of mapped, translated (RFC 2765), compatible (RFC 4291) and ISATAP (RFC 5214)
# addresses.
_LAST_32_BITS: Final = tuple(
    map(
        IPv6Network,
        ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48"),
    )
)
_ISATAP: Final = frozenset((0x00005EFE, 0x02005EFE))


@attrs.frozen
class Reading:
    """The parts of a URL as one parser reads it.

    Attributes:
        scheme: `http` or `https`.
        hosts: Every name of the host, as `host_names` returns them.
        port: The port in decimal digits, even if it is the default port of the scheme.
        rests: Every form of path, query and fragment, as `rest_forms` returns them.
    """

    scheme: str
    hosts: frozenset[str]
    port: str
    rests: frozenset[str]


@attrs.frozen
class Parsed:
    """A URL parsed by ada.

    Attributes:
        host: In lower case and ASCII, an IPv6 address in brackets.
        port: Empty if it is the default port of the scheme.
        path: Without dot segments.
        query: With its `?`; empty without one.
        fragment: With its `#`; empty without one.
    """

    host: str
    port: str
    path: str
    query: str
    fragment: str


def parsed(url: str) -> Parsed | None:
    """Parse a URL with any scheme; return None if the standard does not allow it."""
    import ada_url  # noqa: PLC0415 - imported on first use, because most programs have no URL rule

    try:
        found = ada_url.parse_url(url, _PARTS)
    except ValueError:  # for example, lone surrogates, which UTF-8 cannot encode
        return None
    host, port, *rest = (str(found.get(part, "")) for part in _PARTS)
    return Parsed(host, port, *rest)


@lru_cache(maxsize=1)  # one call is checked against all rules in turn
def readings(text: str) -> tuple[Reading, ...] | None:
    """Return every reading of a text as a URL; None if the text cannot be parsed.

    A text without a scheme is read as if it began with a host. A text with a scheme other than
    `https` and `http` is read as both of them.
    """
    if len(text) > LONGEST_URL:
        return None
    spelt = text.strip(_ENDS).translate(_REMOVED)
    web = _WEB.match(spelt)
    bare = _SCHEME.sub("", spelt, count=1)
    found: list[Reading] = []
    for scheme in PORTS if web is None else (web[1].lower(),):
        main = _reading(scheme, _bracketed(bare) if web is None else spelt[web.end() :])
        if main is None:
            return None
        found.append(main)
        found.extend(filter(None, (_reading(scheme, other) for other in _other_hosts(bare))))
    return tuple(found)


@lru_cache(maxsize=64)
def host_names(host: str) -> frozenset[str] | None:
    """Return every name for the host; None if the host cannot be parsed.

    The names of a domain are its ASCII and Unicode forms. The names of an IPv6 address are its
    shortest form and the IPv4 addresses that it embeds.

    Args:
        host: A host in the form of `Parsed.host`.
    """
    if host.startswith("["):
        return _address_names(IPv6Address(host[1:-1]))
    # A trailing dot is the DNS root. Any other empty label is invalid.
    name = host.removesuffix(".")
    if not all(name.split(".")):
        return None
    import ada_url  # noqa: PLC0415 - as above

    try:
        shown = ada_url.idna_to_unicode(name)
    except UnicodeError:
        shown = name
    return frozenset((name, folded(shown)))


def rest_forms(path: str, query: str = "", fragment: str = "") -> frozenset[str] | None:
    """Return every form of the part after the host; None if it is encoded too many times.

    Servers may decode a path before or after they remove its dot segments. Some servers remove
    parameters (`;x`) and repeated slashes. Servers may ignore a query, and they never receive a
    fragment.
    """
    decoded = tuple(map(_decoded, (path, query, fragment)))
    if None in decoded:
        return None
    path, query, fragment = (part or "" for part in decoded)
    paths = {path, _without_dots(_SLASHES.sub("/", _PARAMETERS.sub("", path.replace("\\", "/"))))}
    tails = {query + fragment, query, ""}
    return frozenset(folded(one + tail) for one in paths for tail in tails)


def _reading(scheme: str, after: str) -> Reading | None:
    url = parsed(f"{scheme}:{after}" if after[:1] in ("/", "\\") else f"{scheme}://{after}")
    if url is None:
        return None
    hosts = host_names(url.host)
    rests = rest_forms(url.path, url.query, url.fragment)
    if hosts is None or rests is None:
        return None
    return Reading(scheme, hosts, url.port or PORTS[scheme], rests)


def _bracketed(text: str) -> str:
    """Return an IPv6 address, with or without brackets or a zone, in the form used in URLs."""
    try:
        address = ip_address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        return text
    return text if isinstance(address, IPv4Address) else f"[{address.compressed.split('%')[0]}]"


def _other_hosts(bare: str) -> Iterator[str]:
    """Yield texts that begin with the hosts that parsers for other standards find.

    In RFC 3986, a backslash is part of the userinfo. If there are several `@`, some parsers end the
    userinfo at the first.
    """
    found = _AUTHORITY.match(bare)
    authority = "" if found is None else found[0]
    if "\\" not in authority and authority.count("@") < 2:
        return
    for piece in authority.split("@")[1 : 1 + _MOST_DECODINGS] + authority.split("@")[-1:]:
        host, backslash, path = piece.partition("\\")
        yield f"{host}{'/' if backslash else ''}{path}{bare[len(authority) :]}"


def _address_names(address: IPv6Address) -> frozenset[str]:
    names = {address.compressed}
    if address.sixtofour is not None:
        names.add(str(address.sixtofour))
    if address.teredo is not None:
        names.update(map(str, address.teredo))
    number = int(address)
    unspecified_or_loopback = number < 2
    if not unspecified_or_loopback and (
        any(address in network for network in _LAST_32_BITS)
        or (number >> 32) & 0xFFFFFFFF in _ISATAP
    ):
        names.add(str(IPv4Address(number & 0xFFFFFFFF)))
    return frozenset(names)


def _decoded(text: str) -> str | None:
    for _ in range(_MOST_DECODINGS):
        once = unquote(text)
        if once == text:
            return text
        text = once
    return None


def _without_dots(path: str) -> str:
    kept: list[str] = []
    parts = path.split("/")
    for part in parts[1:]:
        if part == "..":
            del kept[-1:]
        elif part != ".":
            kept.append(part)
    if parts[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)
