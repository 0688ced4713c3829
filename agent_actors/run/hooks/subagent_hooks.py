"""What a run tells the hooks of the run whose tool started it.

`subagent_start` and `subagent_stop` are a pair: who was told of the start is told of the end, once,
also when its own run has ended by then, as it can if the tool started the other run in a task that
it left behind. What such a late hook did is on no record, since that run's has its end.

A run that is started after the run around it has ended, or in another runtime, is told to nobody:
`after_agent` was the last word to those hooks, and there is no run any more that a record of theirs
could belong to. Their gates stand before its calls all the same (`above.py`), since what a gate
refuses is that run's own affair and on its own record; and so does the `PermissionPolicy` of the
run around it (`policy.py`).
"""

import trio

from agent_actors.errors import AgentError, HookError
from agent_actors.hooks.phases import Phase
from agent_actors.run.hooks.run_hooks import AFTER_AGENT_TIMEOUT, Blocked, HookedRun
from agent_actors.run.spec import RunSpec
from agent_actors.runtime.lifecycle import Actors


class Subagent:
    """A run, as the hooks around it see it.

    Args:
        around: The hooks of the run that started it.
        spec: The run.
    """

    def __init__(self, around: HookedRun, spec: RunSpec) -> None:
        self._around = around
        self._name = spec.options.agent_name or ""
        self._prompt = spec.prompt.text
        self._session_id = spec.node.session_id
        self._call_id = spec.parent_tool_use_id or ""
        self._started = False

    async def start(self) -> Blocked | None:
        """It begins, if the hooks around it let it.

        Raises:
            HookError: One of them failed.
        """
        self._started = True
        return await self._around.start_subagent(
            self._name, self._prompt, self._session_id, self._call_id
        )

    async def stop(
        self, stop_reason: str, text: str, failure: Exception | None
    ) -> Exception | None:
        """It has ended: told once, if it began; bounded, as its own `after_agent` hooks are.

        Returns:
            What it fails with: its own failure, else that of a hook.
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
                    f"the hooks did not end within {AFTER_AGENT_TIMEOUT:g} s",
                    hook="<all>",
                    phase=Phase.SUBAGENT_STOP,
                )
        except AgentError as error:
            return failure or error
        return failure


def subagent_of(actors: Actors, spec: RunSpec) -> Subagent | None:
    """The run as the hooks around it see it; None if there are none."""
    parent = spec.node.parent
    around = None if parent is None else actors.hooked.get(parent.run_id)
    return None if around is None else Subagent(around, spec)
