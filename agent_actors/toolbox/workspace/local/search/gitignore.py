"""`.gitignore` files: the rules of git, matched without backtracking.

The reasons for not using `pathspec` are in `patterns`.
"""

import os
import re
import stat
from collections.abc import Sequence
from typing import Final

import attrs

from agent_actors.permissions.globs import escaped
from agent_actors.toolbox.workspace.local.linux import reopen
from agent_actors.toolbox.workspace.local.patterns import MAX_PATTERN, PathPattern, parse

FILE_NAME: Final = ".gitignore"

# A larger file is not read further.
_MAX_BYTES: Final = 1_000_000
_MAX_RULES: Final = 10_000
_OPEN: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_ESCAPED: Final = re.compile(r"\\(.)")
_NEGATED_SET: Final = re.compile(r"\[\^")


@attrs.frozen
class IgnoreRule:
    """A line of a `.gitignore` file.

    Attributes:
        pattern: The pattern, relative to the directory of the file.
        includes: True if the rule includes what an earlier rule excludes (`!pattern`).
        directories_only: True if the rule applies to directories only (`pattern/`).
    """

    pattern: PathPattern
    includes: bool
    directories_only: bool


@attrs.frozen
class IgnoreFile:
    """A `.gitignore` file.

    Attributes:
        depth: The number of directories between the root and the file.
        rules: Its rules.
    """

    depth: int
    rules: tuple[IgnoreRule, ...]


def excludes(files: Sequence[IgnoreFile], names: tuple[str, ...], *, is_directory: bool) -> bool:
    """Return whether `.gitignore` files exclude an entry.

    Args:
        files: The `.gitignore` files on the way from the root to the entry.
        names: The path of the entry below the root.
        is_directory: True if the entry is a directory. The entries of an excluded directory are
            excluded as well; the caller must not visit them.
    """
    for file in reversed(files):
        below = names[file.depth :]
        for rule in reversed(file.rules):
            if (is_directory or not rule.directories_only) and rule.pattern.matches(below):
                return not rule.includes
    return False


def read_rules(directory: int, depth: int) -> IgnoreFile | None:
    """Read the `.gitignore` file of a directory; None if there is none with a rule.

    A symlink is not followed; git does not follow it either.
    """
    try:
        held = os.open(FILE_NAME, _OPEN, dir_fd=directory)
        try:
            if not stat.S_ISREG(os.fstat(held).st_mode):
                return None
            fd = reopen(held, os.O_RDONLY)
        finally:
            os.close(held)
        with os.fdopen(fd, "rb") as file:
            text = file.read(_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    rules = parse_rules(text)
    return IgnoreFile(depth, rules) if rules else None


def parse_rules(text: str) -> tuple[IgnoreRule, ...]:
    """Parse the content of a `.gitignore` file."""
    lines = text.removeprefix("\N{BYTE ORDER MARK}").split("\n")[:_MAX_RULES]
    return tuple(rule for line in lines if (rule := _parse(line)) is not None)


def _parse(line: str) -> IgnoreRule | None:
    line = line.removesuffix("\r")
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    if not line or line.startswith("#") or len(line) > MAX_PATTERN:
        return None
    includes = line.startswith("!")
    line = line.removeprefix("!")
    directories_only = line.endswith("/")
    line = line.rstrip("/") if directories_only else line
    if not line:
        return None
    anchored = "/" in line
    pattern = _NEGATED_SET.sub("[!", _ESCAPED.sub(_unescaped, line.lstrip("/")))
    return IgnoreRule(parse(pattern if anchored else f"**/{pattern}"), includes, directories_only)


def _unescaped(match: re.Match[str]) -> str:
    """Return the character after a backslash, so that `fnmatch` takes it literally."""
    return escaped(match[1])
