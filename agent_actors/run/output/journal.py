"""What one run puts on record, and shows of it.

Owns the run's place in its session's log, and what has been said to it and is not confirmed yet.
Every record is committed before it is shown; the last event is shown whatever becomes of its
commit. It does not know what the records mean.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import trio

from agent_actors.domain.events import Event, EventBuilder, HookEvent, RunQueued
from agent_actors.domain.messages import Messages
from agent_actors.errors import SessionStoreError
from agent_actors.run.output.event_mailbox import EventMailbox, Stamp
from agent_actors.runtime.lifecycle import Actors

if TYPE_CHECKING:
    from agent_actors.actors.session_log import OpenSession

# Seconds for the last commit of a run, which no cancel interrupts.
LAST_COMMIT_TIMEOUT: Final = 5.0


def _nothing() -> list[EventBuilder]:
    return []


def _nobody() -> None:
    pass


class RunRecord:
    """The records of one run.

    Args:
        actors: Whom to tell.
        stamp: Makes events of drafts.
        mailbox: The reader's; None for a run that nobody reads.

    Attributes:
        session: The session; None until it is open.
        beside: Gives what is to be recorded before whatever is recorded next.
        confirmed: Told, before it is shown, that all there was to record is on record.
        hook_events: What hooks did, as far as it was shown.
    """

    def __init__(self, actors: Actors, stamp: Stamp, mailbox: EventMailbox | None) -> None:
        self.session: OpenSession | None = None
        self.beside: Callable[[], list[EventBuilder]] = _nothing
        self.confirmed: Callable[[], None] = _nobody
        self.hook_events: list[HookEvent] = []
        self._bus = actors.bus
        self._stamp = stamp
        self._mailbox = mailbox
        # What the machine has given and the log has not confirmed.
        self._uncommitted: list[EventBuilder] = []

    def messages(self) -> Messages:
        """The conversation so far; empty for a run that was stopped while it waited in line."""
        return Messages() if self.session is None else self.session.history()

    def hold(self, drafts: Sequence[EventBuilder]) -> None:
        """Have these committed with the end of the run, which follows at once."""
        self._uncommitted = [*drafts]

    def hold_also(self, draft: EventBuilder) -> None:
        """This one too."""
        self._uncommitted.append(draft)

    async def commit(self, drafts: Sequence[EventBuilder]) -> None:
        """Record these together, then show them.

        Raises:
            SessionStoreError, SessionFenced: They were not written, or nobody knows.
            ReaderStalled: The reader took nothing for too long.

        Cancellation: what is on record stays; what is not is held for the end.
        """
        assert self.session is not None
        drafts = [*self.beside(), *drafts]
        if not drafts:
            return
        self._uncommitted = drafts
        events = await self.session.append(self._stamp.scope, drafts)
        self._uncommitted = []
        self.confirmed()
        await self.show(events)

    async def commit_end(
        self,
        drafts: Sequence[EventBuilder],
        last: Callable[[Exception | None], EventBuilder],
        failure: Exception | None,
    ) -> Exception | None:
        """Record the end, with everything that was held; bounded, and no cancel interrupts it.

        Args:
            drafts: What else there is to record.
            last: Makes the last event: of a failure, or of none.
            failure: What the run fails with.

        Returns:
            What it fails with after all: that the end could not be recorded is one reason more.
        """
        drafts = [*self.beside(), *self._uncommitted, *drafts, last(failure)]
        events: tuple[Event, ...] = ()
        if self.session is not None:
            try:
                with trio.move_on_after(LAST_COMMIT_TIMEOUT, shield=True) as limit:
                    events = await self.session.append(self._stamp.scope, drafts)
                if limit.cancelled_caught:
                    failure = _joined(failure, _unrecorded(self.session.session_id))
            except Exception as error:  # noqa: BLE001 - the run's failure, or a note on it
                failure = _joined(failure, error)
        if events:
            self.confirmed()
        else:
            # Not in the log, and shown all the same: every stream has a last event.
            stamp = self._stamp
            events = (last(failure)(stamp.scope, stamp.ids.new(), stamp.wall_clock(), seq=None),)
        self._publish(events)
        if self._mailbox is not None:
            self._mailbox.put_nowait(events)
        return failure

    async def show(self, events: Sequence[Event]) -> None:
        """Show these to observers and to the reader, who may have to be waited for.

        Raises:
            ReaderStalled: The reader took nothing for too long.

        Cancellation: safe.
        """
        self._publish(events)
        if self._mailbox is not None:
            await self._mailbox.put(tuple(events))

    def offer(self, event: Event) -> None:
        """Show this, and drop it where the reader is slow."""
        self._publish((event,))
        if self._mailbox is not None:
            self._mailbox.offer(event)

    def queued(self, position: int, holder: str) -> None:
        """Show where in line the run stands."""
        stamp = self._stamp
        self.offer(RunQueued(stamp.scope, stamp.ids.new(), stamp.wall_clock(), position, holder))

    def _publish(self, events: Sequence[Event]) -> None:
        self.hook_events += [event for event in events if type(event) is HookEvent]
        if self._bus.has_subscribers:
            self._bus.publish_nowait(events)


def _unrecorded(session_id: str) -> SessionStoreError:
    return SessionStoreError(
        f"the run's last records waited {LAST_COMMIT_TIMEOUT:g} s for the store, "
        "and were not written",
        session_id=session_id,
    )


def _joined(failure: Exception | None, error: Exception) -> Exception:
    if failure is None:
        return error
    failure.add_note(f"and its end could not be recorded: {type(error).__name__}: {error}")
    return failure
