"""Take the items that are waiting in a mailbox, in batches.

This module decides how long a batch waits for more items. A single item does not wait. If the
previous batch had several items and fewer are waiting now, the next batch waits a moment for others
to join, because a batch costs almost the same for any number of items.
"""

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

import trio

from agent_actors.kernel.mailbox import Mailbox

T = TypeVar("T")

# The number of seconds that a batch waits for more items, and the minimum size of the previous
# batch for it to wait at all. With a hundred concurrent sessions, this doubles the size of a batch.
# The time is negligible compared to a model call.
GATHER: Final = 0.004
CROWD: Final = 4


class AppendBatches(Generic[T]):
    """The batches from one mailbox.

    Args:
        mailbox: A mailbox that has no other reader.
    """

    def __init__(self, mailbox: Mailbox[T]) -> None:
        self._mailbox = mailbox
        self._last = 0

    async def next(self) -> Sequence[T]:
        """Wait for an item, and return it with all other items that are waiting by then, in order.

        Raises:
            trio.EndOfChannel: The mailbox is empty and closed.

        Cancellation: items that were taken may be lost.
        """
        first = await self._mailbox.get()
        if self._last >= CROWD and self._mailbox.statistics().depth + 1 < self._last:
            await trio.sleep(GATHER)
        depth = self._mailbox.statistics().depth
        batch = [first, *[self._mailbox.get_nowait() for _ in range(depth)]]
        self._last = len(batch)
        return batch
