"""SessionLog: append-only records, committed in groups.

The actor owns the sessions in memory (an LRU cache with a time to live), and is the only writer to
the store. It does not know what a run does: it adds `seq` and time to records, commits them, and
applies them to the session's state. Two appends to one session never overlap, because only the
holder of its lease appends.

Unlike the other actors, this actor does not use one worker per request: appends go to one
committer, which takes all waiting appends as one batch. A cancelled append is withdrawn if it is
not yet in a batch; otherwise the caller waits for it to finish. If a commit fails or is late, its
outcome is unknown: the session is marked as dirty, the caller gets `SessionStoreError`, and the
next run first reads the end of the log.

A store that never waits (`InstantStore`) is read and written in the caller's task. Its calls need
not be grouped, withdrawn or timed out, and switching to another task would cost more than the call
itself.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Final, Generic, Self, TypeVar

import attrs
import trio

from agent_actors.abc import CompactingStore, InstantStore, LogAppend, SessionStore
from agent_actors.actors.session_cache import (
    CachedSession,
    error_text,
    instant_store,
    is_shared,
    loaded_from,
    unknown,
    unreadable,
)
from agent_actors.actors.session_gate import Lease
from agent_actors.domain.events import AnyEvent, Event, EventBuilder, EventScope
from agent_actors.domain.ids import Ids
from agent_actors.domain.json import JsonValue
from agent_actors.domain.messages import Messages
from agent_actors.errors import RuntimeFailure, SessionError, SessionStoreError
from agent_actors.kernel.actor_loop import MAILBOX_CAPACITY, ActorLoop
from agent_actors.kernel.mailbox import Mailbox, MailboxStatistics
from agent_actors.kernel.request import Request
from agent_actors.sessions import SessionState

T = TypeVar("T")

_LOG: Final = logging.getLogger(__name__)

# The maximum number of sessions in memory. Each costs about a kilobyte in addition to its records.
MAX_SESSIONS: Final = 1000
# Seconds that an idle session stays in memory, and seconds between two sweeps.
SESSION_TTL: Final = 3600.0
SWEEP_EVERY: Final = 300.0
# The number of sessions that were used most recently and keep everything that speeds up their next
# run. The memory of the other sessions is reduced.
_WARM: Final = 16
# The conversation of a session that is not warm stays encoded if it has more messages than this.
# Encoding a message again takes about 1.5 µs.
_SHORT: Final = 64
# The number of sessions in use that may be skipped when looking for a session to evict.
_LOOKS: Final = 32
# Time limit, in seconds, for one commit or one load.
STORE_TIMEOUT: Final = 10.0
# The number of seconds that a batch waits for more items, and the minimum size of the previous
# batch for it to wait at all. With a hundred concurrent sessions, this doubles the size of a batch.
# The time is negligible compared to a model call.
GATHER: Final = 0.004
CROWD: Final = 4


@attrs.frozen
class LogStatistics:
    """A snapshot of the log.

    Attributes:
        sessions: Sessions in memory.
        evicted: Sessions evicted so far, because space was needed or because they were idle.
        commits: Batches committed so far.
        records: Records committed so far.
        failures: Appends that failed so far.
        appends: Statistics of the committer's mailbox.
    """

    sessions: int
    evicted: int
    commits: int
    records: int
    failures: int
    appends: MailboxStatistics


@attrs.frozen(eq=False)
class _Append:
    loaded: CachedSession
    append: LogAppend
    request: Request[None]


@attrs.define(eq=False)
class OpenSession:
    """A session opened by the run that holds its lease.

    Attributes:
        session_id: The id of the session.
        state: The state built from its records; read-only.
    """

    session_id: str
    state: SessionState
    _loaded: CachedSession
    _fence: int
    _log: "SessionLog"
    _closed: bool = attrs.field(default=False, init=False)

    @property
    def is_instant(self) -> bool:
        """True if the store never waits, so that appending has no checkpoint."""
        return self._log.is_instant

    def history(self) -> Messages:
        """Return the conversation so far; always valid."""
        return self.state.history()

    async def append(self, scope: EventScope, drafts: Sequence[EventBuilder]) -> tuple[Event, ...]:
        """Commit all or none of the records, and apply them to the session's state.

        Returns:
            The events, with their `seq`.

        Raises:
            SessionStoreError: The append failed. Its outcome is unknown.
            SessionFenced: Another writer has appended records since this session was opened.

        Cancellation: an append that is not yet in a batch is withdrawn. Otherwise the call waits
        for it to finish, and returns if the commit succeeds.
        """
        return await self._log.append(self._loaded, self._fence, scope, drafts)

    def announce(self) -> bool:
        """Return True to the first caller each time that this runtime loads the session."""
        first, self._loaded.announced = not self._loaded.announced, True
        return first

    def note(self, metadata: dict[str, JsonValue]) -> None:
        """Record these metadata keys with the next commit, if they have changed."""
        self._loaded.note(metadata)

    async def append_lines(self, events: Sequence[AnyEvent], lines: Sequence[bytes]) -> None:
        """Commit all or none of the records, which are already serialised, without changing them.

        Args:
            events: The records, whose `seq` values must continue from the end of the log.
            lines: The JSON of each record, which may contain fields unknown to this version.

        Raises:
            SessionStoreError, SessionFenced: See `append`.

        Cancellation: see `append`.
        """
        await self._log.append_lines(self._loaded, self._fence, tuple(events), tuple(lines))

    def close(self) -> None:
        """Close the session at the end of the run. Idempotent."""
        if not self._closed:
            self._closed = True
            self._log.put_back(self._loaded)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AppendBatches(Generic[T]):
    """The batches from one mailbox.

    A single item does not wait. If the previous batch had several items and fewer are waiting now,
    the next batch waits a moment for others to join, because a batch costs almost the same for any
    number of items.

    Args:
        mailbox: A mailbox that has no other reader.
    """

    def __init__(self, mailbox: Mailbox[T]) -> None:
        self._mailbox = mailbox
        self._last = 0

    async def next(self) -> Sequence[T]:
        """Wait for an item, and return it with all other items that are waiting by then, in order.

        Raises:
            trio.EndOfChannel: The mailbox is empty and closed.

        Cancellation: items that were taken may be lost.
        """
        first = await self._mailbox.get()
        if self._last >= CROWD and self._mailbox.statistics().depth + 1 < self._last:
            await trio.sleep(GATHER)
        depth = self._mailbox.statistics().depth
        batch = [first, *[self._mailbox.get_nowait() for _ in range(depth)]]
        self._last = len(batch)
        return batch


class SessionLog:
    """The session log of one runtime.

    Args:
        store: The store for the records.
        ids: Makes event ids.
        wall_clock: Returns seconds since the epoch.
        is_held: Returns True for sessions with a run or a waiter, which are never evicted.
        max_sessions: The maximum number of sessions in memory.
        session_ttl: Seconds that an idle session stays in memory.
        store_timeout: Time limit, in seconds, for one commit or one load.
        on_evicted: Called with the id of each session that is evicted from memory.
        on_deleted: Called with the id of each session that is deleted.
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
        self.owner: ActorLoop = ActorLoop("session_log")
        self._store = store
        self._instant = instant_store(store)
        self._shared = is_shared(store)
        self._compacting = store if isinstance(store, CompactingStore) else None
        self._ids = ids
        self._wall_clock = wall_clock
        self._is_held = is_held
        self._max_sessions = max_sessions
        self._session_ttl = session_ttl
        self._store_timeout = store_timeout
        self._on_evicted = on_evicted
        self._on_deleted = on_deleted
        self._appends: Mailbox[_Append] = Mailbox(MAILBOX_CAPACITY)
        self._batches = AppendBatches(self._appends)
        self._loaded: OrderedDict[str, CachedSession] = OrderedDict()
        # The ids of the sessions whose runs ended most recently, the latest last.
        self._warm: OrderedDict[str, None] = OrderedDict()
        # The metadata that was recorded last. Most sessions have the same, so they share it.
        self._metadata: Mapping[str, JsonValue] | None = None
        self._sweeping = False
        self._evicted = self._commits = self._records = self._failures = 0

    @property
    def is_instant(self) -> bool:
        """True if the store never waits."""
        return self._instant is not None

    async def start(self) -> int:
        """Open the store, start the committer, and return the store's epoch.

        Raises:
            SessionStoreError: The store cannot be used.
        """
        epoch = await self._store.open()
        self.owner.start_background(self._commit_loop)
        return epoch

    async def open(self, lease: Lease) -> OpenSession:
        """Open the leased session, loading it if necessary, or creating it if it does not exist.

        Raises:
            SessionStoreError: The records cannot be read.

        Cancellation: safe; a cancelled call leaves nothing open.
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
        """Return the history of a session; None if the session is not in memory."""
        state = self.peek_state(session_id)
        return None if state is None else state.history()

    def peek_state(self, session_id: str) -> SessionState | None:
        """Return the read-only state of a session; None if the session is not in memory."""
        loaded = self._loaded.get(session_id)
        return loaded.state if loaded else None

    async def append(
        self, loaded: CachedSession, fence: int, scope: EventScope, drafts: Sequence[EventBuilder]
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
        self,
        loaded: CachedSession,
        fence: int,
        events: tuple[AnyEvent, ...],
        lines: tuple[bytes, ...],
    ) -> None:
        """Commit serialised records; for `OpenSession.append_lines`."""
        await self._submit(loaded, fence, events, lines)

    async def _submit(
        self,
        loaded: CachedSession,
        fence: int,
        events: tuple[AnyEvent, ...],
        lines: tuple[bytes, ...] | None,
    ) -> None:
        session_id = loaded.session_id
        if loaded.dirty:
            raise SessionStoreError(
                "the outcome of an earlier append in this run is unknown, "
                "so nothing more is written",
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
            pass  # the committer broke meanwhile; when the actor ends, the request fails
        except BaseException:
            request.cancel("never sent")
            raise
        await request.wait()

    def put_back(self, loaded: CachedSession) -> None:
        """Return a session at the end of a run; for `OpenSession.close`."""
        loaded.users -= 1
        loaded.last_used = trio.current_time()
        if not loaded.users:
            self._store.released(loaded.session_id)
            self._keep_warm(loaded.session_id)
        if not self._sweeping:
            with suppress(RuntimeFailure):  # an actor that has ended needs no sweep
                self.owner.start_background(self._sweep)
                self._sweeping = True

    def _keep_warm(self, session_id: str) -> None:
        """Keep a session warm in place of the session that was not used for the longest time."""
        warm = self._warm
        warm[session_id] = None
        warm.move_to_end(session_id)
        if len(warm) <= _WARM:
            return
        cold = self._loaded.get(warm.popitem(last=False)[0])
        if cold is None or cold.users:
            return
        if cold.state.size <= _SHORT:
            cold.state.memo.forget()
        if self._compacting is not None:
            self._compacting.compact(cold.session_id)

    async def delete(self, lease: Lease) -> None:
        """Delete the leased session from memory and from the store.

        Raises:
            SessionStoreError: The session could not be deleted, or the outcome is unknown.
            SessionBusy: Another process is using the session through the same store.

        Cancellation: safe; the session is either deleted or unchanged.
        """
        await self.owner.ask(partial(self._delete, lease.session_id))

    def forget(self, session_id: str) -> None:
        """If the store no longer has a session, drop it from memory, unless a run is using it."""
        loaded = self._loaded.get(session_id)
        if loaded is not None and self._is_idle(loaded):
            del self._loaded[session_id]
            self._on_deleted(session_id)

    def read_anew(self, session_id: str) -> None:
        """Drop a session from memory because its stored records have changed."""
        if session_id in self._loaded and not self._loaded[session_id].users:
            del self._loaded[session_id]

    async def aclose(self) -> None:
        """Close the store after the actor has ended. Idempotent."""
        await self._store.aclose()

    def statistics(self) -> LogStatistics:
        """Return a snapshot."""
        loaded, appends = len(self._loaded), self._appends.statistics()
        done = self._commits, self._records, self._failures
        return LogStatistics(loaded, self._evicted, *done, appends)

    # Load and evict sessions.

    async def _load(self, session_id: str, loaded: CachedSession | None) -> CachedSession:
        try:
            return await self._read(session_id, loaded)
        except BaseException:
            # A failed or cancelled read may have claimed the session.
            self._store.released(session_id)
            raise

    async def _read(self, session_id: str, loaded: CachedSession | None) -> CachedSession:
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
                f"the session could not be deleted: {error_text(error)}", session_id=session_id
            ) from error
        if limit.cancelled_caught:
            raise SessionStoreError(
                f"the store did not confirm the deletion within {self._store_timeout:g} s, so the "
                "session may or may not have been deleted; try again",
                session_id=session_id,
            )
        self._on_deleted(session_id)

    def _load_nowait(
        self, store: InstantStore, session_id: str, loaded: CachedSession | None
    ) -> CachedSession:
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
        # Evict the least recently used sessions first. A session in use is moved to the end. Only a
        # few sessions are checked, since otherwise each new session would check all of them when
        # all are in use.
        for loaded in tuple(islice(self._loaded.values(), excess + _LOOKS)):
            if self._is_idle(loaded):
                self._evict(loaded)
                excess -= 1
                if not excess:
                    return
            else:
                self._loaded.move_to_end(loaded.session_id)

    def _is_idle(self, loaded: CachedSession) -> bool:
        return not loaded.users and not self._is_held(loaded.session_id)

    def _evict(self, loaded: CachedSession) -> None:
        del self._loaded[loaded.session_id]
        self._store.evicted(loaded.session_id)
        self._on_evicted(loaded.session_id)
        if _LOG.isEnabledFor(logging.DEBUG):
            # The current code may belong to a run on another session.
            about = {"session_id": loaded.session_id}
            _LOG.debug("session %s is evicted from memory", loaded.session_id, extra=about)
        self._evicted += 1

    async def _sweep(self) -> None:
        # This task ends when no session is left, and is started again with the next session.
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

    # Commit records.

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
            return  # all requests have been withdrawn
        outcomes: Sequence[SessionError | None] = ()
        cause: Exception | None = None
        try:
            with trio.move_on_after(self._store_timeout):
                outcomes = await self._store.append([item.append for item in batch])
        except Exception as error:  # noqa: BLE001 - passed to every caller in the batch
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

    def _commit_nowait(self, store: InstantStore, loaded: CachedSession, append: LogAppend) -> None:
        self.owner.check_open()
        try:
            refusal = store.append_nowait(append)
        except Exception as error:  # noqa: BLE001 - passed to the caller, as in a batch
            refusal = unknown(loaded.session_id, error, self._store_timeout)
        self._commits += 1
        self._keep(loaded, append, refusal)
        if refusal is not None:
            raise refusal

    def _keep(self, loaded: CachedSession, append: LogAppend, refusal: SessionError | None) -> None:
        if refusal is not None:
            self._failures += 1
            loaded.dirty = True
            return
        loaded.take(append.events)
        if append.metadata is not None:
            if append.metadata != self._metadata:
                self._metadata = append.metadata
            loaded.noted, loaded.noting = self._metadata, None
        self._records += len(append.events)
