"""A bounded mailbox, which is a trio memory channel that records its depth and its peak.

The mailbox owns the order of the items that are waiting for one actor. It knows nothing about the
items themselves. Putting an item is synchronous while there is space, so an uncontended request
costs no extra checkpoint.
"""

from collections.abc import AsyncIterator
from typing import Generic, TypeVar

import attrs
import trio

T = TypeVar("T")


@attrs.frozen
class MailboxStatistics:
    """A snapshot of a mailbox.

    Attributes:
        depth: The number of items that are waiting now.
        peak: The largest depth so far.
        capacity: The maximum number of waiting items; further senders wait.
    """

    depth: int
    peak: int
    capacity: int


class Mailbox(Generic[T]):
    """A bounded FIFO queue with one receiver.

    Args:
        capacity: The maximum number of waiting items; further senders wait.
    """

    def __init__(self, capacity: int) -> None:
        self._send, self._receive = trio.open_memory_channel[T](capacity)
        self._capacity = capacity
        self._peak = 0

    async def put(self, letter: T) -> None:
        """Put an item into the mailbox, waiting while the mailbox is full.

        Raises:
            trio.ClosedResourceError: The mailbox is closed.
            trio.BrokenResourceError: The receiver was closed.

        Cancellation: safe; a cancelled call adds nothing.
        """
        try:
            self.put_nowait(letter)
        except trio.WouldBlock:
            await self._send.send(letter)

    def put_nowait(self, letter: T) -> None:
        """Put an item into the mailbox without waiting.

        Raises:
            trio.WouldBlock: The mailbox is full.
            trio.ClosedResourceError: The mailbox is closed.
            trio.BrokenResourceError: The receiver was closed.
        """
        self._send.send_nowait(letter)
        depth = self._send.statistics().current_buffer_used
        self._peak = max(self._peak, depth)

    def get_nowait(self) -> T:
        """Take the next item without waiting.

        Raises:
            trio.WouldBlock: The mailbox is empty.
            trio.EndOfChannel: The mailbox is empty and closed.
        """
        return self._receive.receive_nowait()

    async def get(self) -> T:
        """Take the next item, waiting for one if necessary.

        Raises:
            trio.EndOfChannel: The mailbox is empty and closed.

        Cancellation: safe; no item is lost.
        """
        return await self._receive.receive()

    def __aiter__(self) -> AsyncIterator[T]:
        return self._receive.__aiter__()

    def close(self) -> None:
        """Stop accepting items; the receiver still gets the waiting items. Idempotent."""
        self._send.close()

    def abandon(self) -> None:
        """Discard the waiting items and close the receiver, so that senders fail. Idempotent."""
        self._send.close()
        self._receive.close()

    def statistics(self) -> MailboxStatistics:
        """Return a snapshot."""
        depth = self._send.statistics().current_buffer_used
        return MailboxStatistics(depth=depth, peak=self._peak, capacity=self._capacity)
