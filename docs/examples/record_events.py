"""A tool that records which file it changed, in the same commit as its result."""

from functools import partial

import trio

from agent_actors import AgentOptions, ToolContext, open_runtime, tool
from agent_actors.events import FileChanged
from agent_actors.testing import ScriptedModel, call


@tool
async def write_note(ctx: ToolContext, text: str) -> str:
    """Write the note."""
    ctx.record(partial(FileChanged, path="note.txt", content=text))
    return "written"


async def main() -> None:
    model = ScriptedModel([call("write_note", {"text": "Buy milk."}), "I wrote it down."])
    options = AgentOptions(model="scripted", provider=model, tools=[write_note])
    async with open_runtime() as runtime:
        await runtime.run("Remember the milk.", options, session_id="notes")
        for record in await runtime.sessions.records("notes"):
            if isinstance(record, FileChanged):
                print(f"{record.path}: {record.content}")


trio.run(main)
