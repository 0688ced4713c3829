"""HookBus: sends events to all observers, which can neither change nor delay a run.

The bus owns the subscriptions. Each subscription has its own queue and its own task. Publishing is
synchronous and never waits. The bus knows nothing about runs, and can only read the log. A handler
that raises, hangs or is slow only affects its own subscription: it has a deadline per event, and
its exceptions are logged and counted. If a record from the log cannot be delivered, the
subscription ends, so there are no unnoticed gaps.
"""

import contextvars
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Literal, Self, TypeAlias, cast

import attrs
import trio

from agent_actors.actors.log_reader import LogTail
from agent_actors.actors.subscriber_queue import Gap, Overflow, SubscriberQueue
from agent_actors.domain.events import Event
from agent_actors.errors import AgentError, ConfigError, RuntimeClosed
from agent_actors.kernel.actor_loop import ActorLoop
from agent_actors.kernel.exceptions import find_exit_request, is_cancellation
from agent_actors.kernel.interrupts import TakeInterrupt, raise_interrupt
from agent_actors.kernel.user_code import await_user_code

Handler: TypeAlias = Callable[[Event], Awaitable[None]]
# Reads a session's log after a `seq`.
ReadLog: TypeAlias = Callable[[str, int], Awaitable[LogTail]]
# The reason why a subscription accepts no more events: it was closed, its queue was full, the log
# could not be read, or the runtime closed.
EndReason: TypeAlias = Literal["left", "overflow", "log", "shutdown"]

QUEUE_CAPACITY: Final = 256
# The number of event ids remembered per subscription. A repeat that comes later is not detected.
DEDUP_WINDOW: Final = 256
# Seconds that a handler may take for one event.
HANDLER_TIMEOUT: Final = 30.0
# The number of attempts to read the log, and the seconds between them. Retries keep a store that is
# briefly busy from ending subscriptions.
READ_TRIES: Final = 3
READ_PAUSE: Final = 1.0

_OVERFLOWS: Final = ("drop_oldest", "close", "reread")

_LOG: Final = logging.getLogger(__name__)


@attrs.frozen(kw_only=True)
class SubscriptionOptions:
    """The capacity, overflow policy, timeout and starting point of a subscription.

    Attributes:
        capacity: The maximum number of waiting events.
        overflow: The policy for a full queue: drop the oldest event (`drop_oldest`), end the
            subscription (`close`), or read recorded events again from the log (`reread`).
        dedup_window: The number of event ids to remember for dropping repeated events; 0 for none.
        timeout: Seconds that the handler may take for one event; `math.inf` for no limit.
        after_seq: Start with the records of the session after this `seq` in the log. None to start
            with the next published event.

    Raises:
        ConfigError: An option is not valid. The message names the option, the expected value and
            the actual value.
    """

    capacity: int = QUEUE_CAPACITY
    overflow: Overflow = "drop_oldest"
    dedup_window: int = DEDUP_WINDOW
    timeout: float = HANDLER_TIMEOUT
    after_seq: int | None = None

    def __attrs_post_init__(self) -> None:
        if _no_int(self.capacity) or self.capacity < 1:
            raise ConfigError(
                f"a subscription's capacity must be an int of at least 1; got {self.capacity!r:.80}"
            )
        if self.overflow not in _OVERFLOWS:
            raise ConfigError(
                f"overflow must be one of {', '.join(_OVERFLOWS)}; got {self.overflow!r}"
            )
        if _no_int(self.dedup_window) or self.dedup_window < 0:
            raise ConfigError(
                f"dedup_window must be an int of at least 0; got {self.dedup_window!r:.80}"
            )
        timeout = cast(object, self.timeout)
        if not isinstance(timeout, int | float) or not timeout > 0:
            raise ConfigError(
                f"a handler's timeout must be above 0 seconds, or math.inf; got {timeout!r:.80}"
            )
        if self.after_seq is not None and (_no_int(self.after_seq) or self.after_seq < 0):
            raise ConfigError(f"after_seq must be an int of at least 0; got {self.after_seq!r:.80}")


def _no_int(value: object) -> bool:
    return isinstance(value, bool) or not isinstance(value, int)


def _check_observer(handler: object, types: tuple[object, ...], session_id: object) -> None:
    # These values are checked here. Otherwise, each run that publishes an event would fail.
    if not callable(handler):
        raise ConfigError(
            f"a handler must be an async function that takes an event; got {handler!r:.80}"
        )
    if session_id is not None and not isinstance(session_id, str):
        raise ConfigError(f"session_id must be a str; got {session_id!r:.80}")
    for event_type in types:
        if not isinstance(event_type, type) or not issubclass(event_type, Event):
            raise ConfigError(
                f"types must be event classes, for example ToolResult; got {event_type!r:.80}"
            )


DEFAULTS: Final = SubscriptionOptions()


@attrs.frozen
class SubscriptionStatistics:
    """A snapshot of one subscription.

    Attributes:
        queued: Events that are waiting.
        delivered: Events for which the handler returned.
        dropped: Events that will never be delivered, because the queue was full or the log no
            longer had them.
        duplicates: Events that had already been seen.
        failed: Events for which the handler raised or exceeded its deadline.
        reread: Events that were read from the log.
    """

    queued: int
    delivered: int
    dropped: int
    duplicates: int
    failed: int
    reread: int = 0


@attrs.frozen
class BusStatistics:
    """A snapshot of the bus.

    Attributes:
        subscriptions: The number of open subscriptions.
        published: The number of events published so far.
    """

    subscriptions: int
    published: int


class Subscription:
    """One observer's subscription; leaving its `with` block unsubscribes.

    Attributes:
        ended: Set when no more events will be delivered.
        end_reason: The reason why the subscription accepts no more events; None while it accepts
            events.
        failure: The error that reading the log raised, if that ended the subscription.
    """

    def __init__(
        self,
        handler: Handler,
        types: tuple[type[Event], ...],
        session_id: str | None,
        options: SubscriptionOptions,
        read: ReadLog | None,
        *,
        take_interrupt: TakeInterrupt = raise_interrupt,
    ) -> None:
        self._handler = handler
        self._take_interrupt = take_interrupt
        self._timeout = options.timeout
        self._read = read
        self._backlog = SubscriberQueue(
            types or (Event,),
            session_id,
            capacity=options.capacity,
            overflow=options.overflow,
            window=options.dedup_window,
            after_seq=options.after_seq,
        )
        self._wake: trio.Event | None = None
        self._delivered = self._failed = self._reread = 0
        self.ended: trio.Event = trio.Event()
        self.end_reason: EndReason | None = None
        self.failure: Exception | None = None

    def offer(self, event: Event) -> None:
        """Queue an event if the subscription wants it. Called by the bus."""
        if self.end_reason is not None:
            return
        self._backlog.offer(event)
        if self._backlog.overflowed:
            self._end("overflow")
        self._rouse()

    def session_left(self, session_id: str) -> None:
        """Record that the session was evicted from memory. Called by the bus."""
        self._backlog.session_left(session_id)

    async def deliver(self) -> None:
        """Call the handler for each event until the subscription is closed and drained."""
        while True:
            # One checkpoint per event, so that a handler without checkpoints cannot monopolise the
            # event loop.
            await trio.lowlevel.checkpoint()
            item = self._backlog.take()
            if isinstance(item, Gap):
                await self._fill(item)
            elif item is not None:
                await self._deliver_one(item)
            elif self.end_reason is not None:
                return
            else:
                self._wake = trio.Event()
                await self._wake.wait()

    def close(self) -> None:
        """Stop accepting events; queued events and open gaps are still delivered. Idempotent."""
        self._end("left")

    def shut_down(self) -> None:
        """Stop accepting events because the runtime is closing. Called by the bus."""
        self._end("shutdown")

    def statistics(self) -> SubscriptionStatistics:
        """Return a snapshot."""
        return SubscriptionStatistics(
            queued=len(self._backlog),
            delivered=self._delivered,
            dropped=self._backlog.dropped,
            duplicates=self._backlog.duplicates,
            failed=self._failed,
            reread=self._reread,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end(self, reason: EndReason) -> None:
        if self.end_reason is None:
            self.end_reason = reason
        self._rouse()

    def _rouse(self) -> None:
        wake, self._wake = self._wake, None
        if wake is not None:
            wake.set()

    async def _fill(self, gap: Gap) -> None:
        try:
            tail = await self._read_tail(gap)
            if not self._backlog.fill(gap, tail.last_seq):
                return
            for record in tail.records:
                await trio.lowlevel.checkpoint()
                if isinstance(record, Event) and self._backlog.wants(record):
                    self._reread += 1
                    await self._deliver_one(record)
        except AgentError as error:
            _LOG.error("a subscription has ended because its log cannot be read: %s", error)
            self.failure = error
            self._backlog.clear()
            self._end("log")

    async def _read_tail(self, gap: Gap) -> LogTail:
        assert self._read is not None
        for _ in range(READ_TRIES - 1):
            try:
                return await self._read(gap.session_id, gap.after)
            except AgentError as error:
                _LOG.warning("reading the log failed, retrying in %g s: %s", READ_PAUSE, error)
            await trio.sleep(READ_PAUSE)
        return await self._read(gap.session_id, gap.after)

    async def _deliver_one(self, event: Event) -> None:
        try:
            with trio.move_on_after(self._timeout) as deadline:
                await await_user_code(self._handler, event)
        except BaseException as error:  # noqa: ASYNC103 - only affects its own subscription
            if is_cancellation(error):
                raise
            self._failed += 1
            rest = self._take_interrupt(error)
            if rest is None:
                return  # noqa: ASYNC104
            stop = find_exit_request(rest)
            if stop is not None:
                raise stop from None  # noqa: ASYNC104
            _LOG.exception("an observer raised an exception for event %s", event.type)
            return  # noqa: ASYNC104
        if deadline.cancelled_caught:
            self._failed += 1
            _LOG.error(
                "an observer exceeded its timeout of %g s for event %s", self._timeout, event.type
            )
        else:
            self._delivered += 1


class HookBus:
    """The bus of one runtime.

    Args:
        read: Reads the log, for `reread` and `after_seq`; None if there is no log.

    Attributes:
        has_subscribers: True if there is a subscription; otherwise publishing can be skipped.
    """

    def __init__(self, read: ReadLog | None = None) -> None:
        self.owner: ActorLoop = ActorLoop("hook_bus")
        self.has_subscribers: bool = False
        self._read = read
        self._subscriptions: set[Subscription] = set()
        self._published = 0
        self._closed = False

    def subscribe(
        self,
        handler: Handler,
        *types: type[Event],
        session_id: str | None = None,
        options: SubscriptionOptions = DEFAULTS,
    ) -> Subscription:
        """Call a handler for each event, in order, in a separate task.

        With `after_seq` or `reread`, each record of a session is delivered exactly once and in
        order, either when it is published or from the log. Live-only events (deltas, progress) that
        are published while the log is being read are dropped and counted.

        Args:
            handler: An async function that takes the event.
            types: The event classes to deliver; if none are given, every event.
            session_id: Only deliver events of this session; None for all sessions.
            options: The capacity, overflow policy, timeout and starting point.

        Raises:
            RuntimeClosed: The bus is closed.
            ConfigError: `after_seq` was passed without a session or without a log, or the handler,
                the session id or an event class is invalid.
        """
        if self._closed:
            raise RuntimeClosed("the hook bus")
        _check_observer(handler, types, session_id)
        if options.after_seq is not None and session_id is None:
            raise ConfigError("after_seq requires a session_id; pass both")
        if self._read is None and (options.overflow == "reread" or options.after_seq is not None):
            raise ConfigError(
                "this bus has no log to read from; leave out after_seq and use the overflow policy"
                " drop_oldest or close"
            )
        subscription = Subscription(
            handler,
            types,
            session_id,
            options,
            self._read,
            take_interrupt=self.owner.take_interrupt,
        )
        self.owner.start_background(
            partial(self._serve, subscription), context=contextvars.copy_context()
        )
        self._subscriptions.add(subscription)
        self.has_subscribers = True
        return subscription

    def publish(self, event: Event) -> None:
        """Publish a caller's own event to the observers, without waiting.

        Raises:
            RuntimeClosed: The bus is closed.
        """
        if self._closed or self.owner.ended.is_set():
            raise RuntimeClosed("the hook bus")
        self.publish_nowait((event,))

    def publish_nowait(self, events: Sequence[Event]) -> None:
        """Publish events to the observers; never waits or raises, even after the bus has ended."""
        self._published += len(events)
        for subscription in tuple(self._subscriptions):
            for event in events:
                subscription.offer(event)

    def session_left(self, session_id: str) -> None:
        """Record that the session was evicted from memory; its next `seq` may be 1 again."""
        for subscription in self._subscriptions:
            subscription.session_left(session_id)

    async def drain(self) -> None:
        """Stop accepting subscriptions, and wait until all queued events are delivered. Idempotent.

        Cancellation: safe; any events that are still undelivered are dropped with the actor.
        """
        self._closed = True
        for subscription in tuple(self._subscriptions):
            subscription.shut_down()
        while self._subscriptions:
            await next(iter(self._subscriptions)).ended.wait()

    def statistics(self) -> BusStatistics:
        """Return a snapshot."""
        return BusStatistics(subscriptions=len(self._subscriptions), published=self._published)

    async def _serve(self, subscription: Subscription) -> None:
        try:
            await subscription.deliver()
        finally:
            self._subscriptions.discard(subscription)
            self.has_subscribers = bool(self._subscriptions)
            subscription.ended.set()
