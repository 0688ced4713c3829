"""Fires `session_start` and `session_end` each time a session is opened or closed in a runtime.

A session is open from its first run in this runtime until it is removed from memory, because it is
evicted or deleted or because the runtime closes. Hooks belong to agents, and several agents may use
a session. The first agent with such hooks opens the session here, and the `session_end` hooks of
the same agent are called later. For sessions without such hooks, nothing is kept here.
"""

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import Final

import trio

from agent_actors.actors.session_log import OpenSession
from agent_actors.domain.run import RunInfo
from agent_actors.errors import AgentError, RuntimeFailure
from agent_actors.hooks.events import SessionEndEvent
from agent_actors.hooks.phases import Phase
from agent_actors.hooks.registry import HookChain
from agent_actors.kernel.actor_loop import ActorLoop
from agent_actors.runs.hooks.hook_host import NoRun
from agent_actors.runs.hooks.hook_onion import HookOnion
from agent_actors.runs.hooks.run_hooks import HookBlock, RunHooks

# Time limit, in seconds, for all `session_end` hooks of one session together.
SESSION_END_TIMEOUT: Final = 10.0

# The `SessionHooks` whose `session_end` hooks are executing the current code.
_around: Final[ContextVar["SessionHooks | None"]] = ContextVar("session_hooks", default=None)

_EDGES: Final = (Phase.SESSION_START, Phase.SESSION_END)


class SessionHooks:
    """The open sessions of a runtime that have `session_start` or `session_end` hooks.

    Args:
        wall_clock: Returns the seconds since the epoch.

    Attributes:
        owner: The owner of the tasks in which `session_end` hooks run.
    """

    def __init__(self, wall_clock: Callable[[], float]) -> None:
        self.owner: ActorLoop = ActorLoop("session_hooks")
        self._wall_clock = wall_clock
        self._open: dict[str, tuple[HookChain, float]] = {}
        # One event for each task that fires hooks, set when the task has ended.
        self._firing: set[trio.Event] = set()

    @property
    def are_around(self) -> bool:
        """True if the current code is part of a `session_end` hook of this runtime."""
        return _around.get() is self

    async def begin(self, session: OpenSession, hooks: RunHooks) -> HookBlock | None:
        """Fire `session_start`, unless the session is already open or the agent has no such hooks.

        Returns:
            The reason why a hook blocked the run; None if no hook blocked it.

        Raises:
            HookError: A hook failed. The session does not count as opened.
        """
        session_id = session.session_id
        if session_id in self._open or not hooks.onion.takes_part(*_EDGES):
            return None
        self._open[session_id] = (hooks.chain, hooks.timeout)
        try:
            blocked = await hooks.start_session("resumed" if session.state.last_seq else "new")
        except BaseException:
            del self._open[session_id]
            raise
        if blocked is not None:
            del self._open[session_id]
        return blocked

    def end(self, session_id: str, reason: str) -> None:
        """Fire `session_end` in a background task, if the session has such hooks."""
        opened = self._open.pop(session_id, None)
        if opened is None:
            return
        fired = trio.Event()
        self._firing.add(fired)
        try:
            self.owner.start_background(
                partial(self._fire_apart, fired, session_id, reason, *opened)
            )
        except RuntimeFailure:  # the runtime is closing, and fires the remaining hooks itself
            self._firing.discard(fired)

    async def end_all(self) -> None:
        """Fire `session_end` for every open session, because the runtime is closing.

        This method also waits for the hooks of sessions that were closed just before, since their
        tasks belong to the owner, which is closed afterwards. There is a time limit, and errors
        from hooks are dropped.
        """
        async with trio.open_nursery() as nursery:
            for fired in tuple(self._firing):
                nursery.start_soon(fired.wait)
            while self._open:
                session_id, opened = self._open.popitem()
                nursery.start_soon(self._fire, session_id, "closed", *opened)

    async def _fire_apart(
        self, fired: trio.Event, session_id: str, reason: str, chain: HookChain, bound: float
    ) -> None:
        try:
            await self._fire(session_id, reason, chain, bound)
        finally:
            self._firing.discard(fired)
            fired.set()

    async def _fire(self, session_id: str, reason: str, chain: HookChain, bound: float) -> None:
        _around.set(self)
        info = RunInfo(session_id, "", "", iteration=0, started_at=self._wall_clock())
        onion = HookOnion(
            chain,
            NoRun(info, accepts_records=False),
            tools={},
            timeout=bound,
            take_interrupt=self.owner.take_interrupt,
        )
        with trio.move_on_after(SESSION_END_TIMEOUT), suppress(AgentError):
            await onion.decide(SessionEndEvent(session_id=session_id, reason=reason))
