"""The cost of a command in a workspace, compared with `trio.run_process`.

- `workspace_exec`: a short command that prints a line, one after the other.
- `workspace_exec_many`: 32 such commands at a time, the number that a runtime runs.
- `workspace_sandbox`: the same command in a bubblewrap sandbox, with and without hosts that it may
  reach, compared with `bwrap` alone with the same arguments.

The figures are elapsed time, because the commands are not children of this program: the supervisor
of the workspace starts them.
"""

import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final

import trio

from agent_actors.domain.workspace.processes import ProcessSpec
from agent_actors.errors import WorkspaceError
from agent_actors.toolbox.workspace import BubblewrapWorkspace, LocalWorkspace
from agent_actors.toolbox.workspace.bubblewrap import find_bubblewrap
from benchmarks.record import QUICK, report, take_turns

CALLS: Final = 20 if QUICK else 200
AT_ONCE: Final = 32
COMMAND: Final = ("echo", "done")
_BARE_SANDBOX: Final = (
    *(
        "bwrap",
        "--unshare-user",
        "--unshare-all",
        "--disable-userns",
        "--new-session",
        "--die-with-parent",
    ),
    *("--cap-drop", "ALL", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin"),
    *("--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc"),
    *("--dev", "/dev", "--tmpfs", "/tmp"),
)

Step = Callable[[], Awaitable[object]]
Open = Callable[[AsyncExitStack, Path], Step]


def main() -> None:
    """Run the benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        plain: dict[str, Open] = {"trio.run_process": _bare, "LocalWorkspace": _local}
        _compare(root, "exec", "Time of a command", plain, at_once=1)
        _compare(root, "exec_many", f"Time of a command, {AT_ONCE} at a time", plain, AT_ONCE)
        try:
            find_bubblewrap()
        except WorkspaceError as error:
            print(f"workspace_sandbox is not measured: {error}")
            return
        sandboxes: dict[str, Open] = {
            "bwrap alone": _bare_sandbox,
            "BubblewrapWorkspace": _sandbox,
            "BubblewrapWorkspace with hosts": _sandbox_with_hosts,
            "trio.run_process without a sandbox": _bare,
        }
        _compare(root, "sandbox", "Time of a command in a sandbox", sandboxes, at_once=1)


def _compare(root: Path, claim: str, title: str, opens: dict[str, Open], at_once: int) -> None:
    contenders = {name: partial(_run, root, step, at_once) for name, step in opens.items()}
    report(f"workspace_{claim}", title, "ms", take_turns(contenders, scale=1e3))


def _run(root: Path, open_step: Open, at_once: int) -> float:
    return trio.run(_measured, root, open_step, at_once)


async def _measured(root: Path, open_step: Open, at_once: int) -> float:
    """Return the seconds of one command."""
    async with AsyncExitStack() as stack:
        step = open_step(stack, root)
        await step()

        async def repeat() -> None:
            for _ in range(CALLS // at_once or 1):
                await step()

        began = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for _ in range(at_once):
                nursery.start_soon(repeat)
        return (time.perf_counter() - began) / (at_once * (CALLS // at_once or 1))


def _bare(_: AsyncExitStack, root: Path) -> Step:
    return partial(trio.run_process, COMMAND, cwd=root, capture_stdout=True, capture_stderr=True)


def _bare_sandbox(_: AsyncExitStack, root: Path) -> Step:
    command = (*_BARE_SANDBOX, "--bind", str(root), str(root), "--", *COMMAND)
    return partial(trio.run_process, command, capture_stdout=True, capture_stderr=True)


def _local(stack: AsyncExitStack, root: Path) -> Step:
    workspace = LocalWorkspace(root, processes="unconfined")
    stack.push_async_callback(workspace.aclose)
    return partial(_exec, workspace)


def _sandbox(stack: AsyncExitStack, root: Path) -> Step:
    workspace = BubblewrapWorkspace(root)
    stack.push_async_callback(workspace.aclose)
    return partial(_exec, workspace)


def _sandbox_with_hosts(stack: AsyncExitStack, root: Path) -> Step:
    workspace = BubblewrapWorkspace(root, network=["pypi.org"])
    stack.push_async_callback(workspace.aclose)
    return partial(_exec, workspace)


async def _exec(workspace: LocalWorkspace | BubblewrapWorkspace) -> None:
    result = await workspace.exec(ProcessSpec(argv=COMMAND))
    assert result.stdout == b"done\n", result.stderr


if __name__ == "__main__":
    main()
