"""Fourth pattern, external storage: facts are stored elsewhere, and a tool looks them up."""

import os

import trio

from agent_actors import AgentOptions, Client, tool
from agent_actors.context import truncate_messages

# In practice, use a database, a file or a search index.
memory: dict[str, str] = {}


@tool
async def remember(topic: str, fact: str) -> str:
    """Store a fact for later.

    Args:
        topic: A word to find the fact by.
        fact: The fact to store.
    """
    memory[topic.lower()] = fact
    return "kept"


@tool(read_only=True)
async def recall(topic: str) -> str:
    """Look up stored facts.

    Args:
        topic: A word that was stored with the fact.
    """
    found = [fact for kept, fact in memory.items() if topic.lower() in kept]
    return "\n".join(found) or "there is no fact about that"


options = AgentOptions(
    system_prompt="Store facts about the user; look up what you do not see here.",
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
    tools=[remember, recall],
    auto_execute_tools=True,
)


async def main() -> None:
    async with Client(options) as client:
        for prompt in ("My dog is called Rex.", "I live in Lyon.", "What is my dog called?"):
            await client.query(prompt)
            async for _ in client.receive_messages():
                pass
            client.message_history = truncate_messages(client.history, keep=0)
            print(f"{prompt} {len(client.history)} messages here, {len(memory)} facts there")


trio.run(main)
