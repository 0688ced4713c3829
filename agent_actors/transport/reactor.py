"""One task that watches all connections of a `trio.run`.

The reactor owns one epoll set and the task that waits on it. With trio's own `wait_readable`, each
read of each socket would cost a task switch and two system calls. The reactor waits once for all
sockets that have become readable in the meantime. It calls each connection, which reads, parses and
passes on the data synchronously, without waking a task. The reactor does not know what the data
means: each watched descriptor has a method `ready` that must neither block nor raise.

- While many descriptors are busy, the reactor waits up to a tick between two looks, so that one
  look serves several of them; see `read_tick`.
- The task is a trio system task, so that a provider works with and without a runtime. It starts
  with the first descriptor and ends with the last one.
- While a descriptor must not be read, it is not in the epoll set. Otherwise the peer's disconnect,
  which cannot be masked, would be reported again and again. A descriptor must be removed from the
  set before it is closed.
- No descriptor is added to the set while a batch of events is processed, and events for a
  descriptor that has been removed are ignored. Therefore a descriptor number that was closed and
  reused is never mistaken for the old one.

On platforms without epoll, each descriptor has a task that calls `trio.lowlevel.wait_readable`.
"""

import select
import sys
from typing import Final, Protocol

import attrs
import trio

from agent_actors.kernel.timers import Timers
from agent_actors.transport.read_tick import READ_TICK, ReadTick

READ_SIZE: Final = 64 * 1024
"""The size of one read, in bytes. With larger reads, a busy stream could delay the others."""

_BATCH: Final = 256
"""The number of descriptors that are processed before other tasks get a turn: about 10 ms of work.
"""


class Watched(Protocol):
    """The object that handles the events of a watched descriptor."""

    def ready(self) -> None:
        """Read: data is available or the peer has disconnected. Must neither block nor raise."""
        ...

    def shut(self) -> None:
        """Close the descriptor because `trio.run` is ending. Must neither block nor raise."""
        ...


class Reactor(Protocol):
    """Watches file descriptors.

    Attributes:
        alarms: Timers for the deadlines of connections.
        buffer: A buffer that `ready` may read into; its content is valid until `ready` returns.
        tick: Decides when a busy reactor pauses.
    """

    alarms: Timers
    buffer: memoryview
    tick: ReadTick

    def watch(self, descriptor: int, watched: Watched) -> None:
        """Call `watched.ready` whenever the descriptor is readable."""
        ...

    def unwatch(self, descriptor: int) -> None:
        """Stop calling `ready`. Do nothing if the descriptor is not watched."""
        ...

    async def wait_done(self) -> None:
        """Wait until the reactor's tasks have ended; return at once if any descriptor is watched.

        Cancellation: safe.
        """
        ...


class EpollReactor:
    """A reactor with one epoll set and one task for all descriptors.

    Args:
        tick: Seconds between two looks under load; 0: no pauses.
    """

    def __init__(self, tick: float = READ_TICK) -> None:
        self.tick: ReadTick = ReadTick(tick)
        self.alarms: Timers = Timers()
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
        """Stop calling `ready`. Do nothing if the descriptor is not watched."""
        if self._watched.pop(descriptor, None) is None:
            return
        assert self._epoll is not None
        self._epoll.unregister(descriptor)
        if not self._watched:
            self._wait.cancel("nothing to watch")

    async def wait_done(self) -> None:
        """Wait until the reactor's task has ended; return at once if any descriptor is watched.

        Cancellation: safe.
        """
        while self._epoll is not None and not self._watched:
            await self._ended.wait()
        if not self._watched:
            await self.alarms.stop_if_empty()

    async def _run(self, epoll: select.epoll) -> None:
        try:
            while self._watched:
                # One cancel scope for as long as any descriptor is watched, not one for each wait.
                with trio.CancelScope() as self._wait:
                    await self._look_repeatedly(epoll)
        finally:
            # If any descriptors are left, trio.run is ending. Nothing may be started between here
            # and the end of the task.
            for watched in tuple(self._watched.values()):
                watched.shut()
            self._epoll = None
            epoll.close()
            self._ended.set()

    async def _look_repeatedly(self, epoll: select.epoll) -> None:
        clock, tick = trio.lowlevel.current_clock(), self.tick
        pause: float | None = None
        while True:
            if pause is None:
                await trio.lowlevel.wait_readable(epoll.fileno())
            else:
                await trio.sleep(pause)
            began = clock.current_time()
            found = handled = self._handle(epoll.poll(0, _BATCH))
            while handled == _BATCH:
                await trio.lowlevel.checkpoint()
                handled = self._handle(epoll.poll(0, _BATCH))
                found += handled
            ended = clock.current_time()
            pause = tick.pause(began, ended, found=found, watched=len(self._watched))

    def _handle(self, events: list[tuple[int, int]]) -> int:
        watched = self._watched
        for descriptor, _ in events:
            entry = watched.get(descriptor)
            if entry is not None:
                entry.ready()
        return len(events)


@attrs.define(eq=False)
class _Waiting:
    watched: Watched
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)


class WaitReactor:
    """A reactor with one task for each descriptor, for platforms without epoll. It never pauses."""

    def __init__(self) -> None:
        self.tick: ReadTick = ReadTick(0)
        self.alarms: Timers = Timers()
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
        """Stop calling `ready`. Do nothing if the descriptor is not watched."""
        waiting = self._waiting.pop(descriptor, None)
        if waiting is not None:
            # The task must stop waiting within this call, because the descriptor may be closed
            # immediately afterwards.
            waiting.scope.cancel("no longer watched")

    async def wait_done(self) -> None:
        """Wait until the reactor's tasks have ended; return at once if any descriptor is watched.

        Cancellation: safe.
        """
        while self._tasks and not self._waiting:
            await self._ended.wait()
        if not self._waiting:
            await self.alarms.stop_if_empty()

    async def _run(self, descriptor: int, waiting: _Waiting) -> None:
        try:
            with waiting.scope:
                # Compare by identity, because the descriptor number may have been closed and reused
                # in the meantime.
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
    """Return the reactor of this `trio.run`; create it on first use."""
    try:
        return _reactor.get()
    except LookupError:
        # In an `if` statement, mypy would consider the branch for the other platform unreachable.
        made: Reactor = EpollReactor() if sys.platform == "linux" else WaitReactor()
        _reactor.set(made)
        return made


def use_reactor(reactor: Reactor) -> None:
    """Use this reactor in the current `trio.run`. For tests; call it before anything is watched."""
    _reactor.set(reactor)


def set_read_tick(seconds: float) -> None:
    """Set the tick of all connections of this `trio.run`; 0: never pause."""
    current_reactor().tick.seconds = seconds
