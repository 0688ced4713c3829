"""Patterns for one argument of a call, which match narrowly or widely.

**Deny and ask rules match widely, allow rules match narrowly.** A deny or ask rule matches if any
interpretation of the argument matches. An allow rule matches only if the argument has exactly one
interpretation and all of it matches. An ambiguous argument therefore always leads to a question or
a denial.

The kind of the argument is determined by the pattern's prefix (for example, `path:`). Without a
prefix, it is determined by the name of the field (`FIELDS`), and then by the form of the pattern:
one with `://` is for a URL, and one with `/` is for a path. If the kind is unknown, the argument is
compared as every kind. The prefix `text:` declares that the argument is only text.
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
from agent_actors.permissions.globs import Glob, folded, glob, wide_glob
from agent_actors.permissions.paths import PathPattern
from agent_actors.permissions.shell.commands import LONGEST_LINE, possible_commands, simple_commands
from agent_actors.permissions.shell.words import PossibleCommand, readable_commands
from agent_actors.permissions.url_readings import parsed
from agent_actors.permissions.urls import DomainPattern, UrlPattern, restricts_spelling

# URL parsers remove the characters in `_REMOVED` at any position.
_FILE: Final = re.compile(r"[\x00-\x20]*file:", re.IGNORECASE)
_REMOVED: Final = str.maketrans("", "", "\t\n\r")


class Kind(StrEnum):
    """The kind of an argument."""

    COMMAND = "command"
    PATH = "path"
    URL = "url"
    DOMAIN = "domain"
    TEXT = "text"


# Field names with a known kind. A tool's main argument is the first of these fields that the tool
# has.
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
        text: The pattern as written.
        kind: The kind named by the prefix; None without a prefix.
        body: The pattern without the prefix.
    """

    text: str
    kind: Kind | None
    body: str
    _any: bool
    _narrow: Glob
    _wide: Glob
    _commands: tuple[Glob, ...]
    _wide_commands: tuple[Glob, ...]
    _command_heads: tuple[tuple[str, bool], ...]
    _path: PathPattern | None
    _url: UrlPattern | None
    _domain: DomainPattern | None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a pattern, which is a glob, optionally preceded by a kind and a colon.

        Raises:
            ConfigError: The pattern is empty, or does not have the form required for its kind.
        """
        prefix, colon, rest = text.partition(":")
        kind = Kind(prefix) if colon and prefix in list(Kind) else None
        body = text if kind is None else rest
        if not body:
            raise ConfigError(f"pattern {text!r} is empty; '*' matches anything")
        forms = _command_forms(body)
        return cls(
            text,
            kind,
            body,
            body in ("*", "**"),
            glob(body),
            wide_glob(body),
            tuple(map(glob, forms)),
            tuple(map(wide_glob, forms)),
            tuple(map(_head, forms)),
            _path_of(body, kind),
            UrlPattern.parse(body) if _is_url(body, kind) else None,
            DomainPattern.parse(body) if kind is Kind.DOMAIN else None,
        )

    def permits(self, value: str, field: Kind | None, cwd: PurePath) -> bool:
        """Return whether the value certainly matches."""
        if self._any and self.kind is not Kind.DOMAIN:  # `domain:*` needs a valid host
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
        """Return whether the value may match.

        Args:
            value: The argument.
            field: The kind that the field's name implies.
            cwd: The working directory of the run.
            is_meant: True if the rule is about exactly this argument. A URL pattern then also
                matches a value that cannot be parsed as a URL.
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
        return (kind in (Kind.COMMAND, None) and self._may_run(value, kind)) or (
            (kind in (Kind.PATH, None) or bool(_path_of_url(value))) and self._may_open(value, cwd)
        )

    def _may_run_all(self, line: str) -> bool:
        parts = simple_commands(line)
        return bool(parts) and all(
            any(one.fullmatch(part) for one in self._commands) for part in parts or ()
        )

    def _may_run(self, line: str, kind: Kind | None) -> bool:
        return (
            len(line) > LONGEST_LINE
            or any(
                one.fullmatch(part)
                for part in possible_commands(line)
                for one in self._wide_commands
            )
            or any(self._may_be(command, kind) for command in readable_commands(line))
        )

    def _may_be(self, command: PossibleCommand, kind: Kind | None) -> bool:
        if command.complete:
            return any(one.fullmatch(command.text) for one in self._wide_commands)
        # An argument of unknown kind is rarely a command, although prose and JSON may begin like
        # one.
        return (bool(command.text) or kind is Kind.COMMAND) and any(
            command.may_begin_with(head, more=more) for head, more in self._command_heads
        )

    def _may_open(self, value: str, cwd: PurePath) -> bool:
        # Programs written in C read a file name only up to the first NUL.
        named = (value, value.partition("\0")[0], _path_of_url(value))
        return self._path is not None and any(self._path.restricts(one, cwd) for one in named)


def _command_forms(body: str) -> tuple[str, ...]:
    """Return the forms of a command pattern: `git *` and `git:*` also match `git` alone."""
    shown = " ".join(body.split())
    for tail in (":*", " *"):
        if shown.endswith(tail) and len(shown) > len(tail):
            first = shown.removesuffix(tail).rstrip()
            return (first, f"{first} *")
    return (shown,)


def _head(form: str) -> tuple[str, bool]:
    """Return a pattern up to its first wildcard, and whether it has one."""
    head = re.split(r"[*?[]", form, maxsplit=1)[0]
    blank = " " if head.endswith(" ") else ""
    return folded(head) + blank, len(head) < len(form)


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
        return None  # a command or a URL, not a path


def _path_of_url(value: str) -> str:
    """Return the path in a `file:` URL, which is a path in any field; otherwise empty."""
    url = parsed(value) if _FILE.match(value.translate(_REMOVED)) else None
    return "" if url is None else unquote(url.path)


def _is_innocent(value: str) -> bool:
    """Return whether the value has no special meaning as a shell command or as a path."""
    parts = simple_commands(value)
    return (
        parts is not None and len(parts) == 1 and "\n" not in value and ".." not in value.split("/")
    )
