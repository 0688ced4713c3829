"""A conversation: a session keeps the messages, and a client runs the turns."""

import os

import trio

from agent_actors import AgentOptions, Client, TextBlock, ToolUseBlock, open_runtime, tool


@tool
async def get_weather(city: str, units: str = "celsius") -> str:
    """Current weather of a city."""
    return f"18 degrees {units} and sunny in {city}"


options = AgentOptions(
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
    tools=[get_weather],
    auto_execute_tools=True,
)


async def main() -> None:
    async with open_runtime() as runtime:
        async with Client(options, runtime=runtime, session_id="trip") as client:
            for prompt in ("What is the weather in Paris?", "And in Rome?"):
                await client.query(prompt)
                async for block in client.receive_messages():
                    if isinstance(block, TextBlock):
                        print(block.text, end="", flush=True)
                    elif isinstance(block, ToolUseBlock):
                        print(f"\n[{block.name} {block.input}]")
                print()

        # Any code that uses this runtime can continue the session.
        result = await runtime.run("Where is it warmer?", options, session_id="trip")
    print(len(result.messages), "messages,", result.usage.total_tokens, "tokens in the last run")


trio.run(main)
