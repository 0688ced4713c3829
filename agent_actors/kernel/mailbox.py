"""A bounded mailbox: a trio memory channel that knows its depth and its peak.

It owns the order of what waits for one actor. It does not know what the letters are. Putting is
synchronous while there is room, so that an uncontended ask costs no extra checkpoint.
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
        depth: Letters that wait now.
        peak: The most that ever waited.
        capacity: How many may wait before senders do.
    """

    depth: int
    peak: int
    capacity: int


class Mailbox(Generic[T]):
    """A bounded FIFO with one receiver.

    Args:
        capacity: How many letters may wait before senders do.
    """

    def __init__(self, capacity: int) -> None:
        self._send, self._receive = trio.open_memory_channel[T](capacity)
        self._capacity = capacity
        self._peak = 0

    async def put(self, letter: T) -> None:
        """Leave a letter; wait while the mailbox is full.

        Raises:
            trio.ClosedResourceError: The mailbox is closed.
            trio.BrokenResourceError: Its receiver is gone.

        Cancellation: safe; a cancelled put has left nothing.
        """
        try:
            self.put_nowait(letter)
        except trio.WouldBlock:
            await self._send.send(letter)

    def put_nowait(self, letter: T) -> None:
        """Leave a letter.

        Raises:
            trio.WouldBlock: The mailbox is full.
            trio.ClosedResourceError: The mailbox is closed.
            trio.BrokenResourceError: Its receiver is gone.
        """
        self._send.send_nowait(letter)
        depth = self._send.statistics().current_buffer_used
        self._peak = max(self._peak, depth)

    def get_nowait(self) -> T:
        """Take the next letter.

        Raises:
            trio.WouldBlock: There is none.
            trio.EndOfChannel: There is none, and the mailbox is closed.
        """
        return self._receive.receive_nowait()

    async def get(self) -> T:
        """Take the next letter; wait for it.

        Raises:
            trio.EndOfChannel: There is none, and the mailbox is closed.

        Cancellation: safe; no letter is lost.
        """
        return await self._receive.receive()

    def __aiter__(self) -> AsyncIterator[T]:
        return self._receive.__aiter__()

    def close(self) -> None:
        """Take no more letters; those that wait are still given out. Idempotent."""
        self._send.close()

    def abandon(self) -> None:
        """Throw away what waits, and tell senders that nobody reads any more. Idempotent."""
        self._send.close()
        self._receive.close()

    def statistics(self) -> MailboxStatistics:
        """A snapshot."""
        depth = self._send.statistics().current_buffer_used
        return MailboxStatistics(depth=depth, peak=self._peak, capacity=self._capacity)
