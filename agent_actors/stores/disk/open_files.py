"""Detects when a file of an open store has been deleted or replaced.

A descriptor stays valid after its file has been deleted, so writes would succeed, but the data
would be lost. The store keeps each watched file open, so the system cannot reuse the file's inode
number for another file, and comparing inode numbers is reliable.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import attrs


class StoreReplaced(Exception):
    """A file of the open store has been deleted or replaced."""


@attrs.frozen
class OpenFiles:
    """The files of an open store, with their identities at the time of opening."""

    _known: tuple[tuple[Path, tuple[int, int] | None], ...]

    def check(self) -> None:
        """Check that each path still refers to the same file.

        Raises:
            StoreReplaced: A file has been deleted or replaced.
        """
        for path, known in self._known:
            found = _identity(path)
            if found != known:
                change = "deleted" if found is None else "replaced"
                raise StoreReplaced(
                    f"{path.name!r} was {change} while the store was open; nothing "
                    "was written; close the store, restore the file and open the store again"
                )


NO_FILES: Final = OpenFiles(())


def watched(paths: Iterable[Path]) -> OpenFiles:
    """Return the current identities of files that the store keeps open."""
    return OpenFiles(tuple((path, _identity(path)) for path in paths))


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
