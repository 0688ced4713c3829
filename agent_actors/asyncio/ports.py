"""The two directions of a bridge: queues of functions, and the wake-ups of their threads.

A port is a queue of functions that another thread is to call. However many functions are waiting,
at most one wake-up is pending, because a wake-up costs a system call and a switch of threads. The
functions must not block, and must not raise.

Python raises `KeyboardInterrupt` between any two bytecodes of the main thread, in which the event
loop usually runs. The interrupt may therefore hit a port between two of its steps. A function is
removed from the queue only after it was called, and `Bridge` checks periodically for functions
without a wake-up. Therefore every function must work even if it is called twice.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeAlias

import trio

Step: TypeAlias = Callable[[], object]


class LiveCall(Protocol):
    """A call that uses an event loop."""

    def lose_loop(self) -> None:
        """End the call, because the loop is closed; called in the trio thread."""
        ...


def _call_all(steps: deque[Step]) -> None:
    # Steps that are added in the meantime wait for the next wake-up, so that a fast producer cannot
    # keep the thread from its other work.
    for _ in range(len(steps)):
        steps[0]()
        steps.popleft()


class TrioPort:
    """Functions that the trio thread is to call; any thread may add some.

    Attributes:
        closed: True if the thread may ignore functions that are added from now on.
    """

    def __init__(self) -> None:
        self.closed: bool = False
        self._token: trio.lowlevel.TrioToken | None = None
        self._steps: deque[Step] = deque()
        self._woken = False

    def open(self, token: trio.lowlevel.TrioToken) -> None:
        """Set the trio run of the thread."""
        self._token = token

    def post(self, step: Step) -> None:
        """Have the trio thread call a function, after all functions that were added before.

        If the port is `closed` when this method returns, the function may have been dropped.
        """
        self._steps.append(step)
        if not self._woken:
            self._wake()

    def drain(self) -> None:
        """Call the waiting functions; only in the trio thread."""
        self._woken = False  # set first: a later `post` must wake the thread again
        _call_all(self._steps)
        if self._steps and not self._woken:
            self._wake()

    def close(self) -> None:
        """Call the functions that were added before; only in the trio thread, at its end.

        A thread that finds the port still open after adding a function added it in time.
        """
        self.closed = True
        while self._steps:
            self.drain()

    def _wake(self) -> None:
        if self._token is None:
            return  # the bridge drains the port when it has opened
        self._woken = True
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self.drain)


class WakeUps:
    """Wakes loops after all trio tasks that can run have run, so that one wake-up serves all."""

    def __init__(self) -> None:
        self._task: trio.lowlevel.Task | None = None
        self._ports: list[LoopPort] = []

    def schedule(self, port: "LoopPort") -> None:
        """Wake a loop in the next tick of the scheduler; only in the trio thread."""
        self._ports.append(port)
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    async def run(self) -> None:
        """Wake loops until cancelled."""
        while True:
            ports, self._ports = self._ports, []
            for port in ports:
                port.wake()
            self._task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._stop_waiting)

    def _stop_waiting(self, _: object) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED


class LoopPort:
    """Functions that an asyncio event loop is to call; only the trio thread adds some.

    Args:
        loop: The event loop.
        trio_port: The opposite direction.
        wake_ups: Wakes the loop.

    Attributes:
        live: The calls between the loop and the trio thread; only used in the trio thread.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, trio_port: TrioPort, wake_ups: WakeUps
    ) -> None:
        self.loop: asyncio.AbstractEventLoop = loop
        self.trio: TrioPort = trio_port
        self.live: set[LiveCall] = set()
        self._wake_ups = wake_ups
        self._steps: deque[Step] = deque()
        self._woken = False

    def post(self, step: Step) -> None:
        """Have the loop call a function, after all functions that were added before.

        If the loop is closed, the function is dropped.
        """
        self._steps.append(step)
        if not self._woken:
            self._woken = True
            self._wake_ups.schedule(self)

    def repeat_wake_up(self) -> None:
        """Wake the loop again if functions are waiting, in case an interrupt lost the wake-up."""
        if self._steps:
            self.wake()

    def lose(self) -> None:
        """End every call that uses the loop, because the loop is closed; in the trio thread."""
        for call in tuple(self.live):
            call.lose_loop()

    def wake(self) -> None:
        """Have the loop call the waiting functions."""
        self._woken = True
        with suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        self._woken = False  # set first: a later `post` must wake the loop again
        _call_all(self._steps)
        if self._steps and not self._woken:
            self.wake()
