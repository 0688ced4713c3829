"""Give an agent the tools of MCP servers: one in another process, and one in this process."""

import sys

import trio
from mcp.server import MCPServer

from agent_actors import AgentOptions, open_runtime
from agent_actors.mcp import InProcessServer, MCPClient, StdioServer
from agent_actors.permissions import PermissionPolicy
from agent_actors.testing import ScriptedModel, call, say

notes = MCPServer("notes")
shelf = {"monday": "Water the plants."}


@notes.tool()
def read_note(name: str) -> str:
    """Read a note."""
    return shelf[name]


@notes.tool()
def delete_note(name: str) -> str:
    """Delete a note."""
    return f"deleted: {shelf.pop(name)}"


# A server of your own, or of somebody else, that runs in another process.
stdio = StdioServer(sys.executable, [__file__, "serve"], deny=["delete_*"])


async def use_agent() -> None:
    # This script replaces a model.
    calls = [
        call("files__read_note", {"name": "monday"}),
        call("memory__delete_note", {"name": "monday"}),
        call("memory__read_note", {"name": 7}),
    ]
    options = AgentOptions(
        model="scripted",
        provider=ScriptedModel([calls, [say("Done.")]]),
        mcp_servers={"files": stdio, "memory": InProcessServer(notes)},
        permissions=PermissionPolicy(allow=["files__*", "memory__read_note"], deny=["*__delete_*"]),
    )
    async with open_runtime() as runtime:
        result = await runtime.run("Read my notes.", options)
    for done in result.tool_calls:
        print(done.name, "refused:" if done.is_error else "returned:", done.data or done.content)


async def use_client() -> None:
    async with MCPClient.from_spec(stdio) as client:
        print("tools:", [tool.name for tool in await client.list_tools()])
        result = await client.invoke_tool("read_note", {"name": "monday"})
        print("without an agent:", result.data)


async def main() -> None:
    await use_agent()
    await use_client()


if sys.argv[1:] == ["serve"]:
    notes.run()
else:
    trio.run(main)
