"""`ContainerWorkspace`: the files and commands of a container."""

import os
import socket
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar

import attrs
import trio

from agent_actors.abc.workspace import WorkspaceProcess
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
from agent_actors.domain.workspace.processes import (
    OutputStream,
    ProcessLimits,
    ProcessResult,
    ProcessSpec,
)
from agent_actors.domain.workspace.report import WorkspaceReport
from agent_actors.errors import ConfigError, WorkspaceError
from agent_actors.toolbox.workspace.container.container import Container
from agent_actors.toolbox.workspace.container.engine import EngineName, engine_environment
from agent_actors.toolbox.workspace.container.files import ContainerFiles
from agent_actors.toolbox.workspace.container.helper import open_directory, shell_arguments
from agent_actors.toolbox.workspace.container.processes import (
    Command,
    ContainerLifeline,
)
from agent_actors.toolbox.workspace.container.search import find, grep
from agent_actors.toolbox.workspace.container.walk import ContainerRoots
from agent_actors.toolbox.workspace.local.confined import DEFAULT_LIMITS
from agent_actors.toolbox.workspace.local.failures import Refusals, failure
from agent_actors.toolbox.workspace.local.protection import PROTECTED, Protection
from agent_actors.toolbox.workspace.local.writing import Condition
from agent_actors.toolbox.workspace.processes.lifeline import Launch
from agent_actors.toolbox.workspace.processes.runner import Directory, SupervisedProcesses, argv_of

T = TypeVar("T")

_LIMITS: Final = ProcessLimits()
_UNUSABLE: Final = frozenset({"", ".", ".."})
_KERNEL: Final = frozenset({"proc", "sys", "dev"})


class ContainerWorkspace:
    """A workspace in a container of Docker or Podman; implements `abc.Workspace`.

    Files are those of the container: of its image, of `mounts`, and what commands create. The
    container starts at the first operation. `aclose` removes it, and so does the end of this
    program. If the container ends by itself, all further operations fail.

    Args:
        image: The name of the image; or a `Container` that several workspaces share, whose owner
            closes it. The arguments from `engine` to `user` are then those of the container.
        workdir: The root: an absolute path in the container. It is created if it does not exist.
        engine: The engine: `docker` or `podman`.
        mounts: The directories of this machine that the container sees: the path here, and the
            absolute path in the container. `:ro` at its end makes the directory read-only.
        limits: The limits of commands. Memory and the number of processes are limited for all
            processes of the container together.
        network: True if commands may use the network; False for no network.
        user: The user of all processes, as `uid:gid` or a name; by default the image's own user.
        allowed_paths: Other directories in the container whose files may be used.
        read_only: True if neither file operations nor commands may change files.
        protected: The patterns of files that cannot be changed; `()` for none.
        file_limits: The limits of file operations.

    Raises:
        WorkspaceError: The engine is not installed, or does not answer (reason `unavailable`).
            Commands are never run without a container instead.
        ConfigError: An argument is not valid.
    """

    def __init__(
        self,
        image: str | Container,
        workdir: str = "/workspace",
        *,
        engine: EngineName = "docker",
        mounts: Mapping[str | os.PathLike[str], str] | None = None,
        limits: ProcessLimits = _LIMITS,
        network: bool = False,
        user: str = "",
        allowed_paths: Iterable[str] = (),
        read_only: bool = False,
        protected: Iterable[str] = PROTECTED,
        file_limits: FileLimits = DEFAULT_LIMITS,
    ) -> None:
        protection = Protection(protected)
        roots = ContainerRoots(tuple(map(_directory, (workdir, *allowed_paths))))
        self._owns_container = not isinstance(image, Container)
        if isinstance(image, Container):
            self.container: Container = image
        else:
            self.container = Container(
                image,
                engine=engine,
                mounts=mounts,
                limits=limits,
                network=network,
                read_only=read_only,
                user=user,
            )
            self.container.protect(protection.patterns)
        self._files = ContainerFiles(self.container, roots, protection, file_limits, read_only)
        self._processes = _ContainerProcesses(self.container)
        self._refusals = Refusals()
        self._preparing = trio.Lock()
        self._is_prepared = False
        self._closed = False

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> FileData:
        """See `Workspace.read`."""
        return await self._call("read", path, lambda: self._files.read(path, offset, limit))

    async def write(
        self, path: str, data: bytes, *, overwrite: bool = True, expected: str | None = None
    ) -> FileInfo:
        """See `Workspace.write`."""
        condition = Condition(overwrite, expected)
        return await self._call("write", path, lambda: self._files.write(path, data, condition))

    async def stat(self, path: str) -> FileInfo:
        """See `Workspace.stat`."""
        return await self._call("stat", path, lambda: self._files.stat(path))

    async def list(self, path: str = ".", *, limit: int = MAX_MATCHES) -> Listing:
        """See `Workspace.list`."""
        return await self._call("list", path, lambda: self._files.list(path, limit))

    async def glob(
        self,
        pattern: str,
        path: str = ".",
        *,
        limit: int = MAX_MATCHES,
        use_gitignore: bool = False,
    ) -> PathMatches:
        """See `Workspace.glob`, and `LocalWorkspace.glob` for the patterns."""
        files = self._files
        return await self._call(
            "glob",
            path,
            lambda: find(files, pattern, path, limit=limit, use_gitignore=use_gitignore),
        )

    async def grep(self, query: GrepQuery) -> GrepMatches:
        """See `Workspace.grep`.

        The files to search are copied to a temporary directory of this machine, at most 200 MB.
        """
        return await self._call("grep", query.path, lambda: grep(self._files, query))

    async def remove(self, path: str) -> None:
        """See `Workspace.remove`."""
        await self._call("remove", path, lambda: self._files.remove(path))

    async def exec(self, spec: ProcessSpec) -> ProcessResult:
        """See `Workspace.exec`.

        An exit code above 128 is reported as a signal, because engines report signals so. A program
        that does not exist has the exit code 127. CPU time and memory are not reported.
        """
        directory = await self._call("exec", spec.cwd, lambda: self._directory(spec.cwd))
        return await self._processes.exec_in(spec, directory)

    async def start(
        self, spec: ProcessSpec, on_output: Callable[[OutputStream, bytes], None]
    ) -> WorkspaceProcess:
        """See `Workspace.start`, and `exec` for the end of the command."""
        directory = await self._call("start", spec.cwd, lambda: self._directory(spec.cwd))
        return await self._processes.start_in(spec, directory, on_output)

    def describe(self) -> WorkspaceReport:
        """See `Workspace.describe`."""
        newest, refused = self._refusals.newest()
        files, container = self._files, self.container
        root, *allowed = files.roots.paths
        return WorkspaceReport(
            kind=container.engine.name,
            root=root,
            allowed_paths=tuple(allowed),
            read_only=files.read_only,
            protected=files.protection.patterns,
            processes="sandboxed",
            network=container.spec.network,
            limits=container.spec.limits,
            unenforced=tuple(self._unenforced()),
            refusals=newest,
            refused=refused,
        )

    async def aclose(self) -> None:
        """See `Workspace.aclose`. A shared container stays.

        Cancellation: ignored, for at most a few seconds.
        """
        self._closed = True
        await self._processes.aclose()
        if self._owns_container:
            await self.container.aclose()

    def _unenforced(self) -> Iterator[str]:
        container, files = self.container, self._files
        limits, engine = container.spec.limits, container.engine
        if limits.memory_bytes is not None and not engine.limits_memory:
            yield "memory: the limit applies to the address space of each process"
        if limits.processes is not None and not engine.limits_processes:
            yield f"processes: {engine.name} cannot limit their number on this machine"
        if files.read_only and not container.spec.read_only:
            yield "read_only: commands can change files, because the container is shared"
        elif files.protection.patterns and not files.read_only:
            yield (
                "protected: commands can change protected files, except those at the top of mounts"
            )

    async def _directory(self, path: str) -> str:
        """Return the absolute path of a working directory."""
        entry = await self._files.existing(path)
        if not entry.is_directory:
            raise failure(path, "not_a_directory", "it is not a directory")
        return entry.path

    async def _call(self, operation: str, path: str, work: Callable[[], Awaitable[T]]) -> T:
        try:
            await self._prepare(path)
            return await work()
        except WorkspaceError as error:
            self._refusals.add(operation, error)
            raise
        except ValueError as error:  # the output of a container is not trusted
            raise failure(
                path, "failed", f"the container sent an invalid reply: {error}"
            ) from error

    async def _prepare(self, path: str) -> None:
        """Start the container and create the root, unless that has been done."""
        if self._closed:
            raise failure(path, "unavailable", "the workspace is closed")
        if self._is_prepared:
            return
        async with self._preparing:
            for root in self._files.roots.paths:
                reply = await self.container.ask("prepare", root, merge=True)
                if reply.status:
                    why = reply.output.decode("utf-8", "replace").strip()
                    raise WorkspaceError(
                        f"the directory {root!r} of the container cannot be used: {why}",
                        reason="unavailable",
                        path=root,
                    )
            self._is_prepared = True


class _ContainerProcesses(SupervisedProcesses):
    """Runs commands with the program of the engine.

    Args:
        container: The container.
    """

    def __init__(self, container: Container) -> None:
        super().__init__(container.spec.limits)
        self._container = container
        self._lifelines: list[ContainerLifeline] = []

    async def exec_in(self, spec: ProcessSpec, path: str) -> ProcessResult:
        """Run a command in a directory of the container; see `Workspace.exec`."""
        with open_directory() as directory:
            result = await self.exec(self._in_container(spec, path), directory)
        if result.end.exit_code and not self._container.helper.is_running:
            message = result.stderr.decode("utf-8", "replace").strip()
            raise WorkspaceError(f"the container has ended: {message}", reason="unavailable")
        return result

    async def start_in(
        self, spec: ProcessSpec, path: str, on_output: Callable[[OutputStream, bytes], None]
    ) -> WorkspaceProcess:
        """Start a command in a directory of the container; see `Workspace.start`."""
        with open_directory() as directory:
            return await self.start(self._in_container(spec, path), directory, on_output)

    def launch_of(self, spec: ProcessSpec, directory: Directory) -> Launch:
        """See `SupervisedProcesses.launch_of`."""
        return Launch(
            argv=argv_of(spec),
            env=engine_environment(),
            limits={},
            # The helper signals in the container; the program of the engine must not end first.
            sandbox_processes=sys.maxsize,
        )

    def lifeline(self, sock: socket.socket, command: str) -> ContainerLifeline:
        """See `SupervisedProcesses.lifeline`; the last argument is the id of the command."""
        lifeline = ContainerLifeline(sock, command, self._container.table)
        self._lifelines = [one for one in self._lifelines if not one.is_closed]
        self._lifelines.append(lifeline)
        return lifeline

    async def aclose(self) -> None:
        """See `SupervisedProcesses.aclose`."""
        for lifeline in self._lifelines:
            await lifeline.end()
        await super().aclose()

    def _in_container(self, spec: ProcessSpec, path: str) -> ProcessSpec:
        """Return the command line of the engine that runs a command."""
        command = Command.of(spec, path, self._shell_limits())
        engine, name = self._container.engine, self._container.name
        argv = engine.exec_arguments(name, command.id, shell_arguments(command.id))
        return attrs.evolve(spec, argv=argv, stdin=command.stdin, env={})

    def _shell_limits(self) -> Iterator[str]:
        """Yield limits that would also apply to the helper if the engine set them."""
        limits = self.limits
        if limits.cpu_seconds is not None:
            yield f"-t {max(1, int(limits.cpu_seconds))}"
        if limits.memory_bytes is not None and not self._container.engine.limits_memory:
            yield f"-v {max(1, limits.memory_bytes // 1024)}"


def _directory(path: str) -> str:
    found = path.rstrip("/")
    if not found.startswith("/") or _UNUSABLE.intersection(found.split("/")[1:]):
        raise ConfigError(
            "workdir and allowed_paths must be absolute paths in the container, below /; "
            f"got {path!r:.200}"
        )
    if found.split("/")[1] in _KERNEL:
        raise ConfigError(f"files of the kernel cannot be a workspace; got {path!r:.200}")
    return found
