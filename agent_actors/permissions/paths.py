"""Path patterns for permission rules, which are compared only with the text of a path.

Before a comparison, a path is resolved against the working directory, and its `.` and `..` are
removed. Symbolic links are not followed, because this module does not access the disk. Tools that
open files must resolve links themselves. An allow rule therefore never matches a path with a `..`
after a name, because a link could lead elsewhere. A path that begins with `~` cannot be resolved.

Patterns are compared component by component: `*` matches within one component, `**` matches any
number of components. A pattern without a slash is a name at any depth. A deny or ask rule for a
directory applies to everything inside it.
"""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final, Self

import attrs

from agent_actors.errors import ConfigError
from agent_actors.permissions.globs import Glob, folded, glob, wide_glob

_ANY_DEPTH: Final = "**"
# Maximum number of characters. No system opens a longer path (Windows: 32,767), so longer paths are
# not compared.
LONGEST_PATH: Final = 32_767


@attrs.frozen
class _Components:
    """The components of a pattern; None means `**`."""

    globs: tuple[Glob | None, ...]

    def match(self, parts: Sequence[str], *, within: bool) -> bool:
        """Return whether the pattern matches the parts or, with `within`, the first parts."""
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
        # `**` also matches zero components.
        for at, one in enumerate(self.globs):
            if at in reached and one is None:
                reached.add(at + 1)
        return reached


@attrs.frozen
class PathPattern:
    """A pattern for paths.

    Attributes:
        root: The root that the pattern begins with: `/`, a drive or `~`. Empty for the working
            directory.
        ups: The number of `..` components that the pattern begins with.
        is_name: True if the pattern has no slash, so that it is a name at any depth.
    """

    root: str
    ups: int
    is_name: bool
    _narrow: _Components
    _wide: _Components

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a pattern such as `src/**`, `/etc/*.conf`, `../shared/**` or `.env`.

        Raises:
            ConfigError: A `..` follows a name or a root.
        """
        root, parts = _split(text)
        ups = 0
        while ups < len(parts) and parts[ups] == "..":
            ups += 1
        rest = parts[ups:]
        if ".." in rest or (ups and root):
            raise ConfigError(f"pattern {text!r}: '..' is allowed only at the beginning")
        is_name = bool(rest) and not root and not ups and "/" not in text.rstrip("/")
        wide = [None if part == _ANY_DEPTH else wide_glob(part) for part in rest]
        if is_name or root.startswith("~"):
            wide.insert(0, None)  # the home directory is unknown here
        return cls(
            root,
            ups,
            is_name,
            _Components(tuple(None if part == _ANY_DEPTH else glob(part) for part in rest)),
            _Components(tuple(wide)),
        )

    def permits(self, text: str, cwd: PurePath) -> bool:
        """Return whether the path certainly matches."""
        if len(text) > LONGEST_PATH:
            return False
        if cwd.drive:
            text = text.replace("\\", "/")
            if ":" in text.removeprefix(text[:2] if _is_drive(text[:2]) else ""):
                return False  # an alternate stream, or relative to a drive's own directory
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
        """Return whether the path may match or may be inside a matching directory."""
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
    """Return the root and the components of a path, resolved against the working directory."""
    root, parts = _split(text)
    if _is_drive(root) and not cwd.drive:
        root, parts = "", [root, *parts]  # without drives, `c:` is an ordinary name
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
    """Return whether a path is relative to a drive's own directory, like `C:notes` on Windows."""
    return _is_drive(text[:2]) and not text.startswith("/", 2)


def _comparable(part: str) -> str:
    # Windows ignores spaces and dots at the end of a name.
    shown = folded(part)
    return shown.rstrip(" .") or shown
