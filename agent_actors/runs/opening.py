"""Open a run: acquire and load its session, fire the first hooks, and queue the first records."""

from functools import partial

import attrs
import trio

from agent_actors.actors.session_gate import Lease
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import EventBuilder, RunQueued, SessionStarted, SystemInit
from agent_actors.domain.json import JsonValue
from agent_actors.domain.run import ToolCallResult
from agent_actors.errors import AgentError, SessionError
from agent_actors.kernel.observing import WAIT_FOR_SESSION, observed
from agent_actors.protocol.turn import CompactionRequested, Resumed, UserInput
from agent_actors.runs.context import RunContext
from agent_actors.runs.hooks.run_hooks import HookBlock, RunBlocked
from agent_actors.runs.hooks.subagent_hooks import Subagent
from agent_actors.runs.project.commands import carry_out_commands, output_of_commands
from agent_actors.runs.project.opening import forced_skills, read_project_of
from agent_actors.runs.steering import Steering
from agent_actors.runs.suspension import answers_by_call, check_results, close_suspended
from agent_actors.runs.tools.deferred_calls import result_of
from agent_actors.runs.tools.server_tools import lease_tool_servers
from agent_actors.runs.tools.subagent_results import results_of_subagents
from agent_actors.runs.tools.tool_runner import ToolRunner
from agent_actors.runs.workspace import background_records, checkpoint_at_start, lease_workspace
from agent_actors.sessions import SessionState
from agent_actors.sessions.metadata import run_metadata
from agent_actors.sessions.records import records_before_run, report_of
from agent_actors.tools.fencing import fenced, is_untrusted
from agent_actors.tools.output import ToolOutput
from agent_actors.version import __version__


def acquire_session_nowait(context: RunContext) -> None:
    """Acquire the session of a run.

    Raises:
        SessionBusy: Another run holds the session.
    """
    context.lease = context.services.gate.acquire_nowait(
        context.spec.session_id,
        context.node.run_id,
        ancestors=context.ancestors,
        stop=context.stop.stop,
        node=context.node,
    )


async def open_session(context: RunContext) -> None:
    """Acquire the session of a run, unless the run already holds it, and load the session.

    Raises:
        SessionBusy: Another run holds the session, and the policy does not let this run wait.
        HookError: This run sends steering input, and a hook of the run that holds the session
            failed.
        SessionStoreError: The session cannot be read.
        SessionError: The agent's `resume` option names a session that does not exist.

    Cancellation: safe; if another run took the input, `context.stop.steered` has the outcome.
    """
    if context.lease is None:
        with observed(context.services.instrumentation, WAIT_FOR_SESSION):
            context.lease = await _acquire_session(context)
        # Another run may have taken the input in the same tick in which the lease was granted.
        await trio.lowlevel.checkpoint_if_cancelled()
    session = await context.services.log.open(context.lease)
    if context.spec.must_exist and not session.state.last_seq:
        session.close()
        raise SessionError("there is nothing to resume", session_id=session.session_id)
    context.session = context.journal.session = context.inbox.session = session
    context.began_after = session.state.last_seq
    if context.options.workspace is not None or context.parent is not None:
        await lease_workspace(context)
    if context.options.mcp_servers:
        await lease_tool_servers(context)
    if context.options.uses_project:
        context.project = await read_project_of(context)
    if session.announce():
        source = "resumed" if session.state.last_seq else "new"
        context.journal.notify_observers(partial(SessionStarted, source=source))
    context.stop.opened()


async def begin_run(
    context: RunContext, tools: ToolRunner, subagent: Subagent | None
) -> UserInput | Resumed | CompactionRequested | None:
    """Fire the first hooks, and queue the records that precede the first turn.

    Returns:
        The first event for the turn machine; None if the prompt had only commands, which have been
        carried out.

    Raises:
        RunBlocked: A hook ended the run before it began.
        HookError: A hook failed.
        MessageError: The conversation that replaces the history is not valid.
        SessionUnknown, SessionSuspended, QuestionClosed, CallClosed, ConfigError: The session does
            not accept the request. The session is unchanged, and nothing is recorded.

    Cancellation: safe; apart from the records of the run's end, the session is unchanged.
    """
    spec, journal = context.spec, context.journal
    state = context.opened_session.state
    try:
        closed = [*_accept(context, tools, state), *forced_skills(context)]
    except AgentError:
        journal.records_nothing = True  # a mistyped session id must not create a session
        raise
    context.opened_session.note(_metadata(context, tools))
    try:
        carried = await carry_out_commands(context)
        prompt = await _fire_first_hooks(context, subagent, carried.prompt or UserInput(""))
        event = prompt if spec.answers is None else await _resume(context, tools, state.open_calls)
        before = records_before_run(
            state,
            spec.replacement,
            from_client=spec.from_client,
            resumes=spec.answers is not None,
            known=await results_of_subagents(context.services.reader, state),
        )
        if context.checkpoints is not None:
            await checkpoint_at_start(context)
    except BaseException:
        if spec.answers is None:  # otherwise the session stays suspended, unchanged
            journal.add(_init(context, tools))
        raise
    journal.add(*before, *background_records(context))
    journal.add(
        _init(context, tools), *closed, *report_of(state), *tools.notices(), *carried.notices
    )
    if spec.replace_history is not None:
        spec.replace_history.queued = True
    if spec.compact is not None:
        return CompactionRequested(spec.compact)
    if carried.prompt is None and event == UserInput(""):
        context.usage.text = output_of_commands(context)
        return None
    return event


def _accept(context: RunContext, tools: ToolRunner, state: SessionState) -> list[EventBuilder]:
    """Check that the session accepts the request; return the records that close suspended calls.

    Raises:
        AgentError: The session does not accept the request.
    """
    spec = context.spec
    if spec.answers is None:
        return context.usage.records(close_suspended(state, context.options, spec.session_id))
    tools.answers = answers_by_call(state, spec.session_id, spec.answers)
    tools.check_answers(state.open_calls)
    check_results(state, spec.session_id, spec.results)
    tools.deferred.external.update(state.external)
    return []


async def _acquire_session(context: RunContext) -> Lease:
    spec, services = context.spec, context.services
    steering = Steering(context.stop.settle)
    try:
        if spec.on_busy == "steer" and spec.session_id not in context.ancestors:
            await steering.speak(spec.prompt, services.inbox_of(spec.session_id))
        # There must be no checkpoint between leaving the note and joining the queue, since the run
        # that holds the session could end in between.
        return await services.gate.acquire(
            spec.session_id,
            context.node.run_id,
            on_busy=spec.on_busy,
            ancestors=context.ancestors,
            stop=context.stop.stop,
            moved=partial(_show_position, context),
            node=context.node,
        )
    finally:
        await steering.withdraw()  # noqa: ASYNC102 - shielded there


def _show_position(context: RunContext, position: int, holder: str) -> None:
    queued: EventBuilder = partial(RunQueued, position=position, holder=holder)
    context.journal.publish_lossy(context.events.build(queued))


def _init(context: RunContext, tools: ToolRunner) -> EventBuilder:
    if context.hooks is not None:  # hooks may have registered tools after the session was opened
        context.opened_session.note(_metadata(context, tools))
    return partial(
        SystemInit,
        cwd=str(context.options.cwd),
        sdk_version=__version__,
        model=context.options.model,
        tools=tuple(tools.offered),
    )


def _metadata(context: RunContext, tools: ToolRunner) -> dict[str, JsonValue]:
    options, parent = context.options, context.node.parent
    return run_metadata(
        cwd=str(options.cwd),
        provider_name=options.provider_name,
        model=options.model,
        setting_sources=options.setting_sources,
        allowed_tools=list(tools.offered),
        agent_name=options.agent_name,
        parent=None if parent is None else (parent.session_id, context.parent_tool_use_id),
    )


async def _fire_first_hooks(
    context: RunContext, subagent: Subagent | None, prompt: UserInput
) -> UserInput:
    spec, hooks, session = context.spec, context.hooks, context.opened_session
    if subagent is not None:
        _check(await subagent.start())
    if hooks is None:
        return prompt
    context.announces_children = True
    _check(await context.services.session_hooks.begin(session, hooks))
    replacement = spec.replacement
    history = session.history() if replacement is None else replacement
    begun = await hooks.begin(prompt, history)
    if isinstance(begun, HookBlock):
        raise RunBlocked(begun)
    return begun


def _check(block: HookBlock | None) -> None:
    if block is not None:
        raise RunBlocked(block)


async def _resume(
    context: RunContext, tools: ToolRunner, calls: tuple[ToolUseBlock, ...]
) -> Resumed:
    given, external = context.spec.results, tools.deferred.external
    results = [
        await _given_result(context, external[call.id], given[call.id])
        for call in calls
        if call.id in given
    ]
    blocked = tools.blocked is not None  # in this case no call starts
    deferred = frozenset(call.id for call in calls if blocked or call.id in external)
    return Resumed(calls, tuple(results), deferred)


async def _given_result(
    context: RunContext, call: ToolUseBlock, output: ToolOutput
) -> ToolCallResult:
    context.usage.call_records.begin(call.id)
    if context.hooks is not None:
        output = await context.hooks.onion.after_tool(call, output, context.messages())
    untrusted = is_untrusted(output, context.options.tools_by_name.get(call.name))
    output, complete_bytes = await context.result_limit.cut(call.id, output)
    if untrusted:
        output = fenced(output, call.name, call.id)
    result = result_of(call, output, context.services.wall_clock())
    return attrs.evolve(result, complete_bytes=complete_bytes, untrusted=untrusted)
