"""An editor whose user asks an agent to change the text: a buffer, two typed tools, and undo."""

import difflib

import attrs
import trio

from agent_actors import AgentOptions, Runtime, Tool, ToolOutput, open_runtime, tool
from agent_actors.abc import ModelProvider
from agent_actors.testing import ScriptedModel, call


@attrs.define
class Buffer:
    """The text that a user edits.

    Attributes:
        name: The name of the file.
        text: The current text.
        undo_steps: Earlier texts, oldest first.
    """

    name: str
    text: str
    undo_steps: list[str] = attrs.field(factory=list[str])

    def undo(self) -> None:
        self.text = self.undo_steps.pop()

    def tools(self) -> list[Tool]:
        return [tool(read_only=True)(self.read_lines), tool(exclusive=True)(self.replace_text)]

    async def read_lines(self, first: int = 1, last: int | None = None) -> str:
        """Read lines of the buffer, with their numbers.

        Args:
            first: The number of the first line, counted from 1.
            last: The number of the last line; null for the end of the buffer.
        """
        lines = self.text.splitlines()[first - 1 : last]
        return "\n".join(f"{number}: {line}" for number, line in enumerate(lines, first))

    async def replace_text(self, old: str, new: str) -> ToolOutput:
        """Replace a text that occurs exactly once in the buffer.

        Args:
            old: The text to replace, without line numbers.
            new: The text to insert instead.
        """
        if (count := self.text.count(old) if old else 0) != 1:
            return ToolOutput(f"`old` occurs {count} times; quote more of the text", is_error=True)
        self.text = self.text.replace(old, new)
        return ToolOutput("replaced")


async def ask_agent(runtime: Runtime, buffer: Buffer, wish: str, model: ModelProvider) -> str:
    """Let an agent change the buffer, and return what it says. All changes are one undo step."""
    options = AgentOptions(
        model="scripted",
        provider=model,
        system_prompt=f"You edit the file {buffer.name}. Read it before you change it.",
        tools=buffer.tools(),
    )
    before = buffer.text
    try:
        result = await runtime.run(wish, options, session_id=f"edit-{buffer.name}")
    except BaseException:
        buffer.text = before  # the user cancelled the request, or it failed
        raise
    if buffer.text != before:
        buffer.undo_steps.append(before)
    return result.text


def changes(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


async def main() -> None:
    buffer = Buffer("greet.py", 'def greet(name):\n    print("hi " + name)\n')
    # This script replaces a model. Its first change is refused, because `name` occurs twice.
    model = ScriptedModel(
        [
            call("read_lines", {}),
            call("replace_text", {"old": "name", "new": "guest"}),
            [
                call("replace_text", {"old": "greet(name)", "new": "greet(name: str) -> None"}),
                call("replace_text", {"old": '"hi " + name', "new": 'f"Hello, {name}!"'}),
            ],
            "I added types and a polite greeting.",
        ]
    )
    original = buffer.text
    async with open_runtime() as runtime:
        print(await ask_agent(runtime, buffer, "Add types, and be polite.", model))
    print(changes(original, buffer.text))
    buffer.undo()
    print("undone" if buffer.text == original else "changed")


if __name__ == "__main__":
    trio.run(main)
