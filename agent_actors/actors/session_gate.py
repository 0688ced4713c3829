"""SessionGate: at most one run per session.

For each session, the gate owns the holder and the waiters. All it knows about a run is its id, its
place in the tree of runs, and how to stop it. Acquiring a free session is synchronous. If the
session is held, the policy of the arriving run decides. With `reject`, the call raises an error.
With all other policies, the run waits in one bounded queue. The queue is first come, first served,
except that runs that stop the holder (`interrupt`, `rollback`) go ahead of runs that wait for it to
end (`queue`, `steer`). If an interrupting run is queued behind a new holder that is itself an
interrupting run, the new holder is stopped immediately. The most recent request therefore wins, and
the prompts of the earlier runs stay in the history. The gate does not handle the input that `steer`
sends to a running holder.

Callers that keep interrupting cannot hold up a waiting run for ever: at most `MAX_OVERTAKES`
interrupting runs that arrived later go ahead of the first waiting run. When that run starts, the
interrupting runs that are queued behind it wait for it to end. It is stopped only by a run that
arrives later, or by a caller.

Every lease has a fencing number from one counter per runtime, so that a store can reject a writer
whose lease has passed to another run. An entry with a holder or a waiter is never dropped. An entry
with neither is removed immediately.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final, Literal, Self, TypeAlias

import attrs
import trio

from agent_actors.actors.run_tree import RunNode, SessionWait, find_wait_cycle
from agent_actors.domain.run import CancelReason
from agent_actors.errors import SessionBusy
from agent_actors.kernel.actor_loop import ActorLoop

_LOG: Final = logging.getLogger(__name__)

OnBusy: TypeAlias = Literal["reject", "queue", "interrupt", "rollback", "steer"]

# The reason for stopping the holder, by the policy of the arriving run.
_STOPS: Final[Mapping[OnBusy, CancelReason]] = MappingProxyType(
    {"interrupt": CancelReason.INTERRUPT, "rollback": CancelReason.ROLLBACK}
)

# Asks a holder to end, with a reason and an optional text. Synchronous; may be called repeatedly.
StopHolder: TypeAlias = Callable[[CancelReason, str], None]
# Reports to a waiter its position, counted from 1, and the holder's run id. Synchronous.
OnPositionChange: TypeAlias = Callable[[int, str], None]

# The maximum number of later interrupting runs that may go ahead of the first waiting run.
MAX_OVERTAKES: Final = 8

# The maximum number of waiting runs. Further runs are rejected immediately, so that they do not
# pile up.
QUEUE_CAPACITY: Final = 100


@attrs.frozen
class GateStatistics:
    """A snapshot of the gate.

    Attributes:
        held: The number of sessions that a run holds.
        waiting: The number of runs that are waiting for their session.
        rejected: The number of runs rejected with `SessionBusy` so far.
        stopped: The number of times that a run or a caller has asked a holder to end.
    """

    held: int
    waiting: int
    rejected: int
    stopped: int = 0


@attrs.define(eq=False)
class Lease:
    """The right to use one session, until the lease is released.

    Attributes:
        session_id: The session.
        run_id: The run that holds the lease.
        fence: The fencing number, which grows with every lease of the runtime.
        node: The run's node in the tree of runs; None if the lease is not for a run.
    """

    session_id: str
    run_id: str
    fence: int
    _gate: "SessionGate"
    _stop: StopHolder | None = None
    node: RunNode | None = None
    _released: bool = attrs.field(default=False, init=False)

    def release(self) -> None:
        """Pass the session to the next waiter. Idempotent."""
        if not self._released:
            self._released = True
            self._gate.release_to_next(self.session_id)

    def stop(self, reason: CancelReason, why: str) -> None:
        """Ask the holder to end; a holder without a stop function will end soon anyway."""
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
    stop: StopHolder | None
    moved: OnPositionChange | None
    node: RunNode | None
    granted: trio.Event = attrs.field(factory=trio.Event)
    lease: Lease | None = None
    # The waiter's sequence number among all waiters for its session, from 1.
    arrival: int = 0


@attrs.define(eq=False)
class _Entry:
    holder: Lease
    # Runs that stop the holder, and runs that wait for it to end; both in order of arrival.
    stoppers: list[_Waiter] = attrs.field(factory=list[_Waiter])
    others: list[_Waiter] = attrs.field(factory=list[_Waiter])
    arrivals: int = 0
    # The number of later stoppers that have gone ahead of the first of `others`.
    overtakes: int = 0

    def join(self, waiter: _Waiter) -> None:
        self.arrivals += 1
        waiter.arrival = self.arrivals
        (self.others if waiter.stops is None else self.stoppers).append(waiter)

    def leave(self, waiter: _Waiter) -> None:
        if waiter.stops is not None:
            self.stoppers.remove(waiter)
            return
        if waiter is self.others[0]:
            self.overtakes = 0
        self.others.remove(waiter)

    def waiters(self) -> list[_Waiter]:
        """Return the waiters in the order in which they would currently acquire the session."""
        order: list[_Waiter] = []
        stoppers, overtakes = deque(self.stoppers), self.overtakes
        for other in self.others:
            while stoppers and (stoppers[0].arrival < other.arrival or overtakes < MAX_OVERTAKES):
                overtakes += stoppers[0].arrival > other.arrival
                order.append(stoppers.popleft())
            order.append(other)
            overtakes = 0
        return [*order, *stoppers]

    def pop(self) -> _Waiter:
        """Remove and return the next waiter."""
        waiter = self.waiters()[0]
        self.leave(waiter)
        if waiter.stops is not None and self.others:
            self.overtakes += waiter.arrival > self.others[0].arrival
        return waiter


class SessionGate:
    """The gate of one runtime.

    Args:
        first_fence: The fencing number of the first lease.
        queue_capacity: The maximum number of runs that may wait for one session.
    """

    def __init__(self, *, first_fence: int = 1, queue_capacity: int = QUEUE_CAPACITY) -> None:
        self.owner: ActorLoop = ActorLoop("session_gate")
        self._next_fence = first_fence
        self._queue_capacity = queue_capacity
        self._entries: dict[str, _Entry] = {}
        self._waiting = 0
        self._rejected = 0
        self._stopped = 0

    def start_fences_at(self, fence: int) -> None:
        """Continue from a higher fencing number, which the store's epoch determines."""
        self._next_fence = max(self._next_fence, fence)

    def holder(self, session_id: str) -> str | None:
        """Return the run that holds the session; None if the session is free."""
        entry = self._entries.get(session_id)
        return entry.holder.run_id if entry else None

    def is_busy(self, session_id: str) -> bool:
        """Return whether a run holds the session."""
        return session_id in self._entries

    def acquire_nowait(
        self,
        session_id: str,
        run_id: str,
        *,
        ancestors: Collection[str] = (),
        stop: StopHolder | None = None,
        node: RunNode | None = None,
    ) -> Lease:
        """Acquire the session if it is free.

        Args:
            session_id: The session.
            run_id: The run that acquires it.
            ancestors: The sessions that the run's ancestors hold.
            stop: Asks this run to end, once it holds the session; None if it will end soon anyway.
            node: The run's node in the tree of runs; None if the lease is not for a run.

        Raises:
            SessionBusy: Another run holds the session; the error names it.
        """
        entry = self._entries.get(session_id)
        if entry is not None:
            raise self._busy(session_id, entry, ancestors)
        lease = self._grant(session_id, run_id, stop, node)
        self._entries[session_id] = _Entry(lease)
        return lease

    async def acquire(
        self,
        session_id: str,
        run_id: str,
        *,
        on_busy: OnBusy = "reject",
        ancestors: Collection[str] = (),
        stop: StopHolder | None = None,
        moved: OnPositionChange | None = None,
        node: RunNode | None = None,
    ) -> Lease:
        """Acquire the session; if another run holds it, follow the policy.

        Args:
            session_id: The session.
            run_id: The run that acquires it.
            on_busy: `reject` raises an error; `queue` and `steer` wait in the queue; `interrupt`
                and `rollback` stop the holder and wait ahead of runs that only wait.
            ancestors: The sessions that the run's ancestors hold. Waiting for one of them would be
                a deadlock, so it is rejected under every policy.
            stop: Asks this run to end, once it holds the session; None if it will end soon anyway.
            moved: Called with the position in the queue, initially and after every change; None for
                no notification.
            node: The run's node in the tree of runs; None if the lease is not for a run.

        Raises:
            SessionBusy: The session is held, and the run may not wait because of the policy, its
                ancestors or a full queue; or the runs would wait for each other, directly or
                through runs on other sessions. The last reason does not apply to a run that stops
                the holder, since it breaks the cycle.

        Cancellation: safe; a lease that was granted in the same tick as the cancellation is
            returned. A holder that was asked to end still ends.
        """
        entry = self._entries.get(session_id)
        if entry is None or on_busy == "reject" or session_id in ancestors:
            return self.acquire_nowait(
                session_id, run_id, ancestors=ancestors, stop=stop, node=node
            )
        waiting = len(entry.stoppers) + len(entry.others)
        if waiting >= self._queue_capacity:
            self._rejected += 1
            raise SessionBusy(
                session_id=session_id,
                run_id=entry.holder.run_id,
                reason=f"and {waiting} runs are already waiting; try again later",
            )
        waiter = _Waiter(run_id, _STOPS.get(on_busy), stop, moved, node)
        if node is None:
            return await self._queue_up(session_id, entry, waiter)
        with SessionWait(node, session_id, partial(self._holding_run, session_id)) as wait:
            cycle = () if waiter.stops is not None else find_wait_cycle(wait)
            if cycle:
                raise self._deadlock(session_id, entry, cycle)
            return await self._queue_up(session_id, entry, waiter)

    async def _queue_up(self, session_id: str, entry: _Entry, waiter: _Waiter) -> Lease:
        entry.join(waiter)
        self._waiting += 1
        _note(session_id, waiter.run_id, "waits for run %s", entry.holder.run_id)
        try:
            if waiter.stops is not None:
                self._tell_stop(entry.holder, waiter.stops)
            _tell_places(entry, entry.waiters().index(waiter))
            return await self.owner.ask(lambda: self._wait_for(waiter))
        except BaseException:
            self._withdraw(session_id, waiter)
            raise

    def stop(
        self, session_id: str, reason: CancelReason, why: str, *, ancestors: Collection[str] = ()
    ) -> str | None:
        """Ask the run that holds the session to end.

        Args:
            session_id: The session.
            reason: The reason, which is passed to the run.
            why: The reason as free text; may be empty.
            ancestors: The sessions that the ancestors of the caller hold.

        Returns:
            The id of the run; None if the session is free.

        Raises:
            SessionBusy: An ancestor holds the session.
        """
        entry = self._entries.get(session_id)
        if entry is None:
            return None
        if session_id in ancestors:
            raise self._busy(session_id, entry, ancestors)
        self._tell_stop(entry.holder, reason, why)
        return entry.holder.run_id

    def release_to_next(self, session_id: str) -> None:
        """Grant the session to the next waiter, after its holder has ended; for `Lease.release`."""
        entry = self._entries[session_id]
        _note(session_id, entry.holder.run_id, "released the lease")
        if not entry.stoppers and not entry.others:
            del self._entries[session_id]
            return
        waiter = entry.pop()
        self._waiting -= 1
        entry.holder = waiter.lease = self._grant(
            session_id, waiter.run_id, waiter.stop, waiter.node
        )
        waiter.granted.set()
        # A run that was overtaken too often must not be stopped by the next runs that would
        # overtake it.
        stops = entry.stoppers[0].stops if entry.stoppers else None
        if waiter.stops is not None and stops is not None:
            self._tell_stop(waiter.lease, stops)
        _tell_places(entry, 0)

    def statistics(self) -> GateStatistics:
        """Return a snapshot."""
        return GateStatistics(
            held=len(self._entries),
            waiting=self._waiting,
            rejected=self._rejected,
            stopped=self._stopped,
        )

    async def _wait_for(self, waiter: _Waiter) -> Lease:
        await waiter.granted.wait()
        assert waiter.lease is not None  # set by `release_to_next` before the event is set
        return waiter.lease

    def _withdraw(self, session_id: str, waiter: _Waiter) -> None:
        if waiter.lease is not None:
            waiter.lease.release()
        else:
            entry = self._entries[session_id]
            place = entry.waiters().index(waiter)
            entry.leave(waiter)
            self._waiting -= 1
            _tell_places(entry, place)

    def _tell_stop(self, holder: Lease, reason: CancelReason, why: str = "") -> None:
        self._stopped += 1
        _note(holder.session_id, holder.run_id, "is asked to stop (%s)", reason.value)
        holder.stop(reason, why)

    def _grant(
        self, session_id: str, run_id: str, stop: StopHolder | None, node: RunNode | None
    ) -> Lease:
        lease = Lease(session_id, run_id, self._next_fence, self, stop, node)
        self._next_fence += 1
        _note(session_id, run_id, "holds the lease with fence %d", lease.fence)
        return lease

    def _holding_run(self, session_id: str) -> RunNode | None:
        entry = self._entries.get(session_id)
        return entry.holder.node if entry else None

    def _deadlock(self, session_id: str, entry: _Entry, cycle: tuple[str, ...]) -> SessionBusy:
        self._rejected += 1
        sessions = " -> ".join(map(repr, cycle))
        return SessionBusy(
            session_id=session_id,
            run_id=entry.holder.run_id,
            reason=(
                "waiting for the session would deadlock, because each of these sessions is waiting "
                f"for the next: {sessions}; use another session, or on_busy='interrupt'"
            ),
        )

    def _busy(self, session_id: str, entry: _Entry, ancestors: Collection[str]) -> SessionBusy:
        self._rejected += 1
        reason = ""
        if session_id in ancestors:
            reason = (
                "the current run is a descendant of that run, so waiting would deadlock; "
                "use another session"
            )
        return SessionBusy(session_id=session_id, run_id=entry.holder.run_id, reason=reason)


def _note(session_id: str, run_id: str, message: str, *values: object) -> None:
    """Log an event of a lease, which may concern a run other than the current one."""
    if _LOG.isEnabledFor(logging.DEBUG):
        ids = {"session_id": session_id, "run_id": run_id}
        _LOG.debug(f"session %s: run %s {message}", session_id, run_id, *values, extra=ids)


def _tell_places(entry: _Entry, first: int) -> None:
    """Report their positions to the waiters, starting at this position, counted from 0."""
    for place, waiter in enumerate(entry.waiters()[first:], first + 1):
        if waiter.moved is not None:
            waiter.moved(place, entry.holder.run_id)
