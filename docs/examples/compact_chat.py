"""A long chat in a small context window: older messages are replaced by a summary."""

import os

import trio

from agent_actors import AgentOptions, Compaction, open_runtime
from agent_actors.events import SessionCompacted

QUESTIONS = [f"Chapter {number}: what happens, and who is there?" for number in range(1, 13)]

options = AgentOptions(
    system_prompt="You know the novel well. Answer in one paragraph.",
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
    compaction=Compaction(tokens=1_000, instructions="Keep the names of all persons."),
)


async def main() -> None:
    async with open_runtime() as runtime:
        result = await runtime.run("Introduce the novel.", options, session_id="novel")
        for question in QUESTIONS:
            result = await runtime.run(question, options, session_id="novel")
            for report in result.compactions:
                print(f"compacted: {report.tokens_before} to {report.tokens_after} tokens")
        print(result.messages[0].content.splitlines()[0])
        # The log keeps everything: rewinding to before the last compaction restores the messages.
        records = await runtime.sessions.records("novel")
        compactions = [one.seq for one in records if isinstance(one, SessionCompacted) and one.seq]
        if not compactions:
            print("The conversation was too short to be compacted.")
            return
        messages = await runtime.sessions.rewind("novel", compactions[-1] - 1)
        print(f"{len(result.messages)} messages, {len(messages)} after the rewind")


trio.run(main)
