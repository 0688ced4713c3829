"""Reads files of a project: the adapter for the port `ProjectFiles`.

Files are opened with the walk of the local workspace, which cannot leave the root even if another
process changes the directories at the same time.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from agent_actors.domain.workspace.project import FileText, FoundFiles, ProjectProblem
from agent_actors.errors import WorkspaceError
from agent_actors.toolbox.workspace.local.failures import failure
from agent_actors.toolbox.workspace.local.files import read_file
from agent_actors.toolbox.workspace.local.protection import Protection
from agent_actors.toolbox.workspace.local.roots import Roots
from agent_actors.toolbox.workspace.local.walk import Entry, Walk

MAX_ENTRIES: Final = 20_000
"""Maximum number of directory entries that one search looks at."""
_MAX_DEPTH: Final = 12
_MAX_ABOVE: Final = 64
# A file that is written again and again is read this many times.
_ATTEMPTS: Final = 5
_UNPROTECTED: Final = Protection(())


class LocalProjectFiles:
    """Reads files of projects from the local file system."""

    def find(self, root: Path, folder: Path, name: str, limit: int) -> FoundFiles:
        """See `ProjectFiles.find`."""
        search = _Search(name)
        paths: list[Path] = []
        if not _is_inside(folder, root):
            problem = ProjectProblem(
                repr(str(folder)), "the directory is a link out of the project"
            )
            return FoundFiles((), (problem,))
        for path in search.files(folder, _MAX_DEPTH):
            if len(paths) == limit:
                search.problems.append(
                    ProjectProblem(repr(str(folder)), f"only the first {limit} files are used")
                )
                break
            paths.append(path)
        return FoundFiles(tuple(paths), tuple(search.problems))

    def read(self, root: Path, path: Path, limit: int) -> FileText | None:
        """See `ProjectFiles.read`."""
        try:
            roots = Roots(str(root), (), _UNPROTECTED)
        except WorkspaceError as error:
            if error.reason == "not_found":
                return None
            raise
        try:
            return _read(roots, path, limit)
        finally:
            roots.close()

    def find_above(self, folder: Path, name: str) -> Path | None:
        """See `ProjectFiles.find_above`."""
        folder = folder.absolute()
        above = (folder, *folder.parents)[:_MAX_ABOVE]
        return next((path for path in above if os.path.lexists(path / name)), None)


class _Search:
    """A search for files; counts the entries that it looks at."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._left = MAX_ENTRIES
        self.problems: list[ProjectProblem] = []

    def files(self, folder: Path, depth: int) -> Iterator[Path]:
        names = self._entries(folder)
        if depth == 0 and any(directory for _, directory in names):
            self.problems.append(
                ProjectProblem(
                    repr(str(folder)), f"directories below level {_MAX_DEPTH} are skipped"
                )
            )
            names = [entry for entry in names if not entry[1]]
        for name, directory in names:
            if directory:
                yield from self.files(folder / name, depth - 1)
            elif self._matches(name):
                yield folder / name

    def _matches(self, name: str) -> bool:
        if self._name.startswith("*"):
            return name.endswith(self._name[1:])
        return name == self._name

    def _entries(self, folder: Path) -> list[tuple[str, bool]]:
        found: list[tuple[str, bool]] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._left -= 1
                    if self._left < 0:
                        if self._left == -1:
                            self.problems.append(
                                ProjectProblem(
                                    repr(str(folder)),
                                    f"the search ended after {MAX_ENTRIES} directory entries",
                                )
                            )
                        break
                    directory = entry.is_dir(follow_symlinks=False)
                    if directory or self._matches(entry.name):
                        found.append((entry.name, directory))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self.problems.append(
                ProjectProblem(repr(str(folder)), f"the directory cannot be read: {error.strerror}")
            )
        return sorted(found)


def _is_inside(folder: Path, root: Path) -> bool:
    real = os.path.realpath(root)
    return os.path.commonpath((real, os.path.realpath(folder))) == real


def _read(roots: Roots, path: Path, limit: int) -> FileText | None:
    shown = str(path)
    for _ in range(_ATTEMPTS):
        with Walk(roots, shown) as walk:
            try:
                entry = walk.follow()
            except WorkspaceError as error:
                if error.reason in ("not_found", "not_a_directory"):
                    return None
                raise
            before = entry.status
            if before is None:
                return None
            data = read_file(shown, entry, 0, limit + 1, _go_on)
            if _state(_status(entry)) == _state(before):
                text = data[:limit].decode("utf-8", "replace")
                size = max(before.st_size, len(data))
                return FileText(
                    path, text, size, len(data) <= limit, (before.st_dev, before.st_ino)
                )
    raise failure(shown, "changed", "it changes while it is read; try again later")


def _status(entry: Entry) -> os.stat_result:
    assert entry.fd is not None  # `read_file` accepts only files that exist
    return os.fstat(entry.fd)


def _state(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _go_on() -> None:
    """Do nothing: reads are short, so that they need not be cancelled."""
