"""Start Python programs in processes of their own, without the time that their imports take.

The programs are forks of one process, which has imported the package. The fixture `fork_server`
starts that process; see `tests/children/fork_server.py`. A test of what the interpreter does before
it runs a program starts a new interpreter instead.

Coverage is measured in forks that run programs of the package. It is not measured in new
interpreters, because their imports would take much longer, and other tests cover the same code.
"""

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Final, TextIO

import attrs
import trio

ROOT: Final = Path(__file__).parents[1]
CHILDREN: Final = ROOT / "tests/children"
PACKAGE: Final = "agent_actors"
# Seconds; only a failing test waits so long.
PATIENCE: Final = 60.0
_NUMBER: Final = struct.Struct("i")
_servers: Final[list[socket.socket]] = []
_measurement: Final[dict[str, str]] = {}


@contextmanager
def serving() -> Generator[None]:
    """Run the fork server during the block."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.children.fork_server", str(theirs.fileno())],
            env={**os.environ, "PYTHONPATH": str(CHILDREN)},
            cwd=ROOT,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        _servers.append(ours)
        try:
            yield
        finally:
            _servers.remove(ours)
            ours.close()
            process.wait()


@contextmanager
def measuring_only_forks() -> Generator[None]:
    """Keep the variables that start the measurement of coverage out of the environment."""
    names = [name for name in os.environ if name.startswith("COV")]
    _measurement.update({name: os.environ.pop(name) for name in names})
    try:
        yield
    finally:
        os.environ.update(_measurement)
        _measurement.clear()


@attrs.define(eq=False)
class Program:
    """A started program.

    Attributes:
        pid: The id of its process.
        stdin: The writing end of its input, if `PIPE` was requested.
        stdout: The reading end of its output, if `PIPE` was requested.
        stderr: The reading end of its error output, if `PIPE` was requested.
    """

    pid: int
    stdin: trio.lowlevel.FdStream | None
    stdout: trio.lowlevel.FdStream | None
    stderr: trio.lowlevel.FdStream | None
    _status: socket.socket
    _returncode: int | None = None

    @property
    def returncode(self) -> int | None:
        """The exit status, or the negative number of a signal; None while the program runs."""
        if self._returncode is None:
            try:
                self._end(self._status.recv(_NUMBER.size, socket.MSG_DONTWAIT))
            except BlockingIOError:
                return None
        return self._returncode

    async def wait(self) -> int:
        """Wait for the program to end, and return its exit status."""
        while (status := self.returncode) is None:
            await trio.lowlevel.wait_readable(self._status)
        return status

    def wait_blocking(self) -> int:
        """Block until the program ends, and return its exit status."""
        if self._returncode is None:
            self._status.settimeout(PATIENCE)
            self._end(self._status.recv(_NUMBER.size))
        assert self._returncode is not None
        return self._returncode

    def send_signal(self, sig: int) -> None:
        """Send a signal, unless the program has ended."""
        if self.returncode is None:
            os.kill(self.pid, sig)

    def terminate(self) -> None:
        """Send SIGTERM, unless the program has ended."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL, unless the program has ended."""
        self.send_signal(signal.SIGKILL)

    def _end(self, received: bytes) -> None:
        assert received, "the fork server has ended"
        (self._returncode,) = _NUMBER.unpack(received)
        self._status.close()


def start(
    arguments: Sequence[str],
    *,
    stdin: int = DEVNULL,
    stdout: int = PIPE,
    stderr: int = PIPE,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    terminal: bool = False,
) -> Program:
    """Start a program.

    Args:
        arguments: The arguments of the interpreter: `-W error` if wanted, then `-m` and a module,
            `-c` and code, or a path, then the arguments of the program.
        stdin: A descriptor, `PIPE` or `DEVNULL`.
        stdout: A descriptor, `PIPE` or `DEVNULL`.
        stderr: A descriptor, `PIPE` or `DEVNULL`.
        env: The environment; None for the current one.
        cwd: The working directory; None for the current one.
        terminal: True makes the terminal on stdin the controlling terminal.
    """
    assert _servers, "the test must use the fixture `fork_server`"
    measured = any(argument.startswith(PACKAGE) for argument in arguments)
    request = {
        "arguments": list(arguments),
        "environment": {
            **(os.environ if env is None else env),
            **(_measurement if measured else {}),
        },
        "folder": str(cwd or Path.cwd()),
        "terminal": terminal,
    }
    wanted = (stdin, stdout, stderr)
    ends = [_stream(descriptor, writes=number == 0) for number, descriptor in enumerate(wanted)]
    status, theirs = socket.socketpair()
    with theirs:
        given = [*(descriptor for descriptor, _ in ends), theirs.fileno()]
        socket.send_fds(_servers[-1], [json.dumps(request).encode()], given)
    for descriptor, _ in ends:
        if descriptor not in wanted:
            os.close(descriptor)
    started = status.recv(_NUMBER.size)
    assert started, "the fork server has ended"
    (pid,) = _NUMBER.unpack(started)
    (_, writer), (_, reader), (_, error_reader) = ends
    return Program(pid, writer, reader, error_reader, status)


async def start_in_terminal(
    command: Sequence[str], environment: Mapping[str, str], cwd: Path | None, terminal: int
) -> Program:
    """Start a program for `in_terminal`; the command begins with the interpreter."""
    return start(
        command[1:],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environment,
        cwd=cwd,
        terminal=True,
    )


def _stream(wanted: int, *, writes: bool) -> tuple[int, trio.lowlevel.FdStream | None]:
    """Return the program's end of a standard stream, and the end of the test if it is a pipe."""
    if wanted == DEVNULL:
        return os.open(os.devnull, os.O_RDWR), None
    if wanted != PIPE:
        return wanted, None
    reader, writer = os.pipe()
    ours, theirs = (writer, reader) if writes else (reader, writer)
    return theirs, trio.lowlevel.FdStream(ours)


async def run_program(
    arguments: Sequence[str],
    *,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run a program until it ends; `start` describes the arguments. Kill it if cancelled."""
    program = start(arguments, stdin=PIPE, env=env)
    output = [bytearray(), bytearray()]

    async def feed(stream: trio.lowlevel.FdStream) -> None:
        async with stream:
            with contextlib.suppress(trio.BrokenResourceError):
                await stream.send_all(stdin)

    async def collect(stream: trio.lowlevel.FdStream, received: bytearray) -> None:
        async with stream:
            async for piece in stream:
                received += piece

    assert program.stdin is not None
    assert program.stdout is not None
    assert program.stderr is not None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(feed, program.stdin)
            nursery.start_soon(collect, program.stdout, output[0])
            nursery.start_soon(collect, program.stderr, output[1])
            status = await program.wait()
    finally:
        program.kill()
        with trio.CancelScope(shield=True):
            await program.wait()
    return subprocess.CompletedProcess(arguments, status, *map(bytes, output))


@contextmanager
def talking(
    arguments: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Generator[tuple[Program, TextIO, TextIO]]:
    """Start a program; yield it, its input and its output. Kill it at the end of the block."""
    (source, feed), (shown, target) = os.pipe(), os.pipe()
    with os.fdopen(feed, "w") as writer, os.fdopen(shown) as reader:
        try:
            program = start(arguments, stdin=source, stdout=target, stderr=2, env=env, cwd=cwd)
        finally:
            os.close(source)
            os.close(target)
        try:
            yield program, writer, reader
        finally:
            program.kill()
            program.wait_blocking()


def output_of(arguments: Sequence[str], *, env: Mapping[str, str] | None = None) -> str:
    """Run a program that succeeds, and return its output."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        program = start(arguments, stdout=out.fileno(), stderr=err.fileno(), env=env)
        try:
            status = program.wait_blocking()
        finally:
            program.kill()
        out.seek(0)
        err.seek(0)
        assert status == 0, err.read().decode()
        return out.read().decode()
