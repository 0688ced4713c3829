"""ToolExecutor: limits concurrent tool calls, with one worker task per call.

The executor owns the slots of a runtime (tools, threads, abandoned threads) and shares them fairly:
16 per run, 256 per runtime, 64 threads. Free slots go round-robin to the runs, so a stuck tool only
occupies its own run's share. The executor knows nothing about models, sessions or hooks. Every
outcome of a tool is a `ToolCallResult`: an invalid argument, an unknown tool, an exception and an
expired deadline are results with `is_error`. Only a cancelled call has no result. Its worker ends
when the tool's `finally` blocks have run, and the driver creates a result for it.

If all slots that an async call needs are free, the call takes them in `submit` and begins in the
next scheduler tick, together with the other calls of its turn and in the model's order. A call that
may have to wait goes through the mailbox, which starts one call per tick, so that waiting calls
queue in the same order.

Sync handlers run in threads. With `on_cancel="join"`, a cancelled call ends when the thread
returns; the handler can check `ctx.cancelled`. With `"abandon"`, the thread is left behind and
counted. Abandoned threads are the only part of a run that may outlive it.
"""

import logging
import math
import weakref
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import attrs
import trio

from agent_actors.abc import BackgroundTasks, Instrumentation, Workspace
from agent_actors.abc.operations import ToolOperation
from agent_actors.actors.run_tree import (
    MAX_CALL_DEPTH,
    CallSlots,
    InnerCalls,
    current_call,
    slots_lent,
)
from agent_actors.codec.json_values import to_json_object
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import EventBuilder
from agent_actors.domain.json import JsonObject, JsonValue, copy_json, copy_object
from agent_actors.domain.limits import DEFAULT_TOOL_TIMEOUT
from agent_actors.domain.run import RunInfo, ToolCallResult
from agent_actors.domain.workspace.report import NO_RESOURCES, CallResources, joined_resources
from agent_actors.errors import ToolArgumentsError
from agent_actors.kernel.actor_loop import ActorLoop
from agent_actors.kernel.exceptions import find_exit_request, is_cancellation
from agent_actors.kernel.fair_limiter import FairLimiter, LimiterStatistics
from agent_actors.kernel.interrupts import await_unprotected, call_unprotected
from agent_actors.kernel.observing import WAIT_FOR_TOOL, observed
from agent_actors.kernel.request import Request
from agent_actors.kernel.shared_exclusive_lock import SharedExclusiveLock
from agent_actors.kernel.user_code import find_user_loop
from agent_actors.tools import Tool, ToolContext, ToolOutput
from agent_actors.tools.fencing import fenced, is_untrusted
from agent_actors.tools.output import converts_fast
from agent_actors.tools.tool import ToolValidator

_log: Final = logging.getLogger(__name__)

# Tool slots. The limit per run keeps a run with hundreds of calls from delaying other runs.
TOOLS_PER_RUN: Final = 16
TOOLS_PER_RUNTIME: Final = 256
# Threads cost memory and context switches, and more threads do not make Python faster.
THREADS_PER_RUNTIME: Final = 64
ABANDONED_THREADS: Final = 64

# Threads are limited by the executor's own slots, which are fair between runs, and not by trio's
# limiter.
_UNBOUNDED: Final = trio.CapacityLimiter(math.inf)


@attrs.frozen
class ToolStatistics:
    """A snapshot of the executor.

    Attributes:
        tools: The slots for running tools.
        threads: The slots for tools that run in threads.
        abandoned: Threads of tools with `on_cancel="abandon"` that have not returned yet.
        calls: Calls started so far.
    """

    tools: LimiterStatistics
    threads: LimiterStatistics
    abandoned: int
    calls: int


class ToolGuard(Protocol):
    """The hooks and permission checks around the calls of a run."""

    async def admit(self, call: ToolUseBlock, tool: Tool) -> ToolUseBlock | ToolOutput:
        """Return the call to execute, or an output for the model if the call is not allowed.

        The check may take any amount of time, since the call does not hold a slot yet.
        """
        ...

    async def around(
        self,
        call: ToolUseBlock,
        tool: Tool,
        handler: Callable[[ToolUseBlock], Awaitable[ToolOutput]],
    ) -> ToolOutput:
        """Call the handler, within the call's deadline."""
        ...

    async def after(self, call: ToolUseBlock, output: ToolOutput) -> ToolOutput:
        """Return the output that the model receives."""
        ...


class ResultCutter(Protocol):
    """Truncates results of a run that are too long."""

    def fits(self, output: ToolOutput) -> bool:
        """Return whether an output is certainly short enough."""
        ...

    async def cut(self, call_id: str, output: ToolOutput) -> tuple[ToolOutput, int]:
        """Return a short enough output, and the size of the complete text if it was truncated."""
        ...


class InnerCallKeeper(Protocol):
    """Counts and records the calls that the tools of a run make with `call_tool`."""

    async def perform(
        self,
        outer_id: str,
        call: ToolUseBlock,
        execute: Callable[[], Awaitable[ToolCallResult]],
    ) -> ToolCallResult:
        """Record a call, execute it if the limits of the run allow it, and record its result."""
        ...


@attrs.frozen(eq=False)
class RunTools:
    """The properties that all tool calls of one run share.

    Attributes:
        run_id: The id of the run; slots are shared between runs.
        tools: The available tools, by name.
        cwd: The run's working directory.
        info: Returns a snapshot of the run.
        on_progress: Called with a call's id, its tool's name and the reported progress, in any
            thread.
        on_record: Called with an event that a call records and the call's id, in any thread.
        timeout: Time limit, in seconds, for a call whose tool does not set its own timeout.
        validator: Validates the arguments of every call, after the tool's own validation; None for
            none.
        guard: The hooks and permission checks around the calls; None for none.
        cutter: Truncates results that are too long; None for no limit.
        workspace: The workspace of the run; None if the run has none.
        background: The background commands of the session; None if the run has no workspace.
        inner: Counts and records the calls that tools make; None: tools cannot make calls.
        deps: The dependencies of the run.
        instrumentation: Observes the calls; None: nothing does.
        turns: The lock that orders shared and exclusive calls.
        starting: Calls that begin in the next tick, in the order of their submission.
        in_line: Calls that have not entered a queue for slots yet; later calls must not overtake
            them.
    """

    run_id: str
    tools: Mapping[str, Tool]
    cwd: Path
    info: Callable[[], RunInfo]
    on_progress: Callable[[str, str, JsonValue], None]
    on_record: Callable[[EventBuilder, str], None]
    timeout: float = DEFAULT_TOOL_TIMEOUT
    validator: ToolValidator | None = None
    guard: ToolGuard | None = None
    cutter: ResultCutter | None = None
    workspace: Workspace | None = None
    background: BackgroundTasks | None = None
    inner: InnerCallKeeper | None = None
    deps: object = attrs.field(default=None, repr=False)
    instrumentation: Instrumentation | None = None
    turns: SharedExclusiveLock = attrs.field(factory=SharedExclusiveLock)
    # Usually empty; a deque and a set would cost each run 800 bytes.
    starting: "list[_Call]" = attrs.field(factory=list["_Call"])
    in_line: "dict[_Call, None]" = attrs.field(factory=dict["_Call", None])


class _Call(Request[ToolCallResult]):
    """The request for one call, and its slots.

    Attributes:
        run: The run of the call.
        block: The call as requested by the model.
        tool: The tool; None if the run has no tool with that name.
        held: The slots of the call, which are released when it has an outcome.
        at_once: True if the call had all its slots when it was submitted.
        started_at: The wall-clock time at which it started.
        started: The same time, by trio's clock.
        exception: The exception that the tool raised; None if its last execution raised none.
        resources: The resources that the tool reported; None if it reported none.
        untrusted: True if the tool returned content from outside.
        outer: The call whose tool made this call; None if the model made it.
        inner: The calls that the tool of this call made; None if it made none.
    """

    __slots__ = (
        "at_once",
        "block",
        "exception",
        "held",
        "inner",
        "outer",
        "resources",
        "run",
        "started",
        "started_at",
        "tool",
        "untrusted",
    )

    def __init__(
        self,
        run: RunTools,
        block: ToolUseBlock,
        work: "Callable[[_Call], Awaitable[ToolCallResult]]",
        outer: "_Call | None" = None,
    ) -> None:
        super().__init__(partial(work, self))
        self.run = run
        self.block = block
        self.tool = run.tools.get(block.name)
        self.held = CallSlots(block.id)
        self.at_once = False
        self.started_at = self.started = 0.0
        self.exception: BaseException | None = None
        self.resources: list[CallResources] | None = None
        self.untrusted = False
        self.outer = outer
        self.inner: InnerCalls | None = None
        if outer is not None:
            self.held.outer = outer.held

    @property
    def turns(self) -> SharedExclusiveLock:
        """The lock that orders this call among others."""
        outer = self.outer
        return self.run.turns if outer is None else outer.inner_calls.turns

    @property
    def inner_calls(self) -> InnerCalls:
        """The calls that the tool of this call makes."""
        if self.inner is None:
            depth = 1 if self.outer is None else self.outer.inner_calls.depth + 1
            exclusive = self.tool is not None and self.tool.exclusive
            self.inner = InnerCalls(depth, self.turns, exclusive)
        return self.inner

    def leave_turn(self) -> None:
        """Release the lock that orders the calls, at the end of this call."""
        if self.inner is None or not self.inner.lent:
            self.turns.release(exclusive=self.tool is not None and self.tool.exclusive)

    def note_resources(self, resources: CallResources) -> None:
        """Add resources that the tool used; from any thread."""
        if self.resources is None:
            self.resources = []
        self.resources.append(resources)

    async def perform(self, lost: Callable[[], Exception]) -> None:
        """Run the call and resolve it, and report it to the instrumentation of the run."""
        instrumentation, tool = self.run.instrumentation, self.tool
        if instrumentation is None:
            await super().perform(lost)
            return
        call = self.block
        operation = ToolOperation(
            call.name, call.id, call.input, "" if tool is None else tool.description
        )
        with instrumentation.observe(operation) as observation:
            await super().perform(lost)
            observation.note_outcome(self._value[0] if self._error is None else self._error)

    def enter(self) -> None:
        """Mark this call as the current one, so that child runs of its tool find it."""
        self.held.scope = self._scope
        current_call.set(self.held)

    def _settle(self, error: Exception | None) -> None:
        self.held.ended = True
        self.held.release_all()
        super()._settle(error)


@attrs.frozen(eq=False)
class CallContext:
    """The `ToolContext` that a handler receives."""

    run: RunInfo
    call_id: str
    tool_name: str
    cwd: Path
    on_progress: Callable[[str, str, JsonValue], None]
    on_record: Callable[[EventBuilder, str], None]
    on_used: Callable[[CallResources], None]
    workspace: Workspace | None
    background: BackgroundTasks | None
    on_call: Callable[[str, JsonObject], Awaitable[ToolCallResult]]
    deps: object
    token: trio.lowlevel.TrioToken

    @property
    def session_id(self) -> str:
        """The session."""
        return self.run.session_id

    @property
    def run_id(self) -> str:
        """The run."""
        return self.run.run_id

    @property
    def request_id(self) -> str:
        """The caller's id of the request."""
        return self.run.request_id

    @property
    def cancelled(self) -> bool:
        """True if the call was cancelled."""
        if self._is_in_our_run():
            return trio.current_effective_deadline() == -math.inf
        try:
            trio.from_thread.check_cancelled()
        except trio.Cancelled:  # noqa: ASYNC103 - in a thread this is only information
            return True  # noqa: ASYNC104
        except RuntimeError:
            return False  # called in a thread that the handler itself started
        return False

    def report(self, progress: JsonValue) -> None:
        """Report progress to the readers of the run."""
        tell = partial(self.on_progress, self.call_id, self.tool_name, copy_json(progress))
        if self._is_in_our_run():
            tell()
            return
        with suppress(trio.RunFinishedError):  # an abandoned thread may outlive the run
            self.token.run_sync_soon(tell)

    def record(self, event: EventBuilder) -> None:
        """Record an event with the result of the call."""
        self.on_record(event, self.call_id)

    def used(self, resources: CallResources) -> None:
        """Report resources that the call used."""
        self.on_used(resources)

    async def call_tool(self, name: str, arguments: Mapping[str, JsonValue]) -> ToolCallResult:
        """Call another tool of the run."""
        return await self.on_call(name, to_json_object(arguments))

    def _is_in_our_run(self) -> bool:
        return _is_in_run(self.token)


class ToolExecutor:
    """The executor of one runtime.

    Args:
        wall_clock: Returns seconds since the epoch, for `started_at` and `completed_at`.
        tools_per_run: The maximum number of concurrent calls in one run.
        tools_per_runtime: The maximum number of concurrent calls across all runs.
        threads: The maximum number of concurrent sync handlers.
        abandoned_threads: The maximum number of live threads of tools with `on_cancel="abandon"`.
    """

    def __init__(
        self,
        wall_clock: Callable[[], float],
        *,
        tools_per_run: int = TOOLS_PER_RUN,
        tools_per_runtime: int = TOOLS_PER_RUNTIME,
        threads: int = THREADS_PER_RUNTIME,
        abandoned_threads: int = ABANDONED_THREADS,
    ) -> None:
        self.owner: ActorLoop = ActorLoop("tool_executor")
        self._wall_clock = wall_clock
        self._slots = FairLimiter(tools_per_runtime, tools_per_run)
        self._threads = FairLimiter(threads, tools_per_run)
        self._abandonable = trio.CapacityLimiter(abandoned_threads)
        self._by_tool: weakref.WeakKeyDictionary[Tool, FairLimiter] = weakref.WeakKeyDictionary()
        self._calls = 0

    async def submit(self, run: RunTools, call: ToolUseBlock) -> Request[ToolCallResult]:
        """Start a call without waiting for it; the caller must join it, even if cancelled.

        Raises:
            RuntimeClosed: The executor has ended.
            ActorCrashed: An actor has crashed.

        Cancellation: safe; a cancelled call starts nothing.
        """
        request = _Call(run, call, self._perform)
        if not self._begin_at_once(request):
            run.in_line[request] = None
            request.on_done(partial(run.in_line.pop, request, None))  # in case it is withdrawn
            await self.owner.submit(request)
        return request

    def statistics(self) -> ToolStatistics:
        """Return a snapshot."""
        return ToolStatistics(
            tools=self._slots.statistics(),
            threads=self._threads.statistics(),
            abandoned=self._abandonable.borrowed_tokens,
            calls=self._calls,
        )

    # Start calls.

    def _begin_at_once(self, request: _Call) -> bool:
        run = request.run
        if run.in_line or run.guard is not None or not self.owner.started:
            return False
        if run.starting and run.starting[-1].context != request.context:
            return False  # the workers of a tick may swap calls, see `_perform_next`
        if not self._take_nowait(request):
            request.held.release_all()
            return False
        request.at_once = True
        run.starting.append(request)
        try:
            self.owner.start(request, partial(self._perform_next, run))
        except BaseException:
            run.starting.pop()
            request.held.release_all()
            raise
        return True

    def _take_nowait(self, request: _Call) -> bool:
        run, tool, held = request.run, request.tool, request.held
        if tool is None:
            return True
        if not tool.is_async:
            return False  # the call must wait for a thread
        if not run.turns.take_nowait(exclusive=tool.exclusive):
            return False
        held.at_end(request.leave_turn)
        bound = tool.max_concurrency
        if bound is not None and not held.take_nowait(self._slots_of(tool, bound), run.run_id):
            return False
        return held.take_nowait(self._slots, run.run_id)

    async def _take(self, request: _Call, tool: Tool) -> None:
        run, held = request.run, request.held
        with observed(run.instrumentation, WAIT_FOR_TOOL):
            await request.turns.acquire(exclusive=tool.exclusive)
            held.at_end(request.leave_turn)
            if tool.max_concurrency is not None:
                await held.take(self._slots_of(tool, tool.max_concurrency), run.run_id)
            await held.take(self._slots, run.run_id)
        # If the slot was granted in the same tick as a cancellation, the tool is not started.
        await trio.lowlevel.checkpoint_if_cancelled()

    async def _perform_next(self, run: RunTools, lost: Callable[[], Exception]) -> None:
        # Trio runs the tasks of one tick in any order, but the calls must begin in the model's
        # order. Any worker may perform any of these calls, because their contexts are equal.
        request = run.starting.pop(0)
        if request.tool is not None:
            self._start_clock(request, request.tool)
        await request.perform(lost)

    # Run calls.

    async def _perform(self, request: _Call) -> ToolCallResult:
        run, call, tool = request.run, request.block, request.tool
        if not request.at_once:
            run.in_line.pop(request, None)
        if tool is None:
            return _failed(call, _unknown_tool(call.name, run.tools))
        try:
            fault = self._fault(request, tool, call)
            if fault:
                return _failed(call, fault, request.exception)
            if run.guard is not None:
                return await self._guarded(request, tool, run.guard)
            if not request.at_once:
                await self._take(request, tool)
                self._start_clock(request, tool)
            self._calls += 1
            request.enter()
            return await self._cut(request, await self._execute(request, tool))
        except KeyboardInterrupt as error:  # raised in user code, for example in a validator
            self.owner.take_interrupt(error)
            return _failed(request.block, _interrupted(call.name))

    async def _guarded(self, request: _Call, tool: Tool, guard: ToolGuard) -> ToolCallResult:
        admitted = await guard.admit(request.block, tool)
        if isinstance(admitted, ToolOutput):
            return _tool_result(request.block, admitted)
        request.block = admitted
        await self._take(request, tool)
        self._calls += 1
        request.enter()
        request.started_at, request.started = self._wall_clock(), trio.current_time()
        timeout = request.run.timeout if tool.timeout is None else tool.timeout
        output = ToolOutput(_late(admitted, timeout), is_error=True)
        with trio.move_on_after(timeout) as request.held.scope:
            output = await guard.around(admitted, tool, partial(self._handle, request, tool))
        return await self._cut(request, await guard.after(request.block, output))

    async def _handle(self, request: _Call, tool: Tool, call: ToolUseBlock) -> ToolOutput:
        fault = self._fault(request, tool, call)  # a hook may have changed the arguments
        if fault:
            return ToolOutput(fault, is_error=True)
        request.block = call
        return await self._execute(request, tool)

    def _fault(self, request: _Call, tool: Tool, call: ToolUseBlock) -> str:
        """Return the reason why the call's arguments are not valid; empty if they are valid."""
        request.exception = None
        try:
            call_unprotected(tool.check, call.input)
        except ToolArgumentsError as error:
            if error.__cause__ is not None:  # the tool's own validator raised
                _note_exception(request, error.__cause__)
            return str(error)
        validator = request.run.validator
        if validator is None:
            return ""
        try:
            return call_unprotected(validator, call.name, copy_object(call.input)) or ""
        except Exception as error:  # noqa: BLE001 - an error in user code only fails this call
            _note_exception(request, error)
            return f"the validator of all tools raised {type(error).__name__}: {error}"

    def _start_clock(self, request: _Call, tool: Tool) -> None:
        request.started_at, request.started = self._wall_clock(), trio.current_time()
        timeout = request.run.timeout if tool.timeout is None else tool.timeout
        if timeout != math.inf:
            request.expire_at(request.started + timeout, partial(self._missed, request, timeout))

    def _missed(self, request: _Call, timeout: float) -> ToolCallResult:
        return self._result(request, ToolOutput(_late(request.block, timeout), is_error=True))

    async def _cut(self, request: _Call, output: ToolOutput) -> ToolCallResult:
        if request.outer is not None:  # the result goes to a tool, not to a model
            return self._result(request, output)
        cutter, complete_bytes = request.run.cutter, 0
        if cutter is not None and not cutter.fits(output):
            output, complete_bytes = await cutter.cut(request.block.id, output)
        if request.untrusted or request.held.untrusted:
            output = fenced(output, request.block.name, request.block.id)
        result = self._result(request, output)
        return attrs.evolve(result, complete_bytes=complete_bytes) if complete_bytes else result

    def _result(self, request: _Call, output: ToolOutput) -> ToolCallResult:
        call = request.block
        return ToolCallResult(
            call.id,
            call.name,
            call.input,
            output.content,
            output.is_error,
            output.data,
            request.started_at,
            max(request.started_at, self._wall_clock()),
            trio.current_time() - request.started,
            exception=request.exception if output.is_error else None,
            resources=(
                NO_RESOURCES if request.resources is None else joined_resources(request.resources)
            ),
            untrusted=request.untrusted or request.held.untrusted,
        )

    async def _execute(self, request: _Call, tool: Tool) -> ToolOutput:
        output = await self._output_of_handler(request, tool)
        if request.inner is not None and request.inner.failure is not None:
            raise request.inner.failure
        if is_untrusted(output, tool):
            request.untrusted = True
        return output

    async def _output_of_handler(self, request: _Call, tool: Tool) -> ToolOutput:
        call = request.block
        # Few handlers take a context, and creating one costs a snapshot of the run.
        context = self._context(request) if tool.takes_context else None
        try:
            if tool.is_async:
                returned = await _call_async(tool, call.input, context)
                if not converts_fast(returned):
                    convert = partial(tool.output_of, returned)
                    return await trio.to_thread.run_sync(convert, limiter=_UNBOUNDED)
                return call_unprotected(tool.output_of, returned)
            work = partial(tool.invoke_sync, call.input, context)
            if tool.on_cancel == "abandon":
                return await self._in_abandonable_thread(work)
            await request.held.take(self._threads, request.run.run_id)
            return await trio.to_thread.run_sync(work, limiter=_UNBOUNDED)
        except BaseException as error:  # noqa: ASYNC103 - every exception that a tool raises becomes its result
            if is_cancellation(error):
                raise
            rest = self.owner.take_interrupt(error)
            if rest is None:
                return ToolOutput(_interrupted(call.name), is_error=True)  # noqa: ASYNC104
            stop = find_exit_request(rest)
            if stop is not None:
                raise stop from None  # noqa: ASYNC104
            _note_exception(request, rest)
            return _raised(call.name, rest)  # noqa: ASYNC104

    def _context(self, request: _Call) -> CallContext:
        run, call = request.run, request.block
        token = trio.lowlevel.current_trio_token()
        return CallContext(
            run=run.info(),
            call_id=call.id,
            tool_name=call.name,
            cwd=run.cwd,
            on_progress=run.on_progress,
            on_record=run.on_record,
            on_used=request.note_resources,
            workspace=run.workspace,
            background=run.background,
            deps=run.deps,
            on_call=partial(self._call_tool, request, token),
            token=token,
        )

    # Calls that tools make.

    async def _call_tool(
        self, outer: _Call, token: trio.lowlevel.TrioToken, name: str, arguments: JsonObject
    ) -> ToolCallResult:
        if not _is_in_run(token):
            raise RuntimeError(
                "call_tool() must be awaited in the trio run of the tool call; in a sync handler, "
                "use trio.from_thread.run(context.call_tool, name, arguments)"
            )
        keeper = outer.run.inner
        if keeper is None or outer.held.ended:
            raise RuntimeError(
                f"call {outer.block.id!r} has ended; call_tool() can be used only during the call"
            )
        if outer.tool is not None and not outer.tool.is_async and outer.tool.on_cancel == "abandon":
            raise RuntimeError(
                f"tool {outer.tool.name!r} has on_cancel='abandon', so its thread may outlive the "
                "run; only other tools can use call_tool()"
            )
        calls = outer.inner_calls
        calls.made += 1
        call = ToolUseBlock(f"{outer.block.id}/{calls.made}", name, arguments)
        try:
            result = await keeper.perform(
                outer.block.id, call, partial(self._perform_inner, outer, call)
            )
        except Exception as error:
            calls.failure = calls.failure or error
            raise
        if result.untrusted:
            outer.held.untrusted = True
        outer.note_resources(result.resources)
        return result

    async def _perform_inner(self, outer: _Call, call: ToolUseBlock) -> ToolCallResult:
        if outer.inner_calls.depth > MAX_CALL_DEPTH:
            return _failed(call, f"tools may call each other at most {MAX_CALL_DEPTH} levels deep")
        request = _Call(outer.run, call, self._perform, outer)
        if request.tool is not None and request.tool.external:
            return _failed(call, f"tool {call.name!r} has no handler; only the model can call it")
        async with slots_lent(outer.held), outer.inner_calls:
            await self.owner.submit(request)
            return await request.wait()

    async def _in_abandonable_thread(self, work: Callable[[], ToolOutput]) -> ToolOutput:
        if self._abandonable.available_tokens < 1:
            return ToolOutput(
                f"the tool was not run, since {self._abandonable.borrowed_tokens} abandoned tools "
                "are still running",
                is_error=True,
            )
        return await trio.to_thread.run_sync(
            work, abandon_on_cancel=True, limiter=self._abandonable
        )

    def _slots_of(self, tool: Tool, bound: int) -> FairLimiter:
        slots = self._by_tool.get(tool)
        if slots is None:
            slots = self._by_tool[tool] = FairLimiter(bound)
        return slots


def _is_in_run(token: trio.lowlevel.TrioToken) -> bool:
    # A handler in a thread may have its own trio run in that thread.
    return trio.lowlevel.in_trio_run() and trio.lowlevel.current_trio_token() is token


async def _call_async(tool: Tool, arguments: JsonObject, context: ToolContext | None) -> object:
    loop = find_user_loop(tool.handler)
    if loop is None:
        return await await_unprotected(tool.call, arguments, context)
    return await loop.call(tool.call, arguments, context)


def _late(call: ToolUseBlock, timeout: float) -> str:
    return f"tool {call.name!r} did not finish within {timeout:g} s"


def _tool_result(call: ToolUseBlock, output: ToolOutput) -> ToolCallResult:
    return ToolCallResult(
        call.id, call.name, call.input, output.content, output.is_error, output.data
    )


def _failed(call: ToolUseBlock, why: str, exception: BaseException | None = None) -> ToolCallResult:
    return ToolCallResult(call.id, call.name, call.input, why, is_error=True, exception=exception)


def _note_exception(request: _Call, error: BaseException) -> None:
    """Keep a tool's exception for the result, and log it; arguments are never logged."""
    call = request.block
    if isinstance(error, ToolArgumentsError) and error.tool == call.name:
        return  # the arguments do not match the annotated types, so the handler was not called
    # The executor's frame refers to the request, which refers to the exception.
    traceback = error.__traceback__
    request.exception = error.with_traceback(traceback.tb_next if traceback else None)
    info = request.run.info()
    _log.warning(
        "tool %r raised %s (session %s, run %s, call %s)",
        call.name,
        type(error).__name__,
        info.session_id,
        info.run_id,
        call.id,
        exc_info=request.exception,
    )


def _raised(name: str, error: BaseException) -> ToolOutput:
    if isinstance(error, ToolArgumentsError) and error.tool == name:
        return ToolOutput(str(error), is_error=True)  # the handler was not called
    detail = str(error) or "no message"
    return ToolOutput(f"tool {name!r} raised {type(error).__name__}: {detail}", is_error=True)


def _interrupted(name: str) -> str:
    return f"tool {name!r} was interrupted by Ctrl-C"


def _unknown_tool(name: str, tools: Mapping[str, Tool]) -> str:
    offered = ", ".join(sorted(tools)) or "none"
    return f"unknown tool {name!r}; the available tools are: {offered}"
