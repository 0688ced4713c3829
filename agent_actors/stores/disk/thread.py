"""A thread that runs a store's blocking jobs one after another, in the order of submission.

A job's result is passed to the task that is waiting for it. If the task is cancelled before its job
begins, the job is dropped. A job that has begun always completes, so that the next job finds
consistent data. `later` schedules a job to run once the queue is empty.

The thread is a daemon thread, so that a program can exit without closing its store. When the
program starts again, it finds the data in the same state as after a crash. A forked child does not
have this thread, so its stores count as not open.
"""

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final, Generic, TypeVar, cast
from weakref import WeakSet

import attrs
import trio

T = TypeVar("T")

Job = Callable[[], object]

_LOG: Final = logging.getLogger(__name__)


@attrs.define(eq=False)
class _QueuedJob(Generic[T]):
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
        except BaseException as error:  # noqa: ASYNC103, BLE001 - raised again in the waiting task
            self.error = error
        with suppress(trio.RunFinishedError):  # the event loop has ended
            self.token.run_sync_soon(self._tell)

    def _tell(self) -> None:
        if not self.gone:
            trio.lowlevel.reschedule(self.task)

    def leave(self, _: object) -> trio.lowlevel.Abort:
        self.gone = True
        return trio.lowlevel.Abort.SUCCEEDED


class StoreThread:
    """A thread and its queue, alive from `start` to `end`. It may be started again.

    Args:
        name: The thread's name.
        clock: Returns seconds; used by `later`.

    Attributes:
        running: True from `start` to `end`.
    """

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._queue: SimpleQueue[_QueuedJob[object] | Job | None] = SimpleQueue()
        self.running: bool = False
        self._later: dict[Job, float] = {}
        self._thread: threading.Thread | None = None
        _threads.add(self)

    def start(self) -> None:
        """Start a thread, whose jobs begin when a previous thread has finished its own."""
        self._queue = SimpleQueue()
        self.running = True
        self._thread = threading.Thread(
            target=self._serve, args=(self._queue, self._thread), name=self._name, daemon=True
        )
        self._thread.start()

    async def run(self, job: Callable[[], T]) -> T:
        """Run a job in the thread, and return its result or raise its exception.

        Cancellation: a job that has begun still completes; a job that has not begun is dropped.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        queued_job = _QueuedJob(
            job, trio.lowlevel.current_task(), trio.lowlevel.current_trio_token()
        )
        self._queue.put(cast("_QueuedJob[object]", queued_job))
        await trio.lowlevel.wait_task_rescheduled(queued_job.leave)
        if queued_job.error is not None:
            raise queued_job.error
        return cast(T, queued_job.value)

    def post(self, job: Job) -> None:
        """Run a job in the thread without waiting for it; exceptions are logged."""
        self._queue.put(job)

    def later(self, job: Job, seconds: float) -> None:
        """Schedule a job. If it is already scheduled, it keeps its time.

        Only jobs may call this.
        """
        self._later.setdefault(job, self._clock() + seconds)

    def forget_later(self) -> None:
        """Drop all scheduled jobs. Only jobs may call this."""
        self._later.clear()

    def end(self) -> None:
        """End the thread after all submitted jobs."""
        if self.running:
            self.running = False
            self._queue.put(None)

    def _serve(
        self,
        queue: "SimpleQueue[_QueuedJob[object] | Job | None]",
        before: threading.Thread | None,
    ) -> None:
        if before is not None:
            before.join()  # `end` did not wait for this thread, and both threads use the same store
        self._later = {}
        while True:
            self._do_due()
            try:
                item = queue.get(timeout=self._patience())
            except Empty:
                continue
            if item is None:
                return
            if isinstance(item, _QueuedJob):
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


# The store threads of this process.
_threads: Final[WeakSet[StoreThread]] = WeakSet()


def _stop_in_child() -> None:
    for thread in tuple(_threads):
        thread.running = False


os.register_at_fork(after_in_child=_stop_in_child)


def _carry_out(job: Job) -> None:
    try:
        job()
    except Exception:  # noqa: BLE001 - see below
        # Other jobs depend on this thread, so it must survive the failure of a background job.
        _LOG.exception("a background job of a store failed")
