"""Run commands under a supervisor: output limits, deadlines, and no process left behind."""

import math
import os
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol

import attrs
import trio

from agent_actors.abc.workspace import WorkspaceProcess
from agent_actors.domain.workspace.processes import (
    OutputStream,
    ProcessEnd,
    ProcessLimits,
    ProcessResult,
    ProcessSpec,
)
from agent_actors.domain.workspace.report import MemoryLimit
from agent_actors.toolbox.workspace.network.proxy import HostProxy
from agent_actors.toolbox.workspace.processes.environment import local_environment
from agent_actors.toolbox.workspace.processes.lifeline import Launch, Lifeline, Supervisor

MEMORY_PER_PROCESS: Final = "memory: the limit applies to the address space of each process"
"""The entry of `WorkspaceReport.unenforced` where no cgroup limits all processes together."""

TERM_GRACE: Final = 2.0
"""Seconds between SIGTERM and SIGKILL."""

# Seconds for which output is read after a command has ended while one of its children keeps the
# pipe open.
_PIPE_GRACE: Final = 0.25
_READ: Final = 65_536
_DEFAULT_LIMITS: Final = ProcessLimits()


class Directory(Protocol):
    """A working directory that is held open."""

    @property
    def fd(self) -> int:
        """The descriptor."""
        ...

    @property
    def path(self) -> str:
        """The absolute path."""
        ...


class SupervisedProcesses:
    """Runs the commands of one workspace; every process ends with the workspace.

    Args:
        limits: The limits of each command.
        term_grace: Seconds between SIGTERM and SIGKILL.
        proxy: Connects commands to the hosts that they may reach, if `launch_of` asks for a
            listening socket.
    """

    def __init__(
        self,
        limits: ProcessLimits = _DEFAULT_LIMITS,
        *,
        term_grace: float = TERM_GRACE,
        proxy: HostProxy | None = None,
    ) -> None:
        self.limits: ProcessLimits = limits
        self._term_grace = term_grace
        self._proxy = proxy
        self._supervisor = Supervisor()
        self._running: set[Lifeline] = set()

    async def exec(self, spec: ProcessSpec, directory: Directory) -> ProcessResult:
        """Run a command in a directory that is held open; see `Workspace.exec`."""
        process = await self._start(spec, directory)
        stdout, stderr = _Kept(spec.max_output_bytes), _Kept(spec.max_output_bytes)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(process.feed, spec.stdin)
                nursery.start_soon(process.connect)
                async with trio.open_nursery() as readers:
                    readers.start_soon(process.read, process.stdout, stdout.add)
                    readers.start_soon(process.read, process.stderr, stderr.add)
                    end = await self._end(process, spec)
                    readers.cancel_scope.deadline = trio.current_time() + _PIPE_GRACE
                nursery.cancel_scope.cancel()
        finally:
            self._running.discard(process.lifeline)
            await process.close(self._term_grace)  # noqa: ASYNC102 - it shields
        return ProcessResult(
            stdout=bytes(stdout.data),
            stderr=bytes(stderr.data),
            stdout_truncated=stdout.truncated,
            stderr_truncated=stderr.truncated,
            end=end,
        )

    async def start(
        self,
        spec: ProcessSpec,
        directory: Directory,
        on_output: Callable[[OutputStream, bytes], None],
    ) -> WorkspaceProcess:
        """Start a command in a directory that is held open; see `Workspace.start`."""
        process = await self._start(spec, directory)
        started = _StartedProcess(process, self._term_grace, self._running.discard)
        # A system task, because the command outlives the call that starts it. Its owner kills the
        # command, or the end of the trio run does.
        trio.lowlevel.spawn_system_task(started.pump, spec.stdin, on_output)
        return started

    def unenforced(self) -> tuple[str, ...]:
        """Return the limits that this machine does not enforce; see `WorkspaceReport`."""
        return (
            "processes: outside a sandbox, the limit would count all processes of the user",
            MEMORY_PER_PROCESS,
        )

    def memory_limit(self) -> MemoryLimit:
        """Return what the limit of memory applies to."""
        return "none" if self.limits.memory_bytes is None else "per_process"

    async def aclose(self) -> None:
        """End all processes; may be repeated.

        Cancellation: ignored, for at most a few seconds.
        """
        for lifeline in tuple(self._running):
            lifeline.abandon()
        await self._supervisor.aclose()

    def launch_of(self, spec: ProcessSpec, directory: Directory) -> Launch:
        """Return what the supervisor executes; a sandbox overrides this method."""
        return Launch(
            argv=argv_of(spec), env=local_environment(spec.env), limits=limits_of(self.limits)
        )

    def lifeline(self, sock: socket.socket, command: str) -> Lifeline:
        """Return the lifeline of a command; a container overrides this method.

        Args:
            sock: The socket that the guardian shares.
            command: The program's last argument.
        """
        return Lifeline(sock, command)

    async def _start(self, spec: ProcessSpec, directory: Directory) -> "_Process":
        launch = self.launch_of(spec, directory)
        pipes = Pipes.open()
        try:
            lifeline = await self._supervisor.launch(
                launch, pipes.theirs, directory.fd, argv_of(spec)[-1], self.lifeline
            )
        except BaseException:
            pipes.close_ours()
            raise
        finally:
            pipes.close_theirs()
        self._running.add(lifeline)
        return _Process(lifeline, self._proxy, *map(trio.lowlevel.FdStream, pipes.ours))

    async def _end(self, process: "_Process", spec: ProcessSpec) -> ProcessEnd:
        allowed = [spec.timeout, self.limits.wall_seconds]
        timeout = min((seconds for seconds in allowed if seconds is not None), default=math.inf)
        with trio.move_on_after(timeout):
            await process.lifeline.ended()
        if process.lifeline.has_ended:
            return await process.lifeline.ended()
        end = await process.terminate(self._term_grace)
        return attrs.evolve(end, timed_out=True)


@attrs.frozen(eq=False)
class Pipes:
    """Three pipes for the standard streams of a process: our ends and its ends."""

    ours: tuple[int, int, int]
    theirs: tuple[int, int, int]

    @classmethod
    def open(cls) -> "Pipes":
        """Open the pipes."""
        opened: list[int] = []
        try:
            for _ in range(3):
                opened.extend(os.pipe())
        except OSError:
            for fd in opened:
                os.close(fd)
            raise
        stdin, feeding, reading, stdout, reading_errors, stderr = opened
        return cls((feeding, reading, reading_errors), (stdin, stdout, stderr))

    def close_ours(self) -> None:
        """Close our ends."""
        for fd in self.ours:
            os.close(fd)

    def close_theirs(self) -> None:
        """Close the ends of the process."""
        for fd in self.theirs:
            os.close(fd)


class _Kept:
    """The beginning of an output stream."""

    def __init__(self, limit: int) -> None:
        self.data = bytearray()
        self.truncated = False
        self._limit = limit

    def add(self, data: bytes) -> None:
        room = self._limit - len(self.data)
        self.data += data[:room]
        self.truncated = self.truncated or len(data) > room


@attrs.frozen(eq=False)
class _Process:
    """A running command: its lifeline, its connection to hosts, and our ends of its pipes."""

    lifeline: Lifeline
    proxy: HostProxy | None
    stdin: trio.lowlevel.FdStream
    stdout: trio.lowlevel.FdStream
    stderr: trio.lowlevel.FdStream

    async def feed(self, data: bytes) -> None:
        """Write the standard input and close it; the command need not read it."""
        try:
            await self.stdin.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self._close(self.stdin)

    async def connect(self) -> None:
        """Connect the command to the hosts that it may reach, until cancelled."""
        if self.proxy is not None and self.lifeline.listener is not None:
            await self.proxy.serve(self.lifeline.listener)

    async def read(self, stream: trio.lowlevel.FdStream, add: Callable[[bytes], None]) -> None:
        """Pass on output until its end."""
        while data := await stream.receive_some(_READ):
            add(bytes(data))

    async def terminate(self, grace: float) -> ProcessEnd:
        """End the command: SIGTERM, and SIGKILL after a grace period."""
        await self.lifeline.terminate()
        with trio.move_on_after(grace):
            await self.lifeline.ended()
        if not self.lifeline.has_ended:
            await self.lifeline.kill()
        return await self.lifeline.ended()

    async def close(self, grace: float) -> None:
        """End what is left of the command, and close everything.

        Cancellation: ignored, for at most a few seconds.
        """
        try:
            with trio.move_on_after(grace + 1, shield=True):
                if not self.lifeline.has_ended:
                    await self.terminate(grace)
        finally:
            await self.lifeline.close()  # noqa: ASYNC102 - it shields
            for stream in (self.stdin, self.stdout, self.stderr):
                self._close(stream)

    @staticmethod
    def _close(stream: trio.lowlevel.FdStream) -> None:
        # `FdStream.aclose` is a checkpoint, but closes the descriptor first.
        stream.close()


class _StartedProcess:
    """A command that runs in the background."""

    def __init__(
        self, process: _Process, term_grace: float, on_end: Callable[[Lifeline], None]
    ) -> None:
        self._process = process
        self._term_grace = term_grace
        self._on_end = on_end
        self._ended = trio.Event()
        self._end: ProcessEnd | None = None
        self._pumping: trio.CancelScope = trio.CancelScope()

    async def pump(self, stdin: bytes, on_output: Callable[[OutputStream, bytes], None]) -> None:
        """Pass on the output until the command has ended."""
        process = self._process
        try:
            with self._pumping:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(process.feed, stdin)
                    nursery.start_soon(process.connect)
                    async with trio.open_nursery() as readers:
                        readers.start_soon(
                            process.read, process.stdout, partial(on_output, "stdout")
                        )
                        readers.start_soon(
                            process.read, process.stderr, partial(on_output, "stderr")
                        )
                        self._end = await process.lifeline.ended()
                        readers.cancel_scope.deadline = trio.current_time() + _PIPE_GRACE
                    nursery.cancel_scope.cancel()
        finally:
            self._on_end(process.lifeline)
            await process.close(self._term_grace)  # noqa: ASYNC102 - it shields
            if self._end is None:
                self._end = process.lifeline.last_end()
            self._ended.set()

    async def wait(self) -> ProcessEnd:
        """See `WorkspaceProcess.wait`."""
        await self._ended.wait()
        assert self._end is not None
        return self._end

    async def kill(self) -> ProcessEnd:
        """See `WorkspaceProcess.kill`."""
        self._pumping.cancel()
        with trio.CancelScope(shield=True):
            await self._ended.wait()
        return await self.wait()


def argv_of(spec: ProcessSpec) -> tuple[str, ...]:
    """Return the program and its arguments; a text is run by the shell."""
    return ("/bin/sh", "-c", spec.argv) if isinstance(spec.argv, str) else spec.argv


def limits_of(limits: ProcessLimits) -> dict[str, int]:
    """Return the limits that the kernel enforces for each process, by their names."""
    found: Mapping[str, float | None] = {
        "cpu_seconds": limits.cpu_seconds,
        "memory_bytes": limits.memory_bytes,
        "file_bytes": limits.file_bytes,
    }
    return {name: max(1, int(value)) for name, value in found.items() if value is not None}
