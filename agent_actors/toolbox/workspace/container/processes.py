"""The commands of containers: started by the engine, ended by the helper.

The program of an engine neither passes on signals to the processes in a container nor ends them.
The helper therefore finds the processes of a command and signals them. The id of the command in
their environment marks them.
"""

import re
import secrets
import shlex
import signal
import socket
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Final

import attrs
import trio

from agent_actors.domain.workspace.processes import ProcessEnd, ProcessSpec
from agent_actors.errors import WorkspaceError
from agent_actors.toolbox.workspace.container.helper import Helper, encoded_code
from agent_actors.toolbox.workspace.processes.lifeline import Lifeline
from agent_actors.toolbox.workspace.processes.runner import argv_of

_ID_BYTES: Final = 8  # the helper expects 16 characters
# Processes that fork faster than they are killed are followed for this time.
_KILL_SECONDS: Final = 10.0
_ROUND_SECONDS: Final = 0.01
_ROUNDS_OF_ONE: Final = 20
_VARIABLE: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_SIGNALS: Final = frozenset(int(one) for one in signal.Signals)
_SIGNALLED: Final = 128
# Seconds in which an engine reports the end of a command whose processes were killed.
_ENGINE_SECONDS: Final = 3.0


@attrs.frozen
class Command:
    """A command of a container.

    Attributes:
        id: The id that marks its processes.
        stdin: The standard input of the shell that executes it: the code, then its own input.
    """

    id: str
    stdin: bytes

    @classmethod
    def of(cls, spec: ProcessSpec, directory: str, limits: Iterable[str]) -> "Command":
        """Return the command that runs a program in a directory of the container.

        Args:
            spec: The program.
            directory: The absolute path of the directory, without symlinks.
            limits: The limits of each process, as arguments of `ulimit`.

        Raises:
            WorkspaceError: An argument contains NUL, or a variable has an invalid name (reason
                `invalid`).
        """
        lines = [f"cd -P -- {shlex.quote(directory)} || exit 126", "export TERM=dumb"]
        lines.append('[ -n "$HOME" ] || export HOME=/tmp')
        lines += [f"export {_variable(name)}={_quoted(value)}" for name, value in spec.env.items()]
        lines += [f"ulimit {limit}" for limit in limits]
        lines.append(f"exec {' '.join(map(_quoted, argv_of(spec)))}")
        return cls(secrets.token_hex(_ID_BYTES), encoded_code("\n".join(lines)) + spec.stdin)


def _variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise WorkspaceError(f"{name!r:.80} cannot be the name of a variable", reason="invalid")
    return name


def _quoted(text: str) -> str:
    if "\0" in text:
        raise WorkspaceError("a command must not contain a NUL character", reason="invalid")
    return shlex.quote(text)


@attrs.frozen
class _Row:
    """A process in a container."""

    pid: int
    parent: int
    command: str


class ProcessTable:
    """The processes in one container, by the command that they belong to.

    Args:
        helper: The helper of the container.

    Attributes:
        active: The ids of the commands that have started and not ended.
    """

    def __init__(self, helper: Helper) -> None:
        self.active: set[str] = set()
        self._helper = helper

    async def terminate(self, command_id: str) -> None:
        """Ask all processes of a command to end (SIGTERM)."""
        with suppress(WorkspaceError):  # the container has ended, with all processes
            await self._signal("TERM", await self._processes_of(command_id))

    async def kill(self, command_id: str) -> None:
        """Kill all processes of a command (SIGKILL), until none is left.

        If processes escape for several seconds, the container is ended.

        Cancellation: ignored, for at most a few seconds.
        """
        with trio.CancelScope(shield=True), suppress(WorkspaceError):
            with trio.move_on_after(_KILL_SECONDS):
                await self._kill_until_none_is_left(command_id)
                return
            await self._helper.aclose()

    async def _kill_until_none_is_left(self, command_id: str) -> None:
        rounds = 0
        while found := await self._processes_of(command_id):  # noqa: ASYNC913 - asks the helper
            rounds += 1
            if rounds > _ROUNDS_OF_ONE and not self.active - {command_id}:
                await self._signal("KILL", [-1])  # every process except the helper
            await self._signal("KILL", found)
            await trio.sleep(_ROUND_SECONDS)

    async def _signal(self, name: str, pids: Collection[int]) -> None:
        if pids:
            await self._helper.ask("signal", name, *map(str, pids))

    async def _processes_of(self, command_id: str) -> Collection[int]:
        reply = await self._helper.ask("processes")
        others = self.active - {command_id}
        return processes_to_end(reply.output.decode("ascii", "replace"), others)


def processes_to_end(table: str, others: Collection[str]) -> Collection[int]:
    """Return the processes of a container that belong to no active command.

    A process belongs to the command that marks it, and otherwise to the command of its parent. A
    process that has neither is left alone while other commands are active, since it may be theirs.
    Processes that somebody has started from outside the container are also left alone.

    Args:
        table: The output of the helper: the id, the parent and the mark of each process.
        others: The other active commands.
    """
    rows = {row.pid: row for row in map(_row, table.splitlines()) if row is not None}
    found: list[int] = []
    for row in rows.values():
        owner = _owner(row, rows)
        if owner is not None and owner not in others and (owner or not others):
            found.append(row.pid)
    return found


def _owner(row: _Row, rows: Mapping[int, _Row]) -> str | None:
    """Return the command of a process; empty if unknown, None if it belongs to no command."""
    seen: set[int] = set()
    found: _Row | None = row
    while found is not None and found.pid not in seen:
        if found.command:
            return found.command
        if found.parent == 0:  # entered the container from outside
            return None
        seen.add(found.pid)
        found = rows.get(found.parent)
    return ""


def _row(line: str) -> _Row | None:
    match line.split(" "):
        case [pid, parent, command] if pid.isdecimal() and parent.isdecimal():
            return _Row(int(pid), int(parent), command)
        case _:
            return None


class ContainerLifeline(Lifeline):
    """The connection to the program of the engine that executes one command.

    Args:
        sock: The socket that the guardian shares.
        command_id: The id of the command.
        table: The processes of the container.
    """

    def __init__(self, sock: socket.socket, command_id: str, table: ProcessTable) -> None:
        super().__init__(sock, command_id)
        self._id = command_id
        self._table = table
        self._closed = trio.Event()
        table.active.add(command_id)

    async def ended(self) -> ProcessEnd:
        """See `Lifeline.ended`."""
        return _in_container(await super().ended())

    def last_end(self) -> ProcessEnd:
        """See `Lifeline.last_end`."""
        return _in_container(super().last_end())

    @property
    def is_closed(self) -> bool:
        """True if nothing is left of the command."""
        return self._closed.is_set()

    async def terminate(self) -> None:
        """See `Lifeline.terminate`."""
        await self._table.terminate(self._id)

    async def kill(self) -> None:
        """See `Lifeline.kill`."""
        await self._table.kill(self._id)
        with trio.move_on_after(_ENGINE_SECONDS):
            await self.ended()
        if not self.has_ended:
            await super().kill()

    async def close(self) -> None:
        """See `Lifeline.close`."""
        try:
            await self._table.kill(self._id)
        finally:
            self._table.active.discard(self._id)
            await super().close()  # noqa: ASYNC102 - it shields
            self._closed.set()

    async def end(self) -> None:
        """Kill the command while another task waits for its end.

        The engine then notices the end itself. An engine whose processes are killed instead waits
        for the command when the container is removed.

        Cancellation: ignored, for at most a few seconds.
        """
        await self._table.kill(self._id)
        with trio.move_on_after(_ENGINE_SECONDS, shield=True):
            await self._closed.wait()


def _in_container(end: ProcessEnd) -> ProcessEnd:
    """Return the end of a command from the end of the engine's program.

    The exit code of the engine is above 128 if a signal has ended the command. CPU time and memory
    are the engine's, not the command's.
    """
    own = attrs.evolve(end, cpu_seconds=0.0, max_memory_bytes=0)
    number = (end.exit_code or 0) - _SIGNALLED
    if number not in _SIGNALS:
        return own
    return attrs.evolve(own, exit_code=None, signal=signal.Signals(number).name)
