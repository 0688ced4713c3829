"""Bridge: a trio thread with a runtime, for the asyncio event loops of a program.

The bridge owns the thread. Each loop that uses the runtime has a `LoopPort`. The loop that entered
the runtime owns the bridge: if it is closed without leaving the runtime, the runtime closes. A
program that ends without leaving the runtime closes it too.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Final, Literal, TypeAlias, TypeVar

import trio
from sniffio import current_async_library_cvar

from agent_actors.asyncio.calls import TrioCall
from agent_actors.asyncio.ports import LoopPort, TrioPort, WakeUps
from agent_actors.asyncio.user_loop import AsyncioLoop
from agent_actors.errors import ConfigError, RuntimeClosed, RuntimeFailure
from agent_actors.kernel.user_code import user_loop
from agent_actors.runtime.current import innermost_runtime
from agent_actors.runtime.runtime import Runtime

T = TypeVar("T")

ToolLoop: TypeAlias = Literal["asyncio", "trio"]

# Seconds between two checks whether a loop is closed or a wake-up was lost. Each check takes a few
# microseconds.
WATCH: Final = 0.2
# Seconds that the program waits at its end for a runtime that was not left.
EXIT_PATIENCE: Final = 10.0


class _BodyFailed(Exception):
    """The body of the `async with` block raised; its runs are cancelled at once."""


class Bridge:
    """The trio thread of one runtime.

    Args:
        make_runtime: Creates the runtime.
        tool_loop: Where the `async def` functions of users run.
        on_crash: Called in the owner's loop if the runtime stops by itself.

    Attributes:
        failure: The error that opening, leaving or running the runtime raised.
        notes: The notes that closing the runtime added to the exception of the body.
    """

    def __init__(
        self,
        make_runtime: Callable[[], Runtime],
        tool_loop: ToolLoop,
        on_crash: Callable[[], None],
    ) -> None:
        if tool_loop not in ("asyncio", "trio"):
            raise ConfigError(f"tool_loop must be 'asyncio' or 'trio'; got {tool_loop!r:.80}")
        self._tool_loop = tool_loop
        self._on_crash = on_crash
        self._trio = TrioPort()
        self._wake_ups = WakeUps()
        self._ports: dict[asyncio.AbstractEventLoop, LoopPort] = {}
        self._owner: LoopPort | None = None
        self._process = 0
        self._thread: threading.Thread | None = None
        self._started: asyncio.Future[None] | None = None
        self._finished: asyncio.Future[None] | None = None
        self._stop = trio.Event()
        self._body_failed = False
        self._calls: trio.Nursery | None = None
        self._is_open = False
        self.failure: BaseException | None = None
        self.notes: tuple[str, ...] = ()
        # The actors keep the context in which they are created. Hooks that no run calls, such as
        # `session_end`, then run in the loop of the owner.
        context = copy_context()
        context.run(user_loop.set, self._user_loop(self._owner_port))
        self._runtime = context.run(make_runtime)

    # In the thread of a loop.

    @property
    def runtime(self) -> Runtime:
        """The runtime, whose methods work in the trio thread only."""
        return self._runtime

    @property
    def is_open(self) -> bool:
        """True if the runtime has been opened and is not closing."""
        return self._is_open and self._process == os.getpid()

    async def open(self) -> None:
        """Start the thread, and open the runtime.

        Raises:
            RuntimeFailure: The runtime has already been opened.
            SessionStoreError: The store cannot be used.

        Cancellation: closes the runtime again, and waits until the thread has ended.
        """
        if self._thread is not None:
            raise RuntimeFailure(
                "this runtime has already been opened, and a runtime can be opened only once; "
                "call open_runtime() for a new one"
            )
        loop = asyncio.get_running_loop()
        self._process = os.getpid()
        self._owner = self._ports[loop] = LoopPort(loop, self._trio, self._wake_ups)
        self._started, self._finished = loop.create_future(), loop.create_future()
        context = copy_context()
        # A daemon, because Python waits for other threads before it calls `_at_exit`.
        self._thread = threading.Thread(
            target=context.run, args=(self._run,), name="agent_actors", daemon=True
        )
        self._thread.start()
        atexit.register(self._at_exit)
        cancelled = await _through_cancels(self._started)
        if cancelled is not None or not self._is_open:
            await self.close(body_failed=True)
            raise cancelled or self.failure or RuntimeClosed()

    def close_apart(self) -> None:
        """Close the runtime without waiting, and cancel live runs; see `start_apart`."""
        self._trio.post(lambda: self._begin_to_close(body_failed=True))

    async def close(self, *, body_failed: bool) -> None:
        """Close the runtime, and wait until the thread has ended.

        Args:
            body_failed: True to cancel live runs at once.

        Cancellation: cancels live runs, and waits until the thread has ended.
        """
        self._check_process()
        assert self._finished is not None
        assert self._thread is not None
        self._trio.post(lambda: self._begin_to_close(body_failed=body_failed))
        cancelled = await _through_cancels(
            self._finished, lambda: self._trio.post(lambda: self._begin_to_close(body_failed=True))
        )
        self._thread.join()  # the thread has reported its end
        atexit.unregister(self._at_exit)
        if cancelled is not None:
            raise cancelled

    async def call(self, work: Callable[[], Awaitable[T]]) -> T:
        """Call an async function in the trio thread, with the context of the current task.

        Raises:
            RuntimeClosed: The runtime is closed.
            RuntimeFailure: The runtime is not open in this process, or no event loop is running.

        Cancellation: cancels the function and waits until it has ended.
        """
        port = self.port()
        call = TrioCall(port, work, self.context(port))
        self.start(call)
        return await call.wait()

    async def call_sync(self, work: Callable[[], T]) -> T:
        """Call a sync function in the trio thread; see `call`.

        Cancellation: the function is called.
        """

        async def perform() -> T:  # noqa: ASYNC124 - a call is a task
            return work()

        return await self.call(perform)

    def start_apart(self, work: Callable[[], Awaitable[object]]) -> None:
        """Call an async function in the trio thread, for a coroutine that cannot wait.

        Python closes a coroutine whose task never continues, for example because its loop is
        closed. `GeneratorExit` is then raised in the coroutine.
        """

        async def perform() -> None:
            with suppress(Exception):  # no task can receive the error
                await work()

        def start() -> None:
            assert self._calls is not None
            if not self._calls.cancel_scope.cancel_called:
                self._calls.start_soon(perform)

        self._trio.post(start)

    def start(self, call: TrioCall[T]) -> None:
        """Start a call in the trio thread; it ends at once if the bridge is closed."""
        self._trio.post(lambda: self._start(call))
        if self._trio.closed:
            call.refuse()

    def post(self, step: Callable[[], object]) -> None:
        """Have the trio thread call a function that does not block."""
        self._trio.post(step)

    def port(self) -> LoopPort:
        """Return the port of the running loop.

        Raises:
            RuntimeClosed, RuntimeFailure: See `call`.
        """
        if self._thread is None:
            raise RuntimeFailure(
                "the runtime is not open; use `async with open_runtime() as runtime:`"
            )
        self._check_process()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeFailure(
                "this runtime belongs to asyncio, but no asyncio event loop is running in this "
                "thread; from another thread, use asyncio.run_coroutine_threadsafe(...)"
            ) from None
        if not self._thread.is_alive():
            raise RuntimeClosed
        port = self._ports.get(loop)
        return port or self._ports.setdefault(loop, LoopPort(loop, self._trio, self._wake_ups))

    def context(self, port: LoopPort) -> Context:
        """Return the context variables for work in the trio thread."""
        context = copy_context()
        context.run(self._enter_context, port)
        return context

    def _enter_context(self, port: LoopPort) -> None:
        current_async_library_cvar.set(None)  # anyio sets it, for the library of the current loop
        innermost_runtime.set(self._runtime)
        user_loop.set(self._user_loop(lambda: port))

    def _user_loop(self, find_port: Callable[[], LoopPort]) -> AsyncioLoop | None:
        return AsyncioLoop(self.call, find_port) if self._tool_loop == "asyncio" else None

    def _owner_port(self) -> LoopPort:
        assert self._owner is not None, "the bridge is open"
        return self._owner

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise RuntimeFailure(
                f"the runtime was opened in process {self._process}, and its thread does not exist "
                f"in the forked process {os.getpid()}; open a runtime after the fork, for example "
                "in the lifespan of the application"
            )

    def _at_exit(self) -> None:
        if self._process == os.getpid() and self._thread is not None:
            self._trio.post(lambda: self._begin_to_close(body_failed=True))
            self._thread.join(EXIT_PATIENCE)

    # In the trio thread.

    def _run(self) -> None:
        try:
            trio.run(self._serve)
        except BaseException as error:  # noqa: ASYNC103, BLE001 - raised on leaving the runtime
            self.failure = error
        self._is_open = False
        self._owner_port().post(self._end)
        # The thread can no longer repeat a wake-up that an interrupt has lost.
        for port in tuple(self._ports.values()):
            port.repeat_wake_up()

    async def _serve(self) -> None:
        self._trio.open(trio.lowlevel.current_trio_token())
        current_async_library_cvar.set(None)
        user_loop.set(self._user_loop(self._owner_port))
        try:
            async with trio.open_nursery() as watching:
                watching.start_soon(self._watch)
                watching.start_soon(self._wake_ups.run)
                async with trio.open_nursery() as self._calls:
                    await self._hold_open(self._owner_port())
                    self._calls.cancel_scope.cancel("the runtime is closed")
                watching.cancel_scope.cancel("the runtime is closed")
        finally:
            self._trio.close()

    async def _hold_open(self, owner: LoopPort) -> None:
        try:
            async with self._runtime:
                self._is_open = True
                owner.post(self._report_start)
                await self._stop.wait()
                if self._body_failed:
                    raise _BodyFailed
        except _BodyFailed as failed:
            self.notes = tuple(getattr(failed, "__notes__", ()))
        except Exception as error:  # noqa: BLE001 - raised when the runtime is left
            self.failure = error
            if self._is_open and not self._stop.is_set():
                owner.post(self._on_crash)
        finally:
            self._is_open = False

    def _begin_to_close(self, *, body_failed: bool) -> None:
        self._is_open = False
        if self._stop.is_set() and body_failed and self._calls is not None:
            # The runtime is waiting for live runs, which now end.
            self._calls.start_soon(self._hurry)
        self._body_failed = self._body_failed or body_failed
        self._stop.set()

    async def _hurry(self) -> None:
        with suppress(Exception):  # `_hold_open` reports the errors of closing
            await self._runtime.aclose(drain=0)

    def _start(self, call: TrioCall[T]) -> None:
        assert self._calls is not None
        call.start(self._calls)

    async def _watch(self) -> None:
        while True:
            await trio.sleep(WATCH)
            self._trio.drain()
            for loop, port in tuple(self._ports.items()):
                if not loop.is_closed():
                    port.repeat_wake_up()
                    continue
                port.lose()
                if port is self._owner:
                    self._begin_to_close(body_failed=True)
                elif not port.live:
                    del self._ports[loop]

    # In the thread of the owner's loop.

    def _report_start(self) -> None:
        assert self._started is not None
        if not self._started.done():
            self._started.set_result(None)

    def _end(self) -> None:
        self._report_start()
        assert self._finished is not None
        if not self._finished.done():
            self._finished.set_result(None)


async def _through_cancels(
    future: "asyncio.Future[None]", on_cancel: Callable[[], None] | None = None
) -> asyncio.CancelledError | None:
    """Wait for a future that this function never cancels; return the first cancellation.

    Args:
        future: The future.
        on_cancel: Called if the task is cancelled.

    Cancellation: the call still waits.
    """
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:  # noqa: ASYNC103 - the caller raises it
            if cancelled is None and on_cancel is not None:
                on_cancel()
            cancelled = cancelled or error
    return cancelled
