# size: one public object; most lines are docstrings of its methods
"""Runtime: starts runs, and manages everything that they use.

`open_runtime()` starts one task that holds the actors (`runtime/lifecycle.py`). Every run is a
worker task with its own cancel scope. If an actor crashes, the body of the `async with` block is
cancelled, and leaving the block raises a bare `ActorCrashed`, without an exception group.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, Unpack, cast, overload

import attrs
import trio

from agent_actors.abc import Instrumentation, SessionStore
from agent_actors.actors.hook_bus import DEFAULTS, Handler, Subscription, SubscriptionOptions
from agent_actors.actors.model_stream import MAX_LIVE_STREAMS
from agent_actors.actors.question_board import Answer, QuestionWatcher
from agent_actors.actors.resources.session_resources import WORKSPACE_TTL
from agent_actors.actors.run_tree import RunNode, current_call, current_run, slots_lent
from agent_actors.actors.session_gate import OnBusy
from agent_actors.actors.session_log import MAX_SESSIONS, SESSION_TTL
from agent_actors.actors.tool_executor import (
    THREADS_PER_RUNTIME,
    TOOLS_PER_RUN,
    TOOLS_PER_RUNTIME,
)
from agent_actors.domain.events import EventBuilder, Notification
from agent_actors.domain.json import JsonValue
from agent_actors.domain.messages import Messages
from agent_actors.domain.run import RunInfo, RunResult
from agent_actors.domain.session import (
    JsonScalar,
    SessionOrder,
    SessionPage,
    SessionStats,
    find_session_id_error,
)
from agent_actors.errors import ConfigError, RuntimeClosed
from agent_actors.kernel.interrupts import finish, protect_loaded_modules
from agent_actors.options.agent_options import AgentOptions, as_agent
from agent_actors.options.dependencies import check_deps
from agent_actors.protocol.turn import UserInput
from agent_actors.runs.context import RunContext, current_context
from agent_actors.runs.driver import Driver
from agent_actors.runs.output.event_mailbox import EventMailbox
from agent_actors.runs.prompt import Prompt, user_input
from agent_actors.runs.spec import NO_REQUEST, RequestArguments, RunRequest, RunSpec, run_request
from agent_actors.runs.tools.deferred_calls import as_outputs
from agent_actors.runtime import wiring
from agent_actors.runtime.config import (
    DRAIN,
    RuntimeOptions,
    RuntimeStatistics,
    check_policy,
    queue_policy,
)
from agent_actors.runtime.current import EnteredRuntime, innermost_runtime
from agent_actors.runtime.leaving import leave_nursery, raise_first
from agent_actors.runtime.lifecycle import Actors
from agent_actors.runtime.open_state import OpenState
from agent_actors.runtime.options.builtin_tools import BuiltinTools
from agent_actors.runtime.options.factories import Factories
from agent_actors.runtime.questions import QuestionAPI
from agent_actors.runtime.sessions.api import SessionAPI
from agent_actors.runtime.sessions.control import SessionControl
from agent_actors.runtime.sessions.files import FileRestorer
from agent_actors.runtime.sessions.handle import SessionHandle
from agent_actors.runtime.sessions.reader import SessionReader
from agent_actors.runtime.sessions.transaction import SessionTransactions
from agent_actors.runtime.stream import RunStream, StartedRun, wait_for_result
from agent_actors.runtime.subscriptions import E, EventSubscriptions, SubscribeArguments
from agent_actors.subagents.child_options import options_of_target
from agent_actors.subagents.task_tool import Subagents, relay_of
from agent_actors.transport.read_tick import READ_TICK

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

OutputT = TypeVar("OutputT")
DepsT = TypeVar("DepsT")


class Runtime:
    """Runs agents: many sessions at once, one run at a time per session.

    Returned by `open_runtime()`. Enter it with `async with`, and use it in that `trio.run()` only.

    Attributes:
        sessions: Lists, reads, changes, imports and exports sessions.
        questions: Lists and answers the questions that runs are waiting on.
        events: Subscribes to the events of runs, and publishes your own events.
    """

    def __init__(self, options: RuntimeOptions) -> None:
        self._options = options
        self._body = trio.CancelScope()
        actors = self._actors = Actors(
            options, on_crash=partial(self._body.cancel, "actor crashed")
        )
        state = self._state = OpenState(lambda: actors.closing)
        transactions = self._transactions = SessionTransactions(
            actors.gate, actors.log, actors.bus, actors.ids, actors.wall_clock
        )
        reader = SessionReader(actors.store, actors.log, actors.gate, state)
        self.sessions: SessionAPI = SessionAPI(
            reader,
            transactions,
            actors.ids,
            actors.wall_clock,
            state,
            background=actors.resources.tasks,
            files=FileRestorer(actors.resources, actors.checkpointers, wiring.make_workspace),
            compact=self._compact,
        )
        self.questions: QuestionAPI = QuestionAPI(actors.questions, state)
        self.events: EventSubscriptions = EventSubscriptions(
            actors.bus, actors.ids, actors.wall_clock, options.subscriptions, state
        )
        self._control = SessionControl(actors.gate, actors.live, actors.services.inbox_of)
        self._factories = Factories()
        self._subagents = Subagents(self._result_of)
        self._builtin_tools = BuiltinTools(wiring.select_builtin_tools)
        # Set when the runtime is entered, since it may be constructed before trio runs.
        self._nursery_manager: AbstractAsyncContextManager[trio.Nursery] | None = None
        self._outer_runtime: EnteredRuntime | None = None

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
        target_subagent: str | None = None,
        **request: Unpack[RequestArguments],
    ) -> RunResult[OutputT]:
        """Run an agent on a session, and return its result.

        Args:
            prompt: The user's input: text, or a sequence of texts, images and files; not blank.
            options: The agent.
            session_id: The session to continue or to create; None: `options.resume`, or a new
                session, whose id is in the result.
            request_id: An id that appears in every event and in the result; None: a new id.
            on_busy: The policy if another run holds the session; None: the runtime's `on_busy`.
            model: The model to use instead of `options.model`; None: use `options.model`.
            tool_whitelist: The names of the only tools that this run may use; None: all tools of
                the agent. Names of tools that the agent does not have are ignored.
            deps: The dependencies for `ctx.deps`, of the class `options.deps_type`; never recorded.
                None: those of the run whose tool or hook calls this method.
            target_subagent: The name of one of `options.agents`, which runs instead of the agent
                itself; None: the agent itself.
            **request: `force_skills`, `traits`, `channels`, `tags`, `metadata`, `entry_point`; see
                `RequestArguments`.

        Raises:
            ConfigError: The prompt or the model is blank, or `on_busy` or `session_id` is not
                valid.
            MediaError: An image or file in the prompt has no valid source.
            SessionBusy: Another run holds the session, and the policy is `reject`.
            ProviderError: The model request failed; the session remains usable.
            RunStopped: The run was stopped from outside.
            RuntimeClosed: The runtime accepts no more runs.

        Cancellation: ends the run cleanly. The call returns only after all tasks of the run have
        ended, the `finally` blocks of its tools have run, its connection is closed, and a valid
        history is committed. If the run already has a result, the result is returned.
        """
        agent = _with_model(options, model)
        spec = self._spec(
            prompt,
            agent,
            session_id,
            request_id,
            on_busy,
            tool_whitelist=tool_whitelist,
            deps=deps,
            request=run_request(request),
        )
        if target_subagent is not None:
            spec = attrs.evolve(spec, target=target_subagent)
        # The options define the output type, and the run has validated the output.
        return cast("RunResult[OutputT]", await self._result_of(spec))

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
        target_subagent: str | None = None,
        **request: Unpack[RequestArguments],
    ) -> RunStream[OutputT]:
        """Run an agent as `run` does, and read its events as they happen.

        Write `async with runtime.stream(...) as events:` and iterate over `events`. Leaving the
        block early cancels the run (`reader_left`), waits for it to end and commits its records.

        Args:
            prompt: The user's input: text, or a sequence of texts, images and files; not blank.
            options: The agent.
            session_id: The session to continue or to create; None: `options.resume`, or a new
                session.
            request_id: An id that appears in every event; None: a new id.
            on_busy: The policy if another run holds the session; None: the runtime's `on_busy`.
            model: The model to use instead of `options.model`; None: use `options.model`.
            tool_whitelist: The names of the only tools that this run may use; None: all tools of
                the agent. Names of tools that the agent does not have are ignored.
            deps: The dependencies for `ctx.deps`, of the class `options.deps_type`; never recorded.
                None: those of the run whose tool or hook calls this method.
            target_subagent: The name of one of `options.agents`, which runs instead of the agent
                itself; None: the agent itself.
            **request: `force_skills`, `traits`, `channels`, `tags`, `metadata`, `entry_point`; see
                `RequestArguments`.

        Raises:
            ConfigError: The prompt or the model is blank, or `on_busy` or `session_id` is not
                valid. Entering the stream, iterating and leaving it raise the other errors of
                `run`.
        """
        agent = _with_model(options, model)
        spec = self._spec(
            prompt,
            agent,
            session_id,
            request_id,
            on_busy,
            tool_whitelist=tool_whitelist,
            deps=deps,
            request=run_request(request),
        )
        if target_subagent is not None:
            spec = attrs.evolve(spec, target=target_subagent)
        return RunStream(partial(self._start, spec), EventMailbox(options.reader_stall))

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

        Args:
            session_id: The session.
            answers: Answers to `result.questions`, by question id. Another process can read the
                questions from `sessions.snapshot(...)`. Questions without an answer are asked
                again.
            options: The agent.
            results: Results for `result.external_calls`, by call id: any value that a tool may
                return, a `ToolOutput`, a `ToolResultBlock`, or an exception for a call that failed.
                Calls without a result stay open, and are again in `external_calls` when the run
                ends.
            request_id: An id that appears in every event and in the result; None: a new id.
            deps: The dependencies; see `run`. They are not recorded, so they are passed again.

        Raises:
            ConfigError: A result cannot be sent to a model (the run has not begun), or an answer is
                not valid for its question (the session is still waiting).
            SessionUnknown: No session has this id, and none is created.
            SessionSuspended: The session is not waiting for answers or results.
            QuestionClosed: The session is not waiting for one of these answers.
            CallClosed: The session is not waiting for one of these results.
            AgentError: See `run`.

        Cancellation: see `run`.
        """
        outputs = as_outputs(results)
        agent = _with_model(options, None)
        spec = self._spec("resume", agent, session_id, request_id, "reject", deps=deps)
        spec = attrs.evolve(spec, prompt=UserInput(""), answers=dict(answers), results=outputs)
        return cast("RunResult[OutputT]", await self._result_of(spec))

    # Control the run that holds a session.

    def is_busy(self, session_id: str) -> bool:
        """Return whether a run holds the session."""
        return self._control.is_busy(session_id)

    async def interrupt(self, session_id: str, reason: str = "") -> bool:
        """Stop the run that holds a session, and return once all of its tasks have ended.

        Completed work stays in the session: the prompt, complete responses and the results of tool
        calls. Tool calls in progress are cancelled and get an error result. The caller of the run
        gets a result with `stop_reason="interrupted"`. Queued runs are not affected: the next one
        starts.

        Args:
            session_id: The session.
            reason: The reason to send to the model in the error result of each interrupted tool
                call; empty: no reason.

        Returns:
            True if a run held the session, even if that run already had its final response and
            completed normally.

        Raises:
            SessionBusy: The current code is part of that run, so it would wait for itself.

        Cancellation: safe; the run still ends.
        """
        self._state.check_opened()
        ancestors = [node.session_id for node in self._live_around(current_run.get())]
        return await self._control.interrupt(session_id, reason, ancestors=ancestors)

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

        The run takes the input at its next turn boundary: after the tool calls of a response,
        before the next model request, or instead of ending. The response is part of that run. If
        the run ends before taking the input, the input starts its own run, which keeps the queue
        position of this call. `run(..., on_busy="steer")` does the same, but requires options.

        Args:
            session_id: The session.
            prompt: The user's input.
            options: The agent of the input's own run; None: the agent of the run that holds the
                session.
            request_id: An id that appears in the result; None: a new id.
            deps: The dependencies of the input's own run; see `run`.

        Returns:
            A result with `stop_reason="steered"`, as soon as the run has taken the input and
            recorded it. If the input started its own run, the result of that run.

        Raises:
            SessionIdle: No run holds the session, and `options` is None.
            AgentError: See `run`.

        Cancellation: withdraws the input, or ends the input's own run as `run` does. If the input
        has already been taken, the result is returned.
        """
        self._state.check_opened()
        agent = self._control.agent_of(session_id) if options is None else options
        spec = self._spec(prompt, as_agent(agent), session_id, request_id, "steer", deps=deps)
        return await self._result_of(spec)

    # Short names for methods of `events`, `questions` and `sessions`.

    @overload
    def subscribe(
        self, handler: Handler, **arguments: Unpack[SubscribeArguments]
    ) -> Subscription: ...
    @overload
    def subscribe(
        self,
        handler: Callable[[E], Awaitable[None]],
        event_type: type[E],
        /,
        *types: type[E],
        **arguments: Unpack[SubscribeArguments],
    ) -> Subscription: ...
    def subscribe(
        self,
        handler: Callable[[E], Awaitable[None]],
        *types: type[E],
        **arguments: Unpack[SubscribeArguments],
    ) -> Subscription:
        """Call a handler for the events of all runs; see `events.subscribe`."""
        return self.events.subscribe(cast(Handler, handler), *types, **arguments)

    def publish(self, event: E | EventBuilder[E], *, session_id: str | None = None) -> E:
        """Send your own event to the subscribers; see `events.publish`."""
        return self.events.publish(event, session_id=session_id)

    def notify(
        self, text: str, *, data: JsonValue = None, session_id: str | None = None
    ) -> Notification:
        """Send a notification to the subscribers; see `events.notify`."""
        return self.events.notify(text, data=data, session_id=session_id)

    def answer(self, question_id: str, answer: Answer) -> None:
        """Answer a question from a run, from any task or thread; see `questions.answer`."""
        self.questions.answer(question_id, answer)

    def watch_questions(self, watcher: QuestionWatcher) -> Callable[[], None]:
        """Register callbacks that are called as questions open and close; see `questions.watch`."""
        return self.questions.watch(watcher)

    async def list_sessions(
        self,
        *,
        where: Mapping[str, JsonScalar] | None = None,
        order: SessionOrder = "created",
        limit: int = 50,
        after: str | None = None,
    ) -> SessionPage:
        """List sessions, newest first, one page at a time; see `sessions.list`.

        Cancellation: safe.
        """
        return await self.sessions.list(where=where, order=order, limit=limit, after=after)

    async def session_stats(self, session_id: str) -> SessionStats | None:
        """Return the tokens, requests, tool calls and cost of a session; see `sessions.stats`.

        Cancellation: safe.
        """
        return await self.sessions.stats(session_id)

    def history(self, session_id: str) -> Messages | None:
        """Return the history of a session that is in memory, without waiting; always valid.

        Use `await sessions.history(session_id)` for a session that may not be in memory.

        Returns:
            The history; None if the session is not in memory.
        """
        return self._actors.log.peek(session_id)

    # Open and close the runtime.

    @property
    def is_open(self) -> bool:
        """True if the runtime was opened in this trio run and is not closing."""
        return self._state.is_open

    def statistics(self) -> RuntimeStatistics:
        """Return a snapshot of all counters and gauges."""
        return self._actors.statistics()

    async def __aenter__(self) -> Self:
        """Start the actors.

        Raises:
            RuntimeFailure: The runtime has already been entered.
            SessionStoreError: The store cannot be used.
        """
        protect_loaded_modules()
        self._state.open()
        self._nursery_manager = trio.open_nursery()
        nursery = await self._nursery_manager.__aenter__()
        self._body.__enter__()
        # This wait is shielded; the store's deadline limits it. If a cancellation could end it, the
        # actors' task would keep running, since that task is shielded too. A pending cancellation
        # is raised at the first checkpoint of the body.
        nursery.start_soon(self._actors.serve)  # noqa: ASYNC113 - `ready` is awaited below
        try:
            with trio.CancelScope(shield=True):
                await finish(self._actors.ready.wait)
        except KeyboardInterrupt:
            await self._leave_unused()  # noqa: ASYNC102, ASYNC120 - it shields
            raise
        failure = self._actors.refused or self._actors.crash
        if failure is not None:
            await self._leave_unused()
            raise failure
        self._outer_runtime = innermost_runtime.get()
        innermost_runtime.set(self)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._nursery_manager is not None
        # In a fixture, the runtime may have been entered in another context.
        if innermost_runtime.get() is self:
            innermost_runtime.set(self._outer_runtime)
        closing: BaseException | None = None
        try:
            # After a failed or cancelled body, do not wait for runs. `close` shields the steps that
            # must complete.
            await self._actors.close(self._options.drain if exc is None else 0.0)  # noqa: ASYNC102
        except BaseException as error:  # noqa: ASYNC103, BLE001 - raised below, after the nursery
            closing = error
        remaining = self._leave_body(exc_type, exc, traceback)
        # The only task of the nursery has ended, so this does not block.
        interrupt = await leave_nursery(self._nursery_manager)  # noqa: ASYNC102
        crash = self._actors.interrupt or self._actors.crash
        raise_first(exc, remaining, crash, closing or interrupt)

    async def _leave_unused(self) -> None:
        """Leave a runtime that failed or was interrupted while it was being entered."""
        actors = self._actors
        if actors.refused is None and actors.crash is None and actors.ready.is_set():
            # If entering was interrupted, the interrupt is raised instead of any error from
            # closing.
            with suppress(KeyboardInterrupt, Exception):
                await actors.close(0.0)
        actors.closing = True
        actors.abandon("not entered")
        self._body.__exit__(None, None, None)
        assert self._nursery_manager is not None
        await leave_nursery(self._nursery_manager)

    def _leave_body(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> BaseException | None:
        # Return the body's exception without the cancellation of the runtime's own scope. Only a
        # crash or a Ctrl-C in user code cancels that scope, and that error is raised instead. Other
        # members of a group remain.
        try:
            absorbed = self._body.__exit__(exc_type, exc, traceback)
        except BaseException as rest:  # noqa: ASYNC103, BLE001 - raised by `raise_first`
            return rest  # noqa: ASYNC104
        return None if absorbed else exc

    async def aclose(self, *, drain: float | None = None) -> None:
        """Stop accepting root runs, wait for live runs, cancel the rest, and end every actor.

        Args:
            drain: Seconds to wait for live runs; None: the runtime's `drain`.

        Raises:
            RuntimeError: The method was called from inside one of this runtime's own runs or
                session hooks.

        Cancellation: stops waiting for live runs and cancels them; everything else is still closed.
        Idempotent.
        """
        if self._live_around(current_run.get()) or self._actors.session_hooks.are_around:
            raise RuntimeError(
                "a tool or a hook cannot close the runtime that runs it, since it would wait for "
                "itself; close the runtime where the run was started"
            )
        self._state.check_opened()
        await self._actors.close(self._options.drain if drain is None else drain)

    # Start a run.

    @property
    def options(self) -> RuntimeOptions:
        """The options with which the runtime was opened."""
        return self._options

    @property
    def default_on_busy(self) -> OnBusy:
        """The policy for a session that another run holds, unless a call passes its own policy."""
        return self._options.on_busy

    def session_handle(self, session_id: str | None) -> SessionHandle:
        """Return low-level access to a session, for `Client` and `query()`.

        Args:
            session_id: The session; None: a new id.

        Raises:
            RuntimeClosed: The runtime is closed.
        """
        self._state.check_open()
        actors = self._actors
        return SessionHandle(
            session_id or actors.ids.new(),
            actors.ids,
            actors.wall_clock,
            actors.log,
            self._transactions,
            queue_policy(self._options.on_busy),
            actors.kept_results,
        )

    def stream_spec(self, spec: RunSpec) -> RunStream:
        """Return the stream of a run that starts when the stream is entered; for `Client`."""
        return RunStream(partial(self._start, spec), EventMailbox(spec.options.reader_stall))

    def _spec(
        self,
        prompt: Prompt,
        options: AgentOptions,
        session_id: str | None,
        request_id: str | None,
        on_busy: OnBusy | None,
        *,
        tool_whitelist: Sequence[str] | None = None,
        deps: object = None,
        request: RunRequest = NO_REQUEST,
    ) -> RunSpec:
        prompt_input = request.changed_prompt(user_input(prompt))
        policy = self._options.on_busy if on_busy is None else on_busy
        check_policy(policy)
        ids = self._actors.ids
        session_id = session_id or options.resume
        if session_id and (fault := find_session_id_error(session_id)) is not None:
            raise ConfigError(fault)
        if isinstance(tool_whitelist, str):
            raise ConfigError(f"tool_whitelist must be a list of names; got {tool_whitelist!r}")
        return RunSpec(
            prompt_input,
            options,
            session_id or ids.new(),
            request_id or ids.new(),
            policy,
            tool_whitelist,
            deps=deps,
            request=request,
        )

    async def _compact(
        self, session_id: str, options: AgentOptions[object], instructions: str
    ) -> RunResult:
        spec = self._spec("compact", _with_model(options, None), session_id, None, "reject")
        spec = attrs.evolve(spec, prompt=UserInput(""), compact=instructions)
        return await self._result_of(spec)

    async def _result_of(self, spec: RunSpec) -> RunResult:
        request = (await self._start(spec, None)).request
        call = current_call.get()
        if call is None:
            return await wait_for_result(request)
        async with slots_lent(call):
            return await wait_for_result(request)

    async def _start(self, spec: RunSpec, mailbox: EventMailbox | None) -> StartedRun:
        self._state.check_opened()
        actors = self._actors
        parent = current_run.get()
        around = self._live_around(parent)
        if actors.closing and not around:
            raise RuntimeClosed
        run_id = actors.ids.new()
        held = current_call.get() if around else None
        spec = await self._complete_options(spec, run_id)
        if spec.options.mcp_servers:
            wiring.require_mcp()
        if mailbox is None and spec.slot is not None:
            mailbox = relay_of(current_context.get())
        context = RunContext(
            spec=spec,
            services=actors.services,
            node=RunNode(spec.session_id, run_id, self, parent, current_call.get()),
            parent=current_context.get(),
            parent_tool_use_id=held.call_id if held else None,
            ancestors=tuple(node.session_id for node in around),
            mailbox=mailbox,
        )
        if not spec.client_side_tools:
            check_deps(spec.options.needed_deps, context.deps)
        driver = Driver(context)
        instrumentation = actors.services.instrumentation
        drive = (
            driver.drive
            if instrumentation is None
            else partial(driver.drive_observed, instrumentation)
        )
        if spec.on_busy == "reject" or not actors.gate.is_busy(spec.session_id):
            driver.acquire_nowait()
        actors.services.inboxes[run_id] = context.inbox
        request = await actors.start_run(
            run_id,
            drive,
            cancel=driver.cancel,
            ended=driver.release,
            in_order=context.lease is None,
        )
        return StartedRun(request, context)

    async def _complete_options(self, spec: RunSpec, run_id: str) -> RunSpec:
        if spec.options.builtin_tools or spec.options.offers_skills:
            spec = self._with_builtin_tools(spec)
        options = spec.options
        if spec.target is not None:
            options = options_of_target(options, spec.target)
        if options.deferred:
            info = RunInfo(
                session_id=spec.session_id,
                run_id=run_id,
                request_id=spec.request_id,
                iteration=0,
                started_at=self._actors.wall_clock(),
                agent_name=options.agent_name or "",
            )
            options = await self._factories.completed(options, info)
        if options.agents and not spec.client_side_tools:
            options = self._subagents.added_to(options)
        return spec if options is spec.options else attrs.evolve(spec, options=options)

    def _with_builtin_tools(self, spec: RunSpec) -> RunSpec:
        above = current_context.get()
        inherits = (
            above is not None
            and above.services is self._actors.services
            and above.workspace is not None
        )
        has_workspace = spec.options.workspace is not None or inherits
        added = self._builtin_tools.added_to(spec.options, has_workspace=has_workspace)
        return attrs.evolve(spec, options=added)

    def _live_around(self, node: RunNode | None) -> list[RunNode]:
        # A context variable can outlive its run, but only live runs hold sessions or wait for the
        # current code.
        if node is None:
            return []
        return [n for n in node.lineage() if n.runtime is self and n.run_id in self._actors.live]


def find_open_runtime() -> Runtime | None:
    """Return the innermost open runtime around the current code; None if there is none."""
    runtime = innermost_runtime.get()
    return runtime if isinstance(runtime, Runtime) and runtime.is_open else None


def _with_model(options: AgentOptions[object], model: str | None) -> AgentOptions:
    # Only public signatures use the output type; internal code does not depend on it.
    agent = as_agent(options)
    if model is None:
        return agent
    if not model.strip():
        raise ConfigError(
            "`model` must not be blank; pass the name of a model, or None to use options.model"
        )
    return attrs.evolve(agent, model=model)


def open_runtime(
    *,
    store: SessionStore | None = None,
    drain: float = DRAIN,
    on_busy: OnBusy = "reject",
    max_sessions: int = MAX_SESSIONS,
    session_ttl: float = SESSION_TTL,
    workspace_ttl: float = WORKSPACE_TTL,
    tools_per_run: int = TOOLS_PER_RUN,
    tools_per_runtime: int = TOOLS_PER_RUNTIME,
    threads: int = THREADS_PER_RUNTIME,
    streams_per_endpoint: float = MAX_LIVE_STREAMS,
    read_tick: float = READ_TICK,
    subscriptions: SubscriptionOptions = DEFAULTS,
    instrumentation: Instrumentation | None = None,
) -> Runtime:
    """Construct a runtime; enter it with `async with`.

    Args:
        store: Where session logs are stored; None: in memory.
        drain: Seconds to wait for live runs when closing, before they are cancelled.
        on_busy: The policy for a run on a session that another run holds: `reject` raises
            `SessionBusy`; `queue` waits for the other run to end; `interrupt` stops the other run
            and keeps its completed work; `rollback` stops the other run and rewinds the session to
            the state before it; `steer` sends the input to the other run.
        max_sessions: The maximum number of sessions in memory; when it is exceeded, the least
            recently used session is evicted.
        session_ttl: Seconds that an idle session stays in memory.
        workspace_ttl: Seconds that the workspace of an idle session stays open; `math.inf`: until
            the session is deleted or the runtime closes.
        tools_per_run: The maximum number of concurrent tool calls in one run.
        tools_per_runtime: The maximum number of concurrent tool calls across all runs.
        threads: The maximum number of concurrent calls to sync tools.
        streams_per_endpoint: The maximum number of live streams per endpoint; `math.inf`: no limit.
        read_tick: Under load, the minimum number of seconds between two reads of a connection. One
            look at all connections then serves several of them, which costs less CPU but delays
            deltas by up to this time. Connections are not delayed if there are few of them or if
            little data arrives. 0: never delay. All runtimes in the same `trio.run` share the value
            of the runtime that was opened last.
        subscriptions: The default options for subscriptions.
        instrumentation: Observes runs, model calls, tool calls, hooks, queue waits and commits, for
            example `agent_actors.telemetry.otel.OpenTelemetry`; None: nothing does.

    Raises:
        ConfigError: An option is not valid. The message names the option, the expected value and
            the actual value.
    """
    return Runtime(
        RuntimeOptions(
            store=store,
            drain=drain,
            on_busy=on_busy,
            max_sessions=max_sessions,
            session_ttl=session_ttl,
            workspace_ttl=workspace_ttl,
            tools_per_run=tools_per_run,
            tools_per_runtime=tools_per_runtime,
            threads=threads,
            streams_per_endpoint=streams_per_endpoint,
            read_tick=read_tick,
            subscriptions=subscriptions,
            instrumentation=instrumentation,
        )
    )
