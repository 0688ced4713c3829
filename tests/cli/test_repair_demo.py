"""`agent-actors demo --code` repairs a project in a sandbox, and leaves nothing behind."""

import json
from pathlib import Path

import pytest

from agent_actors.errors import WorkspaceError
from agent_actors.testing import ScriptedEndpoint
from agent_actors.toolbox.workspace.bubblewrap import find_bubblewrap
from tests.cli.helpers import agent_actors, at


@pytest.fixture
def sandbox(tmp_path: Path) -> dict[str, str]:
    """Return the environment, with the place for temporary files; skip without a sandbox."""
    try:
        find_bubblewrap()
    except WorkspaceError as error:
        pytest.skip(str(error))
    return {"TMPDIR": str(tmp_path)}


def left_in(directory: Path) -> list[Path]:
    return list(directory.iterdir())


async def test_scripted_agent_repairs_the_project(sandbox: dict[str, str], tmp_path: Path) -> None:
    ended = await agent_actors("demo", "--code", env=sandbox)
    assert ended.status == 0, ended.err
    assert ended.out.splitlines()[-1].startswith("The tests pass")
    for line in (
        "  exit code 1",
        "  cart.py:4: def total(prices: list[int], discount: int = 0) -> int:",
        "  -    return sum(prices) * discount // 100",
        "  +    return sum(prices) * (100 - discount) // 100",
        "demo: the tests failed before, and pass now; 5 tool calls in a bubblewrap sandbox",
    ):
        assert f"\n{line}" in ended.err, ended.err
    assert left_in(tmp_path) == []


async def test_agent_that_gives_up_fails(sandbox: dict[str, str], tmp_path: Path) -> None:
    async with ScriptedEndpoint(["The tests pass."]) as endpoint:
        ended = await agent_actors("demo", "--code", "--json", *at(endpoint), env=sandbox)
    report = json.loads(ended.out)
    assert (ended.status, report["pass_now"], report["tool_calls"]) == (1, False, [])
    assert left_in(tmp_path) == []


async def test_missing_sandbox_is_a_clear_error(tmp_path: Path) -> None:
    env = {"PATH": str(tmp_path), "TMPDIR": str(tmp_path)}
    ended = await agent_actors("demo", "--code", env=env)
    assert (ended.status, ended.out) == (1, "")
    assert ended.err == (
        "error: the program bwrap was not found; install the system package `bubblewrap`\n"
    )
    assert left_in(tmp_path) == []
