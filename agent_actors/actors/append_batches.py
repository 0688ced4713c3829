"""Take the items that wait in a mailbox together, as batches.

This module decides how long a batch waits for further items. A single item does not wait. If
several items shared the last batch, and fewer wait now, the next batch gives others a moment to
join, because a batch costs almost the same for any number of items.
"""

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

import trio

from agent_actors.kernel.mailbox import Mailbox

T = TypeVar("T")

# Seconds that a batch waits for further items, and the size of the last batch from which it does.
# With a hundred sessions at once this doubles the size of a batch. The time is negligible compared
# to a model call.
GATHER: Final = 0.004
CROWD: Final = 4


class AppendBatches(Generic[T]):
    """The batches of one mailbox.

    Args:
        mailbox: A mailbox without any other reader.
    """

    def __init__(self, mailbox: Mailbox[T]) -> None:
        self._mailbox = mailbox
        self._last = 0

    async def next(self) -> Sequence[T]:
        """Wait for an item; return it with all items that wait at that time, in order.

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
