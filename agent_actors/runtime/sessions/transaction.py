"""One commit on a session that no run has: held for its length, by the same gate as a run's.

So that no two writers meet, and every record is on file before it is shown. No task is started.
"""

from collections.abc import Callable, Sequence

from agent_actors.actors.session_gate import OnBusy
from agent_actors.domain.events import EventBuilder, EventScope
from agent_actors.run.services import RunServices
from agent_actors.runtime.lifecycle import Actors
from agent_actors.sessions import SessionState


async def committed(
    actors: Actors | RunServices,
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
        SessionBusy: It is held.
        SessionStoreError, SessionFenced: As `OpenSession.append`.

    Cancellation: safe; the records are written or they are not.
    """
    run_id = scope.run_id or actors.ids.new()
    lease = await actors.gate.acquire(scope.session_id, run_id, on_busy=on_busy)
    with lease, await actors.log.open(lease) as session:
        drafts = make(session.state)
        if drafts:
            events = await session.append(scope, drafts)
            if actors.bus.has_subscribers:
                actors.bus.publish_nowait(events)
        return session.state
