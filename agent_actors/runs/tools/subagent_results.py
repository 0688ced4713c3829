"""The results of calls of `Task`: as the model receives them, and after a crash.

An agent's run records its own end in its own session. If the parent's process ends before it
records the result of the call, the next run of the parent's session therefore finds the result in
the session of the agent.
"""

from collections.abc import Mapping
from functools import partial

from agent_actors.actors.log_reader import LogReader
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import (
    ErrorEvent,
    EventBuilder,
    ResultEvent,
    SubagentStarted,
    ToolResult,
)
from agent_actors.domain.json import JsonObject
from agent_actors.domain.run import StopReason, SubagentResult
from agent_actors.domain.usage import Usage
from agent_actors.sessions import SessionState
from agent_actors.tools.fencing import fenced
from agent_actors.tools.output import ToolOutput


def output_of(result: SubagentResult) -> ToolOutput:
    """Return the result of a call of `Task`.

    The text names the session of the agent, which the model needs to continue it.
    """
    name, stop_reason = result.agent_name, result.stop_reason
    text = result.text
    failed = bool(result.error) or stop_reason != StopReason.COMPLETED
    if failed:
        why = result.error or f"stop reason: {stop_reason}"
        last = f"\n\nIts last text was:\n{text}" if text else ""
        text = f"The agent {name!r} did not complete its task ({why}).{last}"
    if result.session_id:
        text = f"{text}\n\n[To continue this agent, pass resume={result.session_id!r}.]"
    data: JsonObject = {
        "text": result.text,
        "child_session_id": result.session_id or None,
        "usage": _counts(result.usage),
        "stop_reason": stop_reason,
    }
    return ToolOutput(text, data=data, is_error=failed)


def _counts(usage: Usage) -> JsonObject:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
    }


async def results_of_subagents(
    reader: LogReader, state: SessionState
) -> Mapping[str, EventBuilder]:
    """Return the records that close the open calls of `Task`, by call id.

    Args:
        reader: Reads the sessions of the agents.
        state: The state of the session with the calls.

    Raises:
        SessionStoreError: The session of an agent could not be read.

    Cancellation: safe.
    """
    if not state.subagents:
        return {}
    closed: dict[str, EventBuilder] = {}
    for call in state.open_calls:
        started = state.subagents.get(call.id)
        if started is not None:
            closed[call.id] = await _closing(reader, call, started)
    return closed


async def _closing(reader: LogReader, call: ToolUseBlock, started: SubagentStarted) -> EventBuilder:
    name, session_id = started.subagent_name, started.child_session_id
    result = SubagentResult(name, session_id, call.id, "", "lost", error="its run did not end")
    untrusted = False
    for record in (await reader.read(session_id, 0)).records:
        if isinstance(record, ToolResult):
            untrusted = untrusted or record.untrusted
        # A resumed session contains the runs of several calls.
        elif isinstance(record, ResultEvent) and record.parent_tool_use_id == call.id:
            result = SubagentResult(
                name, session_id, call.id, record.text, record.stop_reason, record.usage
            )
        elif isinstance(record, ErrorEvent) and record.parent_tool_use_id == call.id:
            error = f"{record.error}: {record.message}"
            result = SubagentResult(name, session_id, call.id, "", "error", error=error)
    output = output_of(result)
    if untrusted:
        output = fenced(output, call.name, call.id)
    return partial(
        ToolResult,
        tool_use_id=call.id,
        name=call.name,
        content=output.content,
        is_error=output.is_error,
        data=output.data,
        synthetic=True,
        untrusted=untrusted,
    )
