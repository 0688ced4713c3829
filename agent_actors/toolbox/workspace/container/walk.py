"""The walk from a root to a file in a container: the rules of a workspace, by requests.

The helper follows directories. Symlinks and `..` are followed here, so that a path cannot leave the
roots. Between the walk and the operation, a process in the container can replace a directory by a
symlink. The helper then refuses the operation, unless this happens at the very moment of the system
call. Such a race cannot lead out of the container, which is the boundary that confines an agent.
"""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import attrs

from agent_actors.errors import WorkspaceError
from agent_actors.toolbox.workspace.container.container import Container
from agent_actors.toolbox.workspace.local.failures import failure
from agent_actors.toolbox.workspace.local.roots import check_path, split
from agent_actors.toolbox.workspace.local.walk import MAX_DEPTH, MAX_LINKS

EntryKind: TypeAlias = Literal["directory", "other", "link", "missing"]

REPLACED: Final = 3
"""The status of the helper if a directory has been removed or replaced by a symlink."""

_KINDS: Final[dict[bytes, EntryKind]] = {b"link": "link", b"other": "other", b"missing": "missing"}


@attrs.frozen
class Entry:
    """The end of a walk.

    Attributes:
        root: The root that contains it.
        names: The path below the root.
        kind: `other` is a file, FIFO, socket or device; `link` a symlink that was not followed.
        made: The number of directories at the end of the path that do not exist yet.
    """

    root: str
    names: tuple[str, ...]
    kind: EntryKind
    made: int = 0

    @property
    def path(self) -> str:
        """The absolute path."""
        return "/".join((self.root, *self.names))

    @property
    def directory(self) -> str:
        """The absolute path of the directory that contains the entry."""
        return "/".join((self.root, *self.names[:-1]))

    @property
    def is_directory(self) -> bool:
        """True if the entry is a directory."""
        return self.kind == "directory"


@attrs.frozen
class ContainerRoots:
    """The directories of a container that a workspace gives access to.

    Attributes:
        paths: Their absolute paths, without symlinks; the first one is the workspace's root.
    """

    paths: tuple[str, ...]

    @property
    def main(self) -> str:
        """The workspace's root."""
        return self.paths[0]

    def match(self, path: str) -> tuple[str, list[str]] | None:
        """Return the root that an absolute path is in, and the components below it."""
        names = split(path)
        for root in self.paths:
            prefix = split(root)
            if names[: len(prefix)] == prefix:
                return root, names[len(prefix) :]
        return None

    def shown(self, root: str, names: Sequence[str]) -> str:
        """Return the path of a file in the form of `FileInfo.path`."""
        path = "/".join((root, *names))
        if path == self.main:
            return "."
        return path.removeprefix(f"{self.main}/")


class Walk:
    """A walk to one file.

    Args:
        container: The container.
        roots: The directories that may be entered.
        path: The path, as the caller passed it.
        root: The root that a relative path begins in; None for the workspace's root.
    """

    def __init__(
        self, container: Container, roots: ContainerRoots, path: str, root: str | None = None
    ) -> None:
        self._container = container
        self._roots = roots
        self._path = path
        self._root = root or roots.main
        self._names: list[str] = []
        self._pending: list[str] = []
        self._links = 0
        self._needs_directory = False

    async def follow(self, *, follow_last: bool = True, make_parents: bool = False) -> Entry:
        """Walk to the end of the path.

        Args:
            follow_last: False if a symlink at the end is itself the entry.
            make_parents: True if the caller creates missing directories.

        Raises:
            WorkspaceError: The path is invalid or leads outside the roots, or a directory on the
                way does not exist.
        """
        check_path(self._path)
        path = self._path
        self._needs_directory = path.endswith(("/", "/.", "/..")) or path in {".", ".."}
        if path.startswith("/"):
            self._restart(path)
        else:
            self._pending = split(path)[::-1]
        while True:
            while self._pending and self._pending[-1] == "..":
                self._pending.pop()
                self._ascend()
            entry = await self._look(follow_last=follow_last, make_parents=make_parents)
            if entry is not None:
                return entry

    async def _look(self, *, follow_last: bool, make_parents: bool) -> Entry | None:
        """Follow the names up to `..`, a symlink or the end; return the entry at the end."""
        names: list[str] = []
        while self._pending and self._pending[-1] != "..":
            names.append(self._pending.pop())
        if len(self._names) + len(names) > MAX_DEPTH:
            raise failure(self._path, "refused", f"more than {MAX_DEPTH} directories deep")
        kind, index, target = await self._answer(names)
        self._names += names[:index]
        if kind == "directory":
            return None if self._pending else Entry(self._root, tuple(self._names), "directory")
        name, rest = names[index], names[index + 1 :]
        last = not rest and not self._pending and not self._needs_directory
        if kind == "link" and (follow_last or not last):
            ends = not rest and not self._pending
            self._pending.extend(reversed(rest))
            self._expand_link(target, last=ends)
            return None
        if last:
            return Entry(self._root, (*self._names, name), kind)
        if kind != "missing":
            raise failure(self._path, "not_a_directory", f"{name!r} is not a directory")
        if not make_parents or self._pending:
            raise failure(self._path, "not_found", f"{name!r} does not exist")
        if self._needs_directory:
            raise failure(self._path, "not_a_file", "the path names a directory")
        return Entry(self._root, (*self._names, name, *rest), "missing", made=len(rest))

    async def _answer(self, names: Sequence[str]) -> tuple[EntryKind, int, str]:
        """Ask the helper for the first name that is not a directory."""
        directory = "/".join((self._root, *self._names))
        reply = await self._container.ask("look", directory, *names)
        if reply.status == REPLACED:
            raise failure(self._path, "changed", f"{directory!r} has been replaced")
        line, _, target = reply.output.partition(b"\n")
        match line.split(b" "):
            case [b"directory", count]:
                return "directory", int(count), ""
            case [b"link" | b"other" | b"missing" as kind, index] if int(index) < len(names):
                return _KINDS[kind], int(index), self._decoded(target)
            case _:
                raise failure(
                    self._path,
                    "failed",
                    "a directory on the path cannot be entered in the container",
                )

    def _decoded(self, target: bytes) -> str:
        try:
            return target.decode()
        except UnicodeDecodeError:
            raise failure(self._path, "invalid", "a symlink on the path is not UTF-8") from None

    def _expand_link(self, target: str, *, last: bool) -> None:
        self._links += 1
        if self._links > MAX_LINKS:
            raise failure(self._path, "refused", f"more than {MAX_LINKS} symlinks")
        if last and target.endswith(("/", "/.", "/..")):
            self._needs_directory = True
        if target.startswith("/"):
            self._restart(target)
        else:
            self._pending.extend(reversed(split(target)))

    def _ascend(self) -> None:
        if self._names:
            self._names.pop()
        else:  # the parent of a root may be in another root
            self._restart(self._root.rpartition("/")[0] or "/")

    def _restart(self, path: str) -> None:
        """Continue at an absolute path, if it is in one of the roots."""
        match = self._roots.match(path)
        if match is None:
            raise self._outside()
        self._root, names = match
        self._names = []
        self._pending.extend(reversed(names))

    def _outside(self) -> WorkspaceError:
        return failure(
            self._path, "refused", "the path leads outside the workspace and its allowed paths"
        )
