"""A calculator whose tools run automatically, with the blocks that a client yields."""

import os

import trio

from agent_actors import (
    AgentOptions,
    Client,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
    tool,
)


@tool
async def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


@tool
async def multiply(a: float, b: float) -> float:
    """Multiply two numbers."""
    return a * b


options = AgentOptions(
    system_prompt="Calculate with the tools, never by yourself.",
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
    tools=[add, multiply],
    auto_execute_tools=True,
    max_tool_iterations=5,
)


async def main() -> None:
    async with Client(options) as client:
        await client.query("What is (2 + 3) * 4?")
        async for block in client.receive_messages():
            match block:
                case TextBlock(text=text):
                    print(text, end="", flush=True)
                case ToolUseBlock(name=name, input=arguments):
                    print(f"\n-> {name}({arguments})")
                case ToolUseError(error=error):
                    print(f"!! {error}")
                case ToolResultBlock():
                    print(f"<- {block.text}")
                case _:
                    pass
        if client.result is not None:
            print(f"\n{client.result.stop_reason}, {client.result.usage.total_tokens} tokens")


trio.run(main)
