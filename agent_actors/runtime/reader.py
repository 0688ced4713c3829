"""From a run to its reader: stamping events, one FIFO mailbox, and the sink of the model stream.

The mailbox holds batches, one per network read or commit, so that a delta costs no task switch
of its own. It is bounded: while it is full the network is not read and the run waits; a reader
that takes nothing for `stall` seconds ends its run. Progress is dropped instead, and counted.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

import attrs
import trio

from agent_actors.domain.events import (
    AssistantDelta,
    AssistantThinking,
    Event,
    EventScope,
    ToolDelta,
)
from agent_actors.domain.ids import Ids
from agent_actors.domain.model import ModelDelta, TextDelta, ThinkingDelta, ToolCallDelta
from agent_actors.errors import ReaderStalled

# Batches that may wait for a reader; at a read of the network each, a second or two of streaming.
BATCHES: Final = 64


@attrs.define(eq=False)
class Stamp:
    """Makes live events of one run: ids, times and the current scope.

    Attributes:
        scope: What the events of the current model call have in common.
    """

    ids: Ids
    wall_clock: Callable[[], float]
    scope: EventScope

    def next_iteration(self, iteration: int) -> None:
        """The events from here on belong to this model call."""
        self.scope = attrs.evolve(self.scope, iteration=iteration)


class EventMailbox:
    """The way of a run's events to its one reader.

    Args:
        stall: Seconds that a full mailbox waits for its reader.
        capacity: Batches that may wait.
    """

    def __init__(self, stall: float, *, capacity: int = BATCHES) -> None:
        self._stall = stall
        self._capacity = capacity
        # The bound is kept by `full`, not by the channel: what was recorded is never dropped, and
        # a provider that does not look at `full` costs memory instead of events.
        self._send, self._receive = trio.open_memory_channel[tuple[Event, ...]](math.inf)
        self._waiting = 0
        self._room: trio.Event | None = None
        self.dropped: int = 0

    @property
    def full(self) -> bool:
        """True while the reader is too far behind to take more."""
        return self._waiting >= self._capacity

    async def put(self, events: tuple[Event, ...]) -> None:
        """Leave a batch, then wait until there is room for the next.

        Raises:
            ReaderStalled: The reader took nothing for `stall` seconds.

        Cancellation: safe; the batch is there.
        """
        self.put_nowait(events)
        await self.wait_room()

    def put_nowait(self, events: tuple[Event, ...]) -> None:
        """Leave a batch; a reader that has gone loses it."""
        try:
            self._send.send_nowait(events)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.dropped += len(events)
        else:
            self._waiting += 1

    def offer(self, event: Event) -> None:
        """Leave an event that may be dropped if there is no room."""
        if self.full:
            self.dropped += 1
        else:
            self.put_nowait((event,))

    async def wait_room(self) -> None:
        """Return when there is room; does not checkpoint if there is.

        Raises:
            ReaderStalled: The reader took nothing for `stall` seconds.

        Cancellation: safe.
        """
        while self.full:
            if self._room is None:
                self._room = trio.Event()
            with trio.move_on_after(self._stall) as deadline:
                await self._room.wait()
            if deadline.cancelled_caught:
                raise ReaderStalled(self._stall)

    async def get(self) -> tuple[Event, ...]:
        """Take the next batch; wait for it.

        Raises:
            trio.EndOfChannel: The run has ended, and everything has been read.

        Cancellation: safe; no event is lost.
        """
        batch = await self._receive.receive()
        self._waiting -= 1
        self._make_room()
        return batch

    def close(self) -> None:
        """No more events come. Idempotent."""
        self._send.close()

    def abandon(self) -> None:
        """Nobody reads any more: what comes is dropped, and nobody waits for room. Idempotent."""
        self._receive.close()
        self._waiting = 0
        self._make_room()

    def _make_room(self) -> None:
        """Wake who waits for room, to look again."""
        room, self._room = self._room, None
        if room is not None:
            room.set()


class RunSink:
    """The `ModelSink` of one model call: pieces become live events, in the reading task.

    Args:
        stamp: Makes the events.
        mailbox: The reader's; None where nobody reads the run's deltas.
        publish: Tells observers.
        wanted: False if neither a reader nor an observer wants deltas.
        tool_deltas: Whether arguments that stream in are shown.
    """

    def __init__(
        self,
        stamp: Stamp,
        mailbox: EventMailbox | None,
        publish: Callable[[Sequence[Event]], None],
        *,
        wanted: Callable[[], bool],
        tool_deltas: bool,
    ) -> None:
        self._stamp = stamp
        self._mailbox = mailbox
        self._publish = publish
        self._wanted = wanted
        self._tool_deltas = tool_deltas
        self.characters: int = 0

    @property
    def full(self) -> bool:
        """True while the reader is too far behind."""
        return self._mailbox is not None and self._mailbox.full

    async def wait_room(self) -> None:
        """Return when there is room.

        Raises:
            ReaderStalled: The reader took nothing for too long.

        Cancellation: safe.
        """
        if self._mailbox is not None:
            await self._mailbox.wait_room()

    def feed(self, deltas: Sequence[ModelDelta]) -> None:
        """Take the pieces of one read."""
        if not self._wanted():
            for delta in deltas:
                self.characters += len(self._shown(delta))
            return
        stamp = self._stamp
        scope, ts = stamp.scope, stamp.wall_clock()
        events: list[Event] = []
        for delta, event_id in zip(deltas, stamp.ids.take(len(deltas)), strict=True):
            if isinstance(delta, TextDelta):
                self.characters += len(delta.text)
                events.append(AssistantDelta(scope, event_id, ts, delta.text))
                continue
            shown = self._shown(delta)
            self.characters += len(shown)
            if shown and isinstance(delta, ThinkingDelta):
                events.append(AssistantThinking(scope, event_id, ts, shown))
            elif self._tool_deltas and isinstance(delta, ToolCallDelta):
                events.append(ToolDelta(scope, event_id, ts, delta.id, delta.name, shown))
        if events:
            if self._mailbox is not None:
                self._mailbox.put_nowait(tuple(events))
            self._publish(events)

    def _shown(self, delta: ModelDelta) -> str:
        """The text of a piece that a reader may see."""
        if isinstance(delta, TextDelta | ThinkingDelta):
            return delta.text
        if isinstance(delta, ToolCallDelta) and isinstance(delta.arguments, str):
            return delta.arguments
        return ""
