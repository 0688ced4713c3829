"""The walk from a root to a file, one component at a time, by directory descriptors.

Every directory on the way is opened in the directory before it, without following symlinks, and
held open. Another process that renames or replaces components during the walk can therefore change
which file of the workspace is reached, but cannot lead the walk out of the roots.

`openat2(RESOLVE_BENEATH)` is not used: it refuses absolute symlinks that lead back into a root,
and it fails spuriously when any directory of the system is renamed at the same time.
"""

import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

import attrs

from agent_actors.errors import WorkspaceError
from agent_actors.toolbox.workspace.local.failures import failure, os_failure
from agent_actors.toolbox.workspace.local.linux import is_kernel_interface
from agent_actors.toolbox.workspace.local.protection import Identity, Protection, renamed
from agent_actors.toolbox.workspace.local.roots import Root, Roots, check_path, split

MAX_LINKS: Final = 40
"""The maximum number of symlinks on one path; Linux has the same limit."""
MAX_DEPTH: Final = 256
"""The maximum number of directories below a root. Each one needs a descriptor during the walk."""
# A path is followed in fewer steps, unless another process removes directories as fast as the walk
# creates them.
_MAX_STEPS: Final = 10_000
_ENTRY: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


@attrs.frozen(eq=False)
class Held:
    """A directory that a walk holds open."""

    name: str
    fd: int
    identity: Identity


@attrs.define(eq=False)
class Entry:
    """The end of a walk.

    Attributes:
        directory: The descriptor of the directory that contains the entry.
        name: The name in that directory; empty for a root.
        names: The path below the root.
        fd: The entry, opened with `O_PATH`; None if it does not exist.
        status: The entry's state; None if it does not exist.
    """

    directory: int
    name: str
    names: tuple[str, ...]
    fd: int | None
    status: os.stat_result | None

    @property
    def is_directory(self) -> bool:
        """True if the entry is a directory."""
        return self.status is not None and stat.S_ISDIR(self.status.st_mode)

    @property
    def is_file(self) -> bool:
        """True if the entry is a regular file."""
        return self.status is not None and stat.S_ISREG(self.status.st_mode)


class Walk:
    """A walk to one file; closes its descriptors at the end of the `with` block.

    Args:
        roots: The directories that may be entered.
        path: The path, as the caller passed it.
        root: The root that a relative path begins in; None for the workspace's root.
    """

    def __init__(self, roots: Roots, path: str, root: Root | None = None) -> None:
        self.path: str = path
        self.root: Root = root or roots.main
        self._roots = roots
        self._stack: list[Held] = []
        self._leaf: int | None = None
        self._pending: list[str] = []
        self._needs_directory = False
        # The directories that `follow` has created: the containing directory and the name.
        self._made: list[tuple[int, str]] = []

    def __enter__(self) -> Self:
        """Begin the walk."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the descriptors."""
        self._close_leaf()
        while len(self._stack) > 1:
            os.close(self._stack.pop().fd)

    def follow(
        self,
        *,
        follow_last: bool = True,
        make_parents: Callable[[tuple[str, ...]], None] | None = None,
    ) -> Entry:
        """Walk to the end of the path.

        Args:
            follow_last: False if a symlink at the end is itself the entry.
            make_parents: Called with the path of each missing directory before it is created; None
                if missing directories are not created.

        Returns:
            The entry. Its descriptors are valid until the walk is closed.

        Raises:
            WorkspaceError: The path is invalid or leads outside the roots, or a directory on the
                way does not exist or cannot be entered.
        """
        check_path(self.path)
        try:
            return self._follow(follow_last, make_parents)
        except OSError as error:
            raise os_failure(self.path, error) from error

    def _follow(
        self, follow_last: bool, make_parents: Callable[[tuple[str, ...]], None] | None
    ) -> Entry:
        self._begin(self.path)
        links = 0
        for _ in range(_MAX_STEPS):
            if not self._pending:
                return self._directory_entry()
            name = self._pending.pop()
            if name == "..":
                self._ascend()
                continue
            last = not self._pending
            status = self._open(name)
            if status is None:
                if last and not self._needs_directory:
                    return self._entry(name, None)
                if make_parents is None or ".." in self._pending:
                    raise failure(self.path, "not_found", f"{name!r} does not exist")
                self._make(name, make_parents)
            elif stat.S_ISLNK(status.st_mode):
                if last and not follow_last and not self._needs_directory:
                    return self._entry(name, status)
                links += 1
                if links > MAX_LINKS:
                    raise failure(self.path, "refused", f"more than {MAX_LINKS} symlinks")
                self._expand_link(last)
            elif stat.S_ISDIR(status.st_mode):
                self._descend(name, status)
            elif last and not self._needs_directory:
                self._check_device(self._leaf, status)
                return self._entry(name, status)
            else:
                raise failure(self.path, "not_a_directory", f"{name!r} is not a directory")
        raise failure(self.path, "failed", "directories on the path are removed again and again")

    @property
    def directories(self) -> tuple[Held, ...]:
        """The directories that the walk holds open, from the root on."""
        return tuple(self._stack)

    @property
    def names(self) -> tuple[str, ...]:
        """The directories below the root that the walk is in."""
        return tuple(held.name for held in self._stack[1:])

    def is_protected(self, entry: Entry, protection: Protection) -> bool:
        """Return whether an entry is protected, by its present path or by its original path."""
        original = self._original_names()
        original.extend(entry.names[len(original) :])
        return protection.covers(entry.names) or protection.covers(original)

    def _original_names(self) -> list[str]:
        """Return the directories of the walk with the original names of protected ones."""
        inside = ((held.name, held.identity) for held in self._stack[1:])
        return renamed(inside, self.root.known)

    def shown(self, entry: Entry) -> str:
        """Return the path of an entry in the form of `FileInfo.path`."""
        return self._roots.shown(self.root, entry.names)

    def keep_made(self) -> None:
        """Keep the directories that the walk has created, instead of removing them."""
        self._made.clear()

    def remove_made(self) -> None:
        """Remove the directories that the walk has created, if they are still empty."""
        while self._made:
            directory, name = self._made.pop()
            try:
                os.rmdir(name, dir_fd=directory)
            except OSError:
                continue  # another process uses or has removed it

    def _begin(self, path: str) -> None:
        self._needs_directory = path.endswith(("/", "/.", "/..")) or path in {".", ".."}
        if path.startswith("/"):
            self._restart(path)
        else:
            self._stack = [self._base(self.root)]
            self._pending = split(path)[::-1]

    def _restart(self, path: str) -> None:
        """Continue at an absolute path, if it is in one of the roots."""
        match = self._roots.match(path)
        if match is None:
            raise self._outside()
        self.root, names = match
        self.remove_made()
        while len(self._stack) > 1:
            os.close(self._stack.pop().fd)
        self._stack = [self._base(self.root)]
        self._pending.extend(reversed(names))

    def _outside(self) -> WorkspaceError:
        return failure(
            self.path, "refused", "the path leads outside the workspace and its allowed paths"
        )

    @staticmethod
    def _base(root: Root) -> Held:
        return Held("", root.fd, root.identity)

    def _open(self, name: str) -> os.stat_result | None:
        """Open a component without following it; return its state, or None if it is missing."""
        self._close_leaf()
        try:
            self._leaf = os.open(name, _ENTRY, dir_fd=self._stack[-1].fd)
        except FileNotFoundError:
            return None
        return os.fstat(self._leaf)

    def _close_leaf(self) -> None:
        leaf, self._leaf = self._leaf, None
        if leaf is not None:
            os.close(leaf)

    def _descend(self, name: str, status: os.stat_result) -> None:
        assert self._leaf is not None
        self._check_device(self._leaf, status)
        if len(self._stack) > MAX_DEPTH:
            raise failure(self.path, "refused", f"more than {MAX_DEPTH} directories deep")
        self._stack.append(Held(name, self._leaf, (status.st_dev, status.st_ino)))
        self._leaf = None

    def _check_device(self, fd: int | None, status: os.stat_result) -> None:
        assert fd is not None
        if status.st_dev != self._stack[-1].identity[0] and is_kernel_interface(fd):
            raise failure(self.path, "refused", "files of the kernel (/proc, /sys) are not usable")

    def _ascend(self) -> None:
        if len(self._stack) > 1:
            self.remove_made()
            os.close(self._stack.pop().fd)
            return
        # The parent of a root may be in another root.
        parent = self.root.path.rpartition("/")[0]
        if self.root.path == "/":
            return
        self._restart(parent or "/")

    def _expand_link(self, last: bool) -> None:
        assert self._leaf is not None
        try:
            target = os.readlink(b"", dir_fd=self._leaf).decode()
        except UnicodeDecodeError:
            raise failure(self.path, "invalid", "a symlink on the path is not UTF-8") from None
        self._close_leaf()
        if last and target.endswith(("/", "/.", "/..")):
            self._needs_directory = True
        if target.startswith("/"):
            self._restart(target)
        else:
            self._pending.extend(reversed(split(target)))

    def _make(self, name: str, allow: Callable[[tuple[str, ...]], None]) -> None:
        """Create a missing directory, which the next step enters like any other."""
        directory = self._stack[-1].fd
        allow((*self.names, name))
        allow((*self._original_names(), name))
        try:
            os.mkdir(name, dir_fd=directory)
        except FileExistsError:
            pass
        else:
            self._made.append((directory, name))
        self._pending.append(name)

    def _entry(self, name: str, status: os.stat_result | None) -> Entry:
        return Entry(self._stack[-1].fd, name, (*self.names, name), self._leaf, status)

    def _directory_entry(self) -> Entry:
        held = self._stack[-1]
        directory = self._stack[-2].fd if len(self._stack) > 1 else held.fd
        return Entry(directory, held.name, self.names, held.fd, os.fstat(held.fd))


@contextmanager
def walk_to(
    roots: Roots, path: str, *, follow_last: bool = True, root: Root | None = None
) -> Generator[tuple[Walk, Entry]]:
    """Walk to an existing entry.

    Raises:
        WorkspaceError: See `Walk.follow`; additionally, if the entry does not exist.
    """
    with Walk(roots, path, root) as walk:
        entry = walk.follow(follow_last=follow_last)
        if entry.status is None:
            raise failure(path, "not_found", "it does not exist")
        yield walk, entry
