"""The relations between runs: ancestors, waits for sessions, and slots lent to child runs.

Every trio task and trio thread that a tool starts inherits two context variables: the current run,
and the current tool call. While a call waits for a child run, it does no work of its own. It
therefore releases its slots, so that nested runs under one limit cannot starve each other. Before
the call continues, it acquires the slots again, ahead of other waiters.

A child run may wait for a session that another run holds. If the other run in turn waits, through
its own child runs, for a session that an ancestor of the first child run holds, neither run can
continue. Therefore every such wait is registered with the ancestors of the waiting run, and
`find_wait_cycle` finds the cycle. The nodes are shared by all runtimes in the process, so a cycle
may span several runtimes.

A tool may also call other tools of its own run. While such an inner call runs, the outer call lends
its slots, and its place in the order of shared and exclusive calls. Otherwise an exclusive inner
call would wait for its own outer call.
"""

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from itertools import islice
from types import TracebackType
from typing import Final, Self

import attrs
import trio

from agent_actors.kernel.fair_limiter import FairLimiter
from agent_actors.kernel.pausable_deadline import PausableDeadline, TrioRunRef
from agent_actors.kernel.shared_exclusive_lock import SharedExclusiveLock

MAX_CALL_DEPTH: Final = 8
"""Maximum number of calls inside each other, not counting the model's own call."""


@attrs.define(eq=False)
class RunNode:
    """A run and its ancestors.

    Attributes:
        session_id: The session that the run holds.
        run_id: The id of the run.
        runtime: The runtime of the run; only compared by identity.
        parent: The run whose tool started this run; None for a root run.
        call: The parent's tool call that started this run; None for a root run, or if a hook
            started it.
        home: The trio run that executes the run; None until the run begins.
        waits: The session waits of all descendants of this run.
    """

    session_id: str
    run_id: str
    runtime: object
    parent: "RunNode | None" = None
    call: "CallSlots | None" = None
    home: TrioRunRef | None = attrs.field(default=None, init=False)
    # Usually empty; a set would cost each run 200 bytes.
    waits: "list[SessionWait]" = attrs.field(factory=list["SessionWait"], init=False)

    def lineage(self) -> "Iterator[RunNode]":
        """Yield this run and its ancestors, innermost first."""
        node: RunNode | None = self
        while node is not None:
            yield node
            node = node.parent

    def pause_deadlines(self) -> None:
        """Pause the deadlines of this run and its ancestors while a person is asked a question."""
        for node in self.lineage():
            if node.home is not None:
                node.home.run_sync(node.home.deadline.pause)
            if node.call is not None and node.parent is not None and node.parent.home is not None:
                node.parent.home.run_sync(node.call.pause_deadlines)

    def resume_deadlines(self) -> None:
        """Resume the deadlines; must be called once for each call to `pause_deadlines`."""
        for node in self.lineage():
            if node.home is not None:
                node.home.run_sync(node.home.deadline.resume)
            if node.call is not None and node.parent is not None and node.parent.home is not None:
                node.parent.home.run_sync(node.call.resume_deadlines)


@attrs.define(eq=False)
class CallSlots:
    """The slots that one call holds, which are released in reverse order of acquisition.

    Attributes:
        call_id: The id of the call.
        scope: The scope with the call's deadline, once the call is running; None if the call has no
            deadline.
        outer: The call whose tool made this call with `call_tool`; None if the model made it.
        ended: True if the call has an outcome. A run that the call started may still be alive.
        untrusted: True if a run or a call that this call started received content from outside.
    """

    call_id: str
    scope: trio.CancelScope | None = attrs.field(default=None, init=False)
    outer: "CallSlots | None" = attrs.field(default=None, init=False)
    ended: bool = attrs.field(default=False, init=False)
    untrusted: bool = attrs.field(default=False, init=False)
    # Created on demand, since few calls start a run that asks a question.
    _deadline: PausableDeadline | None = attrs.field(default=None, init=False)
    _held: list[tuple[FairLimiter, str | None]] = attrs.field(
        factory=list[tuple[FairLimiter, "str | None"]], init=False
    )
    _finally: list[Callable[[], None]] = attrs.field(factory=list[Callable[[], None]], init=False)
    _borrowers: int = attrs.field(default=0, init=False)
    _lent: bool = attrs.field(default=False, init=False)
    _taking: trio.Event | None = attrs.field(default=None, init=False)

    def pause_deadlines(self) -> None:
        """Pause the deadlines of this call and its outer calls while a person is asked."""
        if self.outer is not None:
            self.outer.pause_deadlines()
        if self._deadline is None and self.scope is not None:
            self._deadline = PausableDeadline(self.scope)
        if self._deadline is not None:
            self._deadline.pause()

    def resume_deadlines(self) -> None:
        """Resume the deadlines; must be called once for each call to `pause_deadlines`."""
        if self.outer is not None:
            self.outer.resume_deadlines()
        if self._deadline is not None:
            self._deadline.resume()

    async def take(self, slots: FairLimiter, key: str | None) -> None:
        """Acquire a slot that is lent while the call waits for a child run.

        Cancellation: safe; a cancelled call acquires nothing.
        """
        await slots.acquire(key)
        self._held.append((slots, key))

    def take_nowait(self, slots: FairLimiter, key: str | None) -> bool:
        """Acquire such a slot if one is free, and return whether it was acquired."""
        if not slots.take_nowait(key):
            return False
        self._held.append((slots, key))
        return True

    def at_end(self, release: Callable[[], None]) -> None:
        """Call `release` at the end of the call; for resources that are not lent."""
        self._finally.append(release)

    def release_all(self) -> None:
        """Release all slots, and call the functions passed to `at_end`."""
        if not self._lent:
            self._give_back()
        self._held.clear()
        while self._finally:
            self._finally.pop()()

    def lend(self) -> None:
        """Release the slots because a child run begins."""
        self._borrowers += 1
        if not self._lent:
            self._lent = True
            self._give_back()

    async def take_again(self) -> None:
        """If the last child run has ended, acquire the slots again, ahead of other waiters.

        Cancellation: safe; the call then continues to its end without its slots.
        """
        self._borrowers -= 1
        while self._lent and not self._borrowers:
            if self._taking is None:
                await self._take_all()
            else:  # if two tasks acquired slots at once, a limit of one would deadlock
                await self._taking.wait()

    async def _take_all(self) -> None:
        self._taking = taking = trio.Event()
        taken: list[tuple[FairLimiter, str | None]] = []
        try:
            for slots, key in self._held:
                await slots.acquire(key, first=True)
                taken.append((slots, key))
            if not self._borrowers:  # otherwise another child run has begun in the meantime
                self._lent = False
                taken.clear()
        finally:
            self._taking = None
            taking.set()
            for slots, key in reversed(taken):
                slots.release(key)

    def _give_back(self) -> None:
        for slots, key in reversed(self._held):
            slots.release(key)


@attrs.frozen(eq=False)
class SessionWait:
    """One run's wait for a session that another run holds; use it with `with`.

    Attributes:
        node: The waiting run.
        session_id: The session.
        holder: Returns the run that holds the session; None if it is not known.
    """

    node: RunNode
    session_id: str
    holder: Callable[[], RunNode | None]

    def __enter__(self) -> Self:
        for ancestor in self._ancestors():
            ancestor.waits.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        for ancestor in self._ancestors():
            ancestor.waits.remove(self)

    def blocks(self, run: RunNode) -> bool:
        """Return whether a run cannot end before this wait ends.

        This is true for the ancestors of the waiting run, unless the call in between has ended,
        since such a call no longer waits for the runs that it started.
        """
        node = self.node
        while node is not run:
            if node.parent is None or (node.call is not None and node.call.ended):
                return False
            node = node.parent
        return True

    def _ancestors(self) -> Iterator[RunNode]:
        return islice(self.node.lineage(), 1, None)


def find_wait_cycle(wait: SessionWait) -> tuple[str, ...]:
    """Return the sessions in the cycle that a wait would close; empty if it closes none.

    Each session waits for the next one. The first and the last are the same session.
    """
    # A depth-first search. Each entry is a wait to follow and the sessions that lead to it.
    paths: list[tuple[SessionWait, tuple[str, ...]]] = [(wait, (wait.session_id,))]
    seen: set[RunNode] = set()
    while paths:
        last, path = paths.pop()
        holder = last.holder()
        if holder is None or holder in seen:
            continue
        if wait.blocks(holder):
            return (holder.session_id, *path)
        seen.add(holder)
        # Iterate over a copy, because a run in another thread may begin or end a wait in the
        # meantime.
        below = (inner for inner in tuple(holder.waits) if inner.blocks(holder))
        paths += [(inner, (*path, inner.session_id)) for inner in below]
    return ()


current_run: Final[ContextVar[RunNode | None]] = ContextVar("agent_actors_run", default=None)
current_call: Final[ContextVar[CallSlots | None]] = ContextVar("agent_actors_call", default=None)


class slots_lent:  # noqa: N801 - reads as a statement: `async with lending(call):`
    """Lend a call's slots for the duration of a block; does nothing for None.

    Cancellation: safe, see `CallSlots.take_again`.
    """

    def __init__(self, call: CallSlots | None) -> None:
        self._call = call

    async def __aenter__(self) -> None:
        if self._call is not None:
            self._call.lend()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._call is None:
            return
        try:
            await self._call.take_again()  # noqa: ASYNC102 - a cancellation must end this wait
        except trio.Cancelled:  # noqa: ASYNC103 - the exception of the body is raised instead
            if exc is None:
                raise
            # The exception of the body is more important. The cancellation is raised again at the
            # next checkpoint.


@attrs.define(eq=False)
class InnerCalls:
    """The inner calls of one call; use it with `async with` around each of them.

    Args:
        depth: The number of calls around these inner calls.
        turns: The lock that orders the outer call. The inner calls use it as well, unless the outer
            call is exclusive: then it keeps the lock, and the inner calls have a lock of their own.
        exclusive: True if the outer call is exclusive.

    Attributes:
        made: The number of inner calls so far.
        lent: True while the outer call does not hold `turns`.
        failure: The error of a hook, the store or the runtime with which an inner call ended. Such
            an error ends the run, even if the outer call's tool handles it.
    """

    depth: int
    _outer_turns: SharedExclusiveLock
    _exclusive: bool
    made: int = attrs.field(default=0, init=False)
    lent: bool = attrs.field(default=False, init=False)
    failure: Exception | None = attrs.field(default=None, init=False)
    turns: SharedExclusiveLock = attrs.field(init=False)
    _borrowers: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.turns = SharedExclusiveLock() if self._exclusive else self._outer_turns

    async def __aenter__(self) -> Self:
        self._borrowers += 1
        if not self.lent and not self._exclusive:
            self.lent = True
            self.turns.release(exclusive=False)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._borrowers -= 1
        while self._takes_back():
            # If this wait is cancelled, the call continues to its end without its place.
            await self.turns.acquire(exclusive=False)  # noqa: ASYNC102 - cancellation ends the wait
            if self._takes_back():
                self.lent = False
            else:  # another task took the place, or began an inner call, in the meantime
                self.turns.release(exclusive=False)

    def _takes_back(self) -> bool:
        return self.lent and not self._borrowers
