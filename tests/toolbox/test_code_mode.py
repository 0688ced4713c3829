"""Code mode: programs of a model run in a sandbox, and call tools of the run."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
import trio

from agent_actors import AgentOptions, Tool, open_runtime, tool
from agent_actors.domain.events import ToolResult
from agent_actors.domain.json import JsonObject
from agent_actors.domain.run import RunResult
from agent_actors.errors import ConfigError, WorkspaceError
from agent_actors.permissions import PermissionPolicy
from agent_actors.testing import ScriptedModel, call
from agent_actors.toolbox import code_mode
from agent_actors.toolbox.code_mode import CodeMode
from agent_actors.toolbox.workspace.bubblewrap import find_bubblewrap
from tests.runs.helpers import check_history, check_quiet


@tool("add-up", read_only=True, open_world=False)
async def add_up(numbers: list[int], start: int = 0) -> JsonObject:
    """Add numbers."""
    return {"sum": sum(numbers, start)}


@tool(open_world=False)
async def fail() -> str:
    """Fail."""
    raise ValueError("broken")


@pytest.fixture(autouse=True)
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip without a sandbox, and create the directories of programs in a place of the test."""
    try:
        find_bubblewrap()
    except WorkspaceError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def agent(
    code: str, mode: Tool | None = None, tools: Sequence[Tool] = (add_up, fail)
) -> AgentOptions:
    mode = mode or CodeMode(tools)
    model = ScriptedModel([call("RunPython", {"code": code}, id="c1"), "Done."])
    return AgentOptions(model="m", provider=model, tools=[*tools, mode])


async def run(options: AgentOptions) -> tuple[RunResult, list[ToolResult]]:
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", options, session_id="s")
        check_history(result.messages)
        check_quiet(runtime)
        records = await runtime.sessions.records("s")
    inner = [r for r in records if isinstance(r, ToolResult) and r.parent_tool_use_id == "c1"]
    return result, inner


def left_in(directory: Path) -> list[Path]:
    return list(directory.iterdir())


def content(result: RunResult) -> JsonObject:
    found = result.tool_calls[0].content
    assert isinstance(found, dict), found
    return found


PROGRAM = """
total = 0
for n in range(3):
    total = add_up(numbers=[n, 10], start=total)["sum"]
print(total)
try:
    fail()
except ToolError as error:
    print(error)
"""


async def test_program_calls_tools(tmp_path: Path) -> None:
    result, inner = await run(agent(PROGRAM))
    assert content(result) == {
        "exit_code": 0,
        "stdout": "33\ntool 'fail' raised ValueError: broken\n",
        "stderr": "",
        "stdout_truncated": False,
        "stderr_truncated": False,
        "calls": 4,
    }
    assert [one.name for one in inner] == ["add-up"] * 3 + ["fail"]
    assert left_in(tmp_path) == []


async def test_permissions_apply_to_calls_of_programs() -> None:
    policy = PermissionPolicy(mode="deny", allow=["RunPython", "add-up"])
    result, inner = await run(attrs.evolve(agent(PROGRAM), permissions=policy))
    assert "the call was not permitted" in str(content(result)["stdout"])
    assert [one.is_error for one in inner] == [False, False, False, True]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import os\nprint(os.listdir('/home') if os.path.exists('/home') else [])", "[]\n"),
        ("import os\nprint('SECRET' in os.environ)", "False\n"),
        (
            "import socket\ntry: socket.socket().connect(('1.1.1.1', 1))\nexcept OSError: print(1)",
            "1\n",
        ),
    ],
)
async def test_program_is_confined(
    code: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "s")
    result, _ = await run(agent(code))
    assert content(result)["stdout"] == expected


async def test_error_of_program_is_reported() -> None:
    found = content((await run(agent("print('a')\n1 / 0")))[0])
    assert (found["exit_code"], found["stdout"]) == (1, "a\n")
    assert "ZeroDivisionError" in str(found["stderr"])


@pytest.mark.parametrize("line", ["garbage", '{"tool": "RunPython", "arguments": {}}', "[]"])
async def test_invalid_call_ends_program(line: str) -> None:
    code = f"import time\nopen('calls', 'w').write({line!r} + chr(10))\ntime.sleep(60)"
    result, inner = await run(agent(code))
    assert "invalid call" in str(result.tool_calls[0].content)
    assert inner == []


async def test_calls_and_output_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    mode = CodeMode([add_up], max_calls=2, max_output_bytes=10)
    code = "for _ in range(3): print(add_up(numbers=[100_000]))"
    found = content((await run(agent(code, mode, [add_up])))[0])
    assert (found["calls"], found["exit_code"], found["stdout_truncated"]) == (2, 1, True)
    assert len(str(found["stdout"])) == 10
    monkeypatch.setattr(code_mode, "_REQUEST_BYTES", 1000)
    result, _ = await run(agent("add_up(numbers=list(range(30_000)))", mode, [add_up]))
    assert "invalid call" in str(result.tool_calls[0].content)


async def test_endless_program_is_ended(tmp_path: Path) -> None:
    mode = CodeMode([add_up], timeout=1)
    result, _ = await run(agent("while True: pass", mode, [add_up]))
    assert "did not finish within 1 s" in str(result.tool_calls[0].content)
    assert left_in(tmp_path) == []


async def test_cancelled_program_ends_its_call(tmp_path: Path) -> None:
    begun, ended = trio.Event(), trio.Event()

    @tool
    async def wait() -> None:
        """Wait."""
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, agent("wait()", tools=[wait]))
        await begun.wait()
        nursery.cancel_scope.cancel()
    assert ended.is_set()
    assert left_in(tmp_path) == []


def test_tool_describes_its_functions() -> None:
    mode = CodeMode([add_up, fail])
    assert "\n- add_up(numbers, start=...): Add numbers.\n- fail(): Fail." in mode.description
    assert (mode.read_only, mode.open_world) == (True, False)


@pytest.mark.parametrize(
    ("tools", "limit", "message"),
    [
        ([], 1, "expected at least one tool"),
        ([add_up, Tool("add_up", "", {})], 1, "the same function name 'add_up'"),
        ([add_up], 0, "max_calls and max_output_bytes must be positive"),
    ],
)
def test_wrong_settings_are_rejected(tools: list[Tool], limit: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CodeMode(tools, max_calls=limit)


def test_missing_sandbox_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    find_bubblewrap.cache_clear()
    try:
        with pytest.raises(WorkspaceError, match="bwrap was not found"):
            CodeMode([add_up])
    finally:
        find_bubblewrap.cache_clear()
