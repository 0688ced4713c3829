"""What a client's turn is read with: an iterator that owns only the way to the next block."""

from collections.abc import Awaitable, Callable
from typing import Self

from agent_actors.client.content_stream import FaceBlock


class ClientMessages:
    """The blocks of one turn, in order; for one `async for`. Made by `Client.receive_messages`."""

    def __init__(self, take: Callable[[], Awaitable[FaceBlock | None]]) -> None:
        self._take = take

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> FaceBlock:
        """The next block.

        Raises:
            PromptBlocked: A hook refused to have the model asked.
            ClientError: Another task reads this turn.
            AgentError: What the turn failed with.

        Cancellation: safe; no block is lost, and the turn goes on.
        """
        block = await self._take()
        if block is None:
            raise StopAsyncIteration
        return block
