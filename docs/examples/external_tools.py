"""A tool that runs in the user's browser: the run ends with its call, and continues later."""

import os
import tempfile
from pathlib import Path

import trio

from agent_actors import AgentOptions, Tool, ToolOutput, ToolUseBlock, open_runtime
from agent_actors.stores.sqlite import SqliteStore

options = AgentOptions(
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
    tools=[Tool("read_clipboard", "Read what the user has copied.", {"item": int}, read_only=True)],
)


async def ask(path: Path, prompt: str) -> tuple[ToolUseBlock, ...]:
    async with open_runtime(store=SqliteStore(path)) as runtime:
        result = await runtime.run(prompt, options, session_id="tab-7")
    print(result.stop_reason, [(call.name, call.input) for call in result.external_calls])
    return result.external_calls


def in_the_browser(call: ToolUseBlock) -> ToolOutput:
    """Execute the calls as the user's browser would."""
    if call.input["item"] == 13:
        return ToolOutput("the user does not want to share it", is_error=True)
    return ToolOutput({"copied": f"text number {call.input['item']}"})


async def resume_with(path: Path, results: dict[str, ToolOutput]) -> None:
    async with open_runtime(store=SqliteStore(path)) as runtime:
        result = await runtime.resume("tab-7", {}, options, results=results)
    print(result.stop_reason, [call.content for call in result.tool_calls])


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sessions.db"
        calls = await ask(path, "What have I copied?")
        await resume_with(path, {call.id: in_the_browser(call) for call in calls})


trio.run(main)
