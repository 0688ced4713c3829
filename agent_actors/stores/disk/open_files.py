"""Detects that a file of an open store was deleted or replaced by another file.

A descriptor stays valid after its file was deleted, so writes to the file would succeed and be
lost. The store keeps a descriptor of each watched file. Therefore the system cannot give the number
of such a file to another file, and comparing the numbers is reliable.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import attrs


class StoreReplaced(Exception):
    """A file of the open store was deleted or replaced."""


@attrs.frozen
class OpenFiles:
    """The files of an open store, with their identities when the store was opened."""

    _known: tuple[tuple[Path, tuple[int, int] | None], ...]

    def check(self) -> None:
        """Check that each path still leads to the same file.

        Raises:
            StoreReplaced: A file was deleted or replaced.
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
    """Return the current identities of files that the store holds open."""
    return OpenFiles(tuple((path, _identity(path)) for path in paths))


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
