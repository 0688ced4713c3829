"""The program as a process of its own, started as a user starts it."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, TextIO

import attrs
import trio

from agent_actors.testing import ScriptedEndpoint

# Seconds; only a test that fails waits so long.
PATIENCE: Final = 30.0
PROGRAM: Final = (sys.executable, "-m", "agent_actors")


@attrs.frozen
class Ended:
    """How the program ended, and what it wrote."""

    status: int
    out: str
    err: str


# Holds the module that makes warnings of the package errors in programs that tests start.
CHILDREN = Path(__file__).parents[1] / "children"


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """What the program finds: no endpoint and no path to modules of a developer's own."""
    mine = ("AGENT_ACTORS_", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(mine)}
    return {**kept, "PYTHONPATH": str(CHILDREN), "COLUMNS": "80", **(extra or {})}


def at(endpoint: ScriptedEndpoint) -> tuple[str, ...]:
    """The options that name the endpoint."""
    return ("--base-url", endpoint.base_url, "--model", "scripted")


async def agent_actors(
    *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> Ended:
    """Run the program to its end."""
    with trio.fail_after(PATIENCE):
        done = await trio.run_process(
            [*PROGRAM, *arguments],
            stdin=stdin,
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            env=environment(env),
        )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


@contextmanager
def pipe(*, encoding: str = "utf-8") -> Generator[tuple[TextIO, TextIO]]:
    """A pipe, from whose first stream comes what is written to the second."""
    reader, writer = os.pipe()
    with (
        os.fdopen(reader, encoding=encoding) as source,
        os.fdopen(writer, "w", encoding=encoding) as target,
    ):
        yield source, target


@contextmanager
def terminal() -> Generator[tuple[TextIO, Callable[[], str]]]:
    """A terminal to write to, and what it shows up to the end of its next line."""
    ours, theirs = pty.openpty()

    def shown() -> str:
        text = b""
        # The kernel hands it on in pieces, and in its own time.
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
    """The program while it runs; what it wrote is read as it comes."""

    process: trio.Process
    out: str = ""

    async def read_until(self, text: str) -> None:
        """Read its output until the text came."""
        assert self.process.stdout is not None
        while text not in self.out:
            piece = await self.process.stdout.receive_some()
            assert piece, f"it ended, and wrote {self.out!r}"
            self.out += piece.decode()

    async def close_output(self) -> None:
        """Read no more."""
        assert self.process.stdout is not None
        await self.process.stdout.aclose()

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    async def ended(self) -> Ended:
        """Wait for its end."""
        assert self.process.stderr is not None
        err = b"".join([piece async for piece in self.process.stderr])
        return Ended(await self.process.wait(), self.out, err.decode())


@asynccontextmanager
async def running(*arguments: str, stdin: int = subprocess.DEVNULL) -> AsyncGenerator[Running]:
    """Start the program; it is killed if it has not ended when the block is left."""
    process = await trio.lowlevel.open_process(
        [*PROGRAM, *arguments],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
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
