"""The tool `Task`, with which the model of a run starts other agents.

An agent is a nested run on a session of its own. While the call of `Task` waits for the agent, it
lends its slots, and the run with the call lends its own slot among the agents of the root run.
Therefore only runs that work count, and a tree of agents cannot deadlock.
"""

import inspect
import json
import math
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, TypeAlias, cast
from weakref import WeakKeyDictionary

import attrs
import trio

from agent_actors.actors.run_tree import CallSlots, current_call, slots_lent
from agent_actors.domain.events import SubagentStarted
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.messages import Messages
from agent_actors.domain.run import RunResult, StopReason, SubagentResult
from agent_actors.errors import AgentError, RuntimeFailure
from agent_actors.kernel.fair_limiter import FairLimiter
from agent_actors.options.agent_definition import TASK, AgentDefinition, AgentHandler
from agent_actors.options.agent_options import AgentOptions, with_tools
from agent_actors.protocol.turn import UserInput
from agent_actors.runs.context import RunContext, current_context
from agent_actors.runs.output.event_mailbox import EventMailbox, RelayMailbox
from agent_actors.runs.spec import HistoryReplacement, RunSpec
from agent_actors.runs.tools.subagent_results import output_of
from agent_actors.subagents.child_options import options_of_agent
from agent_actors.tools import Tool, ToolContext, to_output
from agent_actors.tools.output import ToolOutput

MAX_DEPTH: Final = 3
"""Maximum number of agents inside each other, not counting the root run."""

MAX_RUNNING: Final = 16
"""Maximum number of agents of one root run that work at once; agents that wait do not count."""

RunStarter: TypeAlias = Callable[[RunSpec], Awaitable[RunResult]]
"""Executes a run and returns its result; a cancellation cancels the run and waits for its end."""


class Subagents:
    """Adds the tool `Task` to the options that define agents, for one runtime.

    Args:
        start: Executes the runs of the agents.
    """

    def __init__(self, start: RunStarter) -> None:
        self._start = start
        # The runs of an agent share the completed options, as they share the agent's own.
        self._completed: WeakKeyDictionary[AgentOptions, AgentOptions] = WeakKeyDictionary()
        # The options of the agents that runs with these options start, by name, and by whether the
        # agents start agents themselves.
        self._derived: WeakKeyDictionary[AgentOptions, dict[tuple[str, bool], AgentOptions]] = (
            WeakKeyDictionary()
        )

    def added_to(self, options: AgentOptions) -> AgentOptions:
        """Return the options with `Task` among their tools.

        Raises:
            ConfigError: Another tool has the name `Task`.
        """
        completed = self._completed.get(options)
        if completed is None:
            tool = task_tool(options.agents, self)
            completed = self._completed[options] = with_tools(options, (tool,))
        return completed

    def options_of(self, parent: RunContext, name: str, *, delegates: bool) -> AgentOptions:
        """Return the options of an agent that a run starts.

        Args:
            parent: The run.
            name: The name of the agent.
            delegates: True if the agent may start agents itself.

        Raises:
            ConfigError: The agent cannot be started with these options.
        """
        options, hooks = parent.options, parent.hooks
        definition = options.agents[name]
        if hooks is not None and hooks.tools != options.tools_by_name:
            # A hook has registered tools for this run.
            return options_of_agent(options, name, definition, hooks.tools, delegates=delegates)
        derived = self._derived.setdefault(options, {})
        found = derived.get((name, delegates))
        if found is None:
            found = derived[name, delegates] = options_of_agent(
                options, name, definition, options.tools_by_name, delegates=delegates
            )
        return found

    async def start(self, spec: RunSpec) -> RunResult:
        """Execute the run of an agent, and return its result.

        Raises:
            AgentError: The run failed with this error.

        Cancellation: the run is cancelled, and this method returns once it has ended.
        """
        return await self._start(spec)


def relay_of(parent: RunContext | None) -> EventMailbox | None:
    """Return the mailbox for the events of an agent; None if its ancestors do not want them."""
    if parent is None or parent.mailbox is None or parent.spec.from_client:
        return None
    return RelayMailbox(parent.mailbox) if parent.options.child_events else None


def task_tool(agents: Mapping[str, AgentDefinition], subagents: Subagents) -> Tool:
    """Return the tool `Task` for these agents.

    Args:
        agents: The agents, by name.
        subagents: Executes the runs of the agents.
    """
    listed = "\n".join(f"- {name}: {one.description}" for name, one in agents.items())

    async def handler(arguments: JsonObject, ctx: ToolContext) -> ToolOutput:
        parent = current_context.get()
        if parent is None:
            raise RuntimeError("Task can only be called in a run")
        name = str(arguments["agent"])
        definition = agents.get(name)
        if definition is None:
            return _failed(f"there is no agent {name!r}; the agents are: {', '.join(agents)}")
        call = _Call(parent, ctx, name, definition, str(arguments["prompt"]), subagents)
        return await call.perform(cast("str | None", arguments.get("resume")))

    return Tool(
        TASK,
        "Start another agent, which works on a task of its own and returns its final text. Several "
        f"calls in one response run in parallel. The agents are:\n{listed}",
        {
            "type": "object",
            "properties": {
                "agent": {"type": "string", "description": "The name of the agent."},
                "prompt": {
                    "type": "string",
                    "minLength": 1,
                    "description": "The task, with everything that the agent has to know.",
                },
                "description": {
                    "type": "string",
                    "description": "A short title of the task, for people.",
                },
                "resume": {
                    "type": "string",
                    "description": "To continue an agent: the session that an earlier result "
                    "named.",
                },
            },
            "required": ["agent", "prompt"],
            "additionalProperties": False,
        },
        handler,
        # The calls of the agent itself are checked one by one.
        read_only=True,
        open_world=False,
        # The deadlines of the agent and of its ancestors limit its time.
        timeout=math.inf,
    )


@attrs.frozen(eq=False)
class _Call:
    """One call of `Task`."""

    parent: RunContext
    ctx: ToolContext
    name: str
    definition: AgentDefinition
    prompt: str
    subagents: Subagents

    async def perform(self, resume: str | None) -> ToolOutput:
        if not self.prompt.strip():
            return _failed("the prompt must not be blank")
        if self.definition.handler is not None:
            return await self._handle(self.definition.handler)
        depth = len(_lineage(self.parent))
        if depth > MAX_DEPTH:
            return _failed(f"agents can be nested at most {MAX_DEPTH} deep; do the task yourself")
        fault = "" if resume is None else self._find_resume_error(resume)
        if fault:
            return _failed(fault)
        try:
            options = self.subagents.options_of(self.parent, self.name, delegates=depth < MAX_DEPTH)
        except AgentError as error:
            return _failed(f"the agent {self.name!r} cannot be started: {error}")
        return await self._run(options, resume)

    async def _run(self, options: AgentOptions, resume: str | None) -> ToolOutput:
        parent, services = self.parent, self.parent.services
        session_id = resume or services.ids.new()
        slot = CallSlots(self.ctx.call_id)
        result = SubagentResult(
            self.name, session_id, self.ctx.call_id, "", StopReason.INTERRUPTED, error="cancelled"
        )
        spec = RunSpec(
            UserInput(self.prompt),
            options,
            session_id,
            parent.spec.request_id,
            "reject",
            replace_history=None if resume else self._context_of_parent(),
            slot=slot,
        )
        async with slots_lent(current_call.get()), slots_lent(parent.spec.slot):
            await slot.take(_agent_slots(parent), parent.node.run_id)
            try:
                await parent.journal.append(
                    partial(
                        SubagentStarted,
                        subagent_name=self.name,
                        child_session_id=session_id,
                        tool_use_id=self.ctx.call_id,
                    )
                )
                ended = await self.subagents.start(spec)
                result = attrs.evolve(
                    result,
                    text=ended.text,
                    stop_reason=ended.stop_reason,
                    usage=ended.usage_total,
                    error="",
                )
            except RuntimeFailure:
                raise
            except AgentError as error:
                message = f"{type(error).__name__}: {error}"
                result = attrs.evolve(result, stop_reason="error", error=message)
            finally:
                slot.release_all()
                parent.subagents = (*parent.subagents, result)
        return output_of(result)

    async def _handle(self, handler: AgentHandler) -> ToolOutput:
        result = SubagentResult(self.name, "", self.ctx.call_id, "", "error")
        try:
            if inspect.iscoroutinefunction(handler):
                value = await handler(self.prompt)
            else:
                value = await trio.to_thread.run_sync(handler, self.prompt)
                if inspect.isawaitable(value):
                    value = await value
            output = to_output(value)
        except Exception as error:  # noqa: BLE001 - a failure of the handler is a result
            output = ToolOutput(f"{type(error).__name__}: {error}", is_error=True)
        content = output.content
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        if output.is_error:
            result = attrs.evolve(result, error=text)
        else:
            result = attrs.evolve(result, text=text, stop_reason=StopReason.COMPLETED)
        self.parent.subagents = (*self.parent.subagents, result)
        return attrs.evolve(output_of(result), untrusted=output.untrusted)

    def _find_resume_error(self, session_id: str) -> str:
        started = self.parent.opened_session.state.subagents.values()
        own = [one for one in started if one.subagent_name == self.name]
        if any(one.child_session_id == session_id for one in own):
            return ""
        known = ", ".join(dict.fromkeys(one.child_session_id for one in own)) or "none"
        return (
            f"this session has not started an agent {self.name!r} on the session {session_id!r}; "
            f"the sessions of this agent are: {known}"
        )

    def _context_of_parent(self) -> HistoryReplacement | None:
        if not self.definition.inherit_context:
            return None
        messages = list(self.parent.messages())
        # The last response contains this call, which has no result yet.
        while messages and messages[-1].role != "assistant":
            messages.pop()
        return HistoryReplacement(Messages(messages[:-1])) if messages else None


def _failed(why: str) -> ToolOutput:
    data: dict[str, JsonValue] = {
        "text": "",
        "child_session_id": None,
        "usage": None,
        "stop_reason": "error",
    }
    return ToolOutput(why, data=data, is_error=True)


def _lineage(context: RunContext) -> list[RunContext]:
    """Return a run and its live ancestors in the same runtime, innermost first."""
    found = [context]
    above = context.parent
    while above is not None and above.services is context.services and not above.ended:
        found.append(above)
        above = above.parent
    return found


def _agent_slots(context: RunContext) -> FairLimiter:
    root = _lineage(context)[-1]
    if root.agent_slots is None:
        root.agent_slots = FairLimiter(MAX_RUNNING, MAX_RUNNING)
    return root.agent_slots
