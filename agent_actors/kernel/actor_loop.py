"""The loop that every actor is built on: a mailbox in front, one worker task a request behind.

An `Owner` owns a mailbox, the set of requests in flight and the nursery of their workers. It does
not know what the work is. Its loop takes a request, starts a worker in the asker's context and
goes back to the mailbox: it never runs user code, never blocks and never limits. If the loop
itself breaks, which only a bug of ours can do, every queued and pending request is resolved with
`ActorCrashed`, since a reply that never comes is a hang that nothing can cancel.
"""

import contextvars
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias, TypeVar

import attrs
import trio

from agent_actors.errors import ActorCrashed, RuntimeClosed
from agent_actors.kernel.interrupts import TakeInterrupt, raise_interrupt
from agent_actors.kernel.mailbox import Mailbox, MailboxStatistics
from agent_actors.kernel.request import Request

T = TypeVar("T")

# A full mailbox only makes askers wait; this many can queue in one tick without doing so.
MAILBOX_CAPACITY: Final = 1024


# The body of a worker; told what to resolve with if it is torn down.
Perform: TypeAlias = Callable[[Callable[[], Exception]], Awaitable[None]]


class _Job(Protocol):
    """A request of any type, as the loop sees it."""

    context: contextvars.Context

    def take(self) -> bool: ...
    def fail(self, error: Exception) -> None: ...
    async def settled(self) -> None: ...
    async def perform(self, lost: Callable[[], Exception]) -> None: ...


@attrs.frozen
class OwnerStatistics:
    """A snapshot of an actor's loop.

    Attributes:
        mailbox: Its mailbox.
        live: Requests that are queued or being worked on.
    """

    mailbox: MailboxStatistics
    live: int


class Owner:
    """The loop of one actor.

    Args:
        name: What errors and statistics call it.
        capacity: Letters that may wait before askers do.
    """

    def __init__(self, name: str, *, capacity: int = MAILBOX_CAPACITY) -> None:
        self.name: str = name
        self._mailbox: Mailbox[_Job] = Mailbox(capacity)
        self._live: set[_Job] = set()
        self._workers: trio.Nursery | None = None
        self._failure: Exception | None = None
        self._closed = False
        self._context = contextvars.copy_context()
        self.ended: trio.Event = trio.Event()
        self.on_crash: Callable[[Exception], None] | None = None
        # For what users' code raises in the actor's tasks.
        self.take_interrupt: TakeInterrupt = raise_interrupt

    async def ask(self, work: Callable[[], Awaitable[T]]) -> T:
        """Have this done by a worker and wait for the outcome.

        Raises:
            RuntimeClosed: The actor has ended, or ends before the work does.
            ActorCrashed: The actor's loop broke.
            Whatever the work raises.

        Cancellation: withdraws the request, or cancels its worker and waits for its end.
        """
        return await (await self.submit(Request(work))).wait()

    async def submit(self, request: Request[T]) -> Request[T]:
        """Queue a request without waiting for its outcome.

        Raises:
            RuntimeClosed: The actor has ended.
            ActorCrashed: The actor's loop broke.

        Cancellation: safe; a cancelled submit has queued nothing.
        """
        self.adopt(request)  # first: a crash while this waits for room has to find it
        try:
            await self._mailbox.put(request)
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            self._live.discard(request)
            lost = self._lost()
            raise lost from lost.__cause__  # one failure for all: `from None` would take its cause
        except BaseException:
            self._live.discard(request)
            raise
        return request

    @property
    def started(self) -> bool:
        """True once it is served, and can `start` a worker."""
        return self._workers is not None

    def start(self, request: Request[T], perform: Perform | None = None) -> None:
        """Start a worker at once, past the mailbox: for what needs no place in its line.

        Args:
            request: Queued; it is taken.
            perform: The body of the worker; by default the request's own `perform`.

        Raises:
            RuntimeClosed, ActorCrashed: The actor has ended; nothing was started.
        """
        assert self._workers is not None, f"actor {self.name} has not started"
        self.adopt(request)
        request.take()
        begin = request.perform if perform is None else perform
        try:
            request.context.run(self._workers.start_soon, begin, self._lost)
        except RuntimeError:
            # The last worker has ended, and `serve` is about to say so.
            self._live.discard(request)
            lost = self._lost()
            raise lost from lost.__cause__

    def adopt(self, request: Request[T]) -> None:
        """Answer for a request that the actor resolves itself: it fails if the actor ends.

        Raises:
            RuntimeClosed, ActorCrashed: The actor has ended.
        """
        self.check_open()
        self._live.add(request)
        request.belong(self._live.discard)

    def check_open(self) -> None:
        """For what the actor answers at once.

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
        """Start a task of the actor's own, cancelled at its end.

        Args:
            task: An async function without arguments.
            context: Where it runs; by default the actor's own, so that a task which outlives
                the run that happened to need it first holds nothing of that run.

        Raises:
            RuntimeClosed, ActorCrashed: The actor has ended.
        """
        assert self._workers is not None, f"actor {self.name} has not started"
        if self.ended.is_set():
            raise self._lost()
        try:
            (context or self._context).run(self._workers.start_soon, self._background, task)
        except RuntimeError:
            # The last worker has ended, and `serve` is about to say so.
            lost = self._lost()
            raise lost from lost.__cause__

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the actor until it is closed and its last worker has ended.

        Raises:
            ActorCrashed: The loop, or a background task, broke.
        """
        try:
            async with trio.open_nursery() as workers:
                self._workers = workers
                task_status.started()
                await self._loop(workers)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told as a crash
            failure = self._crash(error)
            raise failure from failure.__cause__  # the bug itself, where it is known
        finally:
            self._closed = True
            self._mailbox.abandon()
            for job in tuple(self._live):
                job.fail(self._lost())
            self.ended.set()

    def close(self) -> None:
        """Take no more requests, and end when the last one is done. Idempotent."""
        self._closed = True
        self._mailbox.close()

    def statistics(self) -> OwnerStatistics:
        """A snapshot."""
        return OwnerStatistics(mailbox=self._mailbox.statistics(), live=len(self._live))

    async def _loop(self, workers: trio.Nursery) -> None:
        try:
            async for job in self._mailbox:
                if job.take():
                    job.context.run(workers.start_soon, job.perform, self._lost)
        except Exception as error:
            self._crash(error)  # before the nursery cancels the workers, who report it
            raise
        # Background tasks have no end of their own.
        await self._drained()
        workers.cancel_scope.cancel("actor closed")

    async def _background(self, task: Callable[[], Awaitable[None]]) -> None:
        try:
            await task()
        except Exception as error:
            self._crash(error)  # as in `_loop`
            raise

    async def _drained(self) -> None:
        while self._live:
            await next(iter(self._live)).settled()

    def _crash(self, error: Exception) -> Exception:
        if self._failure is None:
            self._failure = ActorCrashed(self.name)
            self._failure.__cause__ = error
            if self.on_crash is not None:
                self.on_crash(self._failure)
        return self._failure

    def fail_with(self, failure: Exception) -> None:
        """Another actor broke: whoever still asks this one is told of that."""
        self._failure = self._failure or failure

    def _lost(self) -> Exception:
        return self._failure or RuntimeClosed(f"actor {self.name}")
