"""First pattern, no history: each prompt contains everything that the model needs."""

import os

import trio

from agent_actors import AgentOptions, run

TICKETS = {
    101: "The export to CSV loses umlauts.",
    102: "Please add a dark theme.",
    103: "The export fails for more than 10,000 rows.",
}

options = AgentOptions(
    system_prompt="You sort tickets. Answer with one word: bug, wish or question.",
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
)


async def main() -> None:
    for number, text in TICKETS.items():
        # A run without a session id starts a new session.
        result = await run(f"Ticket {number}: {text}", options)
        print(number, result.text, f"({len(result.messages)} messages)")


trio.run(main)
