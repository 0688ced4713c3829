"""The relations between runs: ancestors, waits for sessions, and slots lent to child runs.

Every trio task and trio thread that a tool starts inherits two context variables: the current run,
and the current tool call. A call that waits for a child run does no work of its own meanwhile. It
releases its slots, so that nested runs under one limit cannot starve each other. It acquires the
slots again, ahead of other waiters, before it continues.

A child run may wait for a session that another run holds. If that run waits, through child runs of
its own, for a session of an ancestor of the first child, none of them can continue. Therefore every
such wait is noted at the ancestors of the run that waits, and `find_wait_cycle` finds the cycle.
The nodes are shared by all runtimes of the process, so a cycle may span several runtimes.
"""

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from itertools import islice
from types import TracebackType
from typing import Final, Self

import attrs
import trio

from agent_actors.kernel.fair_limiter import FairLimiter
from agent_actors.kernel.pausable_deadline import Home, PausableDeadline


@attrs.define(eq=False)
class RunNode:
    """A run and its ancestors.

    Attributes:
        session_id: The session that the run holds.
        run_id: The id of the run.
        runtime: The runtime of the run; compared by identity only.
        parent: The run whose tool started this run; None for a root run.
        call: The call of the parent that started this run; None for a root run, or if a hook did.
        home: The trio run in which the run takes place; None until the run begins.
        waits: The waits for sessions of all runs below this run.
    """

    session_id: str
    run_id: str
    runtime: object
    parent: "RunNode | None" = None
    call: "CallSlots | None" = None
    home: Home | None = attrs.field(default=None, init=False)
    # Usually empty; a set would take 200 bytes of every run.
    waits: "list[SessionWait]" = attrs.field(factory=list["SessionWait"], init=False)

    def lineage(self) -> "Iterator[RunNode]":
        """Yield this run and its ancestors, from the inside out."""
        node: RunNode | None = self
        while node is not None:
            yield node
            node = node.parent

    def pause_deadlines(self) -> None:
        """Pause the deadlines of this run and of all its ancestors, for a question to a person."""
        for node in self.lineage():
            if node.home is not None:
                node.home.tell(node.home.deadline.begin)
            if node.call is not None and node.parent is not None and node.parent.home is not None:
                node.parent.home.tell(node.call.pause_deadlines)

    def go_on(self) -> None:
        """Resume the deadlines; must be called once for each `pause_deadlines`."""
        for node in self.lineage():
            if node.home is not None:
                node.home.tell(node.home.deadline.end)
            if node.call is not None and node.parent is not None and node.parent.home is not None:
                node.parent.home.tell(node.call.go_on)


@attrs.define(eq=False)
class CallSlots:
    """The slots that one call holds; they are released in reverse order of acquisition.

    Attributes:
        call_id: The id of the call.
        scope: The scope with the call's deadline, once the call runs; None if it has no deadline.
        ended: True if the call has an outcome. A run that it started may still be alive.
    """

    call_id: str
    scope: trio.CancelScope | None = attrs.field(default=None, init=False)
    ended: bool = attrs.field(default=False, init=False)
    # Created on demand: few calls start a run in which a question is asked.
    _deadline: PausableDeadline | None = attrs.field(default=None, init=False)
    _held: list[tuple[FairLimiter, str | None]] = attrs.field(
        factory=list[tuple[FairLimiter, "str | None"]], init=False
    )
    _finally: list[Callable[[], None]] = attrs.field(factory=list[Callable[[], None]], init=False)
    _borrowers: int = attrs.field(default=0, init=False)
    _lent: bool = attrs.field(default=False, init=False)
    _taking: trio.Event | None = attrs.field(default=None, init=False)

    def pause_deadlines(self) -> None:
        """Pause the call's deadline, for a question to a person in a child run."""
        if self._deadline is None and self.scope is not None:
            self._deadline = PausableDeadline(self.scope)
        if self._deadline is not None:
            self._deadline.begin()

    def go_on(self) -> None:
        """Resume the deadline; must be called once for each `pause_deadlines`."""
        if self._deadline is not None:
            self._deadline.end()

    async def take(self, slots: FairLimiter, key: str | None) -> None:
        """Acquire a slot that is lent while the call waits for a child run.

        Cancellation: safe; a cancelled take acquires nothing.
        """
        await slots.acquire(key)
        self._held.append((slots, key))

    def take_nowait(self, slots: FairLimiter, key: str | None) -> bool:
        """Acquire such a slot if it is free. Return whether it was acquired."""
        if not slots.take_nowait(key):
            return False
        self._held.append((slots, key))
        return True

    def at_end(self, release: Callable[[], None]) -> None:
        """Call `release` at the end of the call. For resources that are not lent."""
        self._finally.append(release)

    def release_all(self) -> None:
        """Release all slots, and call the functions passed to `at_end`."""
        if not self._lent:
            self._give_back()
        self._held.clear()
        while self._finally:
            self._finally.pop()()

    def lend(self) -> None:
        """Release the slots for a child run that begins."""
        self._borrowers += 1
        if not self._lent:
            self._lent = True
            self._give_back()

    async def take_again(self) -> None:
        """Acquire the slots again, ahead of other waiters, if the last child run has ended.

        Cancellation: safe; the call then continues to its end without its slots.
        """
        self._borrowers -= 1
        while self._lent and not self._borrowers:
            if self._taking is None:
                await self._take_all()
            else:  # two tasks that acquire would deadlock under a limit of one
                await self._taking.wait()

    async def _take_all(self) -> None:
        self._taking = taking = trio.Event()
        taken: list[tuple[FairLimiter, str | None]] = []
        try:
            for slots, key in self._held:
                await slots.acquire(key, first=True)
                taken.append((slots, key))
            if not self._borrowers:  # else another child run has begun meanwhile
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
    """The wait of one run for a session that another run holds; use it with `with`.

    Attributes:
        node: The run that waits.
        session_id: The session.
        holder: Returns the run that holds the session; None if that is not known.
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
        """Return whether a run cannot end before this wait does.

        It cannot if it is an ancestor of the run that waits. A call that has ended waits for no
        run that it started.
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
    """Return the sessions of the cycle that a wait closes; empty if there is none.

    Each session waits for the next one. The first and the last are the same session.
    """
    # Depth first. Each entry is the wait to follow, and the sessions that lead to it.
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
        # A copy, because a run in another thread may begin or end a wait meanwhile.
        below = (one for one in tuple(holder.waits) if one.blocks(holder))
        paths += [(one, (*path, one.session_id)) for one in below]
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
