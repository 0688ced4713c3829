"""Calls across a bridge: asyncio tasks that wait for trio, and trio tasks that wait for asyncio.

Both kinds are structured: if the waiting task is cancelled, it cancels the call and continues only
when the call has ended. No thread ever blocks on the other one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, copy_context
from functools import partial
from typing import Generic, TypeVar, cast

import trio

from agent_actors.asyncio.ports import LoopPort
from agent_actors.errors import RuntimeClosed
from agent_actors.kernel.exceptions import is_cancellation

T = TypeVar("T")


class LoopClosed(RuntimeError):
    """An asyncio event loop was closed while code in the trio thread was using it."""

    def __init__(self) -> None:
        super().__init__("the asyncio event loop that started this run is closed")


class TrioCall(Generic[T]):
    """An async function in the trio thread that an asyncio task waits for.

    Args:
        port: The loop of the waiting task.
        work: The async function.
        context: The context variables of the function.
        cancel: Ends the function; called in the trio thread. None: cancel its scope.
        on_end: Called in the loop when the function has ended.
    """

    __slots__ = (
        "_cancel",
        "_context",
        "_error",
        "_on_end",
        "_port",
        "_scope",
        "_value",
        "_waiter",
        "_work",
        "ended",
    )

    def __init__(
        self,
        port: LoopPort,
        work: Callable[[], Awaitable[T]],
        context: Context,
        cancel: Callable[[], None] | None = None,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        self._port = port
        self._work = work
        self._context = context
        self._scope = trio.CancelScope()
        self._cancel = cancel
        self._on_end = on_end
        self._value: T | None = None
        # Replaced when the function ends, unless the bridge is closed first.
        self._error: BaseException | None = RuntimeClosed()
        # The following attributes are only used in the thread of the loop.
        self._waiter: asyncio.Future[None] | None = None
        self.ended: bool = False

    # In the thread of the loop.

    async def wait(self) -> T:
        """Wait for the function, and return its value or raise its error.

        Cancellation: cancels the function and waits until it has ended, even if the task is
        cancelled repeatedly. `CancelledError` is then raised even if the function has a value.
        """
        cancelled = await self.join()
        if cancelled is not None:
            raise cancelled
        return self.result()

    async def join(self) -> asyncio.CancelledError | None:
        """Wait until the function has ended, even if the task is cancelled.

        Returns:
            The first cancellation of the task, which also cancelled the function; None if the task
            was not cancelled.
        """
        cancelled: asyncio.CancelledError | None = None
        while not self.ended:
            self._waiter = self._port.loop.create_future()
            try:
                await self._waiter
            except asyncio.CancelledError as error:  # noqa: ASYNC103 - the caller raises it
                if cancelled is None:
                    cancelled = error
                    self._port.trio.post(self.cancel)
            except BaseException:
                self._port.trio.post(self.cancel)
                raise
        return cancelled

    def result(self) -> T:
        """Return the value of the function, which has ended, or raise its error."""
        if self._error is not None:
            raise self._error
        return cast(T, self._value)

    @property
    def error(self) -> BaseException | None:
        """The error of the function, which has ended; None if it returned a value."""
        return self._error

    def refuse(self) -> None:
        """End the call with `RuntimeClosed`, unless it has ended; called in the loop."""
        if not self.ended:
            self._end()

    def _end(self) -> None:
        self.ended = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        if self._on_end is not None:
            self._on_end()

    # In the trio thread.

    def start(self, nursery: trio.Nursery) -> None:
        """Start the function in the nursery of the bridge, unless the bridge is closed."""
        if nursery.cancel_scope.cancel_called:
            self._port.post(self._end)
        else:
            self._port.live.add(self)
            self._context.run(nursery.start_soon, self._perform)

    def cancel(self) -> None:
        """End the function; without effect after its end."""
        if self._cancel is None:
            self._scope.cancel("the asyncio task was cancelled")
        else:
            self._cancel()

    def lose_loop(self) -> None:
        """End the function, because the task that waits for it will never continue."""
        self.cancel()

    async def _perform(self) -> None:
        try:
            with self._scope:
                self._value = await self._work()
                self._error = None
        except BaseException as error:  # noqa: ASYNC103 - raised in the asyncio task
            if is_cancellation(error):
                raise
            self._error = error
        finally:
            self._port.live.discard(self)
            self._port.post(self._end)


class LoopCall(Generic[T]):
    """A coroutine in an asyncio event loop that a trio task waits for.

    The coroutine has the context variables of the task that created this object.

    Args:
        port: The loop.
        make: Creates the coroutine; called in the loop.
    """

    __slots__ = (
        "_cancelled",
        "_context",
        "_done",
        "_error",
        "_make",
        "_port",
        "_task",
        "_value",
    )

    def __init__(self, port: LoopPort, make: Callable[[], Coroutine[object, object, T]]) -> None:
        self._port = port
        self._make = make
        self._context = copy_context()
        self._value: T | None = None
        self._error: BaseException | None = None
        self._done = trio.Event()
        # The following attributes are only used in the thread of the loop.
        self._task: asyncio.Task[T] | None = None
        self._cancelled = False

    # In the trio thread.

    async def wait(self) -> T:
        """Wait for the coroutine, and return its value or raise its error.

        Raises:
            LoopClosed: The loop is closed.
            RuntimeError: The loop cancelled or interrupted the coroutine.
            Exception: The coroutine raised this error.

        Cancellation: cancels the coroutine and waits until it has ended. If it then has a value,
        the value is returned.
        """
        port = self._port
        if port.loop.is_closed():
            raise LoopClosed
        port.live.add(self)
        port.post(self._start)
        try:
            await self._done.wait()
        except trio.Cancelled:  # noqa: ASYNC103 - a value that was reached is returned
            port.post(self._cancel)
            with trio.CancelScope(shield=True):
                await self._done.wait()
            if isinstance(self._error, asyncio.CancelledError):
                raise
        finally:
            port.live.discard(self)
        return self._result()

    def lose_loop(self) -> None:
        """End the call, because the coroutine will never continue."""
        self._settle(None, LoopClosed())

    def _result(self) -> T:
        error = self._error
        if isinstance(error, asyncio.CancelledError):
            raise RuntimeError("the asyncio event loop cancelled it") from error
        if isinstance(error, KeyboardInterrupt | SystemExit):
            # The loop has raised it too, and therefore ends.
            kind = type(error).__name__
            raise RuntimeError(f"the asyncio event loop ended with {kind}") from error
        if error is not None:
            raise error
        return cast(T, self._value)

    def _settle(self, value: T | None, error: BaseException | None) -> None:
        if not self._done.is_set():
            self._value, self._error = value, error
            self._done.set()

    # In the thread of the loop.

    def _start(self) -> None:
        if self._task is None:
            self._task = self._port.loop.create_task(self._make(), context=self._context)
            self._task.add_done_callback(self._ended)

    def _cancel(self) -> None:
        if self._task is not None and not self._cancelled:
            self._cancelled = True
            self._task.cancel()

    def _ended(self, task: "asyncio.Task[T]") -> None:
        value: T | None = None
        error: BaseException | None = None
        try:
            value = task.result()
        except BaseException as raised:  # noqa: ASYNC103, BLE001 - raised in the trio task
            error = raised
        self._port.trio.post(partial(self._settle, value, error))
