"""A bounded mailbox: a trio memory channel that records its depth and its peak.

The mailbox owns the order of the items that wait for one actor. It does not know what the items
are. Putting is synchronous while there is space, so that an uncontended ask costs no extra
checkpoint.
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
        depth: Number of items that wait now.
        peak: The largest depth so far.
        capacity: Number of items that may wait; further senders wait.
    """

    depth: int
    peak: int
    capacity: int


class Mailbox(Generic[T]):
    """A bounded FIFO queue with one receiver.

    Args:
        capacity: Number of items that may wait; further senders wait.
    """

    def __init__(self, capacity: int) -> None:
        self._send, self._receive = trio.open_memory_channel[T](capacity)
        self._capacity = capacity
        self._peak = 0

    async def put(self, letter: T) -> None:
        """Put an item into the mailbox; wait while the mailbox is full.

        Raises:
            trio.ClosedResourceError: The mailbox is closed.
            trio.BrokenResourceError: The receiver was closed.

        Cancellation: safe; a cancelled put has added nothing.
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
        """Take the next item; wait until there is one.

        Raises:
            trio.EndOfChannel: The mailbox is empty and closed.

        Cancellation: safe; no item is lost.
        """
        return await self._receive.receive()

    def __aiter__(self) -> AsyncIterator[T]:
        return self._receive.__aiter__()

    def close(self) -> None:
        """Accept no more items; the receiver still gets the items that wait. Idempotent."""
        self._send.close()

    def abandon(self) -> None:
        """Discard the items that wait, and close the receiver, so that senders fail. Idempotent."""
        self._send.close()
        self._receive.close()

    def statistics(self) -> MailboxStatistics:
        """Return a snapshot."""
        depth = self._send.statistics().current_buffer_used
        return MailboxStatistics(depth=depth, peak=self._peak, capacity=self._capacity)
