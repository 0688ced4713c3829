"""The loop of an actor: a mailbox, and one worker task per request.

An `ActorLoop` owns a mailbox, the set of live requests and the nursery of their workers. It knows
nothing about the work itself. The loop takes a request from the mailbox, starts a worker in the
caller's context, and returns to the mailbox. Work that needs neither queue nor worker can run in
its caller's task (`InlineWork`). The loop itself never runs user code, never blocks and never
limits concurrency. Only a bug in this package can break the loop. If that happens, every queued and
pending request fails with `ActorCrashed`, because a request without an outcome would block its
caller for ever.
"""

import contextvars
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias, TypeVar

import attrs
import trio

from agent_actors.errors import ActorCrashed, RuntimeClosed
from agent_actors.kernel.inline_work import InlineWork
from agent_actors.kernel.interrupts import TakeInterrupt, raise_interrupt
from agent_actors.kernel.mailbox import Mailbox, MailboxStatistics
from agent_actors.kernel.request import Request

T = TypeVar("T")

# The number of requests that can queue in one tick. If the mailbox is full, further callers wait.
MAILBOX_CAPACITY: Final = 1024


# The body of a worker. Its argument is a function that returns the error for the request if the
# worker is torn down.
Perform: TypeAlias = Callable[[Callable[[], Exception]], Awaitable[None]]


class _Live(Protocol):
    """A request, or inline work, that has no outcome yet."""

    def fail(self, error: Exception) -> None: ...
    async def wait_done(self) -> None: ...


class _Job(_Live, Protocol):
    """The part of a request that the loop uses, for any value type."""

    context: contextvars.Context

    def take(self) -> bool: ...
    async def perform(self, lost: Callable[[], Exception]) -> None: ...


@attrs.frozen
class ActorStatistics:
    """A snapshot of an actor's loop.

    Attributes:
        mailbox: Statistics of the mailbox.
        live: The number of requests that are queued or in progress, including inline work.
    """

    mailbox: MailboxStatistics
    live: int


class ActorLoop:
    """The loop of one actor.

    Args:
        name: The actor's name in errors and statistics.
        capacity: The maximum number of requests in the mailbox; further callers wait.
    """

    def __init__(self, name: str, *, capacity: int = MAILBOX_CAPACITY) -> None:
        self.name: str = name
        self._mailbox: Mailbox[_Job] = Mailbox(capacity)
        self._live: set[_Live] = set()
        self._workers: trio.Nursery | None = None
        self._failure: Exception | None = None
        self._closed = False
        self._context = contextvars.copy_context()
        self.ended: trio.Event = trio.Event()
        self.on_crash: Callable[[Exception], None] | None = None
        # Handles exceptions that user code raised in the actor's tasks.
        self.take_interrupt: TakeInterrupt = raise_interrupt

    async def ask(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run the work in a worker task and return its result.

        Raises:
            RuntimeClosed: The actor has ended, or it ended before the work was done.
            ActorCrashed: The actor's loop broke.
            Exception: Any exception that the work raised.

        Cancellation: a queued request is withdrawn. A running worker is cancelled, and the call
        waits until the worker has ended.
        """
        return await (await self.submit(Request(work))).wait()

    async def submit(self, request: Request[T]) -> Request[T]:
        """Queue a request without waiting for its outcome.

        Raises:
            RuntimeClosed: The actor has ended.
            ActorCrashed: The actor's loop broke.

        Cancellation: safe; a cancelled call queues nothing.
        """
        self.adopt(request)  # done first, so that a crash during the wait for the mailbox finds it
        try:
            await self._mailbox.put(request)
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            self._live.discard(request)
            lost = self._lost()
            raise lost from lost.__cause__  # shared: `from None` would erase its cause
        except BaseException:
            self._live.discard(request)
            raise
        return request

    @property
    def started(self) -> bool:
        """True once `serve` has started, from which time `start` can be called."""
        return self._workers is not None

    def start(self, request: Request[T], perform: Perform | None = None) -> None:
        """Start a worker immediately, without the mailbox; for requests that need no queueing.

        Args:
            request: A queued request, which this method takes.
            perform: The body of the worker; by default the request's own `perform`.

        Raises:
            RuntimeClosed, ActorCrashed: The actor has ended. Nothing was started.
        """
        assert self._workers is not None, f"actor {self.name} has not started"
        self.adopt(request)
        request.take()
        begin = request.perform if perform is None else perform
        try:
            request.context.run(self._workers.start_soon, begin, self._lost)
        except RuntimeError:
            # The last worker has ended, and `serve` is about to end.
            lost = self._lost()
            request.fail(lost)
            raise lost from lost.__cause__

    def adopt(self, request: Request[T]) -> None:
        """Register a request that the actor itself resolves; it fails if the actor ends first.

        Raises:
            RuntimeClosed, ActorCrashed: The actor has ended.
        """
        self.check_open()
        self._live.add(request)
        request.set_on_settled(self._live.discard)

    def inline(self) -> InlineWork:
        """Return work for the caller's own task, which begins at once; enter it with `with`."""
        return InlineWork(self._begin_inline, self._live.discard)

    def _begin_inline(self, work: InlineWork) -> None:
        self.check_open()
        self._live.add(work)

    def check_open(self) -> None:
        """Raise an error if the actor has ended; for methods that make no request.

        Raises:
            RuntimeClosed, ActorCrashed: The actor has ended.
        """
        if self._closed:
            raise self._lost()

    def start_background(
        self,
        task: Callable[[], Awaitable[None]],
        *,
        context: contextvars.Context | None = None,
    ) -> None:
        """Start a task that belongs to the actor and is cancelled when the actor ends.

        Args:
            task: An async function without arguments.
            context: The context of the task; by default the actor's own, because a task may outlive
                the run that first needed it and must not keep objects of that run alive.

        Raises:
            RuntimeClosed, ActorCrashed: The actor has ended.
        """
        assert self._workers is not None, f"actor {self.name} has not started"
        if self.ended.is_set():
            raise self._lost()
        try:
            (context or self._context).run(self._workers.start_soon, self._background, task)
        except RuntimeError:
            # The last worker has ended, and `serve` is about to end.
            lost = self._lost()
            raise lost from lost.__cause__

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the actor until it is closed and its last worker has ended.

        Raises:
            ActorCrashed: The loop or a background task broke.
        """
        try:
            async with trio.open_nursery() as workers:
                self._workers = workers
                task_status.started()
                await self._loop(workers)
        except Exception as error:  # noqa: BLE001 - any error here is a crash
            failure = self._crash(error)
            raise failure from failure.__cause__  # the original bug, if it is known
        finally:
            self._closed = True
            self._mailbox.abandon()
            for job in tuple(self._live):
                job.fail(self._lost())
            self.ended.set()

    def close(self) -> None:
        """Stop accepting requests, and end when the last request is done. Idempotent."""
        self._closed = True
        self._mailbox.close()

    def statistics(self) -> ActorStatistics:
        """Return a snapshot."""
        return ActorStatistics(mailbox=self._mailbox.statistics(), live=len(self._live))

    async def _loop(self, workers: trio.Nursery) -> None:
        try:
            async for job in self._mailbox:
                if job.take():
                    job.context.run(workers.start_soon, job.perform, self._lost)
        except Exception as error:
            self._crash(error)  # before the nursery cancels the workers, which report it
            raise
        # Background tasks do not end by themselves.
        await self._drained()
        workers.cancel_scope.cancel("actor closed")

    async def _background(self, task: Callable[[], Awaitable[None]]) -> None:
        try:
            await task()
        except Exception as error:
            self._crash(error)  # done before the nursery cancels the workers, as in `_loop`
            raise

    async def _drained(self) -> None:
        while self._live:
            await next(iter(self._live)).wait_done()

    def _crash(self, error: Exception) -> Exception:
        if self._failure is None:
            self._failure = ActorCrashed(self.name)
            self._failure.__cause__ = error
            if self.on_crash is not None:
                self.on_crash(self._failure)
        return self._failure

    def fail_with(self, failure: Exception) -> None:
        """Make later callers fail with another actor's failure; an earlier failure is kept."""
        self._failure = self._failure or failure

    def _lost(self) -> Exception:
        return self._failure or RuntimeClosed(f"actor {self.name}")
