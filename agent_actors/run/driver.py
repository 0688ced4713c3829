"""The driver of one run: feeds the turn machine and executes the commands that it returns.

The driver makes no decisions. The turn machine decides the next step, the budget decides how much
may be spent, and the tool guard decides which calls may be executed. `closing.py` closes every run
in the same way, whether it ended with a result, an error, or a cancellation at any checkpoint.
"""

from collections import deque
from contextlib import ExitStack
from typing import TYPE_CHECKING, assert_never

import trio

from agent_actors.actors.run_tree import current_call, current_run
from agent_actors.domain.run import RunResult, StopReason
from agent_actors.errors import RunDeadlineExceeded, RuntimeShutdown
from agent_actors.kernel.exceptions import foreign_cancellation, is_cancellation
from agent_actors.kernel.pausable_deadline import PausableDeadline, TrioRunRef
from agent_actors.protocol.turn import (
    Append,
    CallModel,
    CheckOutput,
    Commands,
    Entry,
    Finish,
    Resumed,
    StartTool,
    ToolFinished,
)
from agent_actors.run.closing import RunEnd, close_run
from agent_actors.run.context import RunContext, current_context
from agent_actors.run.hooks.run_hooks import HookBlock, RunBlocked
from agent_actors.run.hooks.subagent_hooks import Subagent, subagent_of
from agent_actors.run.model.budget import Budget
from agent_actors.run.model.model_calls import ModelCaller
from agent_actors.run.opening import acquire_session_nowait, begin_run, open_session
from agent_actors.run.tools.tool_runner import ToolRunner

if TYPE_CHECKING:
    from agent_actors.domain.model import ModelCompleted


class Driver:
    """One run, from its start to its last event.

    Args:
        context: The context of the run.
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._tools = ToolRunner(context)
        self._budget = Budget(context.spec, context.usage)
        self._model = ModelCaller(context, self._budget)
        self._subagent: Subagent | None = subagent_of(context)
        # The entries that are not recorded yet, and the response among them, if there is one.
        self._pending: list[Entry] = []
        self._answer: ModelCompleted | None = None
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
        # Release each resource even if releasing another one fails, since waiting runs and readers
        # depend on it.
        context = self._context
        with ExitStack() as held:
            held.callback(context.end)
            if context.mailbox is not None:
                held.callback(context.mailbox.close)
            if context.lease is not None:
                held.callback(context.lease.release)
            if context.session is not None:
                held.callback(context.session.close)
            held.callback(context.inbox.end, None)

    async def _attempt(self) -> RunEnd:
        context = self._context
        end = RunEnd()
        timeout = context.options.run_timeout
        scope = context.stop.scope
        scope.deadline = context.started + timeout
        with scope:
            try:
                await open_session(context, self._tools)
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
        if isinstance(first, Resumed):
            self._blocked = self._tools.blocked
        commands = deque(machine.feed(first))
        while True:  # noqa: ASYNC913 - commands are finite; waiting for results checkpoints
            if not commands:
                commands.extend(await self._await_results())
                continue
            command = commands.popleft()
            refusal = self._budget.refusal(machine, command, self._answer)
            if refusal is not None:
                # Replace the commands that were not executed with the machine's commands for the
                # refusal.
                commands = deque(machine.feed(refusal))
                continue
            match command:
                case Append(entries=entries):
                    self._pending += entries
                case CallModel():
                    await self._record_pending()
                    commands.extend(await self._call_model())
                case StartTool(call=call):
                    await self._record_pending()
                    await self._tools.start(call)
                case CheckOutput():
                    commands.extend(machine.feed(context.output.check(command)))
                case Finish(stop_reason=stop_reason):
                    await self._finish(stop_reason)
                    return stop_reason
                case _:
                    assert_never(command)

    async def _call_model(self) -> Commands:
        context = self._context
        answer = await self._model.call(self._tools.specs)
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

    async def _finish(self, stop_reason: str) -> None:
        context = self._context
        self._queue_pending()  # recorded in the same commit as the end of the run
        if self._blocked is not None:
            raise RunBlocked(self._blocked)
        if stop_reason == StopReason.AWAITING_APPROVAL:
            context.journal.add(self._tools.deferred.record())
        elif context.hooks is not None and stop_reason != StopReason.AWAITING_RESULTS:
            await context.hooks.stop(context.usage.text, stop_reason)
