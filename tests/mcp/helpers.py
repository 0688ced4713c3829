"""Agents with MCP servers, and the server of `raw_server.py` as a subprocess."""

import sys
from pathlib import Path
from typing import Final, Unpack

from agent_actors import AgentOptions, RunResult, Runtime, open_runtime
from agent_actors.domain.json import JsonObject
from agent_actors.mcp import StdioServer
from agent_actors.options.agent_options import OptionFields
from agent_actors.testing import ScriptedModel, Turn, call

RAW_SERVER: Final = Path(__file__).with_name("raw_server.py")


def raw(mode: str = "", *, shared: bool = False, connect_timeout: float = 30.0) -> StdioServer:
    """Return the server of `raw_server.py`."""
    return StdioServer(
        sys.executable,
        ["-S", "-E", str(RAW_SERVER), mode],
        shared=shared,
        connect_timeout=connect_timeout,
    )


def agent(*turns: Turn, **fields: Unpack[OptionFields]) -> AgentOptions:
    """Return an agent whose model responds with the turns, and then with `Done.`."""
    fields.setdefault("mcp_servers", {"raw": raw()})
    fields["provider"] = ScriptedModel([*turns, "Done."])
    fields["model"] = "m"
    return AgentOptions(**fields)


def texts(result: RunResult) -> list[str]:
    """Return the contents of the results of a run's calls, as text."""
    return [str(call.content) for call in result.tool_calls]


async def run(options: AgentOptions, runtime: Runtime | None = None) -> RunResult:
    """Run an agent, in a new runtime if none is passed."""
    if runtime is not None:
        return await runtime.run("Go.", options)
    async with open_runtime() as own:
        return await own.run("Go.", options)


async def call_one(name: str, arguments: JsonObject | None = None) -> RunResult:
    """Run an agent that calls one tool of the server `raw`."""
    return await run(agent(call(f"raw__{name}", arguments or {})))
