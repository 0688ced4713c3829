"""Paths as rules read them, by their text alone.

A path is placed below the working directory and its `.` and `..` are taken out before anything is
compared. Links are not followed, since nothing here looks at a disk: a tool that opens files has
to resolve them itself. So what permits does not trust a `..` that leads out of a directory it has
entered, and nothing at all can be told of a `~`.

Patterns are met component by component: `*` stays within one, `**` is any number of them. One
without a slash means a name, wherever it lies. What restricts a directory restricts all within.
"""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final, Self

import attrs

from agent_actors.errors import ConfigError
from agent_actors.permissions.globs import Glob, folded, glob, wide_glob

_ANY_DEPTH: Final = "**"
# Characters; no system opens a longer one (Windows: 32,767), and none is looked at.
LONGEST_PATH: Final = 32_767


@attrs.frozen
class _Components:
    """The components of a pattern; None is `**`."""

    globs: tuple[Glob | None, ...]

    def match(self, parts: Sequence[str], *, within: bool) -> bool:
        """Whether they match the parts, or, `within`, the beginning of them."""
        end = len(self.globs)
        reached = self._opened({0})
        for part in parts:
            if within and end in reached:
                return True
            ahead: set[int] = set()
            for at in reached:
                if at == end:
                    continue
                one = self.globs[at]
                if one is None:
                    ahead.add(at)
                elif one.fullmatch(part):
                    ahead.add(at + 1)
            reached = self._opened(ahead)
        return end in reached

    def _opened(self, reached: set[int]) -> set[int]:
        # `**` may also be no component at all.
        for at, one in enumerate(self.globs):
            if at in reached and one is None:
                reached.add(at + 1)
        return reached


@attrs.frozen
class PathPattern:
    """A pattern for paths.

    Attributes:
        root: What it begins with: `/`, a drive, `~`; empty: the working directory.
        ups: How many `..` it begins with.
        is_name: Whether it has no slash, and so means a name at any depth.
    """

    root: str
    ups: int
    is_name: bool
    _narrow: _Components
    _wide: _Components

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a pattern such as `src/**`, `/etc/*.conf`, `../shared/**` or `.env`.

        Raises:
            ConfigError: A `..` stands behind a name or a root.
        """
        root, parts = _split(text)
        ups = 0
        while ups < len(parts) and parts[ups] == "..":
            ups += 1
        rest = parts[ups:]
        if ".." in rest or (ups and root):
            raise ConfigError(f"pattern {text!r}: '..' may stand at its beginning only")
        is_name = bool(rest) and not root and not ups and "/" not in text.rstrip("/")
        wide = [None if part == _ANY_DEPTH else wide_glob(part) for part in rest]
        if is_name or root.startswith("~"):
            wide.insert(0, None)  # whose home it is, nobody here knows
        return cls(
            root,
            ups,
            is_name,
            _Components(tuple(None if part == _ANY_DEPTH else glob(part) for part in rest)),
            _Components(tuple(wide)),
        )

    def permits(self, text: str, cwd: PurePath) -> bool:
        """Whether the path is one of these, beyond doubt."""
        if len(text) > LONGEST_PATH:
            return False
        if cwd.drive:
            text = text.replace("\\", "/")
            if ":" in text.removeprefix(text[:2] if _is_drive(text[:2]) else ""):
                return False  # a stream of a file, or a drive's own working directory
        if not text or "\\" in text or any(character < " " for character in text):
            return False
        root, parts = _split(text)
        entered = [part for part in parts if part != ".."]
        if parts[len(parts) - len(entered) :] != entered:
            return False  # only the file system knows where this `..` leads
        if root.startswith("~"):
            here = root == self.root and entered == parts
            return here and self._narrow.match(parts, within=False)
        root, parts = placed(text, cwd)
        base_root, base = self._base(cwd)
        if root != base_root or parts[: len(base)] != base:
            return False
        below = parts[len(base) :]
        if self.is_name:
            return bool(below) and self._narrow.match(below[-1:], within=False)
        return self._narrow.match(below, within=False)

    def restricts(self, text: str, cwd: PurePath) -> bool:
        """Whether the path may be one of these, or lie within one."""
        if len(text) > LONGEST_PATH:
            return True
        slashed = text.replace("\\", "/")
        for spelt in {slashed} if cwd.drive else {slashed, text}:
            if spelt.startswith("~") or (cwd.drive and _is_of_a_drive(spelt)):
                return True
            root, parts = placed(spelt, cwd)
            comparable = [_comparable(part) for part in parts]
            if self.is_name or self.root.startswith("~"):
                if self._wide.match(comparable, within=True):
                    return True
                continue
            base_root, base = self._base(cwd)
            folded_base = [_comparable(part) for part in base]
            if (
                folded(root) == folded(base_root)
                and comparable[: len(base)] == folded_base
                and self._wide.match(comparable[len(base) :], within=True)
            ):
                return True
        return False

    def _base(self, cwd: PurePath) -> tuple[str, list[str]]:
        if self.root:
            return (cwd.drive if self.root == "/" and cwd.drive else self.root), []
        root, parts = placed(".", cwd)
        return root, parts[: max(0, len(parts) - self.ups)]


def placed(text: str, cwd: PurePath) -> tuple[str, list[str]]:
    """The root of a path and its components, below the working directory if it is relative."""
    root, parts = _split(text)
    if _is_drive(root) and not cwd.drive:
        root, parts = "", [root, *parts]  # here it is a name as any other
    if root == "/" and cwd.drive and not text.startswith("//"):
        root = cwd.drive
    if not root:
        root, base = _split(cwd.as_posix())
        parts = base + parts
    kept: list[str] = []
    for part in parts:
        if part != "..":
            kept.append(part)
        elif kept:
            kept.pop()
    return root, kept


def _split(text: str) -> tuple[str, list[str]]:
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if text.startswith("/"):
        return "/", parts
    first = text.partition("/")[0]
    if first.startswith("~") or _is_drive(first):
        return first, parts[1:]
    return "", parts


def _is_drive(part: str) -> bool:
    return len(part) == 2 and part[1] == ":" and part[0].isalpha()


def _is_of_a_drive(text: str) -> bool:
    """Whether it is relative to a drive's own working directory, as `C:notes` is on Windows."""
    return _is_drive(text[:2]) and not text.startswith("/", 2)


def _comparable(part: str) -> str:
    # Windows does not see blanks and dots at the end of a name.
    shown = folded(part)
    return shown.rstrip(" .") or shown
