"""Second pattern, truncation: cut the history when a part of the work is done."""

import os

import trio

from agent_actors import AgentOptions, Client
from agent_actors.context import truncate_messages

CHAPTERS = {
    "The harbour": ["Who are they?", "What do they want?"],
    "The crossing": ["What goes wrong?", "Who saves them?"],
    "The island": ["What do they find?", "Does it end well?"],
}

options = AgentOptions(
    system_prompt="You help to plan a story. Two sentences at most.",
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
)


async def say(client: Client, prompt: str) -> None:
    await client.query(prompt)
    async for _ in client.receive_messages():
        pass


async def main() -> None:
    async with Client(options) as client:
        for chapter, questions in CHAPTERS.items():
            for question in questions:
                await say(client, f"{chapter}: {question}")
            await say(client, f"Sum up {chapter!r}.")
            before = len(client.history)
            # The chapter is done. Keep its summary: the last prompt and response.
            client.message_history = truncate_messages(client.history, keep=2)
            print(f"{chapter}: {before} messages, {len(client.history)} kept")


trio.run(main)
