"""`LocalWorkspace`: the files of directories of this machine, and optionally its processes."""

import os
from collections.abc import Callable, Iterable
from typing import Final, Literal

from agent_actors.abc.workspace import WorkspaceProcess
from agent_actors.domain.workspace.files import FileLimits
from agent_actors.domain.workspace.processes import (
    OutputStream,
    ProcessLimits,
    ProcessResult,
    ProcessSpec,
)
from agent_actors.domain.workspace.report import WorkspaceReport
from agent_actors.errors import ConfigError, WorkspaceError
from agent_actors.toolbox.workspace.local.confined import (
    DEFAULT_LIMITS,
    ConfinedFiles,
)
from agent_actors.toolbox.workspace.local.protection import PROTECTED
from agent_actors.toolbox.workspace.processes.runner import SupervisedProcesses

_LIMITS: Final = ProcessLimits()


class LocalWorkspace(ConfinedFiles):
    """A workspace in directories of this machine; implements `abc.Workspace`. Needs Linux.

    File operations cannot leave the root and the allowed paths. Processes are refused by default,
    because a local workspace cannot confine them: a command can read and change everything that
    this program can.

    Args:
        root: The root directory.
        allowed_paths: Other directories whose files may be used, by their absolute paths.
        read_only: True if file operations must not change anything.
        protected: The patterns of files that cannot be changed; `()` for none.
        processes: `refused`, or `unconfined` to run commands with the rights of this program.
        limits: The limits of processes.
        file_limits: The limits of file operations.

    Raises:
        WorkspaceError: A directory cannot be opened, or the system is not Linux.
        ConfigError: `processes` has another value.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] = ".",
        allowed_paths: Iterable[str | os.PathLike[str]] = (),
        *,
        read_only: bool = False,
        protected: Iterable[str] = PROTECTED,
        processes: Literal["refused", "unconfined"] = "refused",
        limits: ProcessLimits = _LIMITS,
        file_limits: FileLimits = DEFAULT_LIMITS,
    ) -> None:
        if processes not in ("refused", "unconfined"):
            raise ConfigError(
                f"processes must be 'refused' or 'unconfined'; got {processes!r:.80}. Commands run "
                "in a sandbox in a BubblewrapWorkspace"
            )
        super().__init__(
            root, allowed_paths, read_only=read_only, protected=protected, limits=file_limits
        )
        self.limits: ProcessLimits = limits
        self._runner = SupervisedProcesses(limits) if processes == "unconfined" else None

    async def exec(self, spec: ProcessSpec) -> ProcessResult:
        """See `Workspace.exec`."""
        runner = self._runner_for(spec)
        async with self.directory(spec.cwd) as directory:
            return await runner.exec(spec, directory)

    async def start(
        self, spec: ProcessSpec, on_output: Callable[[OutputStream, bytes], None]
    ) -> WorkspaceProcess:
        """See `Workspace.start`."""
        runner = self._runner_for(spec)
        async with self.directory(spec.cwd) as directory:
            return await runner.start(spec, directory, on_output)

    def describe(self) -> WorkspaceReport:
        """See `Workspace.describe`."""
        newest, refused = self.refusals()
        runner = self._runner
        return WorkspaceReport(
            kind="local",
            root=self.root,
            allowed_paths=self.allowed_paths,
            read_only=self.read_only,
            protected=self.protected,
            processes="refused" if runner is None else "unconfined",
            limits=None if runner is None else self.limits,
            memory_limit="none" if runner is None else runner.memory_limit(),
            unenforced=() if runner is None else runner.unenforced(),
            refusals=newest,
            refused=refused,
        )

    async def aclose(self) -> None:
        """See `Workspace.aclose`."""
        if self._runner is not None:
            await self._runner.aclose()
        await super().aclose()

    def _runner_for(self, spec: ProcessSpec) -> SupervisedProcesses:
        if self._runner is not None:
            return self._runner
        command = spec.argv if isinstance(spec.argv, str) else " ".join(spec.argv)
        raise self.refuse(
            "exec",
            WorkspaceError(
                "this workspace runs no commands; use a sandbox, or pass "
                "`processes='unconfined'` to run commands with the rights of this program",
                reason="refused",
                path=command,
            ),
        )
