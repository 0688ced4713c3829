"""HookBus: fan-out of events to observers, who can change nothing and hold up nobody.

Owns the subscriptions, each with a bounded queue and a task of its own. Publishing is synchronous
and never waits: where a queue is full its oldest event is dropped and counted. It does not know
runs. A handler that raises, hangs or is slow harms its own subscription only: it has a deadline
per event, and what it raises is logged and counted.
"""

import contextvars
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from functools import partial
from typing import Final, Self, TypeAlias, TypeVar

import attrs
import trio

from agent_actors.actors._owner import Owner
from agent_actors.actors._stops import stop_in
from agent_actors.domain.events import Event
from agent_actors.errors import ConfigError, RuntimeClosed

K = TypeVar("K", bound=Hashable)

Handler: TypeAlias = Callable[[Event], Awaitable[None]]

QUEUE_CAPACITY: Final = 256
# Ids remembered per subscription; a repeat farther apart than this is not noticed.
DEDUP_WINDOW: Final = 256
# Seconds a handler may take for one event.
HANDLER_TIMEOUT: Final = 30.0

_log: Final = logging.getLogger("agent_actors.hook_bus")


@attrs.frozen
class SubscriptionStatistics:
    """A snapshot of one subscription.

    Attributes:
        queued: Events that wait.
        delivered: Events whose handler returned.
        dropped: Events that were dropped because the queue was full.
        duplicates: Events that had been seen before.
        failed: Events whose handler raised or overran its deadline.
    """

    queued: int
    delivered: int
    dropped: int
    duplicates: int
    failed: int


@attrs.frozen
class BusStatistics:
    """A snapshot of the bus.

    Attributes:
        subscriptions: Open subscriptions.
        published: Events published so far.
    """

    subscriptions: int
    published: int


class Subscription:
    """One observer's place on the bus; leaving its `with` block unsubscribes."""

    def __init__(
        self,
        handler: Handler,
        types: tuple[type[Event], ...],
        session_id: str | None,
        capacity: int,
        timeout: float,
    ) -> None:
        self._handler = handler
        self._types = types or (Event,)
        self._session_id = session_id
        self._timeout = timeout
        self._send, self._receive = trio.open_memory_channel[Event](capacity)
        self._ids: OrderedDict[str, None] = OrderedDict()
        self._seqs: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._delivered = self._dropped = self._duplicates = self._failed = 0
        self.ended: trio.Event = trio.Event()

    def offer(self, event: Event) -> None:
        """Queue an event that fits; for the bus."""
        if not isinstance(event, self._types):
            return
        if self._session_id is not None and event.session_id != self._session_id:
            return
        if self._is_repeat(event):
            self._duplicates += 1
            return
        try:
            self._send.send_nowait(event)
        except trio.WouldBlock:
            self._receive.receive_nowait()
            self._dropped += 1
            self._send.send_nowait(event)
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            return  # closed meanwhile

    async def deliver(self) -> None:
        """Call the handler for each event until the subscription is closed and drained."""
        with self._receive:
            async for event in self._receive:
                await self._deliver_one(event)

    def close(self) -> None:
        """Take no more events; queued ones are still delivered. Idempotent."""
        self._send.close()

    def statistics(self) -> SubscriptionStatistics:
        """A snapshot."""
        return SubscriptionStatistics(
            queued=self._send.statistics().current_buffer_used,
            delivered=self._delivered,
            dropped=self._dropped,
            duplicates=self._duplicates,
            failed=self._failed,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _deliver_one(self, event: Event) -> None:
        try:
            with trio.move_on_after(self._timeout) as deadline:
                await self._handler(event)
        except (trio.Cancelled, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - it harms only its own subscription
            stop = stop_in(error)
            if stop is not None:
                raise stop from None
            self._failed += 1
            _log.exception("an observer raised on %s", event.type)
            return
        if deadline.cancelled_caught:
            self._failed += 1
            _log.error("an observer overran its %g s on %s", self._timeout, event.type)
        else:
            self._delivered += 1

    def _is_repeat(self, event: Event) -> bool:
        repeat = _is_known(event.id, self._ids)
        if event.seq is not None:
            repeat |= _is_known((event.session_id, event.seq), self._seqs)
        return repeat


def _is_known(key: K, window: OrderedDict[K, None]) -> bool:
    known = key in window
    window[key] = None
    window.move_to_end(key)
    if len(window) > DEDUP_WINDOW:
        window.popitem(last=False)
    return known


class HookBus:
    """The bus of one runtime.

    Attributes:
        has_subscribers: True if anybody listens; publishing can be spared otherwise.
    """

    def __init__(self) -> None:
        self.owner: Owner = Owner("hook_bus")
        self.has_subscribers: bool = False
        self._subscriptions: set[Subscription] = set()
        self._published = 0
        self._closed = False

    def subscribe(
        self,
        handler: Handler,
        *types: type[Event],
        session_id: str | None = None,
        capacity: int = QUEUE_CAPACITY,
        timeout: float = HANDLER_TIMEOUT,
    ) -> Subscription:
        """Have a handler called for each event, in order, in a task of its own.

        Args:
            handler: An async function of the event.
            types: The event classes to take; none: every event.
            session_id: Only events of this session; None: of all.
            capacity: Events that may wait; beyond it the oldest is dropped.
            timeout: Seconds that the handler may take for one event.

        Raises:
            RuntimeClosed: The bus is closed.
            ConfigError: `capacity` is below 1.
        """
        if self._closed:
            raise RuntimeClosed("the hook bus")
        if capacity < 1:
            raise ConfigError(f"a subscription's capacity must be at least 1; got {capacity}")
        subscription = Subscription(handler, types, session_id, capacity, timeout)
        self.owner.start_background(
            partial(self._serve, subscription), context=contextvars.copy_context()
        )
        self._subscriptions.add(subscription)
        self.has_subscribers = True
        return subscription

    def publish_nowait(self, events: Sequence[Event]) -> None:
        """Tell the observers; never waits and never raises. After the end it does nothing."""
        self._published += len(events)
        for subscription in tuple(self._subscriptions):
            for event in events:
                subscription.offer(event)

    async def drain(self) -> None:
        """Take no more subscriptions, and wait until what is queued has been delivered.

        Cancellation: safe; what is not delivered then is dropped with the actor. Idempotent.
        """
        self._closed = True
        for subscription in tuple(self._subscriptions):
            subscription.close()
        while self._subscriptions:
            await next(iter(self._subscriptions)).ended.wait()

    def statistics(self) -> BusStatistics:
        """A snapshot."""
        return BusStatistics(subscriptions=len(self._subscriptions), published=self._published)

    async def _serve(self, subscription: Subscription) -> None:
        try:
            await subscription.deliver()
        finally:
            self._subscriptions.discard(subscription)
            self.has_subscribers = bool(self._subscriptions)
            subscription.ended.set()
