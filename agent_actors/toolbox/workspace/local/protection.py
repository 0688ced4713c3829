"""Paths that agents must not change, although they are in the workspace."""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from agent_actors.toolbox.workspace.local.patterns import PathPattern, expand_braces, parse

PROTECTED: Final = (
    # `.git` itself: a new repository, or a file that points to another one.
    ".git",
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
    ".git/gitdir",
    ".git/hooks/**",
    ".git/info/attributes",
    ".git/modules/**/config",
    ".git/modules/**/hooks/**",
    ".git/worktrees/*/{commondir,gitdir,config.worktree}",
    ".claude/**",
    ".agents/**",
    ".mcp.json",
    ".cursor/{rules/**,mcp.json}",
    "{.cursorrules,.windsurfrules,.clinerules}",
    ".github/copilot-instructions.md",
)
"""The default patterns of protected paths.

Programs run code or follow instructions from these files, so that an agent that changes them
acquires rights that it was not given. A pattern matches in every directory and ignores case. It
matches the named file or directory itself; with `/**`, everything below it too.
"""

_ANY: Final = "**"
_MAGIC: Final = frozenset("*?[")

Identity = tuple[int, int]
"""The device and the inode of a file."""


class Protection:
    """The protected paths of a workspace.

    Args:
        patterns: The patterns; see `PROTECTED`.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns: tuple[str, ...] = tuple(patterns)
        self._parsed = tuple(_with_directories(self.patterns))
        # Most paths contain none of these names, so that no pattern needs to be compared.
        self._first_names = frozenset(
            pattern.components[1] if len(pattern.components) > 1 else _ANY
            for pattern in self._parsed
        )
        self._needs_comparison = any(_MAGIC.intersection(name) for name in self._first_names)

    def covers(self, names: Iterable[str]) -> bool:
        """Return whether a path, relative to its root, is protected."""
        folded = tuple(_folded(name) for name in names)
        if not self._needs_comparison and self._first_names.isdisjoint(folded):
            return False
        return any(pattern.matches(folded) for pattern in self._parsed)

    def directories(self) -> frozenset[tuple[str, ...]]:
        """Return the directories without wildcards in which protected files are."""
        found: set[tuple[str, ...]] = set()
        for pattern in self._parsed:
            names = pattern.components[1:]
            for length in range(1, len(names) + 1):
                if any(_MAGIC.intersection(name) for name in names[:length]):
                    break
                found.add(names[:length])
        return frozenset(found)


def protected_files(root: Path, patterns: Iterable[str]) -> Iterator[tuple[Path, bool]]:
    """Yield the protected files at the top of a directory, which a sandbox covers by mounts.

    Args:
        root: The directory.
        patterns: The patterns.

    Yields:
        The path, and whether it is a directory with other files in it, which a sandbox only has to
        keep from being moved. A directory precedes the files in it.
    """
    expanded = [one for text in patterns for one in expand_braces(text)]
    for pattern in sorted(expanded, key=len):
        tree = pattern.endswith("/**")
        for path in sorted(root.glob(pattern.removesuffix("/**"))):
            if not path.is_symlink():
                yield path, path.is_dir() and not tree


def renamed(names: Iterable[tuple[str, Identity]], known: Mapping[Identity, str]) -> list[str]:
    """Return a path with the original names of its protected directories.

    Args:
        names: The directories of the path and their identities.
        known: The names that protected directories had when the workspace was opened.
    """
    return [known.get(identity, name) for name, identity in names]


def _with_directories(patterns: Iterable[str]) -> Iterable[PathPattern]:
    for pattern in patterns:
        for one in expand_braces(pattern):
            text = "/".join(_folded(name) for name in one.strip("/").split("/"))
            yield parse(f"**/{text}")
            if text.endswith("/**"):
                yield parse(f"**/{text.removesuffix('/**')}")


@lru_cache(maxsize=4096)
def _folded(name: str) -> str:
    """Return a name without the differences that file systems ignore.

    Some file systems ignore case, the Unicode representation, invisible characters, or dots and
    blanks at the end. On the others, a few more files are protected.
    """
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    visible = "".join(one for one in plain if unicodedata.category(one) not in {"Cf", "Mn", "Cc"})
    return visible.rstrip(". ") or visible
