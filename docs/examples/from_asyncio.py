"""Run agents in an asyncio program."""

import asyncio
import os

from agent_actors import AgentOptions, tool
from agent_actors.asyncio import Client, open_runtime
from agent_actors.events import AssistantDelta

prices = {"apple": 3, "pear": 4}
lock = asyncio.Lock()


@tool
async def get_price(fruit: str) -> str:
    """Price of a fruit."""
    async with lock:  # tools run in your event loop, so they may use its objects
        await asyncio.sleep(0.01)
        return f"{prices.get(fruit, 5)} euros"


options = AgentOptions(
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
    tools=[get_price],
    auto_execute_tools=True,
)


async def main() -> None:
    async with open_runtime() as runtime:
        results = await asyncio.gather(*(runtime.run(f"Hello {n}", options) for n in range(10)))
        print(len(results), "answers")

        async with runtime.stream("Tell me more.", options, session_id="s") as events:
            async for event in events:
                if isinstance(event, AssistantDelta):
                    print(event.text, end="", flush=True)
        print()

        try:
            async with asyncio.timeout(0.005):
                await runtime.run("And more.", options, session_id="s")
        except TimeoutError:
            print("too slow; the run has ended")

        async with Client(options, runtime=runtime, session_id="s") as client:
            await client.query("Goodbye.")
            async for block in client.receive_messages():
                print(block.type)


if __name__ == "__main__":
    asyncio.run(main())
