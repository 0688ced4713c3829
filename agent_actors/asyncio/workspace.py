"""The workspace and the background commands of a run, for tools in an asyncio event loop."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

import attrs

from agent_actors.abc import BackgroundTasks, Workspace, WorkspaceProcess
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

T = TypeVar("T")


class CallTrio(Protocol):
    """Calls an async function in the trio thread, from an event loop."""

    async def __call__(self, work: Callable[[], Awaitable[T]], /) -> T:
        """Call the function and return its value."""
        ...


@attrs.frozen(eq=False)
class LoopProcess:
    """A `WorkspaceProcess` for an event loop."""

    _call: CallTrio
    _process: WorkspaceProcess

    async def wait(self) -> ProcessEnd:
        """Wait for the end of the process."""
        return await self._call(self._process.wait)

    async def kill(self) -> ProcessEnd:
        """End the process and its children."""
        return await self._call(self._process.kill)


@attrs.frozen(eq=False)
class LoopWorkspace:
    """A `Workspace` for an event loop; its operations run in the trio thread."""

    _call: CallTrio
    _workspace: Workspace

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> FileData:
        """Read a regular file."""
        return await self._call(partial(self._workspace.read, path, offset=offset, limit=limit))

    async def write(
        self, path: str, data: bytes, *, overwrite: bool = True, expected: str | None = None
    ) -> FileInfo:
        """Write a file atomically."""
        work = partial(self._workspace.write, path, data, overwrite=overwrite, expected=expected)
        return await self._call(work)

    async def stat(self, path: str) -> FileInfo:
        """Return the state of a file or directory."""
        return await self._call(partial(self._workspace.stat, path))

    async def list(self, path: str = ".", *, limit: int = MAX_MATCHES) -> Listing:
        """Return the entries of a directory."""
        return await self._call(partial(self._workspace.list, path, limit=limit))

    async def glob(
        self,
        pattern: str,
        path: str = ".",
        *,
        limit: int = MAX_MATCHES,
        use_gitignore: bool = False,
    ) -> PathMatches:
        """Return the files below `path` that match a pattern."""
        work = partial(
            self._workspace.glob, pattern, path, limit=limit, use_gitignore=use_gitignore
        )
        return await self._call(work)

    async def grep(self, query: GrepQuery) -> GrepMatches:
        """Search the content of files."""
        return await self._call(partial(self._workspace.grep, query))

    async def remove(self, path: str) -> None:
        """Remove a file, or an empty directory."""
        await self._call(partial(self._workspace.remove, path))

    async def exec(self, spec: ProcessSpec) -> ProcessResult:
        """Run a command and wait for its end."""
        return await self._call(partial(self._workspace.exec, spec))

    async def start(
        self, spec: ProcessSpec, on_output: Callable[[OutputStream, bytes], None]
    ) -> LoopProcess:
        """Start a command; `on_output` is called in the trio thread and must not block."""
        process = await self._call(partial(self._workspace.start, spec, on_output))
        return LoopProcess(self._call, process)

    def describe(self) -> WorkspaceReport:
        """Return the workspace's confinement and what it has refused so far."""
        return self._workspace.describe()

    async def aclose(self) -> None:
        """End all processes and release everything that the workspace holds."""
        await self._call(self._workspace.aclose)


@attrs.frozen(eq=False)
class LoopBackground:
    """The `BackgroundTasks` of a session, for an event loop."""

    _call: CallTrio
    _tasks: BackgroundTasks

    async def start(self, spec: ProcessSpec) -> BackgroundTask:
        """Start a command."""
        return await self._call(partial(self._tasks.start, spec))

    async def read(self, task_id: str) -> BackgroundOutput:
        """Return the output since the last call, and the state."""
        return await self._call(partial(self._tasks.read, task_id))

    async def kill(self, task_id: str) -> BackgroundOutput:
        """End a command and its children, and return its last output and state."""
        return await self._call(partial(self._tasks.kill, task_id))

    def list(self) -> Sequence[BackgroundTask]:
        """Return the session's background commands, oldest first."""
        return self._tasks.list()
