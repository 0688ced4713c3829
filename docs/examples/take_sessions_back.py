"""Read, fork, rewind and export a session."""

import os

import trio

from agent_actors import AgentOptions, Runtime, open_runtime
from agent_actors.events import UserMessage

options = AgentOptions(
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
)


async def show(runtime: Runtime, session_id: str) -> None:
    state = await runtime.sessions.snapshot(session_id)
    assert state is not None
    said = [message.content for message in state.messages.user_messages()]
    print(f"{session_id}: {said}, {state.usage.output_tokens} tokens out")


async def main() -> None:
    async with open_runtime() as runtime:
        sessions = runtime.sessions
        for prompt in ("Plan a trip to Rome.", "Make it Paris."):
            await runtime.run(prompt, options, session_id="trip")

        records = await sessions.records("trip")
        asked = [record.seq for record in records if isinstance(record, UserMessage)]
        before_paris = (asked[1] or 0) - 1
        await sessions.fork("trip", before_paris, new_id="other-trip")
        await runtime.run("Make it Athens.", options, session_id="other-trip")
        await sessions.rewind("trip", before_paris)
        await sessions.annotate("trip", {"title": "Rome"})

        for info in (await runtime.list_sessions()).sessions:
            await show(runtime, info.session_id)

        lines = await sessions.export("trip")
        await sessions.delete("trip")
        print(f"{await sessions.import_records(lines)}: {len(lines)} records are back")


trio.run(main)
