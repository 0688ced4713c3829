"""Let a tool call other tools of its run."""

import trio

from agent_actors import AgentOptions, ToolContext, open_runtime, tool
from agent_actors.domain.events import ToolResult, ToolUse
from agent_actors.testing import ScriptedModel, call

STOCK = {"pen": 7, "ink": 0}


@tool(read_only=True, open_world=False)
async def get_stock(item: str) -> int:
    """Return the number of units in stock."""
    return STOCK[item]


@tool(read_only=True, open_world=False)
async def find_missing(items: list[str], context: ToolContext) -> list[str]:
    """Return the items that are out of stock."""
    missing: list[str] = []
    for item in items:
        found = await context.call_tool("get_stock", {"item": item})
        if found.is_error or found.content == "0":
            missing.append(item)
    return missing


async def main() -> None:
    # This script replaces a model.
    asks = call("find_missing", {"items": ["pen", "ink"]}, id="call_1")
    options = AgentOptions(
        model="scripted",
        provider=ScriptedModel([asks, "We need ink."]),
        tools=[get_stock, find_missing],
    )
    async with open_runtime() as runtime, runtime.stream("What is missing?", options) as events:
        async for event in events:
            if isinstance(event, ToolUse | ToolResult):
                print(event.type, event.tool_use_id, "of", event.parent_tool_use_id)
    assert events.result is not None
    print(events.result.tool_calls[0].content)


trio.run(main)
