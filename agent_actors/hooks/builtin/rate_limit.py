"""RateLimit: so many tool calls in any window of time, by session, run or tool.

It keeps the times of the calls that it let pass, at most as many for each key as it allows. Those
of a run stand in the run's state and are gone with it; those of sessions end with the session.
"""

import math
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Literal, TypeAlias, cast

from agent_actors.errors import ConfigError
from agent_actors.hooks.decision import HookDecision
from agent_actors.hooks.events import PreToolUseEvent, SessionEndEvent
from agent_actors.hooks.hook import Hook, HookContext

Scope: TypeAlias = Literal["run", "session", "all"]

_SCOPES: Final = ("run", "session", "all")
# Whose calls: the session's, or nobody's in particular; and of which tool, or of all.
_Key: TypeAlias = tuple[str, str]
# When a call was let pass, and which.
_Times: TypeAlias = dict[_Key, "deque[tuple[float, str]]"]


class RateLimit(Hook):
    """Refuses a tool call when there were too many; the model is told when to try again.

    A call that it lets pass counts, also when another hook refuses it or the tool fails. Calls of
    runs that a tool starts count for the run, and the session, whose tool that is.

    Args:
        calls: How many are allowed in any window.
        per: Seconds of a window.
        scope: Whose calls are counted together: those of a `run`, of a `session`, or `all` that
            this hook sees.
        each_tool: Count the calls of each tool apart.
        matcher: The tools that it is for, such as `Bash|web_*`; None: all.
        name: Tells several limits of one agent apart.
        clock: Seconds that never go back.

    Raises:
        ConfigError: A limit that cannot be, or a scope that is none.
    """

    def __init__(
        self,
        calls: int,
        per: float,
        *,
        scope: Scope = "session",
        each_tool: bool = False,
        matcher: str | None = None,
        name: str = "rate_limit",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if calls < 1 or not 0 < per < math.inf:
            raise ConfigError(
                f"RateLimit: calls must be at least 1, and per above 0 seconds and finite; "
                f"got calls={calls} and per={per}"
            )
        if scope not in _SCOPES:
            raise ConfigError(
                f"RateLimit: scope must be one of {', '.join(_SCOPES)}; got {scope!r}"
            )
        self.name = name
        self.matcher = matcher
        self._calls = calls
        self._per = per
        self._scope: Scope = scope
        self._each_tool = each_tool
        self._clock = clock
        self._times: _Times = {}

    async def before_tool(self, event: PreToolUseEvent, ctx: HookContext) -> HookDecision | None:
        """Count the call, or refuse it."""
        if event.recheck:
            return None  # it was counted when it came first
        table = self._table(ctx)
        # Of a call of a run below it is the session of the run above that it counts for.
        of_session = ctx.run.session_id if self._scope == "session" else ""
        key = (of_session, event.tool_name if self._each_tool else "")
        times = table.setdefault(key, deque(maxlen=self._calls))
        call_id = f"{event.run_id}/{event.tool_use_id}"
        if event.nested and any(counted == call_id for _, counted in times):
            return None  # it is a hook of the run below as well, and was asked there
        now = self._clock()
        if len(times) == self._calls and now - times[0][0] < self._per:
            return HookDecision(
                continue_=False,
                reason=f"at most {self._calls} calls{self._of(event)} in {self._per:g} s; "
                f"try again in {math.ceil(times[0][0] + self._per - now)} s",
            )
        times.append((now, call_id))
        return None

    async def session_end(self, event: SessionEndEvent, ctx: HookContext) -> None:
        """Forget the session's calls."""
        for key in [key for key in self._times if key[0] == event.session_id]:
            del self._times[key]

    def _of(self, event: PreToolUseEvent) -> str:
        return f" of {event.tool_name}" if self._each_tool else ""

    def _table(self, ctx: HookContext) -> _Times:
        if self._scope != "run":
            return self._times
        return cast(_Times, ctx.state.setdefault(f"{type(self).__name__}:{self.name}", {}))
