"""How a run knows its ancestors, and a call lends its slots to its children.

Two context variables, inherited by every task and thread that a tool starts: the run around the
current code, and the tool call around it. A call that waits for a child run does no work of its
own meanwhile: it gives its slots back, so that nested runs under one cap cannot starve each
other, and takes them again, first in line, before it goes on.
"""

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import TracebackType
from typing import Final

import attrs
import trio

from agent_actors.kernel.fair_limiter import FairSlots
from agent_actors.kernel.pausable_deadline import Home, Standstill


@attrs.define(eq=False)
class RunNode:
    """A run and the runs around it.

    Attributes:
        session_id: The session that it holds.
        run_id: The run.
        runtime: Whose run it is; compared by identity only.
        parent: The run whose tool started it; None for a root run.
        call: The call of that run which started it; None: there is none, or a hook did.
        home: Where it takes place; None until it begins.
    """

    session_id: str
    run_id: str
    runtime: object
    parent: "RunNode | None" = None
    call: "HeldSlots | None" = None
    home: Home | None = attrs.field(default=None, init=False)

    def lineage(self) -> "Iterator[RunNode]":
        """This run and the runs around it, from the inside out."""
        node: RunNode | None = self
        while node is not None:
            yield node
            node = node.parent

    def stand_still(self) -> None:
        """A person is asked: the deadlines of this run, and of all around it, stand still."""
        for node in self.lineage():
            if node.home is not None:
                node.home.tell(node.home.deadline.begin)
            if node.call is not None and node.parent is not None and node.parent.home is not None:
                node.parent.home.tell(node.call.stand_still)

    def go_on(self) -> None:
        """It is over; to be called once for each `stand_still`."""
        for node in self.lineage():
            if node.home is not None:
                node.home.tell(node.home.deadline.end)
            if node.call is not None and node.parent is not None and node.parent.home is not None:
                node.parent.home.tell(node.call.go_on)


@attrs.define(eq=False)
class HeldSlots:
    """The slots that one call holds, given back in the opposite order of their taking.

    Attributes:
        call_id: The call.
        scope: The scope with the call's deadline, once it runs; None: it has none.
    """

    call_id: str
    scope: trio.CancelScope | None = attrs.field(default=None, init=False)
    # Made when it is asked for: few calls start a run in which a person is asked.
    _deadline: Standstill | None = attrs.field(default=None, init=False)
    _held: list[tuple[FairSlots, str | None]] = attrs.field(
        factory=list[tuple[FairSlots, "str | None"]], init=False
    )
    _finally: list[Callable[[], None]] = attrs.field(factory=list[Callable[[], None]], init=False)
    _borrowers: int = attrs.field(default=0, init=False)
    _lent: bool = attrs.field(default=False, init=False)
    _taking: trio.Event | None = attrs.field(default=None, init=False)

    def stand_still(self) -> None:
        """A person is asked in a run within: the call's deadline stands still."""
        if self._deadline is None and self.scope is not None:
            self._deadline = Standstill(self.scope)
        if self._deadline is not None:
            self._deadline.begin()

    def go_on(self) -> None:
        """It is over; to be called once for each `stand_still`."""
        if self._deadline is not None:
            self._deadline.end()

    async def take(self, slots: FairSlots, key: str | None) -> None:
        """Take a slot that is lent while the call waits for a child run.

        Cancellation: safe; a cancelled take holds nothing more.
        """
        await slots.acquire(key)
        self._held.append((slots, key))

    def take_nowait(self, slots: FairSlots, key: str | None) -> bool:
        """The same if it is there; else False, and nothing more is held."""
        if not slots.take_nowait(key):
            return False
        self._held.append((slots, key))
        return True

    def at_end(self, release: Callable[[], None]) -> None:
        """Call this at the end; it is not lent."""
        self._finally.append(release)

    def release_all(self) -> None:
        """Give everything back."""
        if not self._lent:
            self._give_back()
        self._held.clear()
        while self._finally:
            self._finally.pop()()

    def lend(self) -> None:
        """A child run begins: the slots are free for it."""
        self._borrowers += 1
        if not self._lent:
            self._lent = True
            self._give_back()

    async def take_again(self) -> None:
        """A child run has ended; when the last one has, take the slots again, first in line.

        Cancellation: safe; the call then goes to its end without its slots.
        """
        self._borrowers -= 1
        while self._lent and not self._borrowers:
            if self._taking is None:
                await self._take_all()
            else:  # two takers would wait for each other under a cap of one
                await self._taking.wait()

    async def _take_all(self) -> None:
        self._taking = taking = trio.Event()
        taken: list[tuple[FairSlots, str | None]] = []
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


current_run: Final[ContextVar[RunNode | None]] = ContextVar("agent_actors_run", default=None)
current_call: Final[ContextVar[HeldSlots | None]] = ContextVar("agent_actors_call", default=None)


class lending:  # noqa: N801 - reads as a statement: `async with lending(call):`
    """Lend a call's slots for the length of a block; nothing happens for None.

    Cancellation: safe, see `HeldSlots.take_again`.
    """

    def __init__(self, call: HeldSlots | None) -> None:
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
            await self._call.take_again()  # noqa: ASYNC102 - a cancel has to end this wait
        except trio.Cancelled:  # noqa: ASYNC103 - the body's own exception goes out instead
            if exc is None:
                raise
            # The body's own exception is the news; the cancel comes again at the next checkpoint.
