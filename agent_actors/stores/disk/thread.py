"""A thread of a store's own: jobs run there one after another, in the order in which they came.

Owns the thread and its queue, and knows nothing of what jobs do. A job's outcome goes back to the
task that waits for it; one whose task has been cancelled is not begun, and one that has begun is
carried out, so that what comes after it finds whole work. A job may also be wanted at a time of
its own (`later`): the thread does it when it has nothing else to do and the time has come.

The thread is a daemon: a program that leaves a store unclosed ends all the same, and finds what it
wrote, as after a crash.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final, Generic, TypeVar, cast

import attrs
import trio

T = TypeVar("T")

Job = Callable[[], object]

_LOG: Final = logging.getLogger("agent_actors.stores")


@attrs.define(eq=False)
class _Asked(Generic[T]):
    job: Callable[[], T]
    task: trio.lowlevel.Task
    token: trio.lowlevel.TrioToken
    gone: bool = False
    value: T | None = None
    error: BaseException | None = None

    def carry_out(self) -> None:
        if self.gone:
            return
        try:
            self.value = self.job()
        except BaseException as error:  # noqa: ASYNC103, BLE001 - raised in the task that asked
            self.error = error
        with suppress(trio.RunFinishedError):  # nobody is left to be told
            self.token.run_sync_soon(self._tell)

    def _tell(self) -> None:
        if not self.gone:
            trio.lowlevel.reschedule(self.task)

    def leave(self, _: object) -> trio.lowlevel.Abort:
        self.gone = True
        return trio.lowlevel.Abort.SUCCEEDED


class StoreThread:
    """A thread and its queue, from `start` to `end`; may be started again.

    Args:
        name: The thread's name.
        clock: Seconds; for `later`.

    Attributes:
        running: True from `start` to `end`.
    """

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._queue: SimpleQueue[_Asked[object] | Job | None] = SimpleQueue()
        self.running: bool = False
        self._later: dict[Job, float] = {}
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread; its jobs follow the last one of the thread before."""
        self._queue = SimpleQueue()
        self.running = True
        self._thread = threading.Thread(
            target=self._serve, args=(self._queue, self._thread), name=self._name, daemon=True
        )
        self._thread.start()

    async def run(self, job: Callable[[], T]) -> T:
        """Have a job done, and wait for what it returns or raises.

        Cancellation: stops waiting; a job that has begun is carried out.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        asked = _Asked(job, trio.lowlevel.current_task(), trio.lowlevel.current_trio_token())
        self._queue.put(cast("_Asked[object]", asked))
        await trio.lowlevel.wait_task_rescheduled(asked.leave)
        if asked.error is not None:
            raise asked.error
        return cast(T, asked.value)

    def post(self, job: Job) -> None:
        """Have a job done that nobody waits for, and that does not raise."""
        self._queue.put(job)

    def later(self, job: Job, seconds: float) -> None:
        """Have a job done once in that time, or at the time set before; called by jobs only."""
        self._later.setdefault(job, self._clock() + seconds)

    def forget_later(self) -> None:
        """Drop what was to be done later; called by jobs only."""
        self._later.clear()

    def end(self) -> None:
        """End the thread when all that was asked before is done."""
        if self.running:
            self.running = False
            self._queue.put(None)

    def _serve(
        self,
        queue: "SimpleQueue[_Asked[object] | Job | None]",
        before: threading.Thread | None,
    ) -> None:
        if before is not None:
            before.join()  # nobody waited for it, and both work on the same
        self._later = {}
        while True:
            self._do_due()
            try:
                item = queue.get(timeout=self._patience())
            except Empty:
                continue
            if item is None:
                return
            if isinstance(item, _Asked):
                item.carry_out()
            else:
                _carry_out(item)

    def _patience(self) -> float | None:
        if not self._later:
            return None
        return max(0.0, min(self._later.values()) - self._clock())

    def _do_due(self) -> None:
        if not self._later:
            return
        now = self._clock()
        for job in [job for job, due in self._later.items() if due <= now]:
            del self._later[job]
            _carry_out(job)


def _carry_out(job: Job) -> None:
    try:
        job()
    except Exception:  # noqa: BLE001 - see below
        # Others wait for this thread: it outlives whatever nobody waits for.
        _LOG.exception("a store's job in the background failed")
