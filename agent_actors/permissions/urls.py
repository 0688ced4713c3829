"""Patterns for URLs and hosts.

Patterns and URLs are compared in the normal form defined by `url_readings`. A pattern permits a URL
only if all URL parsers agree on its meaning. A pattern restricts a URL if any reading of it
matches, and it restricts every URL that cannot be parsed. This module does not resolve names. Only
the code that opens a connection can check the address of a host, for example whether it is this
machine.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Self

import attrs

from agent_actors.errors import ConfigError
from agent_actors.permissions.globs import Glob, escaped, folded, glob, wide_glob
from agent_actors.permissions.url_readings import (
    PORTS,
    Reading,
    host_names,
    parsed,
    readings,
    rest_forms,
)

_STRICT: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<rest>[/?#][^\s\\\x00-\x20\x7f]*)?",
    re.IGNORECASE | re.ASCII,
)
_V6: Final = re.compile(r"\[[0-9a-f.]*:[0-9a-f:.]*\]", re.IGNORECASE | re.ASCII)
_PATTERN: Final = re.compile(
    r"(?P<scheme>[Hh][Tt]{2}[Pp][Ss]?|\*)://(?P<host>\[[0-9a-fA-F.]*:[0-9a-fA-F:.]*\]|[^/?#:@\s\\]+)"
    r"(?::(?P<port>[0-9]{1,5}))?(?P<rest>[/?#]\S*)?"
)
_DOMAIN: Final = re.compile(r"\[[0-9a-fA-F.]*:[0-9a-fA-F:.]*\]|[^/?#@\s\\:]+")
# Servers remove these from a path after the rule was checked.
_CLIMBS: Final = re.compile(r"\.\.|/\.(?:[/?#;]|$)|%(?:25)*(?:2e|2f|5c)", re.IGNORECASE)
_MAGIC: Final = re.compile(r"[*?\[]")
# A label that the URL standard parses as a number, but that is not in decimal form.
_ODD_NUMBER: Final = re.compile(r"0x[0-9a-f]*|0[0-9]+", re.ASCII)
_NUMERIC: Final = re.compile(r"[0-9]+(?:\.(?:[0-9]+|[0-9*?\[\]!-]+))+", re.ASCII)
_V4: Final = re.compile(r"[0-9]+(?:\.[0-9]+){3}", re.ASCII)
_HIGHEST_PORT: Final = 65_535
# Characters that IDNA treats as dots, in case folding has not replaced them.
_DOTS: Final = str.maketrans({"\u3002": ".", "\uff0e": ".", "\uff61": "."})
# The beginning of a URL in any text.
_HAS_SCHEME: Final = re.compile(
    r"[\x00-\x20]*(?:https?:|[a-z][a-z0-9+.-]*:[/\\]{2})", re.IGNORECASE | re.ASCII
)
# A URL within a command or a text: at least one character of a host, up to a quote or a similar
# delimiter.
_WITHIN: Final = re.compile(
    r"https?:[/\\]*[^\s\"'`<>(){}|,;/\\][^\s\"'`<>(){}|,;]*", re.IGNORECASE | re.ASCII
)


@attrs.frozen
class _Host:
    """The host in a pattern, to be compared with the names of a URL's host."""

    narrow: Glob
    wide: tuple[Glob, ...]
    below: tuple[Glob, ...]
    addresses_only: bool

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a host, or a glob for hosts.

        Raises:
            ConfigError: No URL can have this host.
        """
        if _V6.fullmatch(text) or not _MAGIC.search(text):
            url = parsed(f"http://{text}/")
            names = None if url is None or not url.host else host_names(url.host)
            if url is None or names is None:
                raise ConfigError(f"{text!r} cannot be the host of a valid URL")
            narrow = escaped(url.host.removesuffix("."))
            return cls(glob(narrow), *_wide_globs(map(escaped, names)), False)
        host = folded(text.translate(_DOTS)).rstrip(".")
        labels = host.split(".")
        if all(label[:1].isdigit() or _MAGIC.search(label) for label in labels):
            odd = next((label for label in labels if _ODD_NUMBER.fullmatch(label)), "")
            if odd:
                raise ConfigError(
                    f"{text!r}: addresses are compared in decimal, so write {odd!r} in decimal"
                )
        narrow = ".".join(map(_ascii_label, labels))
        return cls(glob(narrow), *_wide_globs((host, narrow)), bool(_NUMERIC.fullmatch(host)))

    def permits(self, host: str) -> bool:
        """Return whether the pattern matches a host returned by `_agreed`."""
        if self.addresses_only and not _V4.fullmatch(host):
            return False
        return self.narrow.fullmatch(host) is not None


@attrs.frozen
class DomainPattern:
    """A host, such as `example.com` or `*.example.com`.

    `permits` matches only the host itself; `restricts` also matches all of its subdomains.
    """

    _host: _Host
    _wide: tuple[Glob, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a host name, or a glob for host names.

        Raises:
            ConfigError: The text is not a host: it has a scheme, a port, a path or blanks.
        """
        if not _DOMAIN.fullmatch(text):
            raise ConfigError(
                f"domain:{text}: expected only a host, such as example.com or *.example.com"
            )
        host = _Host.parse(text)
        return cls(host, host.wide + host.below)

    def permits(self, url: str) -> bool:
        """Return whether the URL certainly has this host, with any port."""
        agreed = _agreed(url)
        return agreed is not None and self._host.permits(agreed[1])

    def restricts(self, text: str, *, is_url: bool = True) -> bool:
        """Return whether the text may be a URL with this host or with a subdomain of it.

        Args:
            text: The text of an argument. If a URL in it cannot be parsed, the result is True.
            is_url: True if the argument is expected to be a URL. If False, the text may contain
                URLs.
        """
        return _restricts(text, is_url, lambda found: _any_match(self._wide, found.hosts))


@attrs.frozen
class UrlPattern:
    """A pattern for a URL, such as `https://*.example.com/docs/*`.

    A `*` in the host matches within the host; a `*` after the host matches anything. If the pattern
    has no port, `permits` requires the default port of the scheme. For `restricts`, a missing port
    or path means any port or path.
    """

    _scheme: str
    _host: _Host
    _port: str
    _rest: Glob
    _wide: tuple[Glob, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a pattern for URLs.

        Raises:
            ConfigError: The text does not have the form `https://host/path`. The scheme may be `*`.
        """
        found = _PATTERN.fullmatch(text)
        port = "" if found is None or found["port"] is None else str(int(found["port"]))
        if found is None or int(port or 1) not in range(1, _HIGHEST_PORT + 1):
            raise ConfigError(
                f"pattern {text!r}: expected https://host/path, where host and path may contain "
                "'*', or domain:host"
            )
        rest = _slashed(found["rest"] or "")
        forms = {folded(rest)} | (rest_forms(rest) or frozenset[str]())
        wide = forms if found["rest"] else {"*"}
        return cls(
            found["scheme"].lower(),
            _Host.parse(found["host"]),
            port,
            glob(rest),
            tuple(map(wide_glob, wide)),
        )

    def permits(self, url: str) -> bool:
        """Return whether the URL certainly matches."""
        agreed = _agreed(url)
        if agreed is None:
            return False
        scheme, host, port, rest = agreed
        return (
            self._scheme in ("*", scheme)
            and self._host.permits(host)
            and port == (self._port or PORTS[scheme])
            and not _CLIMBS.search(rest)
            and self._rest.fullmatch(rest) is not None
        )

    def restricts(self, text: str, *, is_url: bool = True) -> bool:
        """Return whether the text may be a matching URL.

        Args:
            text: The text of an argument. If a URL in it cannot be parsed, the result is True.
            is_url: True if the argument is expected to be a URL. If False, the text may contain
                URLs.
        """
        return _restricts(text, is_url, self._is_met)

    def _is_met(self, found: Reading) -> bool:
        usual = self._port in ("", PORTS.get(self._scheme))
        return (
            self._scheme in ("*", found.scheme)
            and (usual or self._port == found.port)
            and _any_match(self._host.wide, found.hosts)
            and _any_match(self._wide, found.rests)
        )


def restricts_spelling(wide: Glob, text: str) -> bool:
    """Return whether a plain glob, such as `*example.com*`, may match a URL.

    Args:
        wide: The glob, for folded text.
        text: The text of an argument that is expected to be a URL. If it cannot be parsed, the
            result is True.
    """
    return _restricts(text, True, lambda found: _any_match((wide,), _spellings(found)))


def _spellings(found: Reading) -> frozenset[str]:
    return frozenset(
        f"{scheme}{host}{rest}"
        for name in found.hosts
        for host in (f"[{name}]" if ":" in name else name, f"{name}:{found.port}")
        for rest in (*found.rests, "")
        for scheme in ("", f"{found.scheme}://")
    )


def _restricts(text: str, is_url: bool, meets: Callable[[Reading], bool]) -> bool:
    for spelt, fails_closed in _candidates(text, is_url):
        found = readings(spelt)
        if fails_closed if found is None else any(map(meets, found)):
            return True
    return False


def _candidates(text: str, is_url: bool) -> Iterator[tuple[str, bool]]:
    """Yield texts that may be URLs, with True if an unparsable text is restricted."""
    starts_as_url = _HAS_SCHEME.match(text)
    yield text, is_url or starts_as_url is not None
    for found in _WITHIN.finditer(text):
        if starts_as_url is None or found.start() >= starts_as_url.end():
            yield found[0], True


def _agreed(url: str) -> tuple[str, str, str, str] | None:
    """Return scheme, host, port and rest if all URL parsers agree on them; otherwise None."""
    found = _STRICT.fullmatch(url)
    normal = None if found is None else parsed(url)
    if found is None or normal is None or host_names(normal.host) is None:
        return None
    scheme, written = found["scheme"].lower(), found["host"].lower()
    port = normal.port or PORTS[scheme]
    same_host = normal.host == written or written.startswith("[")
    if not same_host or (found["port"] or PORTS[scheme]) != port:
        return None
    return scheme, normal.host.removesuffix("."), port, _slashed(found["rest"] or "")


def _wide_globs(hosts: Iterable[str]) -> tuple[tuple[Glob, ...], tuple[Glob, ...]]:
    """Return globs for these hosts, and globs for their subdomains."""
    names = tuple(dict.fromkeys(hosts))
    return tuple(map(wide_glob, names)), tuple(wide_glob(f"*.{name}") for name in names)


def _slashed(rest: str) -> str:
    return rest if rest.startswith("/") else f"/{rest}"


def _ascii_label(label: str) -> str:
    if label.isascii() or _MAGIC.search(label):
        return label
    url = parsed(f"http://{label}/")
    return label if url is None else url.host


def _any_match(globs: tuple[Glob, ...], texts: frozenset[str]) -> bool:
    return any(one.fullmatch(text) for one in globs for text in texts)
