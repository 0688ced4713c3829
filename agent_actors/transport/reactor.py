"""One task that watches all connections of a `trio.run` and calls those that can be read.

Owns one epoll set and the task that waits for it. trio's own wait costs a switch of tasks and two
system calls for each read of each socket; here a wait is paid once for all sockets that became
readable meanwhile, and what came is read, parsed and handed to its run in place, without waking
anyone. It does not know what is read: whoever watches a descriptor has a `ready` that must not wait
and must not raise.

- The task is one of trio's system tasks, so that a provider works inside and outside a runtime. It
  starts with the first descriptor and ends with the last one.
- A descriptor that is not to be read is not in the set at all: the hang-up of its peer could not be
  masked, and would be reported over and over. It has to leave the set before it is closed.
- No descriptor enters the set while a batch is handled, and one that left is looked up in vain, so
  that a number that was closed and given out again is never mistaken.

Where there is no epoll, one task a descriptor waits by `trio.lowlevel.wait_readable`.
"""

import select
import sys
from typing import Final, Protocol

import attrs
import trio

from agent_actors.kernel.timers import Alarms

READ_SIZE: Final = 64 * 1024
"""Bytes of one read. More would let a busy stream hold up the others."""

_BATCH: Final = 256
"""Descriptors that are handled before other tasks get their turn: about 10 ms of work."""


class Watched(Protocol):
    """What stands behind a descriptor."""

    def ready(self) -> None:
        """There is something to read, or the peer has gone. Synchronous; must not raise."""
        ...

    def shut(self) -> None:
        """Close the descriptor, since `trio.run` is ending. Synchronous; must not raise."""
        ...


class Reactor(Protocol):
    """Watches descriptors.

    Attributes:
        alarms: For what waits with a deadline.
        buffer: What `ready` may read into; its content holds until `ready` returns.
    """

    alarms: Alarms
    buffer: memoryview

    def watch(self, descriptor: int, watched: Watched) -> None:
        """Call `watched.ready` whenever the descriptor is readable."""
        ...

    def unwatch(self, descriptor: int) -> None:
        """Call it no more; nothing happens if it is not watched."""
        ...

    async def settled(self) -> None:
        """Return when no task watches, if nothing is to be watched; else at once.

        Cancellation: safe.
        """
        ...


class EpollReactor:
    """One epoll set and one task for all descriptors."""

    def __init__(self) -> None:
        self.alarms: Alarms = Alarms()
        self.buffer: memoryview = memoryview(bytearray(READ_SIZE))
        self._watched: dict[int, Watched] = {}
        self._epoll: select.epoll | None = None
        self._wait = trio.CancelScope()
        self._ended = trio.Event()

    def watch(self, descriptor: int, watched: Watched) -> None:
        """Call `watched.ready` whenever the descriptor is readable."""
        if self._epoll is None:
            self._epoll = select.epoll()
            self._ended = trio.Event()
            trio.lowlevel.spawn_system_task(self._run, self._epoll)
        self._epoll.register(descriptor, select.EPOLLIN)
        self._watched[descriptor] = watched

    def unwatch(self, descriptor: int) -> None:
        """Call it no more; nothing happens if it is not watched."""
        if self._watched.pop(descriptor, None) is None:
            return
        assert self._epoll is not None
        self._epoll.unregister(descriptor)
        if not self._watched:
            self._wait.cancel("nothing to watch")

    async def settled(self) -> None:
        """Return when no task watches, if nothing is to be watched; else at once.

        Cancellation: safe.
        """
        while self._epoll is not None and not self._watched:
            await self._ended.wait()

    async def _run(self, epoll: select.epoll) -> None:
        try:
            while self._watched:
                # One scope for as long as there is something to watch, not one a wait.
                with trio.CancelScope() as self._wait:
                    while True:
                        await trio.lowlevel.wait_readable(epoll.fileno())
                        while self._handle(epoll.poll(0, _BATCH)) == _BATCH:  # noqa: ASYNC110
                            await trio.lowlevel.checkpoint()
        finally:
            # trio.run is ending if anything is left. Nothing may start between this and the end.
            for watched in tuple(self._watched.values()):
                watched.shut()
            self._epoll = None
            epoll.close()
            self._ended.set()

    def _handle(self, events: list[tuple[int, int]]) -> int:
        watched = self._watched
        for descriptor, _ in events:
            one = watched.get(descriptor)
            if one is not None:
                one.ready()
        return len(events)


@attrs.define(eq=False)
class _Waiting:
    watched: Watched
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)


class WaitReactor:
    """A task for each descriptor, where there is no epoll."""

    def __init__(self) -> None:
        self.alarms: Alarms = Alarms()
        self.buffer: memoryview = memoryview(bytearray(READ_SIZE))
        self._waiting: dict[int, _Waiting] = {}
        self._tasks = 0
        self._ended = trio.Event()

    def watch(self, descriptor: int, watched: Watched) -> None:
        """Call `watched.ready` whenever the descriptor is readable."""
        waiting = self._waiting[descriptor] = _Waiting(watched)
        if not self._tasks:
            self._ended = trio.Event()
        self._tasks += 1
        trio.lowlevel.spawn_system_task(self._run, descriptor, waiting)

    def unwatch(self, descriptor: int) -> None:
        """Call it no more; nothing happens if it is not watched."""
        waiting = self._waiting.pop(descriptor, None)
        if waiting is not None:
            # The wait ends within this call: the descriptor may be closed right after it.
            waiting.scope.cancel("no longer watched")

    async def settled(self) -> None:
        """Return when no task watches, if nothing is to be watched; else at once.

        Cancellation: safe.
        """
        while self._tasks and not self._waiting:
            await self._ended.wait()

    async def _run(self, descriptor: int, waiting: _Waiting) -> None:
        try:
            with waiting.scope:
                # By identity: the number may have been closed and given to another meanwhile.
                while self._waiting.get(descriptor) is waiting:
                    await trio.lowlevel.wait_readable(descriptor)
                    if self._waiting.get(descriptor) is waiting:
                        waiting.watched.ready()
        finally:
            if self._waiting.get(descriptor) is waiting:
                waiting.watched.shut()
            self._tasks -= 1
            if not self._tasks:
                self._ended.set()


_reactor: Final = trio.lowlevel.RunVar[Reactor]("agent_actors reactor")


def current_reactor() -> Reactor:
    """The reactor of this `trio.run`, made on first use."""
    try:
        return _reactor.get()
    except LookupError:
        # mypy takes the branch of another platform for unreachable if it is written out.
        made: Reactor = EpollReactor() if sys.platform == "linux" else WaitReactor()
        _reactor.set(made)
        return made


def use_reactor(reactor: Reactor) -> None:
    """Use this reactor in this `trio.run`; for tests, before anything is watched."""
    _reactor.set(reactor)
