"""A calculator whose tools this program executes itself."""

import os

import trio

from agent_actors import AgentOptions, Client, TextBlock, ToolUseBlock, tool


@tool("add", "Add two numbers.", {"a": float, "b": float})
async def add(arguments: dict[str, float]) -> dict[str, float]:
    return {"result": arguments["a"] + arguments["b"]}


@tool("multiply", "Multiply two numbers.", {"a": float, "b": float})
async def multiply(arguments: dict[str, float]) -> dict[str, float]:
    return {"result": arguments["a"] * arguments["b"]}


TOOLS = {"add": add, "multiply": multiply}

options = AgentOptions(
    system_prompt="Calculate with the tools, never by yourself.",
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
    tools=[add, multiply],
)


async def main() -> None:
    async with Client(options) as client:
        await client.query("What is (2 + 3) * 4?")
        calling = True
        while calling:
            calling = False
            async for block in client.receive_messages():
                if isinstance(block, TextBlock):
                    print(block.text, end="", flush=True)
                elif isinstance(block, ToolUseBlock):
                    calling = True
                    result = await TOOLS[block.name].execute(block.input)
                    await client.add_tool_result(block.id, content=result, name=block.name)
            if calling:
                await client.query("")
        print()


trio.run(main)
