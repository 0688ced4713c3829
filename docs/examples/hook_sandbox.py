"""A sandbox: files are written below one folder, whatever path the model chooses."""

import tempfile
from pathlib import Path

import trio

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.hooks import Hook, HookContext, HookDecision, PreToolUseEvent
from agent_actors.testing import ScriptedModel, call, interleave


@tool
async def write_file(path: str, text: str) -> str:
    """Write a file."""
    target = trio.Path(path)
    await target.parent.mkdir(parents=True, exist_ok=True)
    await target.write_text(text, encoding="utf-8")
    return f"{len(text)} characters written"


class Sandbox(Hook):
    """Rewrite paths so that they lie below one folder."""

    name = "sandbox"
    matcher: str | None = "write_file|edit_file"

    def __init__(self, root: Path) -> None:
        self.root = root

    async def before_tool(self, event: PreToolUseEvent, ctx: HookContext) -> HookDecision | None:
        asked = Path(str(event.tool_input["path"]))
        if asked.is_relative_to(self.root) and ".." not in asked.parts:
            return None
        inside = [part for part in asked.parts if part not in (asked.anchor, "..")]
        moved = str(self.root.joinpath(*inside))
        return HookDecision(modified_input={**event.tool_input, "path": moved})


def print_files(root: Path) -> None:
    for path in sorted(root.rglob("*.*")):
        print(path.relative_to(root))


async def main() -> None:
    paths = ["/etc/hosts.txt", "../../notes.txt"]
    writes = interleave(*(call("write_file", {"path": path, "text": "Hi."}) for path in paths))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        options = AgentOptions(
            model="scripted",
            provider=ScriptedModel([[writes], "Both are written."]),
            tools=[write_file],
            hooks=Sandbox(root),
        )
        async with open_runtime() as runtime:
            await runtime.run("Leave a note.", options)
        print_files(root)


trio.run(main)
