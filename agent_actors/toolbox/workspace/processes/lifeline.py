"""The runtime's side of a supervisor and of the lifelines of its commands."""

import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL
from typing import Final

import attrs
import trio

from agent_actors.domain.json import JsonValue
from agent_actors.domain.workspace.processes import ProcessEnd
from agent_actors.errors import WorkspaceError

_SUPERVISOR: Final = Path(__file__).with_name("supervisor.py")
_LINE: Final = 65_536
_ONE_DESCRIPTOR: Final = socket.CMSG_LEN(4)
# Seconds in which a guardian ends its processes after SIGKILL. Only a process that is blocked in
# the kernel takes longer.
_KILL_TIME: Final = 10.0


@attrs.frozen(kw_only=True)
class Launch:
    """A command as the supervisor executes it.

    Attributes:
        argv: The program and its arguments.
        env: All environment variables.
        limits: The limits of each process, by the names of `ProcessLimits`.
        data: Texts that the command reads from descriptors: an argument that is equal to a key is
            replaced by the number of a descriptor with that text.
        user: The user and group to switch to; None to keep this process's.
        sandbox_processes: The number of generations of processes that belong to the sandbox
            program, which SIGTERM must not reach.
        cgroups: Directories in which a cgroup is created for the command, each with the names and
            values of the files to write; files that the kernel does not provide are left out.
        listen_port: The port on the loopback address of the sandbox's network namespace on which
            `Lifeline.listener` listens; 0 for no listener. The arguments of the sandbox program
            then contain `supervisor.INFO` and `supervisor.BLOCK`.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    limits: Mapping[str, int]
    data: Mapping[str, str] = attrs.field(factory=dict[str, str])
    user: tuple[int, int] | None = None
    sandbox_processes: int = 0
    cgroups: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict[str, Mapping[str, str]])
    listen_port: int = 0

    def encoded(self) -> bytes:
        """Return the launch as the supervisor reads it."""
        user, group = self.user or (None, None)
        return json.dumps(
            {
                "argv": list(self.argv),
                "env": dict(self.env),
                "limits": dict(self.limits),
                "data": dict(self.data),
                "user": user,
                "group": group,
                "sandbox_processes": self.sandbox_processes,
                "cgroups": {parent: dict(values) for parent, values in self.cgroups.items()},
                "listen_port": self.listen_port,
            }
        ).encode("utf-8", "surrogateescape")


class Lifeline:
    """The connection to the guardian of one command.

    Args:
        sock: The socket that the guardian shares.
        command: The command, for error messages.

    Attributes:
        listener: The socket that listens in the sandbox's network namespace, if the launch asked
            for it and the sandbox could be created. Closed with the lifeline.
    """

    def __init__(self, sock: socket.socket, command: str) -> None:
        self.listener: trio.socket.SocketType | None = None
        self._socket = trio.socket.from_stdlib_socket(sock)
        self._command = command
        self._unread = b""
        self._end: ProcessEnd | None = None

    async def started(self) -> None:
        """Wait until the command has been started.

        Raises:
            WorkspaceError: The command cannot be started.
        """
        message = await self._receive()
        error = message.get("error")
        if error or "pid" not in message:
            why = error or "the supervisor of the workspace has ended"
            raise WorkspaceError(f"cannot start {self._command!r:.200}: {why}", reason="failed")
        if message.get("listens") and self.listener is None:
            raise WorkspaceError(
                f"cannot start {self._command!r:.200}: this program has too many open files",
                reason="failed",
            )

    async def ended(self) -> ProcessEnd:
        """Wait until the command has ended; its children may still be running."""
        if self._end is None:
            message = await self._receive()
            code = message.get("exit", -signal.SIGKILL)
            assert isinstance(code, int)
            self._end = ProcessEnd(
                exit_code=code if code >= 0 else None,
                signal=_signal_name(-code) if code < 0 else "",
                duration=_number(message.get("duration")),
                cpu_seconds=_number(message.get("cpu")),
                max_memory_bytes=int(_number(message.get("memory"))),
            )
        return self._end

    @property
    def has_ended(self) -> bool:
        """True if the end of the command is known."""
        return self._end is not None

    def last_end(self) -> ProcessEnd:
        """Return the end of the command; `SIGKILL` if nothing else is known."""
        return self._end or ProcessEnd(signal="SIGKILL")

    async def terminate(self) -> None:
        """Ask all processes of the command to end (SIGTERM)."""
        await self._order(b"T")

    async def kill(self) -> None:
        """Kill all processes of the command (SIGKILL)."""
        await self._order(b"K")

    def abandon(self) -> None:
        """Have the guardian kill all processes of the command; `ended` then returns."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    async def close(self) -> None:
        """Kill all processes of the command that are left, and wait for their end.

        Cancellation: ignored, for at most a few seconds.
        """
        self.abandon()
        with trio.move_on_after(_KILL_TIME, shield=True), suppress(OSError):
            while await self._socket.recv(_LINE):
                pass
        self._socket.close()
        if self.listener is not None:
            self.listener.close()

    async def _order(self, order: bytes) -> None:
        with suppress(OSError):
            await self._socket.send(order)

    async def _receive(self) -> dict[str, JsonValue]:
        while b"\n" not in self._unread:
            try:
                data, ancillary, _, _ = await self._socket.recvmsg(
                    _LINE, _ONE_DESCRIPTOR, socket.MSG_CMSG_CLOEXEC
                )
            except OSError:
                data, ancillary = b"", []
            for _, _, content in ancillary:
                received = socket.socket(fileno=int.from_bytes(content, sys.byteorder))
                self.listener = trio.socket.from_stdlib_socket(received)
            if not data:  # the guardian was killed
                return {}
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        message: dict[str, JsonValue] = json.loads(line)
        return message


class Supervisor:
    """The supervisor process of one workspace, which is started when the first command needs it."""

    def __init__(self) -> None:
        self._process: trio.Process | None = None
        self._control: socket.socket | None = None
        self._starting = trio.Lock()
        self._closed = False

    async def launch(
        self,
        launch: Launch,
        streams: Sequence[int],
        directory: int,
        command: str,
        make_lifeline: Callable[[socket.socket, str], Lifeline] = Lifeline,
    ) -> Lifeline:
        """Start a command.

        Args:
            launch: The command.
            streams: The descriptors of the three standard streams.
            directory: A descriptor of the working directory.
            command: The command, for error messages.
            make_lifeline: Creates the lifeline from its socket and the command.

        Raises:
            WorkspaceError: The command cannot be started, or the workspace is closed.

        Cancellation: the command is killed if it has been started.
        """
        control = await self._ready()
        ours, theirs = socket.socketpair()
        lifeline = make_lifeline(ours, command)
        try:
            with theirs:
                request = os.memfd_create("request")
                try:
                    os.write(request, launch.encoded())
                    os.lseek(request, 0, os.SEEK_SET)
                    fds = [request, theirs.fileno(), *streams, directory]
                    await _send_fds(control, fds)
                finally:
                    os.close(request)
            await lifeline.started()
        except BaseException:
            await lifeline.close()  # noqa: ASYNC102 - it shields
            raise
        return lifeline

    async def aclose(self) -> None:
        """End the supervisor and all commands; may be repeated.

        Cancellation: ignored, for at most a few seconds.
        """
        self._closed = True
        async with self._starting:
            process, self._process = self._process, None
            control, self._control = self._control, None
        if control is not None:
            control.close()
        if process is not None:
            with trio.CancelScope(shield=True):
                with trio.move_on_after(_KILL_TIME):
                    await process.wait()
                if process.returncode is None:
                    process.kill()
                    await process.wait()

    async def _ready(self) -> socket.socket:
        async with self._starting:
            if self._closed:
                raise WorkspaceError("the workspace is closed", reason="unavailable")
            if self._process is not None and self._process.poll() is not None:
                assert self._control is not None
                self._control.close()
                self._process = self._control = None
            if self._control is None:
                await self._start()
            assert self._control is not None
            return self._control

    async def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        try:
            with theirs, trio.CancelScope(shield=True):
                # -I and -S: neither the environment nor files of the user change the program.
                self._process = await trio.lowlevel.open_process(
                    [sys.executable, "-I", "-S", str(_SUPERVISOR), str(theirs.fileno())],
                    stdin=DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env={},
                    cwd="/",
                    start_new_session=True,
                )
        except OSError as error:
            ours.close()
            raise WorkspaceError(
                f"the supervisor of the workspace cannot be started: {error}", reason="unavailable"
            ) from error
        self._control = ours


async def _send_fds(control: socket.socket, fds: Sequence[int]) -> None:
    while True:  # noqa: ASYNC913 - repeats only after a checkpoint
        try:
            socket.send_fds(control, [b"R"], fds)
        except BlockingIOError:
            await trio.lowlevel.wait_writable(control)
        except OSError as error:
            raise WorkspaceError(
                f"the supervisor of the workspace has ended: {error}", reason="unavailable"
            ) from error
        else:
            return


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def _number(value: JsonValue) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
