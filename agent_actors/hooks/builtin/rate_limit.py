"""`RateLimit`: a hook that limits the number of tool calls per time window.

Calls can be counted by run, session and tool. The hook stores the times of allowed calls, at most
as many as the limit allows. Those for a run are kept in the run's state and dropped with it; those
for a session are dropped when the session ends.
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
# The session id, or empty; and the tool's name, or empty for all tools.
_Key: TypeAlias = tuple[str, str]
# The times and ids of allowed calls.
_Times: TypeAlias = dict[_Key, "deque[tuple[float, str]]"]


class RateLimit(Hook):
    """Refuses tool calls that exceed a rate, and tells the model when to try again.

    An allowed call counts even if another hook refuses it or the tool fails. Calls in nested runs
    count towards the run and the session whose tool started them.

    Args:
        calls: Maximum number of calls in any time window.
        per: Length of a window, in seconds.
        scope: The calls that are counted together: those in a `run`, in a `session`, or `all` calls
            that this hook sees.
        each_tool: True to count the calls of each tool separately.
        matcher: The tools to limit, for example `Bash|web_*`; None for all tools.
        name: The hook's name; needed if an agent has several limits.
        clock: A monotonic clock, in seconds.

    Raises:
        ConfigError: A limit or the scope is invalid.
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
                f"RateLimit: calls must be at least 1, and per must be finite and above 0 seconds; "
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
        """Count the call or refuse it."""
        if event.recheck:
            return None  # the call was already counted
        table = self._table(ctx)
        # A call in a nested run counts towards the parent run's session.
        of_session = ctx.run.session_id if self._scope == "session" else ""
        key = (of_session, event.tool_name if self._each_tool else "")
        times = table.setdefault(key, deque(maxlen=self._calls))
        call_id = f"{event.run_id}/{event.tool_use_id}"
        if event.nested and any(counted == call_id for _, counted in times):
            return None  # the nested run has this hook too, and it counted the call there
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
        """Drop the times of the calls in the session."""
        for key in [key for key in self._times if key[0] == event.session_id]:
            del self._times[key]

    def _of(self, event: PreToolUseEvent) -> str:
        return f" of {event.tool_name}" if self._each_tool else ""

    def _table(self, ctx: HookContext) -> _Times:
        if self._scope != "run":
            return self._times
        return cast(_Times, ctx.state.setdefault(f"{type(self).__name__}:{self.name}", {}))
