"""Derives the options of an agent that `Task` starts from those of the run with the call."""

from collections.abc import Iterable, Mapping

import attrs

from agent_actors.domain.limits import NO_LIMITS
from agent_actors.errors import ConfigError
from agent_actors.options.agent_definition import NO_AGENTS, TASK, AgentDefinition
from agent_actors.options.agent_options import AgentOptions
from agent_actors.options.validation import nearest
from agent_actors.runs.tools.effective_policy import effective_policy
from agent_actors.tools import Tool


def options_of_agent(
    parent: AgentOptions,
    name: str,
    definition: AgentDefinition,
    tools: Mapping[str, Tool],
    *,
    delegates: bool,
) -> AgentOptions:
    """Return the options of an agent that a run starts.

    The agent uses the endpoint, the settings and the approver of the parent. It has no hooks and no
    limits of its own, since those of its ancestors apply to it.

    Args:
        parent: The options of the run that starts the agent.
        name: The name of the agent.
        definition: The definition of the agent.
        tools: The tools of that run, by name.
        delegates: True if the agent may start agents itself.

    Raises:
        ConfigError: The definition names a tool that the run does not have, or the options are not
            valid together.
    """
    model = definition.model or parent.model
    own = _tools_of(definition, tools)
    starts = delegates and (definition.tools is None or TASK in definition.tools)
    return attrs.evolve(
        parent,
        agent_name=name,
        model=model,
        system_prompt=definition.prompt,
        tools=own,
        builtin_tools=(),
        agents=parent.agents if starts else NO_AGENTS,
        max_iterations=definition.max_iterations or parent.max_iterations,
        run_timeout=definition.timeout,
        permissions=definition.permissions,
        fallbacks=parent.fallbacks if model == parent.model else (),
        # The model may continue a suspended agent only with a new prompt.
        on_suspended="deny",
        hooks=(),
        limits=NO_LIMITS,
        session_limits=NO_LIMITS,
        tool_choice=None,
        workspace=None,
        checkpoints=None,
        resume=None,
        output_type=None,
    )


def options_of_target(options: AgentOptions, name: str) -> AgentOptions:
    """Return the options with which a caller runs one of an agent's agents directly.

    The hooks, limits and policy of the options apply to the run, as they apply to its other runs.

    Args:
        options: The options, with their built-in tools among their tools.
        name: The name of the agent.

    Raises:
        ConfigError: The options define no such agent, a handler does its tasks, or its definition
            is not valid.
    """
    definition = options.agents.get(name)
    if definition is None:
        raise ConfigError(f"there is no agent {name!r}; {nearest(name, options.agents)}")
    if definition.handler is not None:
        raise ConfigError(
            f"the agent {name!r} has a handler instead of a model, so it cannot be run directly; "
            "call its handler"
        )
    made = options_of_agent(options, name, definition, options.tools_by_name, delegates=True)
    return attrs.evolve(
        made,
        permissions=effective_policy(definition.permissions, options.permissions, None),
        run_timeout=min(definition.timeout, options.run_timeout),
        on_suspended=options.on_suspended,
        hooks=options.hooks,
        limits=options.limits,
        session_limits=options.session_limits,
        workspace=options.workspace,
        checkpoints=options.checkpoints,
        resume=options.resume,
        output_type=options.output_type,
    )


def _tools_of(definition: AgentDefinition, tools: Mapping[str, Tool]) -> tuple[Tool, ...]:
    if definition.tools is None:
        return _runnable(tools.values())
    found: list[Tool] = []
    for one in definition.tools:
        if isinstance(one, Tool):
            found.append(one)
        elif one in tools and one != TASK:
            found.append(tools[one])
        elif one != TASK:
            raise ConfigError(f"unknown tool {one!r}; {nearest(one, tools)}")
    return tuple(found)


def _runnable(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    return tuple(tool for tool in tools if tool.name != TASK and not tool.external)
