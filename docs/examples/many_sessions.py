"""Run many sessions at once in one process; a failed run does not affect the others."""

import os

import trio

from agent_actors import AgentError, AgentOptions, Runtime, open_runtime

options = AgentOptions(
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
)


async def one(runtime: Runtime, session_id: str) -> None:
    try:
        result = await runtime.run(f"Greet session {session_id}.", options, session_id=session_id)
    except AgentError as error:
        print(f"{session_id}: {error}")
    else:
        print(f"{session_id}: {result.text}")


async def main() -> None:
    async with open_runtime() as runtime, trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(one, runtime, f"s{number}")


trio.run(main)
