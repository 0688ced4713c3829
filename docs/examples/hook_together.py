"""The four patterns in one agent: the first hook is the outermost."""

import re

import trio

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.hooks import HookDecision, HookMatcher, PreToolUseEvent
from agent_actors.hooks.builtin import (
    AuditLog,
    RateLimit,
    RedactSecrets,
    RunTimes,
    SanitisePrompt,
    Timing,
    TruncateOutput,
)
from agent_actors.testing import ScriptedModel, call, interleave

SECRET = re.compile(r"\.env$|/\.ssh/")


@tool
async def read_path(path: str) -> str:
    """Read a file."""
    return f"{path}: " + "word " * 30_000


async def redirect(event: PreToolUseEvent) -> HookDecision | None:
    path = str(event.tool_input["path"])
    if path.startswith("/sandbox/"):
        return None
    return HookDecision(modified_input={"path": f"/sandbox/{path.lstrip('/')}"})


async def gate(event: PreToolUseEvent) -> HookDecision | None:
    # `gate` receives the path from `redirect`, and is called again if a later hook rewrites it.
    secret = SECRET.search(str(event.tool_input["path"]))
    return HookDecision(continue_=False, reason="a secret") if secret else None


async def show(line: bytes) -> None:
    print(line.decode()[:100].rstrip())


def report(times: RunTimes) -> None:
    print(len(times.model_calls), "model calls,", len(times.tool_calls), "tool call")


reads = interleave(*(call("read_path", {"path": path}) for path in ("/etc/motd", "/app/.env")))
options = AgentOptions(
    model="scripted",
    provider=ScriptedModel([[reads], "Here you are."]),
    tools=[read_path],
    hooks=[
        Timing(report),
        AuditLog(show, clock=lambda: 0.0),
        SanitisePrompt(),
        {"pre_tool_use": [HookMatcher("read_path", [redirect, gate])]},
        RateLimit(100, per=60),
        RedactSecrets(),
        TruncateOutput(),
    ],
)


async def main() -> None:
    async with open_runtime() as runtime:
        result = await runtime.run("Read both files.", options)
    for one in result.tool_calls:
        print(one.input["path"], "->", len(str(one.content)), "characters")


trio.run(main)
