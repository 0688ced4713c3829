"""Notifies the parent run's hooks of the start and end of a nested run.

If `subagent_start` was fired, `subagent_stop` is also fired, exactly once, even if the parent run
has ended by then. The actions of such a late hook are not recorded.

If the parent run has ended before the nested run starts, or belongs to another runtime, no hook is
notified, because no live run could record the hooks' actions. The parent's `before_tool` hooks and
its policy still apply.
"""

import trio

from agent_actors.errors import AgentError, HookError
from agent_actors.hooks.phases import Phase
from agent_actors.runs.context import RunContext
from agent_actors.runs.hooks.run_hooks import AFTER_AGENT_TIMEOUT, HookBlock, RunHooks


class Subagent:
    """A nested run whose start and end are reported to the hooks of its parent run.

    Args:
        around: The hooks of the parent run.
        context: The context of the nested run.
    """

    def __init__(self, around: RunHooks, context: RunContext) -> None:
        spec = context.spec
        self._around = around
        self._name = spec.options.agent_name or ""
        self._prompt = spec.prompt.text
        self._session_id = spec.session_id
        self._call_id = context.parent_tool_use_id or ""
        self._started = False

    async def start(self) -> HookBlock | None:
        """Fire `subagent_start`.

        Returns:
            The reason why a hook blocked the nested run; None if no hook blocked it.

        Raises:
            HookError: A hook failed.
        """
        self._started = True
        return await self._around.start_subagent(
            self._name, self._prompt, self._session_id, self._call_id
        )

    async def stop(
        self, stop_reason: str, text: str, failure: Exception | None
    ) -> Exception | None:
        """Fire `subagent_stop` if `subagent_start` was fired, within `AFTER_AGENT_TIMEOUT`.

        Returns:
            The error of the nested run itself, otherwise the error that a hook raised; None if
            there is none.
        """
        if not self._started:
            return failure
        try:
            with trio.move_on_after(AFTER_AGENT_TIMEOUT) as limit:
                await self._around.stop_subagent(
                    self._name, self._session_id, self._call_id, stop_reason, text
                )
            if limit.cancelled_caught:
                raise HookError(
                    f"the hooks did not finish within {AFTER_AGENT_TIMEOUT:g} s",
                    hook="<all>",
                    phase=Phase.SUBAGENT_STOP,
                )
        except AgentError as error:
            return failure or error
        return failure


def subagent_of(context: RunContext) -> Subagent | None:
    """Return the nested run to report to its live parent's hooks; None if no hook needs it."""
    parent = context.parent
    if parent is None or not parent.announces_children or parent.hooks is None:
        return None
    if parent.services is not context.services:
        return None
    return Subagent(parent.hooks, context)
