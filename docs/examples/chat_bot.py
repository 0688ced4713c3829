"""A chat bot on asyncio: one conversation for each user, and all users at the same time."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator

from agent_actors import AgentError, AgentOptions, TextBlock
from agent_actors.asyncio import Client, Runtime, open_runtime

bot = AgentOptions(
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
    system_prompt="Answer in one sentence.",
    auto_execute_tools=True,
)


class Room:
    """The conversations of a chat bot; replace `post` by a call of your chat service."""

    def __init__(self, runtime: Runtime, options: AgentOptions) -> None:
        self._runtime = runtime
        self._options = options
        self._inboxes: dict[str, asyncio.Queue[str]] = {}
        self._group = asyncio.TaskGroup()
        self.posted: list[tuple[str, str]] = []

    async def serve(self, messages: AsyncIterator[tuple[str, str]]) -> None:
        """Answer each message, given as the user and the text, until there are no more."""
        async with self._group:
            async for user, text in messages:
                if user not in self._inboxes:
                    self._inboxes[user] = asyncio.Queue()
                    self._group.create_task(self._talk(user), name=f"chat with {user}")
                self._inboxes[user].put_nowait(text)
            for inbox in self._inboxes.values():
                inbox.put_nowait("")

    async def _talk(self, user: str) -> None:
        inbox = self._inboxes[user]
        async with Client(self._options, runtime=self._runtime, session_id=user) as client:
            while text := await inbox.get():
                await self.post(user, await answer(client, text))

    async def post(self, user: str, text: str) -> None:
        self.posted.append((user, text))
        print(f"{user}: {text}")


async def answer(client: Client, text: str) -> str:
    try:
        await client.query(text)
        blocks = [block async for block in client.receive_messages()]
    except AgentError as error:
        return f"Sorry, that failed: {error}"
    return "".join(block.text for block in blocks if isinstance(block, TextBlock))


async def keyboard() -> AsyncIterator[tuple[str, str]]:
    """Yield the lines of the terminal."""
    print("Say something; end with Ctrl-D.")
    while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
        yield "you", line


async def main() -> None:
    async with open_runtime() as runtime:
        await Room(runtime, bot).serve(keyboard())


if __name__ == "__main__":
    asyncio.run(main())
