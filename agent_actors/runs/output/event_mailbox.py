"""Delivers the events of a run to its reader: event factory, mailbox, and model sink.

The mailbox is a FIFO queue of batches, one batch per network read or commit. Therefore a delta does
not cost a task switch of its own. The mailbox is bounded: while it is full, the run waits and does
not read from the network. If the reader takes nothing for `stall` seconds, its run ends. Progress
events never wait: if the mailbox is full, they are dropped and counted.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

import attrs
import trio

from agent_actors.actors.hook_bus import HookBus
from agent_actors.domain.events import (
    AssistantDelta,
    AssistantThinking,
    Event,
    EventBuilder,
    EventScope,
    StreamNotice,
    ToolDelta,
)
from agent_actors.domain.ids import Ids
from agent_actors.domain.model import (
    ModelDelta,
    NoticeDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from agent_actors.domain.usage import Usage
from agent_actors.errors import ReaderStalled

# The maximum number of batches that may wait for a reader. With one batch per network read, this is
# about one or two seconds of streaming.
BATCHES: Final = 64


@attrs.define(eq=False)
class EventFactory:
    """Builds the events of one run: adds ids, times and the current scope.

    Attributes:
        ids: Generates ids.
        wall_clock: Returns the seconds since the epoch.
        scope: The common header fields of the events of the current model call.
    """

    ids: Ids
    wall_clock: Callable[[], float]
    scope: EventScope

    def next_iteration(self, iteration: int) -> None:
        """Assign all following events to this model call."""
        self.scope = attrs.evolve(self.scope, iteration=iteration)

    def build(self, builder: EventBuilder) -> Event:
        """Build an event that is not recorded."""
        return builder(self.scope, self.ids.new(), self.wall_clock(), seq=None)


class EventMailbox:
    """The queue between a run and its only reader.

    Every delta of every stream passes from one task to another here. The mailbox suspends the
    reader directly, which costs a third less than a memory channel.

    Args:
        stall: Seconds to wait for the reader when the mailbox is full.
        capacity: The maximum number of waiting batches.

    Attributes:
        dropped: The number of dropped events.
    """

    __slots__ = (
        "_abandoned",
        "_batches",
        "_capacity",
        "_closed",
        "_reader",
        "_room",
        "_stall",
        "dropped",
    )

    def __init__(self, stall: float, *, capacity: int = BATCHES) -> None:
        self._stall = stall
        self._capacity = capacity
        # The callers enforce the capacity by checking `full`. `put_nowait` never drops recorded
        # events, so a provider that ignores `full` only costs memory. The batches are kept in a
        # list because there are few, and an empty deque would take 600 bytes per open stream.
        self._batches: list[tuple[Event, ...]] = []
        self._reader: trio.lowlevel.Task | None = None
        self._room: trio.Event | None = None
        self._closed = self._abandoned = False
        self.dropped: int = 0

    @property
    def full(self) -> bool:
        """True if the reader is too far behind to take more events."""
        return len(self._batches) >= self._capacity

    async def put(self, events: tuple[Event, ...]) -> None:
        """Add a batch, then wait until there is room for the next batch.

        Raises:
            ReaderStalled: The reader took nothing for `stall` seconds.

        Cancellation: safe; the batch stays in the mailbox.
        """
        self.put_nowait(events)
        await self.wait_room()

    def put_nowait(self, events: tuple[Event, ...]) -> bool:
        """Add a batch, and return whether there is room for more.

        If the mailbox is closed or abandoned, the batch is dropped.
        """
        if self._closed or self._abandoned:
            self.dropped += len(events)
            return True
        self._batches.append(events)
        reader = self._reader
        if reader is not None:
            self._reader = None
            trio.lowlevel.reschedule(reader)
        return len(self._batches) < self._capacity

    def offer(self, event: Event) -> None:
        """Add an event, or drop it if the mailbox is full."""
        if self.full:
            self.dropped += 1
        else:
            self.put_nowait((event,))

    async def wait_room(self) -> None:
        """Wait until there is room; does not checkpoint if there is already room.

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
        """Wait for the next batch and remove it from the mailbox.

        Raises:
            trio.EndOfChannel: The run has ended, and every batch has been read.
            trio.BusyResourceError: Another task is waiting for a batch.

        Cancellation: safe; no event is lost.
        """
        if self._batches:
            await trio.lowlevel.checkpoint_if_cancelled()
        while not self._batches:
            if self._closed:
                raise trio.EndOfChannel
            if self._reader is not None:
                raise trio.BusyResourceError("another task is already reading this stream")
            self._reader = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._stop_waiting)
        if self._room is not None:
            self._make_room()
        return self._batches.pop(0)

    def close(self) -> None:
        """Close the mailbox, because no more events follow. Idempotent."""
        self._closed = True
        reader, self._reader = self._reader, None
        if reader is not None:
            trio.lowlevel.reschedule(reader)

    def abandon(self) -> None:
        """Mark the mailbox as abandoned, because the reader has left. Idempotent.

        Later events are dropped, and no caller waits for room.
        """
        self._abandoned = True
        self._batches.clear()
        self._make_room()

    def _stop_waiting(self, _: object) -> trio.lowlevel.Abort:
        self._reader = None
        return trio.lowlevel.Abort.SUCCEEDED

    def _make_room(self) -> None:
        """Wake the tasks that are waiting for room, so that they check again."""
        room, self._room = self._room, None
        if room is not None:
            room.set()


class HeldEvents:
    """Holds the events of a response back until its guardrails have passed.

    The object takes the place of the reader's mailbox and of the event bus.

    Args:
        mailbox: The mailbox of the reader; None without a reader.
        bus: Publishes events to subscribers.
    """

    def __init__(self, mailbox: EventMailbox | None, bus: HookBus) -> None:
        self._mailbox = mailbox
        self._bus = bus
        self._is_holding = True
        self._batches: list[tuple[Event, ...]] = []
        self._published: list[Event] = []

    @property
    def full(self) -> bool:
        """True if the reader is too far behind; False while events are held."""
        return not self._is_holding and self._mailbox is not None and self._mailbox.full

    @property
    def has_subscribers(self) -> bool:
        """True if there are subscribers."""
        return self._bus.has_subscribers

    def put_nowait(self, events: tuple[Event, ...]) -> bool:
        """Add a batch for the reader; return whether there is room for more."""
        if self._is_holding:
            self._batches.append(events)
            return True
        return self._mailbox is None or self._mailbox.put_nowait(events)

    def publish_nowait(self, events: Sequence[Event]) -> None:
        """Add events for the subscribers."""
        if self._is_holding:
            self._published += events
        else:
            self._bus.publish_nowait(events)

    async def wait_room(self) -> None:
        """Wait until the reader has room; return at once while events are held.

        Raises:
            ReaderStalled: The reader took nothing for too long.

        Cancellation: safe.
        """
        if not self._is_holding and self._mailbox is not None:
            await self._mailbox.wait_room()

    def release(self) -> None:
        """Show all events, and hold no more back."""
        if not self._is_holding:
            return
        self._is_holding = False
        if self._published:
            self._bus.publish_nowait(self._published)
        joined = tuple(event for batch in self._batches for event in batch)
        if joined and self._mailbox is not None:
            self._mailbox.put_nowait(joined)
        self._batches, self._published = [], []

    def discard(self) -> bool:
        """Drop the events that are held; return False if events are shown at once."""
        self._batches, self._published = [], []
        return self._is_holding


class RelayMailbox(EventMailbox):
    """The mailbox of a nested run whose events go to the reader of another run.

    Args:
        target: The mailbox of the other run.
    """

    def __init__(self, target: EventMailbox) -> None:
        super().__init__(math.inf)
        self._target = target

    @property
    def full(self) -> bool:
        """True if the reader of the other run is too far behind to take more events."""
        return self._target.full

    def put_nowait(self, events: tuple[Event, ...]) -> bool:
        """Add a batch to the other mailbox, and return whether there is room for more."""
        return self._target.put_nowait(events)

    async def wait_room(self) -> None:
        """Wait until there is room in the other mailbox.

        Raises:
            ReaderStalled: The reader of the other run took nothing for too long.

        Cancellation: safe.
        """
        await self._target.wait_room()


class _NoReader:
    """An event bus without subscribers."""

    has_subscribers: bool = False

    def publish_nowait(self, events: Sequence[Event]) -> None:
        """Do nothing."""


_NO_READER: Final = _NoReader()


class RunSink:
    """The `ModelSink` of one model call, which turns deltas into live events in the reading task.

    Args:
        factory: Builds the events.
        mailbox: The mailbox of the reader; None if no reader takes the run's deltas.
        bus: Publishes events to subscribers. An object that holds events back may take the place of
            both.
        tool_deltas: True to show tool arguments as they stream.
        shows: False to only count characters and show nothing, for a response that hooks check
            first.
        more: Counts another request for the same response, given the usage of the previous
            requests; returns False if the limits do not allow it. None: all requests are allowed
            and not counted.

    Attributes:
        characters: The number of characters received.
    """

    __slots__ = (
        "_bus",
        "_factory",
        "_mailbox",
        "_more",
        "_tool_deltas",
        "characters",
        "shows",
    )

    def __init__(
        self,
        factory: EventFactory,
        mailbox: EventMailbox | HeldEvents | None,
        bus: HookBus | HeldEvents,
        *,
        tool_deltas: bool,
        shows: bool = True,
        more: Callable[[Usage], bool] | None = None,
    ) -> None:
        self.shows: bool = shows
        self._factory = factory
        self._mailbox = mailbox if shows else None
        self._bus: HookBus | HeldEvents | _NoReader = bus if shows else _NO_READER
        self._tool_deltas = tool_deltas
        self._more = more
        self.characters: int = 0

    @property
    def full(self) -> bool:
        """True if the reader is too far behind to take more events."""
        return self._mailbox is not None and self._mailbox.full

    @property
    def sees_text(self) -> bool:
        """False if there is neither a reader nor a subscriber, so that deltas may be joined."""
        return self._mailbox is not None or self._bus.has_subscribers

    @property
    def sees_arguments(self) -> bool:
        """False if tool arguments are not shown as they stream."""
        return self._tool_deltas and self.sees_text

    async def wait_room(self) -> None:
        """Wait until there is room.

        Raises:
            ReaderStalled: The reader took nothing for too long.

        Cancellation: safe.
        """
        if self._mailbox is not None:
            await self._mailbox.wait_room()

    def take_request(self, used: Usage) -> bool:
        """Count another request for the same response; return False if the limits forbid it."""
        return self._more is None or self._more(used)

    def feed(self, deltas: Sequence[ModelDelta]) -> bool | None:
        """Show the deltas of one network read.

        Returns:
            True if there is room for more, False if the mailbox is full, and None if unknown.
        """
        mailbox, bus = self._mailbox, self._bus
        if mailbox is None and not bus.has_subscribers:
            for delta in deltas:
                self.characters += len(_shown(delta))
            return True
        factory = self._factory
        scope, ts = factory.scope, factory.wall_clock()
        # Almost every read of a paced stream has a single text delta.
        if len(deltas) == 1 and type(delta := deltas[0]) is TextDelta:
            self.characters += len(delta.text)
            single = (AssistantDelta(scope, factory.ids.new(), ts, delta.text),)
            if bus.has_subscribers:
                bus.publish_nowait(single)
            return None if mailbox is None else mailbox.put_nowait(single)
        events: list[Event] = []
        for delta, event_id in zip(deltas, factory.ids.take(len(deltas)), strict=True):
            if type(delta) is TextDelta:  # nearly all deltas are text
                self.characters += len(delta.text)
                events.append(AssistantDelta(scope, event_id, ts, delta.text))
                continue
            shown = _shown(delta)
            self.characters += len(shown)
            if shown and type(delta) is ThinkingDelta:
                events.append(AssistantThinking(scope, event_id, ts, shown))
            elif shown and self._tool_deltas and type(delta) is ToolCallDelta:
                events.append(ToolDelta(scope, event_id, ts, delta.id, delta.name, shown))
            elif type(delta) is NoticeDelta:
                events.append(StreamNotice(scope, event_id, ts, delta.text))
        if events and bus.has_subscribers:
            bus.publish_nowait(events)
        if events and mailbox is not None:
            return mailbox.put_nowait(tuple(events))
        return None


def _shown(delta: ModelDelta) -> str:
    """Return the part of a delta's text that the reader may see."""
    if isinstance(delta, TextDelta | ThinkingDelta):
        return delta.text
    if isinstance(delta, ToolCallDelta) and isinstance(delta.arguments, str):
        return delta.arguments
    return ""
