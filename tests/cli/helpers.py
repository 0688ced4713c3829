"""Helpers that run the program in its own process, as a user starts it.

The processes are forks of one that has imported the program. With `fresh=True`, the helpers start a
new interpreter instead; a few tests do, to show that the program also works as users start it.
"""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Final, TextIO

import attrs
import trio

from agent_actors.testing import ScriptedEndpoint
from tests import program_helpers

# Seconds; only a failing test waits so long.
PATIENCE: Final = 30.0
PROGRAM: Final = (sys.executable, "-m", "agent_actors")


@attrs.frozen
class Ended:
    """The exit status and the output of the program."""

    status: int
    out: str
    err: str


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the program's environment, without a developer's endpoint and module path."""
    mine = ("AGENT_ACTORS_", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(mine)}
    return {**kept, "PYTHONPATH": str(program_helpers.CHILDREN), "COLUMNS": "80", **(extra or {})}


def at(endpoint: ScriptedEndpoint) -> tuple[str, ...]:
    """Return the options that select the endpoint."""
    return ("--base-url", endpoint.base_url, "--model", "scripted")


async def agent_actors(
    *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None, fresh: bool = False
) -> Ended:
    """Run the program and wait for it to exit."""
    with trio.fail_after(PATIENCE):
        if fresh:
            done = await trio.run_process(
                [*PROGRAM, *arguments],
                stdin=stdin,
                capture_stdout=True,
                capture_stderr=True,
                check=False,
                env=environment(env),
            )
        else:
            done = await program_helpers.run_program(
                [*PROGRAM[1:], *arguments], stdin=stdin, env=environment(env)
            )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


@contextmanager
def pipe(*, encoding: str = "utf-8") -> Generator[tuple[TextIO, TextIO]]:
    """Open a pipe; yield its reading and writing ends."""
    reader, writer = os.pipe()
    with (
        os.fdopen(reader, encoding=encoding) as source,
        os.fdopen(writer, "w", encoding=encoding) as target,
    ):
        yield source, target


@contextmanager
def terminal() -> Generator[tuple[TextIO, Callable[[], str]]]:
    """Open a terminal; yield a stream, and a function that returns its output up to a line end."""
    ours, theirs = pty.openpty()

    def shown() -> str:
        text = b""
        # The kernel delivers the output in pieces and with delays.
        while not text.endswith(b"\n"):
            text += os.read(ours, 1000)
        return text.decode()

    try:
        with os.fdopen(theirs, "w", encoding="utf-8") as stream:
            yield stream, shown
    finally:
        os.close(ours)


@attrs.define(eq=False)
class Running:
    """The running program, and the output read so far."""

    process: trio.Process | program_helpers.Program
    out: str = ""

    async def read_until(self, text: str) -> None:
        """Read the output until it contains this text."""
        assert self.process.stdout is not None
        while text not in self.out:
            piece = await self.process.stdout.receive_some()
            assert piece, f"it ended, and wrote {self.out!r}"
            self.out += piece.decode()

    async def close_output(self) -> None:
        """Close the program's output."""
        assert self.process.stdout is not None
        await self.process.stdout.aclose()

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    async def ended(self) -> Ended:
        """Wait for the program to exit."""
        assert self.process.stderr is not None
        err = b"".join([piece async for piece in self.process.stderr])
        return Ended(await self.process.wait(), self.out, err.decode())


@asynccontextmanager
async def running(
    *arguments: str,
    stdin: int = subprocess.DEVNULL,
    fresh: bool = False,
    module: str = program_helpers.PACKAGE,
) -> AsyncGenerator[Running]:
    """Start the program; at the end of the block, kill it if it is still running."""
    process: trio.Process | program_helpers.Program
    if fresh:
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", module, *arguments],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        )
    else:
        process = program_helpers.start(["-m", module, *arguments], stdin=stdin, env=environment())
    try:
        yield Running(process)
    finally:
        if process.returncode is None:
            process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    await stream.aclose()
