"""Three processes share a session: one asks, one collects the answer, and one continues."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import trio

from agent_actors import AgentOptions, PermissionPolicy, open_runtime, tool
from agent_actors.stores.sqlite import SqliteStore


@tool
async def send_money(item: int) -> str:
    """Send money."""
    return f"sent in process {os.getpid()}"


options = AgentOptions(
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
    tools=[send_money],
    permissions=PermissionPolicy(ask=["send_money"]),
    on_ask="suspend",
)


async def begin(store: Path) -> None:
    """Run until the approval is needed, and end the process."""
    async with open_runtime(store=SqliteStore(store)) as runtime:
        result = await runtime.run("Pay the bill.", options, session_id="bill")
    assert result.stop_reason == "awaiting_approval"


async def show(store: Path) -> None:
    """Print the open questions; this process needs no model."""
    async with open_runtime(store=SqliteStore(store)) as runtime:
        session = await runtime.sessions.snapshot("bill")
    assert session is not None
    for question in session.questions:
        print(question.id, question.prompt)


async def approve(store: Path, *questions: str) -> None:
    """Continue the session with the answers."""
    async with open_runtime(store=SqliteStore(store)) as runtime:
        result = await runtime.resume("bill", dict.fromkeys(questions, "yes"), options)
    print(result.stop_reason, [str(call.content) for call in result.tool_calls])


def python(command: str, *arguments: str) -> str:
    program = [sys.executable, __file__, command, *arguments]
    return subprocess.run(program, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder, "sessions.db"))
        python("begin", store)
        shown = python("show", store)
        print(shown, end="")
        print(python("approve", store, *(line.split()[0] for line in shown.splitlines())), end="")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["begin", store]:
            trio.run(begin, Path(store))
        case ["show", store]:
            trio.run(show, Path(store))
        case ["approve", store, *questions]:
            trio.run(approve, Path(store), *questions)
        case _:
            main()
