"""AsyncioRuntime and `open_runtime()`: the runtime for asyncio programs.

The methods have the same names and parameters as those of `agent_actors.Runtime`. Methods that are
sync there are async here, because they are called in the trio thread.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from types import TracebackType
from typing import Final, Self, TypeVar, Unpack, cast, overload

from agent_actors.actors.hook_bus import Handler, Subscription, SubscriptionStatistics
from agent_actors.actors.question_board import Answer
from agent_actors.actors.session_gate import OnBusy
from agent_actors.asyncio.bridge import Bridge, ToolLoop
from agent_actors.asyncio.sessions import AsyncioQuestions, AsyncioSessions
from agent_actors.asyncio.stream import AsyncioRunStream
from agent_actors.asyncio.trio_objects import TrioObject, crossing, crossing_sync
from agent_actors.domain.run import RunResult
from agent_actors.options.agent_options import AgentOptions
from agent_actors.runs.prompt import Prompt
from agent_actors.runs.spec import RequestArguments
from agent_actors.runtime.config import RuntimeArguments, RuntimeOptions
from agent_actors.runtime.runtime import Runtime
from agent_actors.runtime.subscriptions import E, SubscribeArguments

OutputT = TypeVar("OutputT")
DepsT = TypeVar("DepsT")

_innermost: Final[ContextVar["AsyncioRuntime | None"]] = ContextVar(
    "agent_actors_asyncio_runtime", default=None
)


class AsyncioSubscription:
    """One observer's subscription; enter it with `async with`, or `await` its method `open`.

    Leaving the block, or `aclose()`, ends it. Returned by `AsyncioRuntime.subscribe`.

    Args:
        bridge: The bridge.
        subscribe: Creates the subscription; called in the trio thread.
    """

    def __init__(self, bridge: Bridge, subscribe: Callable[[], Subscription]) -> None:
        self._bridge = bridge
        self._subscribe = subscribe
        self._subscription: Subscription | None = None

    async def open(self) -> Self:
        """Subscribe without a block; call `aclose()` at the end.

        Raises:
            RuntimeClosed: The runtime is closed.
            ConfigError: An option is not valid, or a replay was requested without a session.

        Cancellation: safe.
        """
        if self._subscription is None:
            self._subscription = await self._bridge.call_sync(self._subscribe)
        return self

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()  # noqa: ASYNC102 - one call in the trio thread

    async def aclose(self) -> None:
        """Stop accepting events; queued events are still delivered. Idempotent."""
        if self._bridge.is_open:
            await self._bridge.call_sync(self._opened.close)

    async def statistics(self) -> SubscriptionStatistics:
        """Return a snapshot."""
        return await self._bridge.call_sync(self._opened.statistics)

    @property
    def failure(self) -> Exception | None:
        """The error that reading the log raised, if that ended the subscription."""
        return self._opened.failure

    @property
    def _opened(self) -> Subscription:
        if self._subscription is None:
            raise RuntimeError("enter the subscription first: `async with runtime.subscribe(...)`")
        return self._subscription


class AsyncioRuntime(TrioObject[Runtime]):
    """Runs agents for asyncio tasks: many sessions at once, one run at a time per session.

    Returned by `open_runtime()`. Enter it with `async with`. In a notebook, write `runtime = await
    open_runtime().open()`, and `await runtime.aclose()` at the end. All event loops of the process
    may use the runtime. If the loop that opened the runtime is closed, the runtime closes.

    Args:
        options: The options of the runtime.
        tool_loop: Where the `async def` functions of users run.

    Attributes:
        bridge: The bridge, for `Client` and `query()`.
        trio_object: The runtime in the trio thread.
        sessions: Lists, reads, changes, imports and exports sessions.
        questions: Lists and answers the questions that runs are waiting on.
    """

    def __init__(self, options: RuntimeOptions, tool_loop: ToolLoop) -> None:
        bridge = Bridge(partial(Runtime, options), tool_loop, on_crash=self._on_crash)
        super().__init__(bridge, bridge.runtime)
        self.sessions: AsyncioSessions = AsyncioSessions(bridge, bridge.runtime.sessions)
        self.questions: AsyncioQuestions = AsyncioQuestions(bridge, bridge.runtime.questions)
        # The task of the `async with` block, which a crash cancels.
        self._body: asyncio.Task[object] | None = None
        self._cancelled_body = False
        self._left = False
        self._outer: AsyncioRuntime | None = None

    # Start runs.

    async def run(
        self,
        prompt: Prompt,
        options: AgentOptions[OutputT, DepsT],
        *,
        session_id: str | None = None,
        request_id: str | None = None,
        on_busy: OnBusy | None = None,
        model: str | None = None,
        tool_whitelist: Sequence[str] | None = None,
        deps: DepsT | None = None,
        **request: Unpack[RequestArguments],
    ) -> RunResult[OutputT]:
        """Run an agent on a session, and return its result.

        See `agent_actors.Runtime.run` for the arguments and the errors.

        Cancellation: ends the run cleanly. `CancelledError` is raised only after all tasks of the
        run have ended, its connection is closed, and a valid history is committed, even if the task
        is cancelled repeatedly.
        """
        return await self.bridge.call(
            partial(
                self.trio_object.run,
                prompt,
                options,
                session_id=session_id,
                request_id=request_id,
                on_busy=on_busy,
                model=model,
                tool_whitelist=tool_whitelist,
                deps=deps,
                **request,
            )
        )

    def stream(
        self,
        prompt: Prompt,
        options: AgentOptions[OutputT, DepsT],
        *,
        session_id: str | None = None,
        request_id: str | None = None,
        on_busy: OnBusy | None = None,
        model: str | None = None,
        tool_whitelist: Sequence[str] | None = None,
        deps: DepsT | None = None,
        **request: Unpack[RequestArguments],
    ) -> AsyncioRunStream[OutputT]:
        """Run an agent as `run` does, and read its events as they happen.

        Write `async with runtime.stream(...) as events:` and iterate over `events` or over
        `events.batches()`. Leaving the block early cancels the run (`reader_left`), waits for it to
        end and commits its records. Entering the stream checks the arguments.

        See `agent_actors.Runtime.stream` for the arguments and the errors.
        """
        return AsyncioRunStream(
            self.bridge,
            partial(
                self.trio_object.stream,
                prompt,
                options,
                session_id=session_id,
                request_id=request_id,
                on_busy=on_busy,
                model=model,
                tool_whitelist=tool_whitelist,
                deps=deps,
                **request,
            ),
        )

    async def resume(
        self,
        session_id: str,
        answers: Mapping[str, Answer],
        options: AgentOptions[OutputT, DepsT],
        *,
        results: Mapping[str, object] | None = None,
        request_id: str | None = None,
        deps: DepsT | None = None,
    ) -> RunResult[OutputT]:
        """Continue a session whose last run ended with `awaiting_approval`.

        See `agent_actors.Runtime.resume` for the arguments and the errors.

        Cancellation: see `run`.
        """
        return await self.bridge.call(
            partial(
                self.trio_object.resume,
                session_id,
                answers,
                options,
                results=results,
                request_id=request_id,
                deps=deps,
            )
        )

    # Control the run that holds a session.

    @crossing_sync(Runtime.is_busy)
    def is_busy(self) -> None:
        """Return whether a run holds the session."""

    @crossing(Runtime.interrupt)
    def interrupt(self) -> None:
        """Stop the run that holds a session, and return once all of its tasks have ended."""

    # Not `crossing(...)`, which loses the type of the dependencies.
    async def steer(
        self,
        session_id: str,
        prompt: Prompt,
        options: AgentOptions[object, DepsT] | None = None,
        *,
        request_id: str | None = None,
        deps: DepsT | None = None,
    ) -> RunResult[object]:
        """Send input to the run that holds a session, without stopping it.

        See `agent_actors.Runtime.steer` for the arguments, the result and the errors.

        Cancellation: see `agent_actors.Runtime.steer`.
        """
        return await self.bridge.call(
            partial(
                self.trio_object.steer,
                session_id,
                prompt,
                options,
                request_id=request_id,
                deps=deps,
            )
        )

    # Events, questions and sessions.

    @overload
    def subscribe(
        self, handler: Handler, **arguments: Unpack[SubscribeArguments]
    ) -> AsyncioSubscription: ...
    @overload
    def subscribe(
        self,
        handler: Callable[[E], Awaitable[None]],
        event_type: type[E],
        /,
        *types: type[E],
        **arguments: Unpack[SubscribeArguments],
    ) -> AsyncioSubscription: ...
    def subscribe(
        self,
        handler: Callable[[E], Awaitable[None]],
        *types: type[E],
        **arguments: Unpack[SubscribeArguments],
    ) -> AsyncioSubscription:
        """Call an `async def` handler, in the current loop, for the events of all runs.

        Write `async with runtime.subscribe(handler):`. See `agent_actors.Runtime.events.subscribe`
        for the arguments.
        """
        subscribe = self.trio_object.events.subscribe
        return AsyncioSubscription(
            self.bridge, partial(subscribe, cast(Handler, handler), *types, **arguments)
        )

    @crossing_sync(Runtime.publish)
    def publish(self) -> None:
        """Send your own event to the subscribers."""

    @crossing_sync(Runtime.notify)
    def notify(self) -> None:
        """Send a notification to the subscribers."""

    @crossing_sync(Runtime.answer)
    def answer(self) -> None:
        """Answer a question from a run; the first answer wins."""

    @crossing(Runtime.list_sessions)
    def list_sessions(self) -> None:
        """List sessions, newest first, one page at a time."""

    @crossing_sync(Runtime.history)
    def history(self) -> None:
        """Return the history of a session that is in memory; None if it is not in memory."""

    @crossing_sync(Runtime.statistics)
    def statistics(self) -> None:
        """Return a snapshot of all counters and gauges."""

    # Open and close the runtime.

    @property
    def is_open(self) -> bool:
        """True if the runtime has been opened in this process and is not closing."""
        return self.bridge.is_open

    async def open(self) -> Self:
        """Open the runtime without a block, as in a notebook; call `aclose()` at the end.

        Raises:
            RuntimeFailure: The runtime has already been opened.
            SessionStoreError: The store cannot be used.

        Cancellation: closes the runtime again.
        """
        await self.bridge.open()
        return self

    async def __aenter__(self) -> Self:
        """Start the trio thread and the actors.

        Raises:
            RuntimeFailure: The runtime has already been entered.
            SessionStoreError: The store cannot be used.
        """
        await self.bridge.open()
        self._body = asyncio.current_task()
        self._outer = _innermost.get()
        _innermost.set(self)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if _innermost.get() is self:
            _innermost.set(self._outer)
        body, self._body = self._body, None
        if isinstance(exc, GeneratorExit):
            self.bridge.close_apart()
            return
        await self._close(body_failed=exc is not None)  # noqa: ASYNC102 - every step is bounded
        failure = self.bridge.failure
        if body is not None and self._cancelled_body:
            # The crash cancelled the body, and is raised instead of the cancellation.
            body.uncancel()
            if isinstance(exc, asyncio.CancelledError) and failure is not None:
                raise failure from None
        if exc is None and failure is not None:
            raise failure
        if exc is not None:
            for note in self.bridge.notes:
                exc.add_note(note)

    async def aclose(self, *, drain: float | None = None) -> None:
        """Stop accepting root runs, wait for live runs, cancel the rest, and end the thread.

        Args:
            drain: Seconds to wait for live runs; None: the runtime's `drain`.

        Raises:
            RuntimeError: The method was called from inside one of this runtime's own runs.
            Exception: The runtime has failed, or closing the store raised this error.

        Cancellation: cancels live runs; everything else is still closed. Idempotent.
        """
        if self.bridge.is_open:
            await self.bridge.call(partial(self.trio_object.aclose, drain=drain))
        if self._body is None:
            await self._close(body_failed=False)
            if self.bridge.failure is not None:
                raise self.bridge.failure

    async def _close(self, *, body_failed: bool) -> None:
        if not self._left:
            self._left = True
            await self.bridge.close(body_failed=body_failed)

    def _on_crash(self) -> None:
        if self._body is not None and not self._cancelled_body:
            self._cancelled_body = True
            self._body.cancel("the runtime has crashed")


def find_open_runtime() -> AsyncioRuntime | None:
    """Return the innermost open runtime around the current code; None if there is none."""
    runtime = _innermost.get()
    return runtime if runtime is not None and runtime.is_open else None


def open_runtime(
    *, tool_loop: ToolLoop = "asyncio", **options: Unpack[RuntimeArguments]
) -> AsyncioRuntime:
    """Construct a runtime for asyncio programs; enter it with `async with`.

    One runtime serves a complete process, for example all requests of a web service.

    Args:
        tool_loop: Where the `async def` tools, hooks and callbacks of users run. `asyncio`: in the
            event loop that started the run. `trio`: in the thread of the runtime; they must then be
            written for trio. Sync functions run in worker threads. The tools and hooks of this
            package run in the thread of the runtime.
        options: The arguments of `agent_actors.open_runtime`.

    Raises:
        ConfigError: An option is not valid. The message names the option, the expected value and
            the actual value.
    """
    return AsyncioRuntime(RuntimeOptions(**options), tool_loop)
