"""From a run to its reader: building events, one FIFO mailbox, and the sink of the model stream.

The mailbox holds batches, one per network read or commit, so that a delta costs no task switch
of its own. It is bounded: while it is full the network is not read and the run waits; a reader
that takes nothing for `stall` seconds ends its run. Progress is dropped instead, and counted.
"""

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

# Batches that may wait for a reader; at a read of the network each, a second or two of streaming.
BATCHES: Final = 64


@attrs.define(eq=False)
class EventFactory:
    """Builds events of one run: supplies their ids, times and the current scope.

    Attributes:
        scope: The common header fields of the events of the current model call.
    """

    ids: Ids
    wall_clock: Callable[[], float]
    scope: EventScope

    def next_iteration(self, iteration: int) -> None:
        """Count the events from now on as part of this model call."""
        self.scope = attrs.evolve(self.scope, iteration=iteration)

    def build(self, builder: EventBuilder) -> Event:
        """Build an event that is not recorded."""
        return builder(self.scope, self.ids.new(), self.wall_clock(), seq=None)


class EventMailbox:
    """The way of a run's events to its one reader.

    It is no memory channel: this is where every delta of every stream crosses to another task, and
    parking the reader by hand takes a third off the price of that.

    Args:
        stall: Seconds that a full mailbox waits for its reader.
        capacity: Batches that may wait.
    """

    def __init__(self, stall: float, *, capacity: int = BATCHES) -> None:
        self._stall = stall
        self._capacity = capacity
        # The bound is kept by `full`, not here: what was recorded is never dropped, and a provider
        # that does not look at `full` costs memory instead of events.
        # A list: it is short, and an empty deque takes 600 bytes of every open stream.
        self._batches: list[tuple[Event, ...]] = []
        self._reader: trio.lowlevel.Task | None = None
        self._room: trio.Event | None = None
        self._closed = self._abandoned = False
        self.dropped: int = 0

    @property
    def full(self) -> bool:
        """True while the reader is too far behind to take more."""
        return len(self._batches) >= self._capacity

    async def put(self, events: tuple[Event, ...]) -> None:
        """Leave a batch, then wait until there is room for the next.

        Raises:
            ReaderStalled: The reader took nothing for `stall` seconds.

        Cancellation: safe; the batch is there.
        """
        self.put_nowait(events)
        await self.wait_room()

    def put_nowait(self, events: tuple[Event, ...]) -> bool:
        """Leave a batch; a reader that has gone loses it. Say whether there is room for more."""
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
            trio.BusyResourceError: Another task is waiting for it.

        Cancellation: safe; no event is lost.
        """
        if self._batches:
            await trio.lowlevel.checkpoint_if_cancelled()
        while not self._batches:
            if self._closed:
                raise trio.EndOfChannel
            if self._reader is not None:
                raise trio.BusyResourceError("another task reads this stream")
            self._reader = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._stop_waiting)
        if self._room is not None:
            self._make_room()
        return self._batches.pop(0)

    def close(self) -> None:
        """No more events come. Idempotent."""
        self._closed = True
        reader, self._reader = self._reader, None
        if reader is not None:
            trio.lowlevel.reschedule(reader)

    def abandon(self) -> None:
        """Nobody reads any more: what comes is dropped, and nobody waits for room. Idempotent."""
        self._abandoned = True
        self._batches.clear()
        self._make_room()

    def _stop_waiting(self, _: object) -> trio.lowlevel.Abort:
        self._reader = None
        return trio.lowlevel.Abort.SUCCEEDED

    def _make_room(self) -> None:
        """Let who waits for room look again."""
        room, self._room = self._room, None
        if room is not None:
            room.set()


class _Nobody:
    """A bus that nobody listens to."""

    has_subscribers: bool = False

    def publish_nowait(self, events: Sequence[Event]) -> None:
        """Nothing happens."""


_NOBODY: Final = _Nobody()


class RunSink:
    """The `ModelSink` of one model call: pieces become live events, in the reading task.

    Args:
        factory: Makes the events.
        mailbox: The reader's; None where nobody reads the run's deltas.
        bus: Tells observers.
        tool_deltas: Whether arguments that stream in are shown.
        shows: False: show nothing, and count: for an answer that somebody has to see first.
        more: Counts a further request for the same answer, told what those before it used; False:
            there is no room for it. None: there always is, and nobody counts.
    """

    def __init__(
        self,
        factory: EventFactory,
        mailbox: EventMailbox | None,
        bus: HookBus,
        *,
        tool_deltas: bool,
        shows: bool = True,
        more: Callable[[Usage], bool] | None = None,
    ) -> None:
        self.shows: bool = shows
        self._factory = factory
        self._mailbox = mailbox if shows else None
        self._bus: HookBus | _Nobody = bus if shows else _NOBODY
        self._tool_deltas = tool_deltas
        self._more = more
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

    def take_request(self, used: Usage) -> bool:
        """Another request is to be made for the same answer; False if there is no room for it."""
        return self._more is None or self._more(used)

    def feed(self, deltas: Sequence[ModelDelta]) -> bool | None:
        """Take the pieces of one read; True if there is surely room for more."""
        mailbox, bus = self._mailbox, self._bus
        if mailbox is None and not bus.has_subscribers:
            for delta in deltas:
                self.characters += len(_shown(delta))
            return True
        factory = self._factory
        scope, ts = factory.scope, factory.wall_clock()
        events: list[Event] = []
        for delta, event_id in zip(deltas, factory.ids.take(len(deltas)), strict=True):
            if type(delta) is TextDelta:  # nearly all are
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
    """The text of a piece that a reader may see."""
    if isinstance(delta, TextDelta | ThinkingDelta):
        return delta.text
    if isinstance(delta, ToolCallDelta) and isinstance(delta.arguments, str):
        return delta.arguments
    return ""
