"""`runtime.events`: subscribe to events from runs, and publish your own events.

This module fills in the runtime's defaults and event headers; `actors/hook_bus.py` does the rest.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypedDict, TypeVar, cast, overload

import attrs

from agent_actors.actors.hook_bus import Handler, HookBus, Subscription, SubscriptionOptions
from agent_actors.actors.run_tree import current_run
from agent_actors.actors.subscriber_queue import Overflow
from agent_actors.domain.events import Event, EventBuilder, EventScope, Notification
from agent_actors.domain.ids import Ids
from agent_actors.domain.json import JsonValue
from agent_actors.errors import ConfigError
from agent_actors.runtime.open_state import OpenState

E = TypeVar("E", bound=Event)


class SubscribeArguments(TypedDict, total=False):
    """The keyword arguments of `EventSubscriptions.subscribe`."""

    session_id: str | None
    capacity: int | None
    overflow: Overflow | None
    dedup_window: int | None
    timeout: float | None
    after_seq: int | None
    replay: bool


class EventSubscriptions:
    """Subscriptions to the events of all runs of a runtime, and events that callers publish.

    Args:
        bus: Delivers events.
        ids: Makes event ids.
        wall_clock: Returns seconds since the epoch.
        defaults: The default options for subscriptions.
        state: Tracks whether the runtime is open.
    """

    def __init__(
        self,
        bus: HookBus,
        ids: Ids,
        wall_clock: Callable[[], float],
        defaults: SubscriptionOptions,
        state: OpenState,
    ) -> None:
        self._bus = bus
        self._ids = ids
        self._wall_clock = wall_clock
        self._defaults = defaults
        self._state = state

    @overload
    def subscribe(
        self,
        handler: Handler,
        *,
        session_id: str | None = None,
        capacity: int | None = None,
        overflow: Overflow | None = None,
        dedup_window: int | None = None,
        timeout: float | None = None,
        after_seq: int | None = None,
        replay: bool = False,
    ) -> Subscription: ...
    @overload
    def subscribe(
        self,
        handler: Callable[[E], Awaitable[None]],
        event_type: type[E],
        /,
        *types: type[E],
        session_id: str | None = None,
        capacity: int | None = None,
        overflow: Overflow | None = None,
        dedup_window: int | None = None,
        timeout: float | None = None,
        after_seq: int | None = None,
        replay: bool = False,
    ) -> Subscription: ...
    def subscribe(
        self,
        handler: Callable[[E], Awaitable[None]],
        *types: type[E],
        session_id: str | None = None,
        capacity: int | None = None,
        overflow: Overflow | None = None,
        dedup_window: int | None = None,
        timeout: float | None = None,
        after_seq: int | None = None,
        replay: bool = False,
    ) -> Subscription:
        """Call a handler for the events of all runs, in a separate task.

        A subscriber cannot change or delay a run. If the handler is too slow, `overflow` decides
        which events it misses; `statistics()` of the subscription counts them.

        With `replay`, `after_seq` or `overflow="reread"`, the handler gets each record of the
        session exactly once and in order, either from the log or when it is published. Deltas and
        progress events are not in the log, so any that are published while the log is being read
        are dropped and counted. If the log cannot be read, the subscription ends and `failure`
        holds the reason.

        For each argument that is None, the runtime's `subscriptions` option supplies the value.

        Args:
            handler: An async function that takes the event.
            types: The event classes to receive; if none are given, every event.
            session_id: Receive the events of this session only; None: of all sessions.
            capacity: The maximum number of events that wait for the handler.
            overflow: The policy when more events are waiting: `drop_oldest`, `close` (the
                subscription ends), or `reread` (records are read from the log when their turn
                comes).
            dedup_window: The number of event ids to remember for dropping repeated events.
            timeout: Seconds that the handler may take for one event; `math.inf`: no limit.
            after_seq: Begin with the records of the session after this `seq`, for example the last
                `seq` seen before an interruption.
            replay: Begin with all records of the session.

        Returns:
            The subscription. Leaving its `with` block, or `close()`, ends it.

        Raises:
            RuntimeClosed: The runtime is closed.
            ConfigError: An option is not valid, or a replay was requested without a session.
        """
        self._state.check_open()
        base = self._defaults
        options = SubscriptionOptions(
            capacity=base.capacity if capacity is None else capacity,
            overflow=base.overflow if overflow is None else overflow,
            dedup_window=base.dedup_window if dedup_window is None else dedup_window,
            timeout=base.timeout if timeout is None else timeout,
            after_seq=0 if replay and after_seq is None else after_seq,
        )
        # The bus delivers events of the given types only.
        return self._bus.subscribe(
            cast(Handler, handler), *types, session_id=session_id, options=options
        )

    def publish(self, event: E | EventBuilder[E], *, session_id: str | None = None) -> E:
        """Send your own event to the subscribers; it is neither recorded nor sent to a model.

        An event that is published from within a run belongs to that run, unless the event or
        `session_id` names another session.

        Args:
            event: An event (an empty `id` and a `ts` of 0 are filled in), or a function that makes
                an event from a header, such as `functools.partial(Notification, text="Half way.")`.
                Define your own events as `attrs.frozen` subclasses of `Event`.
            session_id: The session of the event; None: the session of the current run, if there is
                one.

        Returns:
            The event that was published.

        Raises:
            RuntimeClosed: The event bus has closed.
            ConfigError: `event` is not an event, or it has a `seq`, which only the log assigns.
        """
        self._state.check_opened()
        scope = _current_scope(session_id)
        published = event if isinstance(event, Event) else _build(event, scope)
        if published.seq is not None:
            raise ConfigError(
                "seq must be None, since published events are not recorded; "
                f"got an event with seq={published.seq}"
            )
        published = attrs.evolve(
            published,
            scope=published.scope if published.session_id else scope,
            id=published.id or self._ids.new(),
            ts=published.ts or self._wall_clock(),
        )
        self._bus.publish(published)
        return cast(E, published)

    def notify(
        self, text: str, *, data: JsonValue = None, session_id: str | None = None
    ) -> Notification:
        """Send the subscribers a notification that a person may want to read.

        Args:
            text: The text of the notification.
            data: Additional JSON data.
            session_id: The session of the event; None: the session of the current run, if there is
                one.

        Raises:
            RuntimeClosed: The event bus has closed.
        """
        builder = partial(Notification, text=text, data=data)
        return self.publish(builder, session_id=session_id)


def _current_scope(session_id: str | None) -> EventScope:
    node = current_run.get()
    if node is None or session_id not in (None, node.session_id):
        return EventScope(session_id or "", "", "")
    return EventScope(node.session_id, node.run_id, "")


def _build(builder: object, scope: EventScope) -> Event:
    # Untyped code may pass anything.
    event: object = builder(scope, "", 0.0) if callable(builder) else builder
    if isinstance(event, Event):
        return event
    raise ConfigError(
        "publish() expects an event, or a function that makes an event from a scope, an id and a "
        "time; "
        f"got {event!r:.80}"
    )
