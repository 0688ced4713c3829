"""The driver of one run: feeds the turn machine and executes the commands that it returns.

The driver makes no decisions. The turn machine decides the next step, the budget decides how much
may be spent, and the tool guard decides which calls may be executed. `closing.py` closes every run
in the same way, whether it ended with a result, an error, or a cancellation at any checkpoint.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, assert_never

import trio

from agent_actors.abc import Instrumentation
from agent_actors.abc.operations import RunOperation, RunOutcome
from agent_actors.actors.run_tree import current_call, current_run
from agent_actors.domain.run import RunResult, StopReason
from agent_actors.errors import ProviderError, RunDeadlineExceeded, RuntimeShutdown
from agent_actors.kernel.exceptions import foreign_cancellation, is_cancellation
from agent_actors.kernel.pausable_deadline import PausableDeadline, TrioRunRef
from agent_actors.protocol.turn import (
    Append,
    CallModel,
    CheckOutput,
    Commands,
    Compact,
    ContextFull,
    Continued,
    Entry,
    Finish,
    Resumed,
    StartTool,
    ToolFinished,
)
from agent_actors.runs.closing import RunEnd, close_run
from agent_actors.runs.context import RunContext, current_context
from agent_actors.runs.hooks.run_hooks import HookBlock, RunBlocked
from agent_actors.runs.hooks.subagent_hooks import Subagent, subagent_of
from agent_actors.runs.model.compactor import compactor_of, explain_overflow
from agent_actors.runs.model.model_calls import ModelCaller
from agent_actors.runs.opening import acquire_session_nowait, begin_run, open_session
from agent_actors.runs.tools.tool_runner import ToolRunner

if TYPE_CHECKING:
    from agent_actors.domain.model import ModelCompleted

_CANCELLED: Final = RunEnd()


MAX_CONTINUED: Final = 5
"""Maximum number of times that `on_stop` hooks can make one run continue."""


class Driver:
    """One run, from its start to its last event.

    Args:
        context: The context of the run.
    """

    __slots__ = (
        "_answer",
        "_blocked",
        "_budget",
        "_compactor",
        "_context",
        "_continued",
        "_deferred",
        "_model",
        "_pending",
        "_subagent",
        "_tools",
    )

    def __init__(self, context: RunContext) -> None:
        self._context = context
        assert context.budget is not None  # the run has not begun
        self._budget = context.budget
        self._tools = ToolRunner(context, self._budget)
        self._model = ModelCaller(context, self._budget)
        self._compactor = compactor_of(context, self._model)
        self._subagent: Subagent | None = subagent_of(context)
        # The entries that are not recorded yet, and the response among them, if there is one.
        self._pending: list[Entry] = []
        self._answer: ModelCompleted | None = None
        # The number of times that a hook made the run continue.
        self._continued = 0
        # True if the driver was woken because a call was deferred.
        self._deferred = False
        # The reason why a hook for a call ended the run; raised once all results so far are
        # recorded.
        self._blocked: HookBlock | None = None

    def cancel(self, reason: str) -> None:
        """Cancel the run. Only the first reason counts.

        The driver still closes the session cleanly.
        """
        self._context.stop.cancel(reason)

    def acquire_nowait(self) -> None:
        """Acquire the session.

        Raises:
            SessionBusy: Another run holds the session.
        """
        acquire_session_nowait(self._context)

    async def drive_observed(self, instrumentation: Instrumentation) -> RunResult:
        """Execute the run as `drive` does, and report it to an instrumentation.

        Raises:
            AgentError, RequestCancelled: See `drive`.

        Cancellation: see `drive`.
        """
        with instrumentation.observe(_operation(self._context)) as observation:
            result = await self.drive()
            observation.note_outcome(RunOutcome(result.stop_reason, result.usage))
            return result

    async def drive(self) -> RunResult:
        """Execute the run until it ends, and return its result.

        Raises:
            AgentError: The run failed with this error. The session stays valid.
            RequestCancelled: The caller cancelled the run.

        Cancellation: all calls of the run end before the cancellation propagates.
        """
        context = self._context
        context.node.home = TrioRunRef(PausableDeadline(context.stop.scope))
        current_run.set(context.node)
        current_context.set(context)
        current_call.set(None)
        try:
            end = await self._attempt()
        except BaseException:
            # An actor has crashed, so this task is being cancelled. Its calls must end before the
            # caller is notified.
            await self._tools.join()  # noqa: ASYNC102 - shielded there
            raise
        return await close_run(context, self._tools, self._model, self._subagent, end)

    def release(self) -> None:
        """Release everything that the run holds; called once, even if the run never began."""
        context = self._context
        steps: list[Callable[[], None]] = [partial(context.inbox.end, None)]
        if context.session is not None:
            steps.append(context.session.close)
        if context.lease is not None:
            steps.append(context.lease.release)
        if context.workspace is not None:
            steps.append(context.workspace.release)
        if context.tool_servers is not None:
            steps.append(context.tool_servers.release)
        if context.mailbox is not None:
            steps.append(context.mailbox.close)
        _call_each((*steps, context.end))

    async def _attempt(self) -> RunEnd:
        context = self._context
        end = _CANCELLED
        timeout = context.options.run_timeout
        scope = context.stop.scope
        if timeout != math.inf:
            scope.deadline = context.started + timeout
        with scope:
            try:
                await open_session(context)
                self._budget.session = context.opened_session.state
                end = RunEnd(stop_reason=await self._run_turns())
            except RunBlocked as blocked:
                block = blocked.block
                end = RunEnd(stop_reason=block.stop_reason, why=block.why)
                if block.usage is not None:
                    context.journal.add(context.usage.enter_usage(block.usage))
            except Exception as error:  # noqa: BLE001 - raised once the session is closed
                end = RunEnd(failure=error)
            except trio.Cancelled as error:  # noqa: ASYNC103
                if is_cancellation(error):
                    raise
                end = RunEnd(failure=foreign_cancellation())
            except KeyboardInterrupt as error:  # only user code can be interrupted here
                context.services.take_interrupt(error)
                end = RunEnd(failure=RuntimeShutdown())
        if context.stop.steered is not None:
            failure, stop_reason = context.stop.steered
            return RunEnd(failure=failure, stop_reason=stop_reason)
        if scope.cancelled_caught and context.stop.reason is None:
            return RunEnd(failure=RunDeadlineExceeded(timeout))
        return end

    async def _run_turns(self) -> str:
        """Execute commands until the machine finishes; return the stop reason."""
        context, machine = self._context, self._context.machine
        first = await begin_run(context, self._tools, self._subagent)
        if first is None:
            return StopReason.COMPLETED
        if isinstance(first, Resumed):
            self._blocked = self._tools.blocked
        # A tuple and not a deque: there are few commands, and a deque takes 600 bytes.
        commands = machine.feed(first)
        while True:  # noqa: ASYNC913 - commands are finite; waiting for results checkpoints
            if not commands:
                commands = await self._await_results()
                continue
            command, commands = commands[0], commands[1:]
            refusal = self._budget.refusal(machine, command, self._answer)
            if refusal is not None:
                # Replace the commands that were not executed with the machine's commands for the
                # refusal.
                commands = machine.feed(refusal)
                continue
            match command:
                case Append(entries=entries):
                    self._pending += entries
                case CallModel():
                    await self._record_pending()
                    if self._compactor is not None and self._compactor.is_due():
                        commands += machine.feed(ContextFull("threshold"))
                        continue
                    if context.options.offers_by_turn:
                        await self._tools.choose()
                    try:
                        answer = await self._model.call(self._tools.specs)
                    except ProviderError as error:
                        commands += self._take_overflow(error)
                    else:
                        commands += self._take_answer(answer)
                case Compact():
                    await self._record_pending()
                    assert self._compactor is not None  # otherwise no event leads to this command
                    await self._compactor.compact(command)
                case StartTool(call=call):
                    if self._pending or self._blocked is not None or context.journal.has_records:
                        await self._record_pending()
                    await self._tools.start(call)
                case CheckOutput():
                    commands += machine.feed(context.output.check(command))
                case Finish(stop_reason=stop_reason):
                    reason = await self._finish(stop_reason)
                    if not reason:
                        return stop_reason
                    commands += machine.feed(Continued(reason))
                case _:
                    assert_never(command)

    def _take_overflow(self, error: ProviderError) -> Commands:
        """Start a compaction if the request was too long; otherwise raise the error."""
        context, compactor = self._context, self._compactor
        overflows = explain_overflow(context, error)
        if (
            overflows
            and compactor is not None
            and compactor.takes_overflow(error, context.machine.iteration)
        ):
            return context.machine.feed(ContextFull("overflow"))
        raise error

    def _take_answer(self, answer: "ModelCompleted | HookBlock") -> Commands:
        context = self._context
        if isinstance(answer, HookBlock):
            raise RunBlocked(answer)
        self._answer = answer
        self._budget.note_answer(answer)
        context.output.forget()
        context.inbox.before_answer(answer)
        return context.machine.feed(answer)

    async def _await_results(self) -> Commands:
        """Wait for calls to end, or end the run if all open calls are deferred."""
        context, tools = self._context, self._tools
        machine = context.machine
        if self._blocked is None:
            end = tools.deferred.end_of_run(machine)
            if end is not None:
                return machine.feed(end)
        await self._record_pending()
        if self._deferred:
            await context.journal.commit()  # questions and the actions of hooks for the calls
        results = await tools.results()
        self._deferred = not results
        context.inbox.before_results(len(results))
        commands: Commands = ()
        for result in results:
            commands += machine.feed(ToolFinished(result))
        self._blocked = tools.blocked
        return commands

    async def _record_pending(self) -> None:
        """Commit the entries so far, since the next command depends on them.

        Raises:
            RunBlocked: A hook for a call ended the run.
        """
        context = self._context
        self._queue_pending()
        if context.journal.has_records:
            await context.journal.commit()
            context.note_commit()
        if self._blocked is not None:
            raise RunBlocked(self._blocked)

    def _queue_pending(self) -> None:
        if self._pending:
            self._context.journal.add(*self._context.usage.records(self._pending))
            self._pending = []
        self._answer = None

    async def _finish(self, stop_reason: str) -> str:
        """Fire `on_stop`; return the input with which a hook makes the run continue, or ''."""
        context = self._context
        self._queue_pending()  # recorded in the same commit as the end of the run
        if self._blocked is not None:
            raise RunBlocked(self._blocked)
        if stop_reason == StopReason.AWAITING_APPROVAL:
            context.journal.add(self._tools.deferred.record())
        elif (
            context.hooks is not None
            and context.spec.compact is None
            and stop_reason != StopReason.AWAITING_RESULTS
        ):
            reason = await context.hooks.stop(context.usage.text, stop_reason)
            if stop_reason == StopReason.COMPLETED and self._continued < MAX_CONTINUED:
                self._continued += bool(reason)
                return reason
        return ""


def _operation(context: RunContext) -> RunOperation:
    options, parent = context.options, context.node.parent
    session_id, run_id, request_id = context.ids
    return RunOperation(
        session_id=session_id,
        run_id=run_id,
        request_id=request_id,
        provider_name=options.provider_name,
        model=options.model,
        agent_name=options.agent_name,
        parent_run_id=None if parent is None else parent.run_id,
        parent_tool_use_id=context.parent_tool_use_id,
    )


def _call_each(steps: Sequence[Callable[[], None]]) -> None:
    """Call all functions, even if one of them fails, since waiting runs and readers depend on them.

    Raises:
        Exception: The last error of a function.
    """
    for position, step in enumerate(steps, 1):
        try:
            step()
        except BaseException:
            _call_each(steps[position:])
            raise
