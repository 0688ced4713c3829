"""The journal of one run, which queues its records, commits them, and shows them in order.

Every event is committed to the session log before it is shown to the reader and to subscribers. The
last event of a run is shown even if it could not be committed. Deltas bypass the journal.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal

import trio

from agent_actors.abc import Instrumentation
from agent_actors.abc.operations import CommitOperation
from agent_actors.actors.hook_bus import HookBus
from agent_actors.domain.events import Event, EventBuilder, FileChanged, HookEvent
from agent_actors.domain.workspace.trees import FileChange
from agent_actors.errors import SessionStoreError
from agent_actors.kernel.observing import observed
from agent_actors.runs.output.event_mailbox import EventFactory, EventMailbox
from agent_actors.runs.steering import Inbox

if TYPE_CHECKING:
    from agent_actors.actors.session_log import OpenSession

# Time limit, in seconds, for the last commit of a run, which cannot be cancelled.
LAST_COMMIT_TIMEOUT: Final = 5.0


class Journal:
    """The append queue of one run.

    Records that are ready at the same time share one commit. Notes (hook events and questions)
    precede all other records in their commit.

    Args:
        bus: Publishes events to subscribers.
        events: Builds events.
        mailbox: The mailbox of the reader; None for a run without a reader.
        inbox: Settles the steering input that a commit has recorded.
        instrumentation: Observes the commits; None: nothing does.

    Attributes:
        session: The session; None until it is open.
        hook_events: The hook events shown so far.
        files: The last change of each file that was shown so far, by path.
        end_recorded: True if the end of the run was committed.
        records_nothing: True if the session rejected the run, so the last event is only shown and
            not recorded.
    """

    def __init__(
        self,
        bus: HookBus,
        events: EventFactory,
        mailbox: EventMailbox | None,
        inbox: Inbox,
        instrumentation: Instrumentation | None = None,
    ) -> None:
        self.session: OpenSession | None = None
        self.hook_events: list[HookEvent] = []
        self.files: dict[str, FileChange] = {}
        self.end_recorded: bool = False
        self.records_nothing: bool = False
        self._bus = bus
        self._events = events
        self._mailbox = mailbox
        self._inbox = inbox
        self._instrumentation = instrumentation
        self._notes: list[EventBuilder] = []
        self._queue: list[EventBuilder] = []
        self._committing = False
        # Set when the commit in progress has ended; only created if a second task waits for it.
        self._committed: trio.Event | None = None

    @property
    def has_records(self) -> bool:
        """True if records other than notes are queued."""
        return bool(self._queue)

    def note(self, builder: EventBuilder) -> None:
        """Queue a record that precedes all other records in the next commit."""
        self._notes.append(builder)

    def add(self, *builders: EventBuilder) -> None:
        """Queue records for the next commit."""
        self._queue += builders

    async def append(self, builder: EventBuilder) -> None:
        """Record an event and then show it; any task of the run may call this method.

        If several tasks append events at about the same time, the events share one commit.

        Raises:
            SessionStoreError, SessionFenced: The event was not written, or it is unknown whether it
                was written.
            ReaderStalled: The reader took nothing for too long.

        Cancellation: the event is recorded with the next commit of the run.
        """
        self._notes.append(builder)
        # The guarded calls of one response start one per tick. The two checkpoints let their events
        # share one commit.
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        await self.commit()

    async def commit(self) -> None:
        """Write all queued records in one commit, then show them.

        Raises:
            SessionStoreError, SessionFenced: The records were not written, or it is unknown whether
                they were written.
            ReaderStalled: The reader took nothing for too long.

        Cancellation: records that were not written stay queued.
        """
        while self._committing:
            if self._committed is None:
                self._committed = trio.Event()
            await self._committed.wait()
        if not self._notes and not self._queue:
            return
        assert self.session is not None
        batch = [*self._notes, *self._queue]
        self._notes, self._queue = [], []
        self._committing = True
        try:
            try:
                if self._instrumentation is None:
                    events = await self.session.append(self._events.scope, batch)
                else:
                    with self._instrumentation.observe(CommitOperation(len(batch))):
                        events = await self.session.append(self._events.scope, batch)
            except BaseException:
                self._queue = [*batch, *self._queue]
                raise
            self._inbox.confirm()
            await self.show(events)
        finally:
            self._committing = False
            if self._committed is not None:
                self._committed.set()
                self._committed = None

    async def finish(
        self,
        builders: Sequence[EventBuilder],
        last: Callable[[Exception | None], EventBuilder],
        failure: Exception | None,
    ) -> Exception | None:
        """Record the end of the run together with all queued records, and show the last event.

        Args:
            builders: Further records.
            last: Returns the builder of the last event, given the error with which the run failed.
            failure: The error with which the run failed; None if the run did not fail.

        Returns:
            The error with which the run fails, which may come from recording its end; None if there
            is none.

        Cancellation: shielded; `LAST_COMMIT_TIMEOUT` limits the time.
        """
        batch = [*self._notes, *self._queue, *builders, last(failure)]
        self._notes, self._queue = [], []
        events: tuple[Event, ...] = ()
        if self.session is not None and not self.records_nothing:
            try:
                with observed(self._instrumentation, CommitOperation(len(batch))):
                    events = await self._append_last(self.session, batch)
            except Exception as error:  # noqa: BLE001 - becomes the run's failure, or a note on it
                failure = _joined(failure, error)
        self.end_recorded = bool(events)
        if events:
            self._inbox.confirm()
        else:
            # The last event is not in the log, but it is still shown, since every stream must have
            # a last event.
            events = (self._events.build(last(failure)),)
        self._publish(events)
        if self._mailbox is not None:
            self._mailbox.put_nowait(events)
        return failure

    async def _append_last(
        self, session: "OpenSession", batch: Sequence[EventBuilder]
    ) -> tuple[Event, ...]:
        scope = self._events.scope
        if session.is_instant:  # without a checkpoint, no cancellation and no delay is possible
            return await session.append(scope, batch)
        with trio.move_on_after(LAST_COMMIT_TIMEOUT, shield=True):
            return await session.append(scope, batch)
        raise _unrecorded(session.session_id)

    async def show(self, events: Sequence[Event]) -> None:
        """Show events to subscribers and the reader, and wait until the reader has room.

        Raises:
            ReaderStalled: The reader took nothing for too long.

        Cancellation: safe.
        """
        self._publish(events)
        if self._mailbox is not None:
            await self._mailbox.put(tuple(events))

    def publish_lossy(self, event: Event) -> None:
        """Show an event that is not recorded; drop it if the reader's mailbox is full."""
        self._publish((event,))
        if self._mailbox is not None:
            self._mailbox.offer(event)

    def notify_observers(self, builder: EventBuilder) -> None:
        """Publish an event to subscribers only."""
        if self._bus.has_subscribers:
            self._bus.publish(self._events.build(builder))

    def take_notes(self) -> list[EventBuilder]:
        """Remove and return the notes of a run that has ended, for the client's next commit."""
        notes, self._notes = self._notes, []
        return notes

    def close(self) -> None:
        """Drop the references to the session and the mailbox after the run has ended."""
        self.session = self._mailbox = None

    def _publish(self, events: Sequence[Event]) -> None:
        for event in events:
            if type(event) is HookEvent:
                self.hook_events.append(event)
            elif type(event) is FileChanged:
                self.files[event.path] = as_change(event)
        if self._bus.has_subscribers:
            self._bus.publish_nowait(events)


def as_change(event: FileChanged) -> FileChange:
    """Return the change that an event records."""
    deleted = event.content is None and not event.digest
    kind: Literal["written", "deleted"] = "deleted" if deleted else "written"
    return FileChange(event.path, kind, event.content, event.digest, event.size)


def _unrecorded(session_id: str) -> SessionStoreError:
    return SessionStoreError(
        f"the run's last records were not written, since the store did not respond within "
        f"{LAST_COMMIT_TIMEOUT:g} s",
        session_id=session_id,
    )


def _joined(failure: Exception | None, error: Exception) -> Exception:
    if failure is None:
        return error
    failure.add_note(
        f"and the end of the run could not be recorded: {type(error).__name__}: {error}"
    )
    return failure
