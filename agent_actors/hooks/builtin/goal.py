"""`Goal`: a hook that makes a run continue until a check passes."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from agent_actors.errors import ConfigError
from agent_actors.hooks.decision import HookDecision
from agent_actors.hooks.events import StopEvent
from agent_actors.hooks.hook import Hook, HookContext

GoalCheck: TypeAlias = Callable[[str], "bool | str | Awaitable[bool | str]"]
"""Takes the text of the final response; returns True if the goal is reached, otherwise False or the
reason why it is not.
"""

_NOT_REACHED: Final = "The goal is not reached yet. Continue."


class Goal(Hook):
    """Makes the run continue until a check passes, at most five times.

    If the check fails, its reason is sent to the model as the user's input. After five times, the
    run ends even if the check fails.

    Args:
        check: A function, sync or async, that takes the text of the final response. It returns True
            if the goal is reached, otherwise False or the reason. A sync function blocks the event
            loop.
        name: The hook's name; needed if an agent has several goals.

    Raises:
        ConfigError: The check is not a function.
    """

    def __init__(self, check: GoalCheck, *, name: str = "goal") -> None:
        if not callable(check):
            raise ConfigError(f"Goal: check must be a function; got {check!r:.80}")
        self.name: str = name
        self._check = check

    async def on_stop(self, event: StopEvent, ctx: HookContext) -> HookDecision | None:
        """Refuse to stop if the goal is not reached."""
        reached = self._check(event.text)
        if inspect.isawaitable(reached):
            reached = await reached
        if reached is True:
            return None
        reason = reached if isinstance(reached, str) and reached.strip() else _NOT_REACHED
        return HookDecision(continue_=False, reason=reason)
