"""MCP servers from other projects: their tools in a run of an agent.

`make foreign` installs the servers. A server that is not installed skips its test, or fails it if
`FOREIGN_REQUIRED` is set.
"""

import os
import shutil
from pathlib import Path
from typing import Final

import pytest
import trio

from agent_actors.domain.json import JsonObject
from agent_actors.domain.run import ToolCallResult
from agent_actors.mcp import StdioServer
from agent_actors.testing import call
from tests.conventions.tree import ROOT
from tests.mcp.helpers import agent, run

PYTHON_PROGRAMS: Final = ROOT / ".venv-foreign-mcp" / "bin"
NODE_PACKAGES: Final = ROOT / ".node-foreign" / "mcp" / "node_modules" / "@modelcontextprotocol"


def installed(program: Path, *args: str, runner: str | None = None) -> StdioServer:
    """Return a server; skip the test if it is not installed."""
    lacking = "" if program.exists() else f"{program.name} is not installed: `make foreign` does it"
    if runner is not None and shutil.which(runner) is None:
        lacking = f"{runner} is not installed"
    if lacking and os.environ.get("FOREIGN_REQUIRED"):
        pytest.fail(lacking, pytrace=False)
    if lacking:
        pytest.skip(lacking)
    if runner is None:
        return StdioServer(str(program), args, connect_timeout=60)
    return StdioServer(runner, [str(program), *args], connect_timeout=60)


def in_python(name: str, *args: str) -> StdioServer:
    return installed(PYTHON_PROGRAMS / name, *args)


def in_node(name: str, *args: str) -> StdioServer:
    return installed(NODE_PACKAGES / name / "dist" / "index.js", *args, runner="node")


async def result_of(server: StdioServer, name: str, arguments: JsonObject) -> ToolCallResult:
    options = agent(call(f"server__{name}", arguments), mcp_servers={"server": server})
    (result,) = (await run(options)).tool_calls
    return result


async def test_time() -> None:
    zones: JsonObject = {"source_timezone": "UTC", "target_timezone": "Asia/Tokyo", "time": "12:00"}
    result = await result_of(in_python("mcp-server-time"), "convert_time", zones)
    assert "21:00" in str(result.content)


async def test_git(tmp_path: Path) -> None:
    server = in_python("mcp-server-git", "--repository", str(tmp_path))
    await trio.run_process(["git", "init", "-q", str(tmp_path)])
    (tmp_path / "new.txt").write_text("new")
    result = await result_of(server, "git_status", {"repo_path": str(tmp_path)})
    assert "new.txt" in str(result.content)


async def test_fetch_reports_errors() -> None:
    server = in_python("mcp-server-fetch", "--ignore-robots-txt")
    result = await result_of(server, "fetch", {"url": "http://127.0.0.1:9/"})
    assert result.is_error
    assert "127.0.0.1:9" in str(result.content)


async def test_everything() -> None:
    server = in_node("server-everything")
    assert "hello" in str((await result_of(server, "echo", {"message": "hello"})).content)
    assert "image" in str((await result_of(server, "get-tiny-image", {})).content)


async def test_filesystem(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("inside")
    server = in_node("server-filesystem", str(tmp_path))
    inside = await result_of(server, "read_text_file", {"path": str(tmp_path / "a.txt")})
    assert "inside" in str(inside.content)
    outside = await result_of(server, "read_text_file", {"path": "/etc/passwd"})
    assert outside.is_error


async def test_memory(tmp_path: Path) -> None:
    server = in_node("server-memory")
    remembering = StdioServer(
        server.command, server.args, {"MEMORY_FILE_PATH": str(tmp_path / "memory.json")}
    )
    entity: JsonObject = {"name": "Ada", "entityType": "person", "observations": ["first"]}
    await result_of(remembering, "create_entities", {"entities": [entity]})
    result = await result_of(remembering, "search_nodes", {"query": "Ada"})
    assert "first" in str(result.content)
