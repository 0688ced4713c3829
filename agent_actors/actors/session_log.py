"""SessionLog: append-only records, committed in groups.

Owns the sessions in memory (an LRU with a time to live) and the one writer of the store. It does
not know what a run does; it stamps records with `seq` and time, commits them and folds them. Two
appends of one session never overlap, since only the holder of its lease appends.

The stated exception to one worker a request: appends go to one committer, which takes whatever
waits as one batch. An append that is in no batch yet is withdrawn on cancel; one in a batch is
waited for. A commit that fails or overruns its deadline has an unknown outcome: the session is
dirty, the asker gets `SessionStoreError`, and whoever opens it next reads the log's tail first.

A store that never waits (`InstantStore`) is read and written where it is asked: there is nothing
to group, to withdraw or to overrun, and a task in between would cost more than all else.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Final, Self

import attrs
import trio

from agent_actors.abc import InstantStore, LogAppend, SessionStore
from agent_actors.actors.append_batches import Batches
from agent_actors.actors.session_cache import (
    Loaded,
    instant_store,
    is_shared,
    loaded_from,
    told,
    unknown,
    unreadable,
)
from agent_actors.actors.session_gate import Lease
from agent_actors.domain.events import AnyEvent, Event, EventBuilder, EventScope
from agent_actors.domain.ids import Ids
from agent_actors.domain.json import JsonValue
from agent_actors.domain.messages import Messages
from agent_actors.errors import RuntimeFailure, SessionError, SessionStoreError
from agent_actors.kernel.actor_loop import MAILBOX_CAPACITY, Owner
from agent_actors.kernel.mailbox import Mailbox, MailboxStatistics
from agent_actors.kernel.request import Request
from agent_actors.sessions import SessionState

# Sessions in memory. Their records cost what they cost; a session beside them, about a kilobyte.
MAX_SESSIONS: Final = 1000
# Seconds that an idle session stays in memory, and seconds between looks.
SESSION_TTL: Final = 3600.0
SWEEP_EVERY: Final = 300.0
# Sessions in use that a new one passes over on its way to one that can go.
_LOOKS: Final = 32
# Seconds for one commit or one load.
STORE_TIMEOUT: Final = 10.0


@attrs.frozen
class LogStatistics:
    """A snapshot of the log.

    Attributes:
        sessions: Sessions in memory.
        evicted: Sessions that left it so far, for want of room or of use.
        commits: Batches committed so far.
        records: Records committed so far.
        failures: Appends that the store did not take.
        appends: The mailbox of the committer.
    """

    sessions: int
    evicted: int
    commits: int
    records: int
    failures: int
    appends: MailboxStatistics


@attrs.frozen(eq=False)
class _Append:
    loaded: Loaded
    append: LogAppend
    request: Request[None]


@attrs.define(eq=False)
class OpenSession:
    """A session in the hands of the run that holds its lease.

    Attributes:
        session_id: The session.
        state: What its records add up to; for reading only.
    """

    session_id: str
    state: SessionState
    _loaded: Loaded
    _fence: int
    _log: "SessionLog"
    _closed: bool = attrs.field(default=False, init=False)

    def history(self) -> Messages:
        """The conversation so far; always valid."""
        return self.state.history()

    async def append(self, scope: EventScope, drafts: Sequence[EventBuilder]) -> tuple[Event, ...]:
        """Commit these records together, all or none, and fold them.

        Returns:
            The events, with their `seq`.

        Raises:
            SessionStoreError: The store did not take them; the outcome is unknown.
            SessionFenced: Somebody else has appended meanwhile.

        Cancellation: an append that is in no batch yet is withdrawn; else its end is waited
        for, and a commit that went through is returned.
        """
        return await self._log.append(self._loaded, self._fence, scope, drafts)

    def note(self, metadata: dict[str, JsonValue]) -> None:
        """Have these keys of its metadata noted with the next commit, if they are news."""
        self._loaded.note(metadata)

    async def append_lines(self, events: Sequence[AnyEvent], lines: Sequence[bytes]) -> None:
        """Commit records that are made already, as they stand, all or none.

        Args:
            events: The records, whose `seq` go on from the log's end.
            lines: Their JSON, one each, which may hold what this version does not know.

        Raises:
            SessionStoreError, SessionFenced: As `append`.

        Cancellation: as `append`.
        """
        await self._log.append_lines(self._loaded, self._fence, tuple(events), tuple(lines))

    def close(self) -> None:
        """The run is done with it. Idempotent."""
        if not self._closed:
            self._closed = True
            self._log.put_back(self._loaded)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SessionLog:
    """The log of one runtime.

    Args:
        store: Where records are kept.
        ids: Makes event ids.
        wall_clock: Seconds since the epoch.
        is_held: True for sessions with a run or a waiter; these are never evicted.
        max_sessions: Sessions in memory.
        session_ttl: Seconds that an idle session stays there.
        store_timeout: Seconds for one commit or one load.
        on_evicted: Told of each session that leaves the memory.
        on_deleted: Told of each that is deleted.
    """

    def __init__(
        self,
        store: SessionStore,
        ids: Ids,
        wall_clock: Callable[[], float],
        is_held: Callable[[str], bool],
        *,
        max_sessions: int = MAX_SESSIONS,
        session_ttl: float = SESSION_TTL,
        store_timeout: float = STORE_TIMEOUT,
        on_evicted: Callable[[str], None] = lambda _: None,
        on_deleted: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.owner: Owner = Owner("session_log")
        self._store = store
        self._instant = instant_store(store)
        self._shared = is_shared(store)
        self._ids = ids
        self._wall_clock = wall_clock
        self._is_held = is_held
        self._max_sessions = max_sessions
        self._session_ttl = session_ttl
        self._store_timeout = store_timeout
        self._on_evicted = on_evicted
        self._on_deleted = on_deleted
        self._appends: Mailbox[_Append] = Mailbox(MAILBOX_CAPACITY)
        self._batches = Batches(self._appends)
        self._loaded: OrderedDict[str, Loaded] = OrderedDict()
        self._sweeping = False
        self._evicted = self._commits = self._records = self._failures = 0

    async def start(self) -> int:
        """Open the store and start the committer; return the store's epoch.

        Raises:
            SessionStoreError: The store cannot be used.
        """
        epoch = await self._store.open()
        self.owner.start_background(self._commit_loop)
        return epoch

    async def open(self, lease: Lease) -> OpenSession:
        """The session of a lease, loaded if it is not in memory, made if it is nowhere.

        Raises:
            SessionStoreError: Its records cannot be read.

        Cancellation: safe; nothing stays open.
        """
        session_id = lease.session_id
        loaded = self._loaded.get(session_id)
        if loaded is None or loaded.dirty or (self._shared and loaded.overtaken(self._store)):
            if self._instant is not None:
                loaded = self._load_nowait(self._instant, session_id, loaded)
            else:
                loaded = await self.owner.ask(partial(self._load, session_id, loaded))
        loaded.users += 1
        self._loaded[session_id] = loaded
        self._loaded.move_to_end(session_id)
        self._make_room()
        return OpenSession(session_id, loaded.state, loaded, lease.fence, self)

    def peek(self, session_id: str) -> Messages | None:
        """The history of a session that is in memory; None if it is not."""
        state = self.peek_state(session_id)
        return None if state is None else state.history()

    def peek_state(self, session_id: str) -> SessionState | None:
        """What a session's records add up to, for reading only; None if it is not in memory."""
        loaded = self._loaded.get(session_id)
        return loaded.state if loaded else None

    async def append(
        self, loaded: Loaded, fence: int, scope: EventScope, drafts: Sequence[EventBuilder]
    ) -> tuple[Event, ...]:
        """Commit records; for `OpenSession.append`."""
        if not drafts:
            return ()
        state = loaded.state
        ts = max(self._wall_clock(), state.last_ts)
        first = state.last_seq + 1
        ids = self._ids.take(len(drafts))
        stamped = enumerate(zip(drafts, ids, strict=True), first)
        events = tuple([draft(scope, event_id, ts, seq=seq) for seq, (draft, event_id) in stamped])
        await self._submit(loaded, fence, events, None)
        return events

    async def append_lines(
        self, loaded: Loaded, fence: int, events: tuple[AnyEvent, ...], lines: tuple[bytes, ...]
    ) -> None:
        """Commit records as they stand; for `OpenSession.append_lines`."""
        await self._submit(loaded, fence, events, lines)

    async def _submit(
        self,
        loaded: Loaded,
        fence: int,
        events: tuple[AnyEvent, ...],
        lines: tuple[bytes, ...] | None,
    ) -> None:
        session_id = loaded.session_id
        if loaded.dirty:
            raise SessionStoreError(
                "an earlier append of this run has an unknown outcome; nothing more is written",
                session_id=session_id,
            )
        last_seq = loaded.state.last_seq
        append = LogAppend(session_id, last_seq, fence, events, loaded.noting, lines)
        if self._instant is not None:
            self._commit_nowait(self._instant, loaded, append)
            return
        request: Request[None] = Request()
        self.owner.adopt(request)
        try:
            await self._appends.put(_Append(loaded, append, request))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the committer broke while this waited for room; the actor's end tells the rest
        except BaseException:
            request.cancel("never sent")
            raise
        await request.wait()

    def put_back(self, loaded: Loaded) -> None:
        """A run is done with a session; for `OpenSession.close`."""
        loaded.users -= 1
        loaded.last_used = trio.current_time()
        if not loaded.users:
            self._store.released(loaded.session_id)
        if not self._sweeping:
            with suppress(RuntimeFailure):  # of an actor that has ended nothing is left to sweep
                self.owner.start_background(self._sweep)
                self._sweeping = True

    async def delete(self, lease: Lease) -> None:
        """Forget the session of a lease, here and in the store.

        Raises:
            SessionStoreError: It could not be deleted, or nobody knows.
            SessionBusy: Another opening of the store has it.

        Cancellation: safe; it is deleted or it is not.
        """
        await self.owner.ask(partial(self._delete, lease.session_id))

    def forget(self, session_id: str) -> None:
        """The store has the session no longer: it leaves the memory, unless a run has it."""
        loaded = self._loaded.get(session_id)
        if loaded is not None and self._is_idle(loaded):
            del self._loaded[session_id]
            self._on_deleted(session_id)

    def read_anew(self, session_id: str) -> None:
        """The stored records of a session have changed: its next run reads them all."""
        if session_id in self._loaded and not self._loaded[session_id].users:
            del self._loaded[session_id]

    async def aclose(self) -> None:
        """Close the store; the actor has ended. Idempotent."""
        await self._store.aclose()

    def statistics(self) -> LogStatistics:
        """A snapshot."""
        loaded, appends = len(self._loaded), self._appends.statistics()
        done = self._commits, self._records, self._failures
        return LogStatistics(loaded, self._evicted, *done, appends)

    # Loading and evicting.

    async def _load(self, session_id: str, loaded: Loaded | None) -> Loaded:
        try:
            return await self._read(session_id, loaded)
        except BaseException:
            # A read that failed or was given up may hold the session all the same.
            self._store.released(session_id)
            raise

    async def _read(self, session_id: str, loaded: Loaded | None) -> Loaded:
        if loaded is not None:
            records = await self._records_of(session_id, loaded.read_from(shared=self._shared))
            if loaded.caught_up(records, shared=self._shared):
                return loaded
        return loaded_from(session_id, await self._records_of(session_id, 0))

    async def _records_of(self, session_id: str, after_seq: int) -> Sequence[AnyEvent]:
        records: Sequence[AnyEvent] | None = None
        try:
            with trio.move_on_after(self._store_timeout):
                records = await self._store.load(session_id, after_seq=after_seq)
        except SessionError:
            raise
        except Exception as error:
            raise unreadable(session_id, error) from error
        if records is None:
            raise SessionStoreError(
                f"its records were not read within {self._store_timeout:g} s",
                session_id=session_id,
            )
        return records

    async def _delete(self, session_id: str) -> None:
        self._loaded.pop(session_id, None)
        try:
            with trio.move_on_after(self._store_timeout) as limit:
                await self._store.delete(session_id)
        except SessionError:
            raise
        except Exception as error:
            raise SessionStoreError(
                f"it could not be deleted: {told(error)}", session_id=session_id
            ) from error
        if limit.cancelled_caught:
            raise SessionStoreError(
                f"whether it was deleted is not known: it took {self._store_timeout:g} s",
                session_id=session_id,
            )
        self._on_deleted(session_id)

    def _load_nowait(self, store: InstantStore, session_id: str, loaded: Loaded | None) -> Loaded:
        self.owner.check_open()
        after_seq = loaded.state.last_seq if loaded else 0
        try:
            records = store.load_nowait(session_id, after_seq=after_seq)
        except SessionError:
            raise
        except Exception as error:
            raise unreadable(session_id, error) from error
        if loaded is None:
            return loaded_from(session_id, records)
        loaded.caught_up(records, shared=False)
        return loaded

    def _make_room(self) -> None:
        excess = len(self._loaded) - self._max_sessions
        if excess <= 0:
            return
        # The longest unused come first. One that is in use goes behind the others, and only so many
        # are looked at: with all in use, each new session would look at all.
        for loaded in tuple(islice(self._loaded.values(), excess + _LOOKS)):
            if self._is_idle(loaded):
                self._evict(loaded)
                excess -= 1
                if not excess:
                    return
            else:
                self._loaded.move_to_end(loaded.session_id)

    def _is_idle(self, loaded: Loaded) -> bool:
        return not loaded.users and not self._is_held(loaded.session_id)

    def _evict(self, loaded: Loaded) -> None:
        del self._loaded[loaded.session_id]
        self._store.evicted(loaded.session_id)
        self._on_evicted(loaded.session_id)
        self._evicted += 1

    async def _sweep(self) -> None:
        # Ends when no session is left, and is started again with the next one.
        try:
            while self._loaded:
                await trio.sleep(SWEEP_EVERY)
                horizon = trio.current_time() - self._session_ttl
                for loaded in tuple(self._loaded.values()):
                    if not self._is_idle(loaded):
                        continue
                    loaded.state.memo.forget()
                    if loaded.last_used <= horizon:
                        self._evict(loaded)
        finally:
            self._sweeping = False

    # Committing.

    async def _commit_loop(self) -> None:
        try:
            while True:
                batch = await self._next_batch()
                await self._commit(batch)
        finally:
            self._appends.abandon()

    async def _next_batch(self) -> Sequence[_Append]:
        return [item for item in await self._batches.next() if item.request.take()]

    async def _commit(self, batch: Sequence[_Append]) -> None:
        if not batch:
            return  # all were withdrawn
        outcomes: Sequence[SessionError | None] = ()
        cause: Exception | None = None
        try:
            with trio.move_on_after(self._store_timeout):
                outcomes = await self._store.append([item.append for item in batch])
        except Exception as error:  # noqa: BLE001 - told to every asker of the batch
            cause = error
        self._commits += 1
        for position, item in enumerate(batch):
            if cause is None and position < len(outcomes):
                refusal = outcomes[position]
            else:
                refusal = unknown(item.loaded.session_id, cause, self._store_timeout)
            self._keep(item.loaded, item.append, refusal)
            if refusal is None:
                item.request.resolve(None)
            else:
                item.request.fail(refusal)

    def _commit_nowait(self, store: InstantStore, loaded: Loaded, append: LogAppend) -> None:
        self.owner.check_open()
        try:
            refusal = store.append_nowait(append)
        except Exception as error:  # noqa: BLE001 - told to the asker, as one of a batch is
            refusal = unknown(loaded.session_id, error, self._store_timeout)
        self._commits += 1
        self._keep(loaded, append, refusal)
        if refusal is not None:
            raise refusal

    def _keep(self, loaded: Loaded, append: LogAppend, refusal: SessionError | None) -> None:
        if refusal is not None:
            self._failures += 1
            loaded.dirty = True
            return
        loaded.take(append.events)
        if append.metadata is not None:
            loaded.noted, loaded.noting = loaded.noting, None
        self._records += len(append.events)
