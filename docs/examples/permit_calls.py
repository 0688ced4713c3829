"""Set permissions: rules, a mode, and a function that decides about the remaining calls."""

import trio

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.permissions import PermissionDecision, PermissionPolicy, PermissionRequest
from agent_actors.testing import ScriptedModel, call, say


@tool(read_only=True, open_world=False)
async def read_note(path: str) -> str:
    """Read a note."""
    return f"{path} says: buy milk"


@tool(open_world=False)
async def write_note(path: str, text: str) -> str:
    """Write a note; an existing note is replaced."""
    return f"{path} now says: {text}"


@tool
async def shell(command: str) -> str:
    """Run a shell command."""
    return f"ran {command}"


policy = PermissionPolicy(
    mode="default",
    allow=["write_note(notes/**)", "shell(git *)"],
    ask=["shell(git push *)"],
    deny=["*(.env)", "shell(rm *)"],
)


def decide(request: PermissionRequest) -> PermissionDecision:
    """Decide about a call for which the policy says to ask."""
    if request.tool.open_world:
        return PermissionDecision("deny", reason="nothing leaves this machine today")
    return PermissionDecision("allow", remember="session")


# This script replaces a model, and makes every kind of call.
CALLS = [
    call("read_note", {"path": "notes/a"}),
    call("read_note", {"path": "config/.env"}),
    call("write_note", {"path": "notes/a", "text": "done"}),
    call("write_note", {"path": "notes/../b", "text": "done"}),
    call("shell", {"command": "git status && git diff"}),
    call("shell", {"command": "git status; rm -rf notes"}),
    call("shell", {"command": "git push"}),
]


async def main() -> None:
    options = AgentOptions(
        model="scripted",
        provider=ScriptedModel([CALLS, [say("Done.")]]),
        tools=[read_note, write_note, shell],
        permissions=policy,
        can_use_tool=decide,
    )
    async with open_runtime() as runtime:
        result = await runtime.run("Tidy up my notes.", options)
    for one in result.tool_calls:
        print(f"{one.name}({one.input}): {one.content}")


trio.run(main)
