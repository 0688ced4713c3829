"""The workspace that the tools of one run see.

It passes every operation on to the session's workspace, as long as the run holds its lease.
Commands wait for a slot of the runtime. Processes that a tool started and left running end with the
run.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

import trio

from agent_actors.abc import Workspace, WorkspaceProcess
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
from agent_actors.errors import WorkspaceError
from agent_actors.kernel.fair_limiter import FairLimiter
from agent_actors.kernel.interrupts import await_unprotected, call_unprotected

if TYPE_CHECKING:
    from agent_actors.domain.workspace.report import WorkspaceReport

P = ParamSpec("P")
T = TypeVar("T")

# Time limit, in seconds, for ending the processes that a run left running.
KILL_TIMEOUT: Final = 10.0


class LeasedProcess:
    """A process that ends with the run at the latest."""

    def __init__(self, process: WorkspaceProcess, running: "set[LeasedProcess]") -> None:
        self._process = process
        self._running = running
        running.add(self)

    async def wait(self) -> ProcessEnd:
        """See `WorkspaceProcess.wait`."""
        end = await await_unprotected(self._process.wait)
        self._running.discard(self)
        return end

    async def kill(self) -> ProcessEnd:
        """See `WorkspaceProcess.kill`."""
        end = await await_unprotected(self._process.kill)
        self._running.discard(self)
        return end


class LeasedWorkspace:
    """A session's workspace for one run; see the module.

    Args:
        workspace: The workspace of the session.
        slots: The slots for commands of the runtime.
        session_id: The session that the slots count against.
    """

    def __init__(self, workspace: Workspace, slots: FairLimiter, session_id: str) -> None:
        self._workspace = workspace
        self._slots = slots
        self._session_id = session_id
        self._running: set[LeasedProcess] = set()
        self._released = False

    @property
    def has_processes(self) -> bool:
        """True if a process is running that a tool started and did not wait for."""
        return bool(self._running)

    def release(self) -> None:
        """Refuse further operations."""
        self._released = True

    async def end_processes(self) -> None:
        """End the processes that tools left running.

        Cancellation: shielded; there is a time limit.
        """
        with trio.move_on_after(KILL_TIMEOUT, shield=True):
            async with trio.open_nursery() as nursery:
                for process in tuple(self._running):
                    nursery.start_soon(_end_quietly, process)

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> FileData:
        """See `Workspace.read`."""
        return await self._call(self._workspace.read, path, offset=offset, limit=limit)

    async def write(
        self, path: str, data: bytes, *, overwrite: bool = True, expected: str | None = None
    ) -> FileInfo:
        """See `Workspace.write`."""
        write = self._workspace.write
        return await self._call(write, path, data, overwrite=overwrite, expected=expected)

    async def stat(self, path: str) -> FileInfo:
        """See `Workspace.stat`."""
        return await self._call(self._workspace.stat, path)

    async def list(self, path: str = ".", *, limit: int = MAX_MATCHES) -> Listing:
        """See `Workspace.list`."""
        return await self._call(self._workspace.list, path, limit=limit)

    async def glob(
        self,
        pattern: str,
        path: str = ".",
        *,
        limit: int = MAX_MATCHES,
        use_gitignore: bool = False,
    ) -> PathMatches:
        """See `Workspace.glob`."""
        glob = self._workspace.glob
        return await self._call(glob, pattern, path, limit=limit, use_gitignore=use_gitignore)

    async def grep(self, query: GrepQuery) -> GrepMatches:
        """See `Workspace.grep`."""
        return await self._call(self._workspace.grep, query)

    async def remove(self, path: str) -> None:
        """See `Workspace.remove`."""
        await self._call(self._workspace.remove, path)

    async def exec(self, spec: ProcessSpec) -> ProcessResult:
        """Wait for a free slot of the runtime, and run a command; see `Workspace.exec`."""
        self._check()
        await self._slots.acquire(self._session_id)
        try:
            return await self._call(self._workspace.exec, spec)
        finally:
            self._slots.release(self._session_id)

    async def start(
        self, spec: ProcessSpec, on_output: Callable[[OutputStream, bytes], None]
    ) -> WorkspaceProcess:
        """Start a command that ends with the run at the latest; see `Workspace.start`."""
        return LeasedProcess(
            await self._call(self._workspace.start, spec, on_output), self._running
        )

    def describe(self) -> "WorkspaceReport":
        """See `Workspace.describe`."""
        return call_unprotected(self._workspace.describe)

    async def aclose(self) -> None:
        """Do nothing: the session's workspace is closed with the session."""
        await trio.lowlevel.checkpoint()

    def _check(self) -> None:
        if self._released:
            raise WorkspaceError("the run that used the workspace has ended", reason="unavailable")

    async def _call(
        self, operation: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        self._check()
        return await await_unprotected(operation, *args, **kwargs)


async def _end_quietly(process: LeasedProcess) -> None:
    with suppress(Exception):  # the workspace itself ends what is left
        await process.kill()
