"""A workspace whose commands the test ends, which records how it is used."""

from collections.abc import Callable
from typing import NoReturn

import trio

from agent_actors.domain.workspace.files import (
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
from agent_actors.errors import WorkspaceError

DONE = ProcessEnd(exit_code=0)


class FakeProcess:
    """A process that runs until the test or the runtime ends it."""

    def __init__(self, write: Callable[[OutputStream, bytes], None]) -> None:
        self.write = write
        self.result: ProcessEnd | None = None
        self.kills = 0
        self._ended = trio.Event()

    def end(self, result: ProcessEnd = DONE) -> None:
        """End the process."""
        self.result = self.result or result
        self._ended.set()

    async def wait(self) -> ProcessEnd:
        await self._ended.wait()
        assert self.result is not None
        return self.result

    async def kill(self) -> ProcessEnd:
        self.kills += 1
        await trio.lowlevel.checkpoint()
        self.end(ProcessEnd(signal="SIGTERM"))
        return await self.wait()


class FakeWorkspace:
    """A workspace without files; `exec` takes one second."""

    def __init__(self, close_seconds: float = 0.0) -> None:
        self.processes: list[FakeProcess] = []
        self.closed = 0
        self.executing = 0
        self.peak = 0
        self.order: list[str] = []
        self._close_seconds = close_seconds

    async def exec(self, spec: ProcessSpec) -> ProcessResult:
        assert not self.closed
        self.executing += 1
        self.peak = max(self.peak, self.executing)
        self.order.append(str(spec.argv))
        try:
            await trio.sleep(1)
        finally:
            self.executing -= 1
        return ProcessResult(end=DONE)

    async def start(
        self, spec: ProcessSpec, on_output: Callable[[OutputStream, bytes], None]
    ) -> FakeProcess:
        del spec
        assert not self.closed
        await trio.lowlevel.checkpoint()
        self.processes.append(FakeProcess(on_output))
        return self.processes[-1]

    async def stat(self, path: str) -> FileInfo:
        assert not self.closed
        await trio.lowlevel.checkpoint()
        return FileInfo(path, "file")

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> FileData:
        _refuse(path, offset, limit)

    async def write(
        self, path: str, data: bytes, *, overwrite: bool = True, expected: str | None = None
    ) -> FileInfo:
        _refuse(path, data, overwrite, expected)

    async def list(self, path: str = ".", *, limit: int = 9) -> Listing:
        _refuse(path, limit)

    async def glob(
        self, pattern: str, path: str = ".", *, limit: int = 9, use_gitignore: bool = False
    ) -> PathMatches:
        _refuse(pattern, path, limit, use_gitignore)

    async def grep(self, query: GrepQuery) -> GrepMatches:
        _refuse(query)

    async def remove(self, path: str) -> None:
        _refuse(path)

    def describe(self) -> WorkspaceReport:
        return WorkspaceReport(kind="custom", root="/fake", processes="sandboxed")

    async def aclose(self) -> None:
        await trio.sleep(self._close_seconds)
        assert not self.executing
        assert all(process.result is not None for process in self.processes)
        self.closed += 1


def _refuse(*arguments: object) -> NoReturn:
    raise WorkspaceError(f"not supported: {arguments}", reason="failed")
