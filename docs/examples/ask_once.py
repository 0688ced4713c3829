"""Ask one question: stream the response, or wait for the complete response."""

import os

import trio

from agent_actors import AgentOptions, TextBlock, query, run

options = AgentOptions(
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
)


async def main() -> None:
    async with query("Why is the sky blue?", options) as messages:
        async for message in messages:
            for block in message.content:
                if isinstance(block, TextBlock):
                    print(block.text, end="", flush=True)
            if message.usage is not None:
                print(f"\n{message.stop_reason}, {message.usage.total_tokens} tokens")

    result = await run("And at sunset?", options)
    print(result.text)


trio.run(main)
