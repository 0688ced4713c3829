"""URLs as rules read them.

What permits reads a URL by one strict form, in which no two readers can see different hosts; what
restricts tries to find the host as the most lenient reader would. Where a name leads, and whether
to an address of this machine, is not to be seen here: that is for whoever opens the connection.
"""

import re
from collections.abc import Iterator
from typing import Final, Self
from urllib.parse import unquote, urlsplit

import attrs

from agent_actors.errors import ConfigError
from agent_actors.permissions.globs import Glob, escaped, folded, glob, wide_glob

_STRICT: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<rest>[/?#][^\s\\\x00-\x20\x7f]*)?",
    re.IGNORECASE | re.ASCII,
)
_PATTERN: Final = re.compile(
    r"(?P<scheme>https?|\*)://(?P<host>[^/?#:@\s\\]+|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<rest>[/?#]\S*)?"
)
_DOMAIN: Final = re.compile(r"[^/?#@\s\\:]+|\[[0-9a-f:.]+\]")
# Servers take these out of a path after the rule has seen it.
_CLIMBS: Final = re.compile(r"\.\.|%2e|%2f|%5c", re.IGNORECASE)
_PORTS: Final = {"http": "80", "https": "443"}
# The most characters that a host name can have (RFC 1035).
_LONGEST_HOST: Final = 253
_SCHEME: Final = re.compile(
    r"(?:https?:|[a-z][a-z0-9+.-]*:(?=[/\\]{2}))?[/\\]*", re.IGNORECASE | re.ASCII
)

# What names end with and what resolvers take for it, so far as folding leaves it.
_DOTS: Final = ".\u3002\uff0e\uff61"


@attrs.frozen
class DomainPattern:
    """A host, such as `example.com` or `*.example.com`.

    What permits means the host itself; what restricts means all hosts below it too.
    """

    _host: Glob
    _wide: tuple[Glob, Glob]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a host name, or a glob for such.

        Raises:
            ConfigError: It is none: it has a scheme, a port, a path or blanks.
        """
        if not _DOMAIN.fullmatch(text):
            raise ConfigError(
                f"domain:{text}: expected a host alone, such as example.com or *.example.com"
            )
        host = text.lower().rstrip(".")
        wide = (wide_glob(_bare(host)), wide_glob(f"*.{_bare(host)}"))
        return cls(_host_glob(host), wide)

    def permits(self, url: str) -> bool:
        """Whether the URL is of this host, on whatever port, beyond doubt."""
        found = _STRICT.fullmatch(url)
        return found is not None and self._host.fullmatch(_host(found)) is not None

    def restricts(self, url: str) -> bool:
        """Whether the URL may be of this host or of one below it."""
        return any(one.fullmatch(host) for _, host, _ in _readings(url) for one in self._wide)


@attrs.frozen
class UrlPattern:
    """A URL in parts, such as `https://*.example.com/docs/*`.

    In the host a `*` stays in the host; behind it, it is anything. Without a port it means the
    scheme's own.
    """

    _scheme: str
    _host: Glob
    _port: str | None
    _rest: Glob
    _wide: Glob

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a pattern for URLs.

        Raises:
            ConfigError: It is not of the form `https://host/path`; the scheme may be a `*`.
        """
        found = _PATTERN.fullmatch(text)
        if found is None:
            raise ConfigError(
                f"pattern {text!r}: expected https://host/path, where host and path may have '*'; "
                "or domain:host"
            )
        rest = found["rest"] or "/"
        usual = found["port"] in (None, _PORTS.get(found["scheme"]))
        place = _bare(_host(found)) + ("" if usual else f":{found['port']}")
        return cls(
            found["scheme"],
            _host_glob(_host(found)),
            found["port"],
            glob(rest),
            wide_glob(f"{found['scheme']}://{place}{rest}"),
        )

    def permits(self, url: str) -> bool:
        """Whether the URL is one of these, beyond doubt."""
        found = _STRICT.fullmatch(url)
        if found is None or _CLIMBS.search(found["rest"] or ""):
            return False
        scheme = found["scheme"].lower()
        return (
            self._scheme in ("*", scheme)
            and self._host.fullmatch(_host(found)) is not None
            and (found["port"] or _PORTS[scheme]) == (self._port or _PORTS[scheme])
            and self._rest.fullmatch(found["rest"] or "/") is not None
        )

    def restricts(self, url: str) -> bool:
        """Whether the URL may be one of these."""
        return any(
            self._wide.fullmatch(f"{scheme}://{host}{rest}") is not None
            for scheme, host, rest in _readings(url)
        )


def _host(found: re.Match[str]) -> str:
    return found["host"].lower().rstrip(".")


def _host_glob(host: str) -> Glob:
    # The brackets around an IPv6 address are no set of characters.
    return glob(host if _bare(host) == host else escaped(host))


def _bare(host: str) -> str:
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def _readings(url: str) -> Iterator[tuple[str, str, str]]:
    """Scheme, host, and what is behind it, as lenient readers may find them."""
    text = "".join(character for character in url if character > " " and character != "\x7f")
    bare = _SCHEME.sub("", text, count=1)
    for scheme, port in _PORTS.items():
        if text.lower().startswith(("http:", "https:")) and not text.lower().startswith(
            f"{scheme}:"
        ):
            continue
        for spelt in {bare, bare.replace("\\", "/")}:
            try:
                parts = urlsplit(f"{scheme}://{spelt}")
                host, own = parts.hostname or "", parts.port
            except ValueError:
                continue
            shown = "" if own is None or str(own) == port else f":{own}"
            rest = folded(unquote(parts._replace(scheme="", netloc="").geturl()) or "/")
            for name in _names(host):
                yield scheme, name + shown, rest
                if shown:
                    yield scheme, name, rest


def _names(host: str) -> set[str]:
    name = folded(unquote(host)).rstrip(_DOTS)
    names = {name}
    if len(name) > _LONGEST_HOST:
        return names
    try:
        names.add(name.encode("idna").decode("ascii"))
        names.add(name.encode("ascii").decode("idna"))
    except UnicodeError:
        pass
    return names
