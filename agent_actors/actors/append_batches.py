"""What waits in a mailbox, taken together.

Owns how long a batch waits for those that come along. One who is alone waits for nobody. Where
several shared the last batch, the next gives them a moment to share it too, if they are not there
yet: a batch costs much the same whatever is in it.
"""

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

import trio

from agent_actors.kernel.mailbox import Mailbox

T = TypeVar("T")

# Seconds that a batch waits for others, and how many must have shared the last one for that. With
# a hundred sessions at once a batch is twice as large then; beside a model's time it is nothing.
GATHER: Final = 0.004
CROWD: Final = 4


class Batches(Generic[T]):
    """The batches of one mailbox.

    Args:
        mailbox: Read by nobody else.
    """

    def __init__(self, mailbox: Mailbox[T]) -> None:
        self._mailbox = mailbox
        self._last = 0

    async def next(self) -> Sequence[T]:
        """Wait for a letter; it, and those that wait with it, in order.

        Raises:
            trio.EndOfChannel: There is none, and the mailbox is closed.

        Cancellation: a letter that was taken may be lost with the batch.
        """
        first = await self._mailbox.get()
        if self._last >= CROWD and self._mailbox.statistics().depth + 1 < self._last:
            await trio.sleep(GATHER)
        depth = self._mailbox.statistics().depth
        batch = [first, *[self._mailbox.get_nowait() for _ in range(depth)]]
        self._last = len(batch)
        return batch
