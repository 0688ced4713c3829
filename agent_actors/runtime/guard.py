"""What stands around the calls of one run: its hooks."""

from collections.abc import Awaitable, Callable

from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.messages import Messages
from agent_actors.runtime.hooked import HookedRun
from agent_actors.tools import Tool
from agent_actors.tools.output import ToolOutput


class RunGuard:
    """The `ToolGuard` of a run.

    Args:
        hooked: The run's hooks.
        messages: Gives the conversation so far.
    """

    def __init__(self, hooked: HookedRun, messages: Callable[[], Messages]) -> None:
        self._hooked = hooked
        self._messages = messages

    async def admit(self, call: ToolUseBlock, tool: Tool) -> ToolUseBlock | ToolOutput:
        """May this call run: the call to run, or what the model is told instead.

        Raises:
            HookError: A hook failed; it ends the run.
        """
        return await self._hooked.admit(call, tool, self._messages())

    async def around(
        self, call: ToolUseBlock, handler: Callable[[ToolUseBlock], Awaitable[ToolOutput]]
    ) -> ToolOutput:
        """Call the handler inside everybody who wraps it.

        Raises:
            HookError: A hook failed.
        """
        return await self._hooked.ring.wrap_tool_call(call, handler)

    async def after(self, call: ToolUseBlock, output: ToolOutput) -> ToolOutput:
        """What the model is told.

        Raises:
            HookError: A hook failed.
        """
        return await self._hooked.ring.after_tool(call, output, self._messages())
