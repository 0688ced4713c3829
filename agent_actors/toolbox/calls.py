"""Access of built-in tools to their call: the workspace, background commands, and reports."""

import functools
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final, ParamSpec, TypeVar

import trio

from agent_actors.abc.workspace import BackgroundTasks, Workspace
from agent_actors.domain.workspace.report import Network
from agent_actors.errors import ConfigError, MediaError, WorkspaceError
from agent_actors.toolbox.failure import ToolFailure
from agent_actors.tools import ToolContext, ToolOutput

P = ParamSpec("P")
T = TypeVar("T")

# Work on more characters or bytes than this may take longer than a millisecond.
_INLINE_SIZE: Final = 50_000


def workspace_of(ctx: ToolContext) -> Workspace:
    """Return the workspace of the call's run.

    Raises:
        ConfigError: The run has no workspace.
    """
    workspace = ctx.workspace
    if workspace is None:
        raise ConfigError(
            f"the tool {ctx.tool_name!r} needs a workspace; set AgentOptions(workspace=...), for "
            "example LocalWorkspace('.')"
        )
    return workspace


def background_of(ctx: ToolContext) -> BackgroundTasks:
    """Return the background commands of the call's session.

    Raises:
        ToolFailure: The run has no background commands.
    """
    background = ctx.background
    if background is None:
        raise ToolFailure("background commands are not available here; run the command normally")
    return background


def network_of(ctx: ToolContext) -> Network:
    """Return the hosts that the call may reach; all hosts if the run has no workspace."""
    workspace = ctx.workspace
    return True if workspace is None else workspace.describe().network


def fails_as_result(
    function: Callable[P, Awaitable[object]],
) -> Callable[P, Coroutine[object, object, object]]:
    """Return the function with its expected failures as error results for the model."""

    @functools.wraps(function)
    async def guarded(*args: P.args, **kwargs: P.kwargs) -> object:
        try:
            return await function(*args, **kwargs)
        except (ToolFailure, WorkspaceError, MediaError) as error:
            return ToolOutput(str(error), is_error=True)

    return guarded


async def compute(size: int, work: Callable[[], T]) -> T:
    """Do pure work, in a thread if it is long.

    Args:
        size: The number of characters or bytes that are processed.
        work: The work, which does no I/O.

    Cancellation: waits for the end of the work.
    """
    return work() if size <= _INLINE_SIZE else await trio.to_thread.run_sync(work)
