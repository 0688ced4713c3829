"""The bus as a caller sees it: observers of events, and events of a caller's own.

It owns nothing: it fills in what is left blank, and hands on to the runtime's HookBus.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar, cast, overload

import attrs

from agent_actors.actors.hook_bus import Handler, Subscription, SubscriptionOptions
from agent_actors.actors.run_tree import current_run
from agent_actors.actors.subscriber_queue import Overflow
from agent_actors.domain.events import Event, EventBuilder, EventScope, Notification
from agent_actors.domain.json import JsonValue
from agent_actors.errors import ConfigError
from agent_actors.runtime.config import RuntimeOptions
from agent_actors.runtime.lifecycle import Actors

E = TypeVar("E", bound=Event)


class Observed(ABC):
    """What a runtime offers to observers."""

    _actors: Actors
    _options: RuntimeOptions

    @abstractmethod
    def _check_open(self) -> None: ...

    @abstractmethod
    def _check_token(self) -> None: ...

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
        """Have a handler called for every event of every run, in a task of its own.

        Observers can change nothing and hold up nobody. What comes of one that is too slow is its
        `overflow`; what it lost by that is counted in its `statistics()`.

        With `replay`, `after_seq` or `reread` the records of a session come each once and in order,
        whether they are published or read from the log. Deltas and progress stand in no log: those
        that are published while it is read are dropped, and counted. Where the log cannot be read
        the subscription ends, and its `failure` tells why.

        Args:
            handler: An async function of the event.
            types: The event classes to take; none: every event.
            session_id: Only events of this session; None: of all.
            capacity: Events that may wait.
            overflow: What comes of more: `drop_oldest`, `close` (the subscription ends), or
                `reread` (what is recorded is read again from the log).
            dedup_window: Ids that are remembered, to drop what was seen before.
            timeout: Seconds that the handler may take for one event; `math.inf` for any time.
            after_seq: Begin with what the log has of the session after this `seq`, such as the last
                one that was seen before a break.
            replay: Begin with all that the log has of the session.

        None stands for the runtime's `subscriptions`.

        Returns:
            The subscription; leaving its `with` block, or `close()`, ends it.

        Raises:
            RuntimeClosed: The runtime is closed.
            ConfigError: An option that cannot be, or a replay without a session.
        """
        self._check_open()
        base = self._options.subscriptions
        options = SubscriptionOptions(
            capacity=base.capacity if capacity is None else capacity,
            overflow=base.overflow if overflow is None else overflow,
            dedup_window=base.dedup_window if dedup_window is None else dedup_window,
            timeout=base.timeout if timeout is None else timeout,
            after_seq=0 if replay and after_seq is None else after_seq,
        )
        # It gets events of its types alone: the bus sees to that.
        return self._actors.bus.subscribe(
            cast(Handler, handler), *types, session_id=session_id, options=options
        )

    def publish(self, event: E | EventBuilder[E], *, session_id: str | None = None) -> E:
        """Tell the observers something of your own; it goes into no log and to no model.

        From within a run it belongs to that run, unless it names a session itself.

        Args:
            event: An event, whose blank `id` and `ts` of 0 are filled in; or what makes one of a
                header, such as `functools.partial(Notification, text="Half way.")`. Events of your
                own are `attrs.frozen` subclasses of `Event`.
            session_id: The session that it belongs to; None: that of the run around, if any.

        Returns:
            The event as it was published.

        Raises:
            RuntimeClosed: The bus has closed.
            ConfigError: It is no event, or it has a `seq`, which only the log gives.
        """
        self._check_token()
        scope = _scope(session_id)
        whole = event if isinstance(event, Event) else _made(event, scope)
        if whole.seq is not None:
            raise ConfigError(
                f"an event of a caller's own has no seq, since it goes into no log; got {whole.seq}"
            )
        whole = attrs.evolve(
            whole,
            scope=whole.scope if whole.session_id else scope,
            id=whole.id or self._actors.ids.new(),
            ts=whole.ts or self._actors.wall_clock(),
        )
        self._actors.bus.publish(whole)
        return cast(E, whole)

    def notify(
        self, text: str, *, data: JsonValue = None, session_id: str | None = None
    ) -> Notification:
        """Tell the observers something that a person may want to know.

        Args:
            text: What to say.
            data: Whatever goes along with it, as JSON.
            session_id: The session that it belongs to; None: that of the run around, if any.

        Raises:
            RuntimeClosed: The bus has closed.
        """
        draft = partial(Notification, text=text, data=data)
        return self.publish(draft, session_id=session_id)


def _scope(session_id: str | None) -> EventScope:
    node = current_run.get()
    if node is None or session_id not in (None, node.session_id):
        return EventScope(session_id or "", "", "")
    return EventScope(node.session_id, node.run_id, "")


def _made(draft: object, scope: EventScope) -> Event:
    # A caller's own code may have passed anything: what is no event shows here.
    made: object = draft(scope, "", 0.0) if callable(draft) else draft
    if isinstance(made, Event):
        return made
    raise ConfigError(
        f"publish takes an event, or what makes one of a scope, an id and a time; got {made!r:.80}"
    )
