"""What the hooks of the runs around a run say of its calls: they may refuse them, and no more.

What may not be done may not be had done: a gate of an agent stands before the calls of the runs
that its tools start as well, however deep, and also of those that begin when its run has ended, or
in another runtime. So what gates need lasts as long as whoever knows the run (as policies do, see
`policy.py`): the hooks, their `ctx.state`, and of the run a last snapshot. A rewrite does not count
here, since the arguments are the started run's business. What a gate did is on the record of the
run whose call it is; what it ends or fails is that run too.

A gate may start a run itself, to have a call judged. It is not asked about the calls of that run:
it would have to judge what it judges by.
"""

import math
from contextlib import suppress
from functools import partial
from typing import Final
from weakref import WeakKeyDictionary

import attrs
import trio

from agent_actors.actors.run_tree import RunNode
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import EventBuilder
from agent_actors.domain.messages import Messages
from agent_actors.errors import HookError
from agent_actors.hooks.decision import Denial
from agent_actors.hooks.events import PreToolUseEvent
from agent_actors.hooks.phases import Phase
from agent_actors.run.hooks.chain import Ring
from agent_actors.run.hooks.run_hooks import Blocked, HookedRun

# A thread waits here for a hook, which has a deadline; tools' threads are not used up for it.
_UNBOUNDED: Final = trio.CapacityLimiter(math.inf)


@attrs.frozen(eq=False)
class _Gate:
    """The hooks of one run, asked where it takes place; made there.

    Hooks may use what belongs to their own trio run, such as a lock. A run that a tool opened in a
    thread, in a trio run of its own, has them asked over there.
    """

    ring: Ring
    token: trio.lowlevel.TrioToken = attrs.field(
        factory=trio.lowlevel.current_trio_token, init=False
    )

    async def judge(self, event: PreToolUseEvent) -> tuple[Denial | None, list[EventBuilder]]:
        if trio.lowlevel.current_trio_token() is self.token:
            return await self.ring.overrule(event)
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
            return await self.ring.overrule(event)
        return None


# The gates of runs, for those that they start; they last as long as whoever knows the run.
_GATES: Final[WeakKeyDictionary[RunNode, _Gate]] = WeakKeyDictionary()


def stand_above(node: RunNode, hooked: HookedRun | None) -> None:
    """A run has hooks: they stand before the calls of the runs that it starts, too."""
    if hooked is not None and hooked.ring.takes_part(Phase.BEFORE_TOOL):
        _GATES[node] = _Gate(hooked.ring)


def hooks_above(node: RunNode) -> "HooksAbove | None":
    """The hooks of the runs around this one; None if there are none."""
    if node.parent is None:
        return None
    gates = tuple(_GATES[one] for one in node.parent.lineage() if one in _GATES)
    return HooksAbove(node, gates[::-1]) if gates else None


@attrs.define(eq=False)
class HooksAbove:
    """The gates before the calls of one run that are not its own, the outermost first.

    Args:
        node: The run.
        gates: The hooks of the runs around it.

    Attributes:
        blocked: What one of them ended the run with; None if none did.
    """

    _node: RunNode
    _gates: tuple[_Gate, ...]
    blocked: Blocked | None = attrs.field(default=None, init=False)
    _drafts: list[EventBuilder] = attrs.field(factory=list[EventBuilder], init=False)

    def drafts(self) -> list[EventBuilder]:
        """What they did since the last look, as records of the run whose calls they judge."""
        drafts, self._drafts = self._drafts, []
        return drafts

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
        event = PreToolUseEvent(
            session_id=self._node.session_id,
            run_id=self._node.run_id,
            messages=messages,
            tool_name=call.name,
            tool_input=call.input,
            tool_use_id=call.id,
            recheck=again,
            nested=True,
        )
        for gate in self._gates:
            refusal, drafts = await gate.judge(event)
            self._drafts += drafts
            if refusal is not None:
                if refusal.stop and self.blocked is None:
                    self.blocked = Blocked(Phase.BEFORE_TOOL.value, refusal.hook, refusal.reason)
                return refusal
        return None
