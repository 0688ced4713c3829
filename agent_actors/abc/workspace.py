"""The ports of workspaces, checkpoints and background commands."""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from agent_actors.domain.workspace.background import BackgroundOutput, BackgroundTask
from agent_actors.domain.workspace.files import (
    MAX_MATCHES,
    FileData,
    FileInfo,
    GrepMatches,
    GrepQuery,
    Listing,
    PathMatches,
)
from agent_actors.domain.workspace.processes import (
    OutputStream,
    ProcessEnd,
    ProcessResult,
    ProcessSpec,
)
from agent_actors.domain.workspace.report import WorkspaceReport
from agent_actors.domain.workspace.trees import (
    Checkpoint,
    FileChange,
    FileTree,
    RestorePlan,
    RestoreReport,
    TreeEntry,
)


class WorkspaceProcess(Protocol):
    """A process that `Workspace.start` has started."""

    async def wait(self) -> ProcessEnd:
        """Wait for the end of the process and its output, and return the end.

        Cancellation: the process continues.
        """
        ...

    async def kill(self) -> ProcessEnd:
        """End the process and its children (SIGTERM, then SIGKILL after a grace period).

        Cancellation: the processes are killed at once, and the call returns when they have ended.
        """
        ...


@runtime_checkable
class Workspace(Protocol):
    """A place where an agent works: confined files and processes.

    Paths are relative to the root, or absolute. A path that leads outside the root and the other
    allowed paths is refused, also through symlinks and while other processes rename components.
    All methods may be called concurrently and after a cancelled call.

    Every method except `describe` and `aclose` raises `WorkspaceError`; its `reason` says why.
    """

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> FileData:
        """Read a regular file.

        Args:
            path: The file.
            offset: The number of bytes to skip.
            limit: Maximum number of bytes to return; None for the workspace's own maximum.
        """
        ...

    async def write(
        self, path: str, data: bytes, *, overwrite: bool = True, expected: str | None = None
    ) -> FileInfo:
        """Write a file atomically: readers see the old or the new content, never a part.

        Missing parent directories are created. The mode of an existing file is kept.

        Args:
            path: The file.
            data: The complete new content.
            overwrite: False to refuse if the file exists (reason `exists`).
            expected: The `FileInfo.version` that the file must have (reason `changed`).

        Returns:
            The new state of the file.

        Cancellation: the file has either its old or its new content; no temporary file is left.
        """
        ...

    async def stat(self, path: str) -> FileInfo:
        """Return the state of a file or directory."""
        ...

    async def list(self, path: str = ".", *, limit: int = MAX_MATCHES) -> Listing:
        """Return the entries of a directory."""
        ...

    async def glob(
        self,
        pattern: str,
        path: str = ".",
        *,
        limit: int = MAX_MATCHES,
        use_gitignore: bool = False,
    ) -> PathMatches:
        """Return the files below `path` that match a pattern; `**` matches any directories."""
        ...

    async def grep(self, query: GrepQuery) -> GrepMatches:
        """Search the content of files. Symlinks to directories are not followed."""
        ...

    async def remove(self, path: str) -> None:
        """Remove a file, or an empty directory. A symlink is removed itself, not its target."""
        ...

    async def exec(self, spec: ProcessSpec) -> ProcessResult:
        """Run a command and wait for its end.

        Cancellation: the command and its children are ended before the call returns.
        """
        ...

    async def start(
        self, spec: ProcessSpec, on_output: Callable[[OutputStream, bytes], None]
    ) -> WorkspaceProcess:
        """Start a command without waiting for its end.

        Args:
            spec: The command. Its `timeout` and `max_output_bytes` do not apply.
            on_output: Called in the event loop with each piece of output; must not block.
        """
        ...

    def describe(self) -> WorkspaceReport:
        """Return the workspace's confinement and what it has refused so far."""
        ...

    async def aclose(self) -> None:
        """End all processes and release everything that the workspace holds; may be repeated."""
        ...


@runtime_checkable
class TreeWorkspace(Workspace, Protocol):
    """The optional methods of a `Workspace` that make checkpoints exact and fast.

    Without them, checkpoints use the methods of `Workspace`, which report neither modes nor
    symlinks.
    """

    async def tree(self, *, limit: int) -> FileTree:
        """Return the files, symlinks and directories below the root.

        Left out are files that `.gitignore` files exclude, protected files, `.git` directories, and
        FIFOs, sockets and devices.

        Args:
            limit: Maximum number of entries.
        """
        ...

    async def load(self, paths: Sequence[str], *, limit: int) -> Sequence[FileData | None]:
        """Read several files at once.

        Args:
            paths: The files.
            limit: Maximum number of bytes of each file.

        Returns:
            The content of each file; None for a file that cannot be read.
        """
        ...

    async def put(self, entry: TreeEntry, data: bytes, *, expected: str) -> None:
        """Create or replace a file, or create a symlink or a directory, with its mode.

        A file is replaced atomically. No symlink in the path is followed.

        Args:
            entry: The entry; its `version` and `size` are ignored.
            data: The content of a file.
            expected: The version of the file to replace; empty if nothing may exist at the path
                (an existing directory is kept).

        Raises:
            WorkspaceError: The entry is not as expected (reason `changed` or `exists`), or cannot
                be written.

        Cancellation: the entry is either unchanged or complete.
        """
        ...

    async def discard(self, path: str, *, expected: str) -> None:
        """Remove a file, a symlink or an empty directory. No symlink in the path is followed.

        Args:
            path: The entry.
            expected: The version that the entry must have; not compared if it is empty.

        Raises:
            WorkspaceError: The entry is not as expected (reason `changed`), or cannot be removed.
        """
        ...


class Checkpointer(Protocol):
    """Keeps copies of the files of workspaces, outside the workspaces.

    All methods may be called concurrently, also by several processes.
    """

    def check(self, workspace: Workspace) -> None:
        """Check that the copies are outside the workspace.

        Raises:
            ConfigError: The copies would be inside the workspace.
        """
        ...

    async def take(self, workspace: Workspace) -> Checkpoint:
        """Copy the files of a workspace. Files that are already copied are not copied again.

        Raises:
            WorkspaceError: The files cannot be listed, or the copies cannot be written.

        Cancellation: safe; a part of the files may have been copied.
        """
        ...

    async def changes(self, before: str, after: str) -> tuple[FileChange, ...]:
        """Return the files that differ between two checkpoints, sorted by path.

        Raises:
            WorkspaceError: A checkpoint does not exist (reason `not_found`).
        """
        ...

    async def restore(
        self, workspace: Workspace, plan: RestorePlan, *, dry_run: bool
    ) -> RestoreReport:
        """Give the files that the agent changed the state that they have in a checkpoint.

        Files that others changed afterwards are left as they are.

        Args:
            workspace: The workspace.
            plan: The checkpoints.
            dry_run: True to change nothing.

        Raises:
            WorkspaceError: A checkpoint does not exist (reason `not_found`), or a file could not be
                restored. The other files have been restored; the call can be repeated.

        Cancellation: each file is either unchanged or restored; the call can be repeated.
        """
        ...


class BackgroundTasks(Protocol):
    """The background commands of one session.

    A background command ends with its owner: the session, or the runtime. It does not end with the
    call or the run that started it.
    """

    async def start(self, spec: ProcessSpec) -> BackgroundTask:
        """Start a command.

        Raises:
            WorkspaceError: Too many background commands are running (reason `limit`), or the
                workspace refuses the command.
        """
        ...

    async def read(self, task_id: str) -> BackgroundOutput:
        """Return the output since the last call, and the state.

        Raises:
            WorkspaceError: The id names no command (reason `not_found`).
        """
        ...

    async def kill(self, task_id: str) -> BackgroundOutput:
        """End a command and its children, and return its last output and state.

        Raises:
            WorkspaceError: The id names no command (reason `not_found`).
        """
        ...

    def list(self) -> Sequence[BackgroundTask]:
        """Return the session's background commands, oldest first."""
        ...
