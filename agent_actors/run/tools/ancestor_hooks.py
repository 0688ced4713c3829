"""The `before_tool` hooks of ancestor runs, which may deny the calls of a nested run.

An agent's `before_tool` hooks also apply to every run its tools start, at any depth, even if that
run starts after the parent finished or in another runtime. The context of the parent keeps the
hooks, their `ctx.state` and a last snapshot. Rewrites by ancestors do not count: the arguments are
the nested run's business. Actions of these hooks are recorded in the nested run, which they also
end or fail.

A hook may start a run itself, to judge a call by it. The hook is not asked about the calls of that
run.
"""

import math
from contextlib import suppress
from functools import partial
from typing import Final

import attrs
import trio

from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import EventBuilder
from agent_actors.domain.messages import Messages
from agent_actors.errors import HookError
from agent_actors.hooks.decision import Denial
from agent_actors.hooks.events import PreToolUseEvent
from agent_actors.hooks.phases import Phase
from agent_actors.run.context import RunContext
from agent_actors.run.hooks.hook_onion import HookOnion
from agent_actors.run.hooks.run_hooks import HookBlock

# A thread waits here for a hook, which has a deadline; tools' threads are not used up for it.
_UNBOUNDED: Final = trio.CapacityLimiter(math.inf)


@attrs.frozen(eq=False)
class _ParentHooks:
    """The hooks of one ancestor, called in the trio run of that ancestor.

    Hooks may use what belongs to their own trio run, such as a lock. A tool may open another trio
    run in a thread; calls of that run are judged in the ancestor's trio run.
    """

    onion: HookOnion
    token: trio.lowlevel.TrioToken

    async def judge(self, event: PreToolUseEvent) -> tuple[Denial | None, list[EventBuilder]]:
        if trio.lowlevel.current_trio_token() is self.token:
            return await self.onion.evaluate_nested(event)
        scope = trio.CancelScope()
        try:
            return await trio.to_thread.run_sync(
                partial(self._ask_over_there, scope, event),
                abandon_on_cancel=True,
                limiter=_UNBOUNDED,
            )
        except trio.RunFinishedError:
            raise HookError(
                "cannot be asked any more: the trio run around it has ended",
                hook="<all>",
                phase=Phase.BEFORE_TOOL,
            ) from None
        except trio.Cancelled:
            with suppress(trio.RunFinishedError):
                self.token.run_sync_soon(scope.cancel)
            raise

    def _ask_over_there(
        self, scope: trio.CancelScope, event: PreToolUseEvent
    ) -> tuple[Denial | None, list[EventBuilder]]:
        try:
            said = trio.from_thread.run(self._ask, scope, event, trio_token=self.token)
        except trio.Cancelled:  # noqa: ASYNC103 - of that trio run, which is no order for this one
            said = None
        if said is None:
            raise trio.RunFinishedError  # noqa: ASYNC104
        return said

    async def _ask(
        self, scope: trio.CancelScope, event: PreToolUseEvent
    ) -> tuple[Denial | None, list[EventBuilder]] | None:
        with scope:
            return await self.onion.evaluate_nested(event)
        return None


def ancestor_hooks(context: RunContext) -> "AncestorHooks | None":
    """The hooks of the runs around this one, the outermost first; None if there are none."""
    found: list[_ParentHooks] = []
    parent = context.parent
    while parent is not None:
        hooks = parent.hooks
        if hooks is not None and hooks.onion.takes_part(Phase.BEFORE_TOOL):
            found.append(_ParentHooks(hooks.onion, parent.token))
        parent = parent.parent
    return AncestorHooks(context, tuple(reversed(found))) if found else None


@attrs.define(eq=False)
class AncestorHooks:
    """The hooks before the calls of one run that are not its own, the outermost first.

    Args:
        context: The run.
        hooks: The hooks of the runs around it.

    Attributes:
        blocked: What one of them ended the run with; None if none did.
    """

    _context: RunContext
    _hooks: tuple[_ParentHooks, ...]
    blocked: HookBlock | None = attrs.field(default=None, init=False)

    async def judge(
        self, call: ToolUseBlock, messages: Messages, *, again: bool = False
    ) -> Denial | None:
        """Ask them all about a call, with its final arguments; the first refusal counts.

        Args:
            call: The call.
            messages: The conversation of the run whose call it is.
            again: Whether they have seen it, with other arguments.

        Raises:
            HookError: A hook failed, or cannot be asked any more.

        Cancellation: safe; that of the hook.
        """
        node = self._context.node
        event = PreToolUseEvent(
            session_id=node.session_id,
            run_id=node.run_id,
            messages=messages,
            tool_name=call.name,
            tool_input=call.input,
            tool_use_id=call.id,
            recheck=again,
            nested=True,
        )
        for parent in self._hooks:
            refusal, drafts = await parent.judge(event)
            for draft in drafts:
                self._context.note(draft)
            if refusal is not None:
                if refusal.stop and self.blocked is None:
                    self.blocked = HookBlock(Phase.BEFORE_TOOL.value, refusal.hook, refusal.reason)
                return refusal
        return None
