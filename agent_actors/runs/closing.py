"""Close a run: wait for its calls, close open entries, commit the end, and return the result."""

from collections.abc import Sequence
from functools import partial

import attrs
import trio

from agent_actors.domain.events import (
    ErrorEvent,
    EventBuilder,
    ResultEvent,
    RunStopped,
    SessionRewind,
    SubagentStopped,
)
from agent_actors.domain.run import CancelReason, RunResult, StopReason, ToolCallResult
from agent_actors.domain.workspace.project import NO_PROJECT
from agent_actors.domain.workspace.report import WorkspaceReport
from agent_actors.errors import RuntimeShutdown
from agent_actors.kernel.request import RequestCancelled
from agent_actors.protocol.turn import (
    Append,
    Commands,
    Entry,
    Interrupted,
    State,
    ToolFinished,
)
from agent_actors.runs.context import RunContext
from agent_actors.runs.hooks.subagent_hooks import Subagent
from agent_actors.runs.model.model_calls import ModelCaller
from agent_actors.runs.tools.tool_runner import ToolRunner
from agent_actors.runs.workspace import checkpoint_at_end


@attrs.frozen
class RunEnd:
    """The end of a run's turns; if there is no failure and no stop reason, the run was cancelled.

    Attributes:
        failure: The error with which the run failed; None if the run did not fail.
        stop_reason: The stop reason, if the run did not fail.
        why: A further explanation for the results of calls that are closed.
    """

    failure: Exception | None = None
    stop_reason: str = ""
    why: str = ""


async def close_run(
    context: RunContext,
    tools: ToolRunner,
    model: ModelCaller,
    subagent: Subagent | None,
    end: RunEnd,
) -> RunResult:
    """Close a run, as the last step of its driver.

    Raises:
        AgentError: The run failed with this error.
        RequestCancelled: The caller cancelled the run.

    Cancellation: the steps are shielded and have time limits, except for the time that tools take
    to end.
    """
    results = await tools.join()
    stop, usage, failure, stop_reason = context.stop, context.usage, end.failure, end.stop_reason
    cancelled = failure is None and not stop_reason
    if cancelled:
        stop_reason = StopReason.INTERRUPTED
        if stop.reason is CancelReason.SHUTDOWN:
            failure = RuntimeShutdown()
    stop_reason = stop.outcome(stop_reason)
    why = end.why or stop.explanation if failure is None else _describe_error(failure)
    if context.hooks is not None:
        failure = await context.hooks.end(usage.text, stop_reason or "error", failure)
    if subagent is not None:
        failure = await subagent.stop(stop_reason, usage.text, failure)
    _notify_observers(context, stop_reason or "error")
    sandbox = None
    if context.workspace is not None:
        await context.workspace.end_processes()
        await checkpoint_at_end(context)
        sandbox = context.workspace.describe()
        context.workspace.stop_recording()  # no checkpoint may follow before `journal.finish`
    entries = _closing_entries(context, results, stop_reason or "error", why)
    builders = [*usage.records(entries), *usage.call_records.end_all()]
    builders += [*model.partial_usage_records(), *usage.records_of_unanswered()]
    # A rollback requested after this point has no effect.
    stop_reason = stop.outcome(stop_reason)
    if stop.rolls_back and context.session is not None:
        builders.append(partial(SessionRewind, to_seq=context.began_after))
    failure = await context.journal.finish(
        builders, partial(_last_event, context, stop_reason), failure
    )
    if context.journal.end_recorded:
        context.note_commit()
    context.client_calls = tools.deferred.client_side
    context.inbox.end(failure)
    if failure is not None:
        raise failure
    if cancelled and stop.reason in (None, CancelReason.CALLER):
        raise RequestCancelled("caller")
    return _result(context, tools, stop_reason, sandbox)


def _notify_observers(context: RunContext, stop_reason: str) -> None:
    text, parent = context.usage.text, context.parent
    context.journal.notify_observers(partial(RunStopped, stop_reason=stop_reason, text=text))
    if parent is not None and parent.services is context.services:
        stopped: EventBuilder = partial(
            SubagentStopped,
            subagent_name=context.options.agent_name or "",
            subagent_session_id=context.spec.session_id,
            stop_reason=stop_reason,
            text=text,
            tool_use_id=context.parent_tool_use_id or "",
        )
        parent.journal.notify_observers(stopped)


def _closing_entries(
    context: RunContext, results: Sequence[ToolCallResult], stop_reason: str, why: str
) -> list[Entry]:
    machine = context.machine
    commands: Commands = ()
    for result in results:
        commands += machine.feed(ToolFinished(result))
    if machine.state is not State.DONE:
        commands += machine.feed(Interrupted(stop_reason, why))
    # The run is over: record the entries, but execute no other command from the machine.
    return [entry for item in commands if isinstance(item, Append) for entry in item.entries]


def _last_event(context: RunContext, stop_reason: str, failure: Exception | None) -> EventBuilder:
    if failure is not None:
        return partial(ErrorEvent, error=type(failure).__name__, message=str(failure))
    usage = context.usage
    return partial(
        ResultEvent,
        text=usage.text,
        stop_reason=stop_reason,
        usage=usage.usage,
        iterations=usage.model_calls,
        duration=trio.current_time() - context.started,
        cost=usage.cost,
        output=context.output.data,
        finish_reason=usage.finish_reason,
        stop_details=usage.stop_details,
        damaged_lines=usage.damaged_lines,
    )


def _result(
    context: RunContext, tools: ToolRunner, stop_reason: str, sandbox: WorkspaceReport | None
) -> RunResult:
    usage, spec, project = context.usage, context.spec, context.project
    return RunResult(
        text=usage.text,
        stop_reason=stop_reason,
        messages=context.messages(),
        tool_calls=usage.tool_calls,
        usage=usage.usage,
        iterations=usage.model_calls,
        duration=trio.current_time() - context.started,
        session_id=spec.session_id,
        run_id=context.node.run_id,
        request_id=spec.request_id,
        cost=usage.cost,
        output=context.output.of_result(),
        hook_events=tuple(context.journal.hook_events),
        questions=tools.deferred.suspended_questions,
        external_calls=tools.deferred.suspended_calls,
        finish_reason=usage.finish_reason,
        stop_details=usage.stop_details,
        damaged_lines=usage.damaged_lines,
        sandbox=sandbox,
        compactions=tuple(context.compactions),
        skill_results=() if project is None else tuple(project.skill_results),
        command_results=() if project is None else tuple(project.command_results),
        tags=spec.request.merged_tags,
        settings=NO_PROJECT if project is None else project.knowledge.report,
        files=tuple(change for _, change in sorted(context.journal.files.items())),
        subagents=context.subagents,
        usage_total=usage.usage_total,
    )


def _describe_error(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
