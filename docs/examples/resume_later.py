"""A run ends with its questions, and another process continues it with the answers."""

import os
import tempfile
from pathlib import Path

import trio

from agent_actors import AgentOptions, PermissionPolicy, open_runtime, tool
from agent_actors.stores.sqlite import SqliteStore


@tool
async def send_money(item: int) -> str:
    """Send money."""
    return f"sent, number {item}"


options = AgentOptions(
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
    tools=[send_money],
    permissions=PermissionPolicy(ask=["send_money"]),
    on_ask="suspend",
)


async def today(path: Path) -> dict[str, str]:
    async with open_runtime(store=SqliteStore(path)) as runtime:
        result = await runtime.run("Pay the bill.", options, session_id="bill")
    print(result.stop_reason)
    for question in result.questions:
        print(question.prompt)
    return {question.id: "yes" for question in result.questions}


async def tomorrow(path: Path, answers: dict[str, str]) -> None:
    async with open_runtime(store=SqliteStore(path)) as runtime:
        result = await runtime.resume("bill", answers, options)
    print(result.stop_reason, [call.content for call in result.tool_calls])


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sessions.db"
        await tomorrow(path, await today(path))


trio.run(main)
