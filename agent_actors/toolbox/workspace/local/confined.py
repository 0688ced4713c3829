"""`ConfinedFiles`: the asynchronous file operations that local and sandboxed workspaces share."""

import os
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeVar, cast

import attrs
import trio

from agent_actors.domain.workspace.files import (
    MAX_MATCHES,
    FileData,
    FileInfo,
    FileLimits,
    GrepMatches,
    GrepQuery,
    Listing,
    PathMatches,
)
from agent_actors.domain.workspace.report import Refusal
from agent_actors.domain.workspace.trees import (
    FileTree,
    RestoreReport,
    TreeEntry,
    WorkspaceSnapshot,
)
from agent_actors.errors import WorkspaceError
from agent_actors.toolbox.workspace.local.failures import Check, Refusals, failure
from agent_actors.toolbox.workspace.local.files import Files
from agent_actors.toolbox.workspace.local.linux import check_system
from agent_actors.toolbox.workspace.local.protection import PROTECTED, Protection
from agent_actors.toolbox.workspace.local.roots import Roots
from agent_actors.toolbox.workspace.local.search.find import find
from agent_actors.toolbox.workspace.local.search.grep import grep
from agent_actors.toolbox.workspace.local.trees import discard, load, put, scan
from agent_actors.toolbox.workspace.local.walk import walk_to
from agent_actors.toolbox.workspace.local.writing import Condition

if TYPE_CHECKING:
    from agent_actors.abc.workspace import Workspace

T = TypeVar("T")

DEFAULT_LIMITS: Final = FileLimits()


@attrs.frozen(eq=False)
class WorkingDirectory:
    """A directory of the workspace that is held open while a process starts in it.

    Attributes:
        fd: The descriptor, opened with `O_PATH`. `/proc/self/fd/<fd>` leads to the directory.
        path: The absolute path that the directory had when it was opened.
        shown: The path in the form of `FileInfo.path`.
    """

    fd: int
    path: str
    shown: str


class ConfinedFiles:
    """The file operations of a workspace, confined to some directories.

    Operations run in worker threads. A cancelled call ends at its next step; a write that has
    already replaced the file returns as if it had not been cancelled. A file system that does not
    respond (for example NFS) also blocks the cancelled call.

    Args:
        root: The root directory.
        allowed_paths: Other directories whose files may be used, by their absolute paths.
        read_only: True if no file can be changed.
        protected: The patterns of files that cannot be changed; see `PROTECTED`.
        limits: The limits of operations.

    Raises:
        WorkspaceError: A directory cannot be opened, or the system is not supported.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] = ".",
        allowed_paths: Iterable[str | os.PathLike[str]] = (),
        *,
        read_only: bool = False,
        protected: Iterable[str] = PROTECTED,
        limits: FileLimits = DEFAULT_LIMITS,
    ) -> None:
        check_system()
        protection = Protection(protected)
        roots = Roots(os.fspath(root), [os.fspath(path) for path in allowed_paths], protection)
        self.root: str = roots.main.path
        self.allowed_paths: tuple[str, ...] = roots.paths[1:]
        self.protected: tuple[str, ...] = protection.patterns
        self.read_only: bool = read_only
        self._files = Files(roots, protection, limits, read_only)
        self._refusals = Refusals()
        self._running = 0
        self._closed = False
        self._idle = trio.Event()
        # Closes the descriptors of a workspace that is discarded without `aclose`.
        self._release = weakref.finalize(self, roots.close)

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> FileData:
        """See `Workspace.read`."""
        files = self._files
        return await self._call("read", path, lambda check: files.read(path, offset, limit, check))

    async def write(
        self, path: str, data: bytes, *, overwrite: bool = True, expected: str | None = None
    ) -> FileInfo:
        """See `Workspace.write`."""
        files, condition = self._files, Condition(overwrite, expected)
        return await self._call(
            "write", path, lambda check: files.write(path, data, condition, check)
        )

    async def stat(self, path: str) -> FileInfo:
        """See `Workspace.stat`."""
        return await self._call("stat", path, lambda _: self._files.stat(path))

    async def list(self, path: str = ".", *, limit: int = MAX_MATCHES) -> Listing:
        """See `Workspace.list`."""
        files = self._files
        return await self._call("list", path, lambda check: files.list(path, limit, check))

    async def remove(self, path: str) -> None:
        """See `Workspace.remove`."""
        await self._call("remove", path, lambda _: self._files.remove(path))

    async def glob(
        self,
        pattern: str,
        path: str = ".",
        *,
        limit: int = MAX_MATCHES,
        use_gitignore: bool = False,
    ) -> PathMatches:
        """See `Workspace.glob`.

        `*` matches within one component, `**` any number of components, `[abc]` one character, and
        `{a,b}` either text. Hidden files match like all others. The content of `.git` directories
        is left out, unless the pattern or `path` contains `.git`. Symlinks to directories are not
        followed. A symlink to a file is found if the file is in the workspace.
        """
        files = self._files
        return await self._call(
            "glob",
            path,
            lambda check: find(
                files, pattern, path, check, limit=limit, use_gitignore=use_gitignore
            ),
        )

    async def grep(self, query: GrepQuery) -> GrepMatches:
        """See `Workspace.grep`.

        Uses ripgrep if the extra `tools` is installed, and Python's `re` in a separate process
        otherwise. Hidden files are searched like all others. The content of `.git` directories is
        left out, unless `path` leads into one. Symlinks below `path` are not followed.
        """
        return await self._use("grep", query.path, lambda: grep(self._files, query, _in_thread))

    async def tree(self, *, limit: int) -> FileTree:
        """See `TreeWorkspace.tree`."""
        return await self._call("tree", ".", lambda check: scan(self._files, limit, check))

    async def load(self, paths: Sequence[str], *, limit: int) -> Sequence[FileData | None]:
        """See `TreeWorkspace.load`."""
        files = self._files
        return await self._call("load", ".", lambda check: load(files, paths, limit, check))

    async def put(self, entry: TreeEntry, data: bytes, *, expected: str) -> None:
        """See `TreeWorkspace.put`."""
        files = self._files
        await self._call("put", entry.path, lambda check: put(files, entry, data, expected, check))

    async def discard(self, path: str, *, expected: str) -> None:
        """See `TreeWorkspace.discard`."""
        await self._call("discard", path, lambda _: discard(self._files, path, expected))

    async def snapshot(self, directory: str | os.PathLike[str]) -> WorkspaceSnapshot:
        """Copy the files to a directory, so that another process can restore them.

        Args:
            directory: The directory, which must be outside the workspace. Several snapshots can
                share it, and it can be moved to another machine.

        Raises:
            ConfigError: The directory is inside the workspace.
            WorkspaceError: The files cannot be listed, or the copies cannot be written.

        Cancellation: safe; a part of the files may have been copied.
        """
        from agent_actors.toolbox.checkpoints import snapshots  # noqa: PLC0415 - imports this

        # Every subclass is a complete workspace.
        return await snapshots.take_snapshot(cast("Workspace", self), directory)

    async def restore(self, path: str | os.PathLike[str]) -> RestoreReport:
        """Make the files equal to those of a snapshot.

        Files that snapshots do not cover, such as ignored and protected ones, are left as they are.

        Args:
            path: The path of the snapshot.

        Raises:
            WorkspaceError: The snapshot does not exist (reason `not_found`), or a file could not be
                restored. The call can be repeated.

        Cancellation: each file is either unchanged or restored; the call can be repeated.
        """
        from agent_actors.toolbox.checkpoints import snapshots  # noqa: PLC0415 - imports this

        return await snapshots.restore_snapshot(cast("Workspace", self), path)

    @asynccontextmanager
    @trio.lowlevel.enable_ki_protection
    async def directory(self, path: str) -> AsyncGenerator[WorkingDirectory]:
        """Hold a directory open, for example to start a process in it.

        Raises:
            WorkspaceError: The path does not lead to a directory of the workspace.
        """

        def hold(_: Check) -> WorkingDirectory:
            with walk_to(self._files.roots, path) as (walk, entry):
                if not entry.is_directory:
                    raise failure(path, "not_a_directory", "it is not a directory")
                assert entry.fd is not None
                absolute = "/".join((walk.root.path.rstrip("/"), *entry.names)) or "/"
                return WorkingDirectory(os.dup(entry.fd), absolute, walk.shown(entry))

        held = await self._call("directory", path, hold)
        try:
            yield held
        finally:
            os.close(held.fd)

    def refusals(self) -> tuple[tuple[Refusal, ...], int]:
        """Return the newest refused operations, and the number of all."""
        return self._refusals.newest()

    def refuse(self, operation: str, error: WorkspaceError) -> WorkspaceError:
        """Record an error that another part of the workspace raises, and return it."""
        self._refusals.add(operation, error)
        return error

    async def aclose(self) -> None:
        """Wait for running operations and close the directories; may be repeated.

        Cancellation: the directories are closed when the last operation ends.
        """
        self._closed = True
        self._close_if_idle()
        await self._idle.wait()

    def _close_if_idle(self) -> None:
        if self._closed and not self._running:
            self._release()
            self._idle.set()

    async def _call(self, operation: str, path: str, work: Callable[[Check], T]) -> T:
        return await self._use(operation, path, lambda: _in_thread(work))

    @trio.lowlevel.enable_ki_protection
    async def _use(self, operation: str, path: str, work: Callable[[], Awaitable[T]]) -> T:
        """Run an operation while the roots are held open."""
        if self._closed:
            raise failure(path, "unavailable", "the workspace is closed")
        self._running += 1
        try:
            return await work()
        except WorkspaceError as error:
            self._refusals.add(operation, error)
            raise
        finally:
            self._running -= 1
            self._close_if_idle()


async def _in_thread(work: Callable[[Check], T]) -> T:
    """Run a blocking function in a worker thread of trio.

    Cancellation: the function notices it at its next check; the call waits for that.
    """
    return await trio.to_thread.run_sync(work, trio.from_thread.check_cancelled)
