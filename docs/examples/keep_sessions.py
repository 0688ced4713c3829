"""Two programs run one after the other, and continue the same session."""

import os
import tempfile
from pathlib import Path

import trio

from agent_actors import AgentOptions, open_runtime
from agent_actors.stores.sqlite import SqliteStore

options = AgentOptions(
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
)


async def program(path: Path, prompt: str) -> None:
    async with open_runtime(store=SqliteStore(path)) as runtime:
        result = await runtime.run(prompt, options, session_id="trip")
        print(f"{len(result.messages)} messages; the last: {result.text}")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sessions.db"
        await program(path, "I want to see Paris.")
        await program(path, "And what was it that I want to see?")


trio.run(main)
