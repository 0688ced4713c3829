"""Send a prompt to a busy session: stop its run, undo it, wait in the queue, or steer it."""

import os

import trio

from agent_actors import AgentOptions, Runtime, open_runtime
from agent_actors.events import RunQueued

options = AgentOptions(
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
)


async def ask(runtime: Runtime, prompt: str) -> None:
    result = await runtime.run(prompt, options, session_id="s")
    print(f"{prompt} {result.stop_reason}")


async def see_place(event: RunQueued) -> None:
    print(f"number {event.position} in line")


async def main() -> None:
    async with open_runtime(on_busy="queue") as runtime, trio.open_nursery() as nursery:
        runtime.events.subscribe(see_place, RunQueued, session_id="s")
        nursery.start_soon(ask, runtime, "Tell me about Paris.")
        await trio.sleep(0.01)
        nursery.start_soon(ask, runtime, "And then about Rome.")
        await trio.sleep(0.01)

        said = await runtime.steer("s", "Leave out the museums.")
        print(said.stop_reason)

        result = await runtime.run(
            "No, about Oslo instead.", options, session_id="s", on_busy="rollback"
        )
        print(result.text)

        if await runtime.interrupt("s", "the user pressed stop"):
            print("stopped")


trio.run(main)
