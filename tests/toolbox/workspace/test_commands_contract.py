"""The contract of workspaces that run commands: every command ends, and its end is reported.

A new implementation adds itself to `COMMAND_PLACES`.
"""

import subprocess
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
import trio

from agent_actors.abc.workspace import Workspace
from agent_actors.domain.workspace.processes import ProcessLimits, ProcessResult, ProcessSpec
from agent_actors.errors import WorkspaceError
from agent_actors.toolbox.workspace.bubblewrap import BubblewrapWorkspace
from agent_actors.toolbox.workspace.local.workspace import LocalWorkspace

LIMITS = ProcessLimits(processes=60, memory_bytes=500_000_000)


@asynccontextmanager
async def unconfined(root: Path) -> AsyncGenerator[Workspace]:
    workspace = LocalWorkspace(root, processes="unconfined", limits=LIMITS)
    yield workspace
    await workspace.aclose()


@asynccontextmanager
async def bubblewrap(root: Path) -> AsyncGenerator[Workspace]:
    try:
        workspace = BubblewrapWorkspace(root, limits=LIMITS)
    except WorkspaceError as error:
        pytest.skip(str(error))
    yield workspace
    await workspace.aclose()


COMMAND_PLACES: Mapping[str, Callable[[Path], AbstractAsyncContextManager[Workspace]]] = {
    "LocalWorkspace": unconfined,
    "BubblewrapWorkspace": bubblewrap,
}


@pytest.fixture(params=COMMAND_PLACES)
async def workspace(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Workspace]:
    async with COMMAND_PLACES[request.param](tmp_path) as opened:
        yield opened


def running(command: str) -> bool:
    """Return whether a process of this machine has a command line that begins so."""
    found = subprocess.run(["pgrep", "-f", f"^{command}"], capture_output=True, check=False)
    return found.returncode == 0


async def run(workspace: Workspace, command: str, seconds: float = 20.0) -> ProcessResult:
    spec = ProcessSpec(argv=command, timeout=seconds, max_output_bytes=1_000)
    return await workspace.exec(spec)


async def test_endless_output_is_ended(workspace: Workspace) -> None:
    result = await run(workspace, "yes; sleep 7301", seconds=0.5)
    assert (len(result.stdout), result.stdout_truncated) == (1_000, True)
    assert result.end.timed_out
    assert not running("sleep 7301")


async def test_ignored_term_becomes_kill(workspace: Workspace) -> None:
    result = await run(workspace, "trap '' TERM; while :; do sleep 7302; done", seconds=0.3)
    assert (result.end.timed_out, result.end.signal) == (True, "SIGKILL")
    assert not running("sleep 7302")


DAEMON = """
import os, signal, sys
if os.fork():
    sys.exit()
os.setsid()
if os.fork():
    os._exit(0)
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
os.closerange(0, 256)
os.execvp("sleep", ["sleep", "7303"])
"""


async def test_daemon_ends_with_its_command(workspace: Workspace) -> None:
    result = await workspace.exec(ProcessSpec(argv=("python3", "-c", DAEMON)))
    assert (result.end.exit_code, result.end.timed_out) == (0, False)
    assert not running("sleep 7303")


async def test_cancelled_daemon_ends_too(workspace: Workspace) -> None:
    begun = trio.Event()
    daemon = DAEMON.replace('"', '\\"')
    spec = ProcessSpec(argv=f'python3 -c "{daemon}"; echo begun; sleep 7303')
    process = await workspace.start(spec, lambda stream, data: begun.set())
    await begun.wait()
    assert running("sleep 7303")
    await process.kill()
    assert not running("sleep 7303")


async def test_environment_has_no_secrets(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "PYTHONPATH"):
        monkeypatch.setenv(name, "hidden-secret")
    result = await run(workspace, "env; cat /proc/self/environ; tr '\\0' '\\n' < /proc/$$/cmdline")
    assert b"PATH=" in result.stdout
    assert b"hidden" not in result.stdout + result.stderr


BOMB = """# bomb 7304
import os, time
while True:
    try:
        os.fork()
    except OSError as error:
        print(error, flush=True)
        time.sleep(0.1)
"""


async def test_fork_bomb_is_ended(tmp_path: Path) -> None:
    """Only a sandbox limits the number of processes; see `WorkspaceReport.unenforced`."""
    async with bubblewrap(tmp_path) as workspace:
        unenforced = workspace.describe().unenforced
        if any(text.startswith("processes") for text in unenforced):
            pytest.skip("this machine does not limit the processes of the sandbox")
        spec = ProcessSpec(argv=("python3", "-c", BOMB), timeout=1.0)
        result = await workspace.exec(spec)
        assert result.end.timed_out
        assert b"temporarily unavailable" in result.stdout
        assert not running("python3 -c # bomb 7304")
        assert (await run(workspace, "echo alive")).stdout == b"alive\n"
