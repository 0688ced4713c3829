"""One commit on a session that no run has: held for its length, by the same gate as a run's.

So that no two writers meet, and every record is on file before it is shown. No task is started.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, cast

from agent_actors.actors.session_gate import OnBusy
from agent_actors.codec.events import checked_fields
from agent_actors.domain.events import Event, EventBuilder, EventScope
from agent_actors.errors import InvalidEventError
from agent_actors.runtime.lifecycle import Actors
from agent_actors.sessions import SessionState

_NOWHERE: Final = EventScope("", "", "")


def validated(draft: EventBuilder) -> EventBuilder:
    """The draft as its event will be read back, sharing nothing with what the caller passed.

    A caller of Python may have put anything into an event. What could not be read back would make
    its session unreadable, so that it is refused before it is recorded.

    Raises:
        InvalidEventError: The event could not be read back; says which field, and why.
    """
    try:
        event = draft(_NOWHERE, "", 0.0, seq=None)
    except TypeError as error:
        raise InvalidEventError(
            "expected an event without its header, such as functools.partial(Notification, "
            f"text=...); got {draft!r:.80}, and {error}"
        ) from error
    if not isinstance(cast(object, event), Event):
        raise InvalidEventError(f"expected a draft that makes an event; it made {event!r:.80}")
    cls, fields = checked_fields(event)
    return partial(cls, **fields)


async def committed(
    actors: Actors,
    scope: EventScope,
    make: Callable[[SessionState], Sequence[EventBuilder]],
    *,
    on_busy: OnBusy = "reject",
) -> SessionState:
    """Commit records on a session, all or none; then show them.

    Args:
        actors: Who keeps it.
        scope: Whose records they are.
        make: Makes them, of the session as it stands; none: nothing is written. What it raises is
            raised, and nothing is written.
        on_busy: What to do while a run holds the session.

    Returns:
        The session, for reading and at once: it goes on changing.

    Raises:
        InvalidEventError: A record could not be read back; nothing is written.
        SessionBusy: It is held.
        SessionStoreError, SessionFenced: As `OpenSession.append`.

    Cancellation: safe; the records are written or they are not.
    """
    run_id = scope.run_id or actors.ids.new()
    lease = await actors.gate.acquire(scope.session_id, run_id, on_busy=on_busy)
    with lease, await actors.log.open(lease) as session:
        drafts = [validated(draft) for draft in make(session.state)]
        if drafts:
            events = await session.append(scope, drafts)
            if actors.bus.has_subscribers:
                actors.bus.publish_nowait(events)
        return session.state
