"""A client ends with an open call; a later client with the same store adds the result."""

import os
import tempfile
from pathlib import Path

import trio

from agent_actors import AgentOptions, Client, TextBlock, open_runtime, tool
from agent_actors.stores.sqlite import SqliteStore


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


options = AgentOptions(
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
    tools=[add],
)


async def morning(path: Path) -> None:
    async with (
        open_runtime(store=SqliteStore(path)) as runtime,
        Client(options, runtime=runtime, session_id="sums") as client,
    ):
        await client.query("What is 2 + 3?")
        async for _ in client.receive_messages():
            pass
        print("left open:", [call.name for call in client.open_calls])


async def evening(path: Path) -> None:
    async with (
        open_runtime(store=SqliteStore(path)) as runtime,
        Client(options, runtime=runtime, resume="sums") as client,
    ):
        for call in client.open_calls:
            await client.add_tool_result(call.id, await add.execute(call.input))
        await client.continue_turn()
        async for block in client.receive_messages():
            if isinstance(block, TextBlock):
                print(block.text, end="", flush=True)
        print()


with tempfile.TemporaryDirectory() as folder:
    trio.run(morning, Path(folder) / "sums.db")
    trio.run(evening, Path(folder) / "sums.db")
