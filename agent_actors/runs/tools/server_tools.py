"""Leases the servers of remote tools of a run, and adds their tools to those of the agent."""

import attrs

from agent_actors.options.agent_options import with_tools
from agent_actors.runs.context import RunContext


async def lease_tool_servers(context: RunContext) -> None:
    """Connect to the servers of a run, and offer their tools.

    A nested run uses the connections of the run's root, if it has the same servers. A remote tool
    never replaces another tool of the agent.

    Raises:
        ConfigError: A permission rule does not fit a remote tool.

    Cancellation: safe; a cancelled call holds nothing.
    """
    options = context.options
    lease = await context.services.tool_servers.lease(
        options.mcp_servers, _owner_of(context), options.cwd
    )
    context.tool_servers = lease
    local = options.tools_by_name if context.hooks is None else context.hooks.tools
    clashes = [tool.name for tool in lease.tools if tool.name in local]
    if clashes:
        names = ", ".join(clashes)
        lease.notices += (f"remote tools were left out, because the agent has its own: {names}",)
    tools = {tool.name: tool for tool in lease.tools if tool.name not in local}
    if not tools:
        return
    context.spec = attrs.evolve(context.spec, options=with_tools(options, tools.values()))
    if context.hooks is not None:
        context.hooks.tools.update(tools)


def _owner_of(context: RunContext) -> str:
    """Return the session that owns the connections: the session of the root run."""
    root = context
    while root.parent is not None and root.parent.services is context.services:
        root = root.parent
    return root.spec.session_id
