"""SessionGate: at most one run per session.

Owns, per session, who holds it and who waits. It does not know what a run is, beyond its id. An
uncontended acquire is synchronous; a second run gets its policy: `reject` raises, `queue` waits
in line, first come first served and bounded. Every lease carries a fencing number from one
counter per runtime, so that a store can refuse a writer whose lease has passed on. An entry with
a holder or a waiter is never dropped; one without is gone at once.
"""

from collections.abc import Collection
from typing import Final, Literal, Self, TypeAlias

import attrs
import trio

from agent_actors.actors._owner import Owner
from agent_actors.errors import SessionBusy

OnBusy: TypeAlias = Literal["reject", "queue"]

# Beyond this a session's callers are told at once, instead of piling up behind a run.
QUEUE_CAPACITY: Final = 100


@attrs.frozen
class GateStatistics:
    """A snapshot of the gate.

    Attributes:
        held: Sessions with a run.
        waiting: Runs that wait for theirs.
        rejected: Runs that were told `SessionBusy` so far.
    """

    held: int
    waiting: int
    rejected: int


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
    _released: bool = attrs.field(default=False, init=False)

    def release(self) -> None:
        """Pass the session on to whoever is next. Idempotent."""
        if not self._released:
            self._released = True
            self._gate.pass_on(self.session_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


@attrs.define(eq=False)
class _Waiter:
    run_id: str
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
        self, session_id: str, run_id: str, *, ancestors: Collection[str] = ()
    ) -> Lease:
        """Take the session if it is free.

        Args:
            session_id: The session.
            run_id: Who takes it.
            ancestors: The sessions that the run's ancestors hold.

        Raises:
            SessionBusy: It is held; names the run that holds it.
        """
        entry = self._entries.get(session_id)
        if entry is not None:
            raise self._busy(session_id, entry, ancestors)
        lease = self._grant(session_id, run_id)
        self._entries[session_id] = _Entry(lease)
        return lease

    async def acquire(
        self,
        session_id: str,
        run_id: str,
        *,
        on_busy: OnBusy = "reject",
        ancestors: Collection[str] = (),
    ) -> Lease:
        """Take the session, by policy if it is held.

        Args:
            session_id: The session.
            run_id: Who takes it.
            on_busy: `reject` raises; `queue` waits in line.
            ancestors: The sessions that the run's ancestors hold: waiting for one of these
                would be waiting for oneself, and is refused under every policy.

        Raises:
            SessionBusy: It is held, and the policy, the ancestry or the length of the queue
                forbids to wait.

        Cancellation: safe; a lease that was granted in the very tick of the cancel is returned.
        """
        entry = self._entries.get(session_id)
        if entry is None or on_busy == "reject" or session_id in ancestors:
            return self.acquire_nowait(session_id, run_id, ancestors=ancestors)
        if len(entry.waiters) >= self._queue_capacity:
            self._rejected += 1
            raise SessionBusy(
                session_id=session_id,
                run_id=entry.holder.run_id,
                reason=f"and {len(entry.waiters)} runs wait already; try again later",
            )
        waiter = _Waiter(run_id)
        entry.waiters.append(waiter)
        self._waiting += 1
        try:
            return await self.owner.ask(lambda: self._wait_for(waiter))
        except BaseException:
            self._withdraw(session_id, waiter)
            raise

    def pass_on(self, session_id: str) -> None:
        """The holder is done: grant the session to the next in line. For `Lease.release`."""
        entry = self._entries[session_id]
        if not entry.waiters:
            del self._entries[session_id]
            return
        waiter = entry.waiters.pop(0)
        self._waiting -= 1
        entry.holder = waiter.lease = self._grant(session_id, waiter.run_id)
        waiter.granted.set()

    def statistics(self) -> GateStatistics:
        """A snapshot."""
        return GateStatistics(
            held=len(self._entries), waiting=self._waiting, rejected=self._rejected
        )

    async def _wait_for(self, waiter: _Waiter) -> Lease:
        await waiter.granted.wait()
        assert waiter.lease is not None  # set before the event, by `pass_on`
        return waiter.lease

    def _withdraw(self, session_id: str, waiter: _Waiter) -> None:
        if waiter.lease is not None:
            waiter.lease.release()
        else:
            self._entries[session_id].waiters.remove(waiter)
            self._waiting -= 1

    def _grant(self, session_id: str, run_id: str) -> Lease:
        lease = Lease(session_id, run_id, self._next_fence, self)
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
