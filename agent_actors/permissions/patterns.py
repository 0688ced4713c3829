"""How a pattern meets an argument: which kind of thing the argument is, and both ways to read it.

**What restricts is read widely, what permits narrowly.** A deny or ask rule matches if any reading
of the argument does; an allow rule only if the argument has one reading beyond doubt, and that
matches as a whole. Whatever is unclear so ends with a question or a refusal.

The kind comes from the pattern's prefix (`path:`), else from the field's name by `FIELDS`, else
from the look of the pattern: with `://` it is a URL, with `/` a path. What has none of these is
read as everything that it could be; `text:` says that it is only text.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import PurePath
from types import MappingProxyType
from typing import Final, Self
from urllib.parse import unquote

import attrs

from agent_actors.errors import ConfigError
from agent_actors.permissions.commands import LONGEST_LINE, possible_commands, simple_commands
from agent_actors.permissions.globs import Glob, folded, glob, wide_glob
from agent_actors.permissions.paths import PathPattern
from agent_actors.permissions.url_readings import parsed
from agent_actors.permissions.urls import DomainPattern, UrlPattern, restricts_spelling

# A URL's parser removes what `_REMOVED` names, wherever it is.
_FILE: Final = re.compile(r"[\x00-\x20]*file:", re.IGNORECASE)
_REMOVED: Final = str.maketrans("", "", "\t\n\r")


class Kind(StrEnum):
    """What an argument is."""

    COMMAND = "command"
    PATH = "path"
    URL = "url"
    DOMAIN = "domain"
    TEXT = "text"


# Fields whose names say what they hold. The first of them that a tool has is its main argument.
FIELDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "command": Kind.COMMAND,
        "cmd": Kind.COMMAND,
        "file_path": Kind.PATH,
        "notebook_path": Kind.PATH,
        "path": Kind.PATH,
        "filename": Kind.PATH,
        "file": Kind.PATH,
        "directory": Kind.PATH,
        "dir": Kind.PATH,
        "url": Kind.URL,
        "uri": Kind.URL,
    }
)


@attrs.frozen
class Pattern:
    """A pattern for one argument.

    Attributes:
        text: As it was written.
        kind: What its prefix says of the argument; None without one.
    """

    text: str
    kind: Kind | None
    _any: bool
    _narrow: Glob
    _wide: Glob
    _commands: tuple[Glob, ...]
    _wide_commands: tuple[Glob, ...]
    _path: PathPattern | None
    _url: UrlPattern | None
    _domain: DomainPattern | None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a pattern: a glob, perhaps behind a kind and a colon.

        Raises:
            ConfigError: It is empty, or not of the form that its kind has.
        """
        prefix, colon, rest = text.partition(":")
        kind = Kind(prefix) if colon and prefix in list(Kind) else None
        body = text if kind is None else rest
        if not body:
            raise ConfigError(f"pattern {text!r} is empty; '*' is anything")
        forms = _command_forms(body)
        return cls(
            text,
            kind,
            body in ("*", "**"),
            glob(body),
            wide_glob(body),
            tuple(map(glob, forms)),
            tuple(map(wide_glob, forms)),
            _path_of(body, kind),
            UrlPattern.parse(body) if _is_url(body, kind) else None,
            DomainPattern.parse(body) if kind is Kind.DOMAIN else None,
        )

    def permits(self, value: str, field: Kind | None, cwd: PurePath) -> bool:
        """Whether the value is one of these, beyond doubt."""
        if self._any and self.kind is not Kind.DOMAIN:  # `domain:*` is any host that can be read
            return True
        match self.kind or field:
            case Kind.COMMAND:
                return self._may_run_all(value)
            case Kind.PATH:
                return self._path is not None and self._path.permits(value, cwd)
            case Kind.URL:
                return self._url is not None and self._url.permits(value)
            case Kind.DOMAIN:
                return self._domain is not None and self._domain.permits(value)
            case Kind.TEXT:
                return self._narrow.fullmatch(value) is not None
            case None if self._url is not None:
                return self._url.permits(value)
            case None if "/" in self.text and self._path is not None:
                return self._path.permits(value, cwd) and _is_innocent(value)
            case _:
                return self._narrow.fullmatch(value) is not None and _is_innocent(value)

    def restricts(
        self, value: str, field: Kind | None, cwd: PurePath, *, is_meant: bool = True
    ) -> bool:
        """Whether the value may be one of these.

        Args:
            value: The argument.
            field: The kind that the field's name says.
            cwd: The working directory of the run.
            is_meant: Whether the rule is about this argument and no other. A pattern for URLs then
                restricts a value that cannot be read as a URL.
        """
        if self._any:
            return True
        kind = self.kind or field
        url = self._url or self._domain
        if url is not None:
            is_url = field is Kind.URL or (is_meant and field in (None, Kind.DOMAIN))
            if url.restricts(value, is_url=is_url):
                return True
        elif self._wide.fullmatch(folded(value)) or (
            kind is Kind.URL and restricts_spelling(self._wide, value)
        ):
            return True
        return (kind in (Kind.COMMAND, None) and self._may_run(value)) or (
            (kind in (Kind.PATH, None) or bool(_path_of_url(value))) and self._may_open(value, cwd)
        )

    def _may_run_all(self, line: str) -> bool:
        parts = simple_commands(line)
        return bool(parts) and all(
            any(one.fullmatch(part) for one in self._commands) for part in parts or ()
        )

    def _may_run(self, line: str) -> bool:
        return len(line) > LONGEST_LINE or any(
            one.fullmatch(part) for part in possible_commands(line) for one in self._wide_commands
        )

    def _may_open(self, value: str, cwd: PurePath) -> bool:
        # Programs written in C read a name up to its first NUL.
        named = (value, value.partition("\0")[0], _path_of_url(value))
        return self._path is not None and any(self._path.restricts(one, cwd) for one in named)


def _command_forms(body: str) -> tuple[str, ...]:
    """`git *` and `git:*` are both `git` alone and `git` with anything behind it."""
    shown = " ".join(body.split())
    for tail in (":*", " *"):
        if shown.endswith(tail) and len(shown) > len(tail):
            first = shown.removesuffix(tail).rstrip()
            return (first, f"{first} *")
    return (shown,)


def _is_url(body: str, kind: Kind | None) -> bool:
    return kind is Kind.URL or (
        kind is None and body.lower().startswith(("https://", "http://", "*://"))
    )


def _path_of(body: str, kind: Kind | None) -> PathPattern | None:
    if kind not in (Kind.PATH, None):
        return None
    try:
        return PathPattern.parse(body)
    except ConfigError:
        if kind is Kind.PATH or not set(body) & set(" :"):
            raise
        return None  # a command or a URL, not meant for paths


def _path_of_url(value: str) -> str:
    """The path of a `file:` URL, which names a file in a field of any kind; else empty."""
    url = parsed(value) if _FILE.match(value.translate(_REMOVED)) else None
    return "" if url is None else unquote(url.path)


def _is_innocent(value: str) -> bool:
    """Whether the value means nothing but itself, be it taken for a command or for a path."""
    parts = simple_commands(value)
    return (
        parts is not None and len(parts) == 1 and "\n" not in value and ".." not in value.split("/")
    )
