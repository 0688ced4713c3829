"""The tools that run commands, also in the background."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.domain.workspace.background import BackgroundOutput, BackgroundTask
from agent_actors.domain.workspace.processes import ProcessEnd, ProcessResult, ProcessSpec
from agent_actors.errors import ConfigError, WorkspaceError
from agent_actors.testing import MemoryWorkspace
from agent_actors.toolbox.operations import ToolLimits
from agent_actors.toolbox.presets import select
from agent_actors.toolbox.shell import output_text
from tests.toolbox.helpers import Context, Tools

OK = ProcessEnd(exit_code=0, duration=1.0, cpu_seconds=0.5, max_memory_bytes=7)


class Recorder:
    """Commands that all have the same result, and the commands that were run."""

    def __init__(self, result: ProcessResult) -> None:
        self.result = result
        self.specs: list[ProcessSpec] = []

    async def __call__(self, spec: ProcessSpec) -> ProcessResult:
        self.specs.append(spec)
        return self.result


class Background:
    """Background commands that have one piece of output."""

    def __init__(self, task: BackgroundTask) -> None:
        self.task = task
        self.specs: list[ProcessSpec] = []

    async def start(self, spec: ProcessSpec) -> BackgroundTask:
        self.specs.append(spec)
        return self.task

    async def read(self, task_id: str) -> BackgroundOutput:
        if task_id != self.task.task_id:
            raise WorkspaceError(f"no background command has the id {task_id}", reason="not_found")
        return BackgroundOutput(self.task, b"out\xff", b"err")

    async def kill(self, task_id: str) -> BackgroundOutput:
        return await self.read(task_id)

    def list(self) -> Sequence[BackgroundTask]:
        return [self.task]


def tools(recorder: Recorder, limits: ToolLimits | None = None) -> Tools:
    workspace = MemoryWorkspace({"src/a": ""}, commands=recorder)
    return Tools(select(["code", "filesystem"], limits), Context(workspace))


@pytest.mark.feature("WICK-051", "OAGS-029")
@pytest.mark.parametrize("name", ["Bash", "execute"])
async def test_command_returns_output_and_exit_code(name: str) -> None:
    end = ProcessEnd(exit_code=3, cpu_seconds=0.5, max_memory_bytes=7)
    recorder = Recorder(ProcessResult(stdout=b"out\n", stderr=b"err\n", end=end))
    box = tools(recorder)
    assert await box.object(name, command="make test") == {
        "exit_code": 3,
        "stdout": "out\n",
        "stderr": "err\n",
        "stdout_truncated": False,
        "stderr_truncated": False,
    }
    (spec,) = recorder.specs
    assert (spec.argv, spec.cwd, spec.timeout) == ("make test", ".", 300)
    (used,) = box.context.resources
    assert (used.cpu_seconds, used.max_memory_bytes) == (0.5, 7)


@pytest.mark.feature("OAGS-028")
async def test_call_can_only_lower_limits() -> None:
    recorder = Recorder(ProcessResult(stdout=b"x" * 50, stderr=b"\xff" * 50, end=OK))
    box = tools(recorder, ToolLimits(timeout_s=9, max_output_bytes=20))
    result = await box.object("Bash", command="a", timeout_s=99, max_output_bytes=99, cwd="src")
    assert result["stdout"] == "x" * 20
    # A replacement character has three bytes.
    assert result["stderr"] == "\ufffd" * 6
    assert (result["stdout_truncated"], result["stderr_truncated"]) == (True, True)
    lower = await box.object("Bash", command="a", timeout_s=2.5, max_output_bytes=5)
    assert lower["stdout"] == "x" * 5
    limits = [(spec.timeout, spec.max_output_bytes, spec.cwd) for spec in recorder.specs]
    assert limits == [(9, 20, "src"), (2.5, 5, ".")]
    assert "must be positive" in await box.error("Bash", command="a", timeout_s=0)
    assert "at least 1" in await box.error("Bash", command="a", max_output_bytes=0)
    tool = box.by_name["Bash"]
    assert tool.timeout == 39
    with pytest.raises(ConfigError, match="timeout_s must be positive; got 0"):
        ToolLimits(timeout_s=0)


async def test_signals_and_timeouts_are_named() -> None:
    killed = ProcessEnd(signal="SIGKILL")
    result = await tools(Recorder(ProcessResult(end=killed))).object("Bash", command="a")
    assert (result["exit_code"], result["signal"]) == (None, "SIGKILL")
    late = ProcessEnd(signal="SIGTERM", timed_out=True)
    output = await tools(Recorder(ProcessResult(end=late))).output("execute", command="a")
    assert output.is_error
    assert isinstance(output.content, dict)
    assert (output.content["timed_out"], output.content["timeout_s"]) == (True, 300)


async def test_invalid_command_is_refused() -> None:
    box = tools(Recorder(ProcessResult(end=OK)))
    assert await box.error("Bash", command=" ") == "the command is empty"
    assert "NUL" in await box.error("execute", command="a\0", background=True)
    refused = Tools(select(["Bash"]), Context(MemoryWorkspace()))
    assert "runs no commands" in await refused.error("Bash", command="ls")
    assert "outside" in await refused.error("Bash", command="ls", cwd="..")


@given(st.binary(max_size=20), st.integers(1, 20))
def test_output_never_exceeds_its_limit(data: bytes, limit: int) -> None:
    text = output_text(data, limit)
    assert len(text.encode()) <= limit
    assert data.decode("utf-8", "replace").startswith(text)
    if len(data) < limit and data.isascii():
        assert text == data.decode()


@pytest.mark.feature("ASDK-114", "ASDK-115")
@pytest.mark.parametrize(
    ("run", "output", "kill"),
    [("Bash", "BashOutput", "KillBash"), ("execute", "bash_output", "kill_bash")],
)
async def test_background_command_is_started_read_and_killed(
    run: str, output: str, kill: str
) -> None:
    background = Background(BackgroundTask(task_id="bg1", command="serve"))
    workspace = MemoryWorkspace()
    box = Tools(select([run, output, kill]), Context(workspace, background))
    assert await box.object(run, command="serve", background=True) == {
        "task_id": "bg1",
        "status": "running",
    }
    assert background.specs[0].argv == "serve"
    running = {
        "task_id": "bg1",
        "exit_code": None,
        "stdout": "out\ufffd",
        "stderr": "err",
    }
    assert await box.object(output, task_id="bg1") == {"status": "running", **running}
    end = ProcessEnd(signal="SIGTERM", cpu_seconds=0.25)
    background.task = BackgroundTask(
        task_id="bg1", command="serve", status="killed", end=end, dropped_bytes=5
    )
    assert await box.object(kill, task_id="bg1") == {
        "status": "killed",
        "signal": "SIGTERM",
        "dropped_bytes": 5,
        **running,
    }
    assert box.context.resources[-1].cpu_seconds == 0.25
    assert "no background command has the id x" in await box.error(output, task_id="x")


async def test_background_needs_a_runtime() -> None:
    box = Tools(select(["Bash"]), Context(MemoryWorkspace()))
    error = await box.error("Bash", command="serve", background=True)
    assert "background commands are not available here" in error
