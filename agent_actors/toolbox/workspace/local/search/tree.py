"""The traversal of a directory tree by descriptors: sorted, bounded, without following symlinks."""

import os
import time
from collections.abc import Callable, Iterator
from typing import Final

import attrs

from agent_actors.domain.workspace.files import FileLimits
from agent_actors.toolbox.workspace.local.failures import Check
from agent_actors.toolbox.workspace.local.files import is_ordinary
from agent_actors.toolbox.workspace.local.linux import is_kernel_interface
from agent_actors.toolbox.workspace.local.search import gitignore
from agent_actors.toolbox.workspace.local.walk import MAX_DEPTH, Entry, Walk

REPOSITORY: Final = ".git"
"""The directory that searches leave out unless they name it."""

_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@attrs.define(eq=False)
class Budget:
    """The remaining effort of a search.

    Attributes:
        entries: The number of entries that may still be visited.
        deadline: The time, by `time.monotonic`, when the search ends.
        exhausted: True if the search ended before it was complete.
    """

    entries: int
    deadline: float
    exhausted: bool = False

    @classmethod
    def of(cls, limits: FileLimits) -> "Budget":
        """Return the budget of a search that begins now."""
        return cls(limits.search_entries, time.monotonic() + limits.search_seconds)

    def spend(self) -> bool:
        """Count one entry, and return whether the search may continue."""
        self.entries -= 1
        if self.entries < 0 or time.monotonic() > self.deadline:
            self.exhausted = True
        return not self.exhausted


@attrs.frozen(eq=False)
class TreeFile:
    """A file or symlink in a tree.

    Attributes:
        directory: The descriptor of its directory; valid until the next file is asked for.
        names: The path below the directory where the traversal began.
        is_link: True if it is a symlink.
    """

    directory: int
    names: tuple[str, ...]
    is_link: bool


@attrs.frozen(eq=False)
class _Frame:
    fd: int
    device: int
    names: tuple[str, ...]
    entries: Iterator[tuple[str, os.DirEntry[str]]]
    ignores: tuple[gitignore.IgnoreFile, ...]


@attrs.frozen(eq=False)
class Tree:
    """The files below a directory.

    Attributes:
        walk: The walk to the directory, which must stay open.
        start: The directory.
        budget: The effort that the traversal may take.
        check: Raises if the operation has been cancelled.
        enters: Returns whether to visit a directory, by its path below `start`.
        use_gitignore: True to leave out files that `.gitignore` files exclude.
    """

    walk: Walk
    start: Entry
    budget: Budget
    check: Check
    enters: Callable[[tuple[str, ...]], bool]
    use_gitignore: bool = False

    def files(self) -> Iterator[TreeFile]:
        """Yield the files and symlinks, sorted by path.

        Directories that cannot be read are left out. The traversal ends early when the budget is
        exhausted.
        """
        assert self.start.fd is not None
        frames: list[_Frame] = []
        try:
            first = self._open(f"/proc/self/fd/{self.start.fd}", None, (), self._above())
            if first is not None:
                frames.append(first)
            while frames:
                frame = frames[-1]
                key, entry = next(frame.entries, ("", None))
                if entry is None:
                    os.close(frames.pop().fd)
                    continue
                self.check()
                if not self.budget.spend():
                    return
                names = (*frame.names, entry.name)
                is_directory = key.endswith("/")
                if frame.ignores and gitignore.excludes(
                    frame.ignores, (*self.start.names, *names), is_directory=is_directory
                ):
                    continue
                if not is_directory:
                    yield TreeFile(frame.fd, names, entry.is_symlink())
                elif self.enters(names) and len(names) < MAX_DEPTH:
                    below = self._open(entry.name, frame, names, frame.ignores)
                    if below is not None:
                        frames.append(below)
        finally:
            for frame in frames:
                os.close(frame.fd)

    def _above(self) -> tuple[gitignore.IgnoreFile, ...]:
        return ignores_above(self.walk) if self.use_gitignore else ()

    def _open(
        self,
        name: str,
        above: _Frame | None,
        names: tuple[str, ...],
        ignores: tuple[gitignore.IgnoreFile, ...],
    ) -> _Frame | None:
        """Open a directory and list it; None if it cannot be read or is not entered."""
        fd: int | None = None
        try:
            if above is None:
                fd = os.open(name, _OPEN & ~os.O_NOFOLLOW)
            else:
                fd = os.open(name, _OPEN, dir_fd=above.fd)
            device = os.fstat(fd).st_dev
            if (above is None or device != above.device) and is_kernel_interface(fd):
                os.close(fd)
                return None
            entries = self._sorted(fd)
        except OSError:
            if fd is not None:
                os.close(fd)
            return None
        except BaseException:
            if fd is not None:
                os.close(fd)
            raise
        if self.use_gitignore and above is not None:
            rules = gitignore.read_rules(fd, len(self.start.names) + len(names))
            ignores = (*ignores, rules) if rules is not None else ignores
        return _Frame(fd, device, names, iter(entries), ignores)

    def _sorted(self, fd: int) -> list[tuple[str, os.DirEntry[str]]]:
        """Return the entries of a directory in the order of the complete paths.

        A directory is sorted by its name with `/`, so that the traversal yields sorted paths:
        `a.txt` precedes `a/b`. Its key ends with `/`, which no name contains.
        """
        found: list[tuple[str, os.DirEntry[str]]] = []
        with os.scandir(fd) as entries:
            for entry in entries:
                self.check()
                if len(found) > self.budget.entries:
                    self.budget.exhausted = True
                    break
                if not is_ordinary(entry.name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    found.append((f"{entry.name}/", entry))
                elif entry.is_file(follow_symlinks=False) or entry.is_symlink():
                    found.append((entry.name, entry))
        found.sort(key=lambda one: one[0])
        return found


def ignores_above(walk: Walk) -> tuple[gitignore.IgnoreFile, ...]:
    """Return the `.gitignore` files from the root to the directory that a walk leads to."""
    found = (gitignore.read_rules(held.fd, depth) for depth, held in enumerate(walk.directories))
    return tuple(file for file in found if file is not None)
