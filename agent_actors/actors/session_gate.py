"""SessionGate: at most one run per session.

Owns, per session, who holds it and who waits. It does not know what a run is, beyond its id and
how to stop it. An uncontended acquire is synchronous; a second run gets its policy: `reject`
raises; all others wait in one line, which is bounded, and first come, first served but for one
rule: those that stop the holder (`interrupt`, `rollback`) stand before those that wait for it
(`queue`, `steer`). Who gets the session while another that stops stands behind it is stopped at
once: the last word wins, and none before it is lost. What is said to the holder meanwhile is not
known here.

Every lease carries a fencing number from one counter per runtime, so that a store can refuse a
writer whose lease has passed on. An entry with a holder or a waiter is never dropped; one without
is gone at once.
"""

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Final, Literal, Self, TypeAlias

import attrs
import trio

from agent_actors.domain.run import CancelReason
from agent_actors.errors import SessionBusy
from agent_actors.kernel.actor_loop import Owner

OnBusy: TypeAlias = Literal["reject", "queue", "interrupt", "rollback", "steer"]

# What the holder is told, by the policy of the run that comes.
_STOPS: Final[Mapping[OnBusy, CancelReason]] = MappingProxyType(
    {"interrupt": CancelReason.INTERRUPT, "rollback": CancelReason.ROLLBACK}
)

# Tells a holder to end, and in somebody's words why; synchronous, and heard more than once.
Stop: TypeAlias = Callable[[CancelReason, str], None]
# Tells a waiter its place, from 1, and who holds the session; synchronous.
Moved: TypeAlias = Callable[[int, str], None]

# Beyond this a session's callers are told at once, instead of piling up behind a run.
QUEUE_CAPACITY: Final = 100


@attrs.frozen
class GateStatistics:
    """A snapshot of the gate.

    Attributes:
        held: Sessions with a run.
        waiting: Runs that wait for theirs.
        rejected: Runs that were told `SessionBusy` so far.
        stopped: Times that a holder was told to end so far, by runs and by callers.
    """

    held: int
    waiting: int
    rejected: int
    stopped: int = 0


@attrs.define(eq=False)
class Lease:
    """The right to run one session, until released.

    Attributes:
        session_id: The session.
        run_id: Who holds it.
        fence: Grows with every lease of the runtime.
    """

    session_id: str
    run_id: str
    fence: int
    _gate: "SessionGate"
    _stop: Stop | None = None
    _released: bool = attrs.field(default=False, init=False)

    def release(self) -> None:
        """Pass the session on to whoever is next. Idempotent."""
        if not self._released:
            self._released = True
            self._gate.pass_on(self.session_id)

    def stop(self, reason: CancelReason, why: str) -> None:
        """Tell the holder to end; one that is over soon anyway cannot be told."""
        if self._stop is not None:
            self._stop(reason, why)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


@attrs.define(eq=False)
class _Waiter:
    run_id: str
    stops: CancelReason | None
    stop: Stop | None
    moved: Moved | None
    granted: trio.Event = attrs.field(factory=trio.Event)
    lease: Lease | None = None


@attrs.define(eq=False)
class _Entry:
    holder: Lease
    waiters: list[_Waiter] = attrs.field(factory=list[_Waiter])


class SessionGate:
    """The gate of one runtime.

    Args:
        first_fence: The fencing number of the first lease.
        queue_capacity: How many runs may wait for one session.
    """

    def __init__(self, *, first_fence: int = 1, queue_capacity: int = QUEUE_CAPACITY) -> None:
        self.owner: Owner = Owner("session_gate")
        self._next_fence = first_fence
        self._queue_capacity = queue_capacity
        self._entries: dict[str, _Entry] = {}
        self._waiting = 0
        self._rejected = 0
        self._stopped = 0

    def start_fences_at(self, fence: int) -> None:
        """Go on from a higher fencing number: that of the store's epoch."""
        self._next_fence = max(self._next_fence, fence)

    def holder(self, session_id: str) -> str | None:
        """The run that holds the session; None if it is free."""
        entry = self._entries.get(session_id)
        return entry.holder.run_id if entry else None

    def is_busy(self, session_id: str) -> bool:
        """True while a run holds the session."""
        return session_id in self._entries

    def acquire_nowait(
        self,
        session_id: str,
        run_id: str,
        *,
        ancestors: Collection[str] = (),
        stop: Stop | None = None,
    ) -> Lease:
        """Take the session if it is free.

        Args:
            session_id: The session.
            run_id: Who takes it.
            ancestors: The sessions that the run's ancestors hold.
            stop: How to stop whoever takes it; None: it is over soon anyway.

        Raises:
            SessionBusy: It is held; names the run that holds it.
        """
        entry = self._entries.get(session_id)
        if entry is not None:
            raise self._busy(session_id, entry, ancestors)
        lease = self._grant(session_id, run_id, stop)
        self._entries[session_id] = _Entry(lease)
        return lease

    async def acquire(
        self,
        session_id: str,
        run_id: str,
        *,
        on_busy: OnBusy = "reject",
        ancestors: Collection[str] = (),
        stop: Stop | None = None,
        moved: Moved | None = None,
    ) -> Lease:
        """Take the session, by policy if it is held.

        Args:
            session_id: The session.
            run_id: Who takes it.
            on_busy: `reject` raises; `queue` and `steer` wait in line; `interrupt` and `rollback`
                stop the holder, and wait before those.
            ancestors: The sessions that the run's ancestors hold: waiting for one of these
                would be waiting for oneself, and is refused under every policy.
            stop: How to stop whoever takes it, as soon as it holds the session.
            moved: Told its place in line at first and whenever that changes; None: nobody.

        Raises:
            SessionBusy: It is held, and the policy, the ancestry or the length of the queue
                forbids to wait.

        Cancellation: safe; a lease that was granted in the very tick of the cancel is returned.
            A holder that was told to end is ended all the same.
        """
        entry = self._entries.get(session_id)
        if entry is None or on_busy == "reject" or session_id in ancestors:
            return self.acquire_nowait(session_id, run_id, ancestors=ancestors, stop=stop)
        if len(entry.waiters) >= self._queue_capacity:
            self._rejected += 1
            raise SessionBusy(
                session_id=session_id,
                run_id=entry.holder.run_id,
                reason=f"and {len(entry.waiters)} runs wait already; try again later",
            )
        waiter = _Waiter(run_id, _STOPS.get(on_busy), stop, moved)
        place = len(entry.waiters)
        if waiter.stops is not None:
            place = sum(1 for other in entry.waiters if other.stops is not None)
        entry.waiters.insert(place, waiter)
        self._waiting += 1
        try:
            if waiter.stops is not None:
                self._tell_stop(entry.holder, waiter.stops)
            _tell_places(entry, place)
            return await self.owner.ask(lambda: self._wait_for(waiter))
        except BaseException:
            self._withdraw(session_id, waiter)
            raise

    def stop(
        self, session_id: str, reason: CancelReason, why: str, *, ancestors: Collection[str] = ()
    ) -> str | None:
        """Tell the run that holds the session to end.

        Args:
            session_id: The session.
            reason: Why, for the run.
            why: Why, in somebody's words; may be empty.
            ancestors: The sessions that the ancestors of whoever calls hold.

        Returns:
            The run; None if the session is free.

        Raises:
            SessionBusy: An ancestor holds it.
        """
        entry = self._entries.get(session_id)
        if entry is None:
            return None
        if session_id in ancestors:
            raise self._busy(session_id, entry, ancestors)
        self._tell_stop(entry.holder, reason, why)
        return entry.holder.run_id

    def pass_on(self, session_id: str) -> None:
        """The holder is done: grant the session to the next in line. For `Lease.release`."""
        entry = self._entries[session_id]
        if not entry.waiters:
            del self._entries[session_id]
            return
        waiter = entry.waiters.pop(0)
        self._waiting -= 1
        entry.holder = waiter.lease = self._grant(session_id, waiter.run_id, waiter.stop)
        waiter.granted.set()
        if entry.waiters and entry.waiters[0].stops is not None:
            self._tell_stop(waiter.lease, entry.waiters[0].stops)
        _tell_places(entry, 0)

    def statistics(self) -> GateStatistics:
        """A snapshot."""
        return GateStatistics(
            held=len(self._entries),
            waiting=self._waiting,
            rejected=self._rejected,
            stopped=self._stopped,
        )

    async def _wait_for(self, waiter: _Waiter) -> Lease:
        await waiter.granted.wait()
        assert waiter.lease is not None  # set before the event, by `pass_on`
        return waiter.lease

    def _withdraw(self, session_id: str, waiter: _Waiter) -> None:
        if waiter.lease is not None:
            waiter.lease.release()
        else:
            entry = self._entries[session_id]
            place = entry.waiters.index(waiter)
            del entry.waiters[place]
            self._waiting -= 1
            _tell_places(entry, place)

    def _tell_stop(self, holder: Lease, reason: CancelReason, why: str = "") -> None:
        self._stopped += 1
        holder.stop(reason, why)

    def _grant(self, session_id: str, run_id: str, stop: Stop | None) -> Lease:
        lease = Lease(session_id, run_id, self._next_fence, self, stop)
        self._next_fence += 1
        return lease

    def _busy(self, session_id: str, entry: _Entry, ancestors: Collection[str]) -> SessionBusy:
        self._rejected += 1
        reason = ""
        if session_id in ancestors:
            reason = (
                "this run is a descendant of it, and would wait for itself; use another session"
            )
        return SessionBusy(session_id=session_id, run_id=entry.holder.run_id, reason=reason)


def _tell_places(entry: _Entry, first: int) -> None:
    """Tell those in line from this place on, counted from 0, where they stand."""
    for place, waiter in enumerate(entry.waiters[first:], first + 1):
        if waiter.moved is not None:
            waiter.moved(place, entry.holder.run_id)
