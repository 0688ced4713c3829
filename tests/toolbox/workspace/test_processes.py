"""Commands under a supervisor."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from agent_actors.domain.workspace.processes import ProcessLimits, ProcessResult, ProcessSpec
from agent_actors.errors import WorkspaceError
from agent_actors.toolbox.workspace.processes.runner import SupervisedProcesses

GRACE = 0.2


@attrs.frozen
class Held:
    """A directory that is held open."""

    fd: int
    path: str


@attrs.frozen
class Stage:
    """Processes and the directory that they run in."""

    processes: SupervisedProcesses
    directory: Held

    async def run(self, command: str | tuple[str, ...], **options: Any) -> ProcessResult:
        return await self.processes.exec(ProcessSpec(argv=command, **options), self.directory)


def sleeping(seconds: str) -> bool:
    """Return whether a process of this machine sleeps for this unusual time."""
    found = subprocess.run(["pgrep", "-f", f"^sleep {seconds}"], capture_output=True, check=False)
    return found.returncode == 0


def open_descriptors() -> set[Path]:
    return set(Path("/proc/self/fd").iterdir())


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    fd = os.open(tmp_path, os.O_PATH)
    before = open_descriptors()
    processes = SupervisedProcesses(term_grace=GRACE)
    yield Stage(processes, Held(fd, str(tmp_path)))
    await processes.aclose()
    await processes.aclose()
    assert open_descriptors() == before
    os.close(fd)


async def test_streams_and_exit_code_are_apart(stage: Stage) -> None:
    result = await stage.run("pwd; cat; echo bad >&2; exit 3", stdin=b"in")
    assert result.stdout == f"{stage.directory.path}\nin".encode()
    assert result.stderr == b"bad\n"
    assert (result.end.exit_code, result.end.signal, result.end.timed_out) == (3, "", False)
    assert result.end.max_memory_bytes > 0
    assert result.end.duration > 0


async def test_arguments_are_not_read_by_a_shell(stage: Stage) -> None:
    result = await stage.run(("printf", "%s", "$HOME; ü"))
    assert result.stdout == "$HOME; ü".encode()


@pytest.mark.feature("OAGS-029")
async def test_output_is_truncated_without_blocking(stage: Stage) -> None:
    command = "head -c 3000000 /dev/zero; head -c 5 /dev/zero >&2"
    result = await stage.run(command, max_output_bytes=1000)
    assert (len(result.stdout), result.stdout_truncated) == (1000, True)
    assert (len(result.stderr), result.stderr_truncated) == (5, False)
    assert result.end.exit_code == 0


async def test_unread_input_is_no_error(stage: Stage) -> None:
    result = await stage.run("exec true", stdin=b"x" * 1_000_000)
    assert result.end.exit_code == 0


async def test_signal_is_named(stage: Stage) -> None:
    result = await stage.run("kill -SEGV $$")
    assert (result.end.exit_code, result.end.signal) == (None, "SIGSEGV")


@pytest.mark.parametrize("command", ["sleep 7001", "trap '' TERM; sleep 7001; sleep 7001"])
async def test_timeout_ends_the_command(stage: Stage, command: str) -> None:
    result = await stage.run(f"echo begun; {command}", timeout=0.3)
    assert result.end.timed_out
    assert result.stdout == b"begun\n"
    assert not sleeping("7001")


async def test_workspace_limit_ends_the_command(tmp_path: Path) -> None:
    processes = SupervisedProcesses(ProcessLimits(wall_seconds=0.2), term_grace=GRACE)
    stage = Stage(processes, Held(os.open(tmp_path, os.O_PATH), str(tmp_path)))
    assert (await stage.run("sleep 7001", timeout=50)).end.timed_out
    await processes.aclose()
    os.close(stage.directory.fd)


@pytest.mark.parametrize("start", ["sleep 7002 &", "setsid sleep 7002 &", "(setsid sleep 7002 &);"])
async def test_children_end_with_the_command(stage: Stage, start: str) -> None:
    result = await stage.run(f"{start} echo done")
    assert result.stdout == b"done\n"
    assert not sleeping("7002")


async def test_cancelled_command_leaves_nothing(stage: Stage) -> None:
    for delay in (0, 0.001, 0.01, 0.03, 0.1):
        with trio.move_on_after(delay):
            await stage.run("sleep 7003 & setsid sleep 7003 & sleep 7003")
        assert not sleeping("7003")


async def test_secrets_are_not_in_the_environment(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret-1")
    monkeypatch.setenv("LC_TIME", "C")
    result = await stage.run("env; cat /proc/$PPID/environ", env={"OWN": "mine"})
    assert b"secret-1" not in result.stdout
    assert b"OWN=mine" in result.stdout
    assert b"LC_TIME=C" in result.stdout


@pytest.mark.parametrize(
    ("limits", "command", "signal_name"),
    [
        (ProcessLimits(cpu_seconds=1), "while :; do :; done", "SIGKILL SIGXCPU"),
        (ProcessLimits(file_bytes=1000), "exec head -c 5000 /dev/zero > big", "SIGXFSZ"),
    ],
)
async def test_limits_are_enforced(
    tmp_path: Path, limits: ProcessLimits, command: str, signal_name: str
) -> None:
    processes = SupervisedProcesses(limits, term_grace=GRACE)
    stage = Stage(processes, Held(os.open(tmp_path, os.O_PATH), str(tmp_path)))
    result = await stage.run(command)
    assert result.end.signal in signal_name.split()
    await processes.aclose()
    os.close(stage.directory.fd)


async def test_memory_is_limited(tmp_path: Path) -> None:
    processes = SupervisedProcesses(ProcessLimits(memory_bytes=200_000_000), term_grace=GRACE)
    stage = Stage(processes, Held(os.open(tmp_path, os.O_PATH), str(tmp_path)))
    result = await stage.run((sys.executable, "-S", "-c", "x = bytearray(300_000_000)"))
    assert b"MemoryError" in result.stderr
    await processes.aclose()
    os.close(stage.directory.fd)


async def test_missing_program_is_an_error(stage: Stage) -> None:
    with pytest.raises(WorkspaceError, match="cannot start 'no-such-program': No such file"):
        await stage.run(("no-such-program",))


async def test_background_command_reports_output(stage: Stage) -> None:
    seen: list[tuple[str, bytes]] = []
    process = await stage.processes.start(
        ProcessSpec(argv="echo out; echo err >&2; exit 4", stdin=b""),
        stage.directory,
        lambda stream, data: seen.append((stream, data)),
    )
    end = await process.wait()
    assert end.exit_code == 4
    assert sorted(seen) == [("stderr", b"err\n"), ("stdout", b"out\n")]


@pytest.mark.parametrize(("command", "signal_name"), [("sleep 7004", "SIGTERM")])
async def test_background_command_is_killed(stage: Stage, command: str, signal_name: str) -> None:
    process = await stage.processes.start(
        ProcessSpec(argv=command), stage.directory, lambda stream, data: None
    )
    end = await process.kill()
    assert end.signal == signal_name
    assert await process.kill() == end
    assert not sleeping("7004")


async def test_closing_ends_background_commands(stage: Stage) -> None:
    process = await stage.processes.start(
        ProcessSpec(argv="trap '' TERM; sleep 7005; sleep 7005"),
        stage.directory,
        lambda stream, data: None,
    )
    await stage.processes.aclose()
    assert (await process.wait()).signal == "SIGKILL"
    assert not sleeping("7005")
    with pytest.raises(WorkspaceError, match="closed"):
        await stage.run("true")


async def test_killed_supervisor_is_replaced(stage: Stage) -> None:
    process = await stage.processes.start(
        ProcessSpec(argv="sleep 7006"), stage.directory, lambda stream, data: None
    )
    found = await trio.run_process(
        ["pgrep", "-P", str(os.getpid()), "-f", "supervisor.py"], capture_stdout=True
    )
    for pid in found.stdout.split():
        os.kill(int(pid), signal.SIGKILL)
        os.waitid(os.P_PID, int(pid), os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 - killed above
    assert (await stage.run("echo again")).stdout == b"again\n"
    assert (await process.kill()).signal == "SIGTERM"
    assert not sleeping("7006")


KILLED = """
import os, trio
from agent_actors.domain.workspace.processes import ProcessSpec
from agent_actors.toolbox.workspace.processes.runner import SupervisedProcesses

class Held:
    fd = os.open("/", os.O_PATH)
    path = "/"

async def main():
    spec = ProcessSpec(argv="echo $$; sleep 7007 & setsid sleep 7007 & sleep 7007")
    show = lambda stream, data: print(data.decode(), flush=True)
    await SupervisedProcesses().start(spec, Held, show)
    await trio.sleep_forever()

trio.run(main)
"""


def test_killed_runtime_takes_its_commands_along() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline().strip().isdigit()
        program.kill()
    for _ in range(500):
        if not sleeping("7007"):
            return
        time.sleep(0.02)
    pytest.fail("a command outlived the runtime")


async def test_many_commands_run_at_once(stage: Stage) -> None:
    results: list[ProcessResult] = []

    async def one(number: int) -> None:
        results.append(await stage.run(f"echo {number}"))

    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(one, number)
    assert {int(result.stdout) for result in results} == set(range(50))
