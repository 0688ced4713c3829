"""The `before_tool` hooks of ancestor runs, which may deny the calls of a nested run.

An agent's `before_tool` hooks also apply to every run that its tools start, at any depth, even if
that run starts in another runtime or after the parent run has ended. The parent's context keeps the
hooks, their `ctx.state` and a last snapshot. Ancestor hooks cannot rewrite arguments; only the
nested run's own hooks can. The actions of ancestor hooks are recorded in the nested run. Ancestor
hooks can also end the nested run or make it fail.

A hook may itself start a run, for example to judge a call. That hook is not asked about calls in
the run that it started.
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
from agent_actors.runs.context import RunContext
from agent_actors.runs.hooks.hook_onion import HookOnion
from agent_actors.runs.hooks.run_hooks import HookBlock

# A thread waits here for a hook, which has a deadline. These threads must not count against the
# limit for tool threads.
_UNBOUNDED: Final = trio.CapacityLimiter(math.inf)


@attrs.frozen(eq=False)
class _ParentHooks:
    """The hooks of one ancestor, called in the trio run of that ancestor.

    Hooks may use objects that belong to their own trio run, such as a lock. If a tool starts
    another trio run in a thread, calls in that trio run are still judged in the ancestor's trio
    run.
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
                "an ancestor run's hooks can no longer be called, since the trio run of that run "
                "has ended",
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
            decision = trio.from_thread.run(self._ask, scope, event, trio_token=self.token)
        except trio.Cancelled:  # noqa: ASYNC103 - of the ancestor's trio run, not of this one
            decision = None
        if decision is None:
            raise trio.RunFinishedError  # noqa: ASYNC104
        return decision

    async def _ask(
        self, scope: trio.CancelScope, event: PreToolUseEvent
    ) -> tuple[Denial | None, list[EventBuilder]] | None:
        with scope:
            return await self.onion.evaluate_nested(event)
        return None


def ancestor_hooks(context: RunContext) -> "AncestorHooks | None":
    """Return the hooks of the ancestor runs, outermost first; None if there are none."""
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
    """The hooks of ancestor runs that check the calls of one run, outermost first.

    Args:
        context: The context of the run.
        hooks: The hooks of the ancestor runs.

    Attributes:
        blocked: The reason why an ancestor hook ended the run; None if no hook ended it.
    """

    _context: RunContext
    _hooks: tuple[_ParentHooks, ...]
    blocked: HookBlock | None = attrs.field(default=None, init=False)

    async def judge(
        self, call: ToolUseBlock, messages: Messages, *, again: bool = False
    ) -> Denial | None:
        """Ask all ancestor hooks about a call with its final arguments; return the first refusal.

        Args:
            call: The call.
            messages: The conversation of the run that makes the call.
            again: True if the hooks have already seen the call with different arguments.

        Raises:
            HookError: A hook failed, or its trio run has ended.

        Cancellation: safe; the hook that is running is cancelled.
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
