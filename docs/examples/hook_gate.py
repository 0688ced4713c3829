"""A security hook: refuse dangerous calls, and give the model the reason."""

import re

import trio

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.hooks import HookDecision, HookMatcher, PreToolUseEvent
from agent_actors.testing import ScriptedModel, call

DANGEROUS = re.compile(r"\brm\s+-\w*[rf]|\bmkfs|\bdd\s+if=|>\s*/dev/|\bcurl\b.*\|\s*(ba)?sh")


@tool
async def run_shell(command: str) -> str:
    """Run a command."""
    return f"(as if it had run: {command})"


async def gate(event: PreToolUseEvent) -> HookDecision | None:
    command = str(event.tool_input["command"])
    found = DANGEROUS.search(command)
    if found is None:
        return None  # proceed
    return HookDecision(continue_=False, reason=f"{found[0]!r} is not allowed here")


model = ScriptedModel(
    [
        call("run_shell", {"command": "rm -rf build"}),
        call("run_shell", {"command": "make clean"}),
        "The build folder is clean.",
    ]
)
options = AgentOptions(
    model="scripted",
    provider=model,
    tools=[run_shell],
    hooks={"pre_tool_use": [HookMatcher("run_shell|Bash", [gate])]},
)


async def main() -> None:
    async with open_runtime() as runtime:
        result = await runtime.run("Clean up.", options)
    for one in result.tool_calls:
        print(one.input["command"], "->", one.content)
    for event in result.hook_events:
        print(f"{event.hook} in {event.phase}: {event.action}, {event.reason}")


trio.run(main)
