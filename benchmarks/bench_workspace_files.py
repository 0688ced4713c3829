"""The cost of a workspace's file operations, compared with bare Python and bare ripgrep.

- `workspace_read`: reading a file of 10 kB, three directories deep, compared with `Path.read_bytes`
  in a thread.
- `workspace_write`: replacing that file, compared with the same steps by path in a thread: a
  temporary file, fsync and `os.replace`. A plain `Path.write_bytes`, which is neither atomic nor on
  the disk when it returns, is measured additionally.
- `workspace_edit`: reading and replacing the file with its expected version.
- `workspace_grep`: a search in 10,000 files, compared with ripgrep alone.

The figures are CPU time of the program and of the processes that it starts.
"""

import os
import resource
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final

import trio

from agent_actors.domain.workspace.files import GrepQuery
from agent_actors.toolbox.workspace import LocalWorkspace
from agent_actors.toolbox.workspace.local.search import ripgrep
from benchmarks.record import QUICK, report, take_turns

FILES: Final = 1_000 if QUICK else 10_000
CALLS: Final = 200 if QUICK else 2_000
WRITES: Final = 50 if QUICK else 300
SEARCHES: Final = 2 if QUICK else 5
NAME: Final = "src/package/module/file_7.py"
LINE: Final = "def function(argument: int) -> int:  # a line of an ordinary length\n"
CONTENT: Final = (LINE * 150).encode()
WORD: Final = "needle"
EVERY: Final = 50
"""One file in this many contains the word."""

Step = Callable[[LocalWorkspace, Path], Awaitable[object]]


def main() -> None:
    """Run the benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / NAME).parent.mkdir(parents=True)
        (root / NAME).write_bytes(CONTENT)
        _compare(
            root,
            "read",
            "CPU of reading a file of 10 kB",
            CALLS,
            {
                "Path.read_bytes in a thread": _bare_read,
                "LocalWorkspace": _read,
            },
        )
        _compare(
            root,
            "write",
            "CPU of replacing a file of 10 kB",
            WRITES,
            {
                "os.replace in a thread": _bare_write,
                "LocalWorkspace": _write,
                "Path.write_bytes in a thread": _plain_write,
            },
        )
        _compare(
            root,
            "edit",
            "CPU of reading and replacing a file of 10 kB",
            WRITES,
            {
                "os.replace in a thread": _bare_edit,
                "LocalWorkspace": _edit,
            },
        )
        _fill(root)
        _compare(
            root,
            "grep",
            f"CPU of searching {FILES:,} files",
            SEARCHES,
            {
                "ripgrep": _bare_grep,
                "LocalWorkspace": _grep,
            },
        )


def _compare(root: Path, claim: str, title: str, count: int, steps: dict[str, Step]) -> None:
    contenders = {name: partial(_run, root, count, step) for name, step in steps.items()}
    rows = take_turns(contenders, scale=1e3)
    report(f"workspace_{claim}", title, "ms", rows)


def _run(root: Path, count: int, step: Step) -> float:
    return trio.run(_measured, root, count, step)


async def _measured(root: Path, count: int, step: Step) -> float:
    """Return the CPU seconds of one step."""
    workspace = LocalWorkspace(root)
    await step(workspace, root)
    began = _cpu_seconds()
    for _ in range(count):
        await step(workspace, root)
    seconds = _cpu_seconds() - began
    await workspace.aclose()
    return seconds / count


def _cpu_seconds() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


async def _read(workspace: LocalWorkspace, _: Path) -> None:
    assert (await workspace.read(NAME)).data == CONTENT


async def _bare_read(_: LocalWorkspace, root: Path) -> None:
    assert await trio.to_thread.run_sync((root / NAME).read_bytes) == CONTENT


async def _write(workspace: LocalWorkspace, _: Path) -> None:
    await workspace.write(NAME, CONTENT)


async def _bare_write(_: LocalWorkspace, root: Path) -> None:
    await trio.to_thread.run_sync(_replace, root / NAME)


async def _plain_write(_: LocalWorkspace, root: Path) -> None:
    await trio.to_thread.run_sync((root / NAME).write_bytes, CONTENT)


async def _edit(workspace: LocalWorkspace, _: Path) -> None:
    found = await workspace.read(NAME)
    await workspace.write(NAME, found.data, expected=found.info.version)


async def _bare_edit(_: LocalWorkspace, root: Path) -> None:
    await trio.to_thread.run_sync((root / NAME).read_bytes)
    await trio.to_thread.run_sync(_replace, root / NAME)


def _replace(path: Path) -> None:
    temporary = path.with_name("temporary")
    with temporary.open("wb") as file:
        file.write(CONTENT)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


async def _grep(workspace: LocalWorkspace, _: Path) -> None:
    found = await workspace.grep(GrepQuery(pattern=WORD))
    assert len(found.matches) == FILES // EVERY


async def _bare_grep(_: LocalWorkspace, root: Path) -> None:
    program = ripgrep.program()
    assert program is not None
    command = [str(program), "--no-config", "--json", "--hidden", "--no-require-git", WORD, "./"]
    done = await trio.run_process(command, cwd=root, capture_stdout=True)
    assert done.stdout.count(b'"type":"match"') == FILES // EVERY


def _fill(root: Path) -> None:
    """Create the files to search, 100 in a directory."""
    (root / NAME).unlink()
    for number in range(FILES):
        path = root / f"tree/{number // 100}/file_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        word = f"# {WORD}\n" if number % EVERY == 0 else ""
        path.write_text(LINE * 20 + word + LINE * 20, encoding="utf-8")


if __name__ == "__main__":
    main()
