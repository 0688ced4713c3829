"""Rebuild the conversation of a session from its events, without a runtime or a store. Pure."""

from collections.abc import Iterable, Iterator

import attrs

from agent_actors.context.resume_window import RESUME_MAX_BYTES, RESUME_MAX_EVENTS, ResumeWindow
from agent_actors.domain.encoded_message_cache import EncodedMessageCache
from agent_actors.domain.events import AnyEvent, Event
from agent_actors.domain.messages import Messages
from agent_actors.errors import ConfigError
from agent_actors.kernel.interrupts import protect_loaded_modules
from agent_actors.sessions import fold


def rebuild_messages(
    events: Iterable[AnyEvent],
    max_events: float = RESUME_MAX_EVENTS,
    max_bytes: float = RESUME_MAX_BYTES,
) -> Messages:
    """Return the conversation that results from the events of a session; always valid.

    This is the part of the conversation that the next run of the session would send: the newest
    messages within the limits, beginning with a user message. The last user message and everything
    after it are always included. A tool call is never separated from its result, and a call without
    a result gets an error result.

    Args:
        events: The events, in order. An event without a `seq`, such as a bare event, gets the next
            number. Live events are ignored.
        max_events: Maximum number of messages; `math.inf` means no limit.
        max_bytes: Maximum number of bytes of the messages as JSON; `math.inf` means no limit.

    Raises:
        ConfigError: A limit is not at least 1.
    """
    for name, limit in (("max_events", max_events), ("max_bytes", max_bytes)):
        if not limit >= 1:
            raise ConfigError(f"{name} must be at least 1; got {limit}")
    state = fold(_numbered(events))
    window = ResumeWindow(max_events, max_bytes)
    return window.apply(state.history(), EncodedMessageCache(), head=state.head)


def _numbered(events: Iterable[AnyEvent]) -> Iterator[AnyEvent]:
    last = 0
    for event in events:
        if not isinstance(event, Event) or event.seq is not None:
            last = event.seq or last
            yield event
        elif event.recorded:
            last += 1
            yield attrs.evolve(event, seq=last)


protect_loaded_modules()
