"""How a runtime is built, checked where it is made, and what it tells of itself."""

from typing import Final

import attrs

from agent_actors.abc import SessionStore
from agent_actors.actors.hook_bus import DEFAULTS, BusStatistics, SubscriptionOptions
from agent_actors.actors.model_stream import MAX_LIVE_STREAMS, StreamStatistics
from agent_actors.actors.session_gate import GateStatistics, OnBusy
from agent_actors.actors.session_log import MAX_SESSIONS, SESSION_TTL, LogStatistics
from agent_actors.actors.tool_executor import (
    THREADS_PER_RUNTIME,
    TOOLS_PER_RUN,
    TOOLS_PER_RUNTIME,
    ToolStatistics,
)
from agent_actors.errors import ConfigError

# Seconds that closing waits for runs before it cancels them.
DRAIN: Final = 30.0

_GATE_POLICIES: Final = ("reject", "queue", "interrupt", "rollback", "steer")


@attrs.frozen
class RuntimeStatistics:
    """A snapshot of a runtime.

    Attributes:
        runs: Runs that are alive.
        runs_started: Runs begun so far.
        gate: The SessionGate.
        tools: The ToolExecutor.
        endpoints: Each endpoint's ModelStream.
        log: The SessionLog.
        bus: The HookBus.
    """

    runs: int
    runs_started: int
    gate: GateStatistics
    tools: ToolStatistics
    endpoints: tuple[StreamStatistics, ...]
    log: LogStatistics
    bus: BusStatistics


@attrs.frozen(kw_only=True)
class RuntimeOptions:
    """How a runtime is built. Durations in seconds; `math.inf` for no bound where it says so.

    Attributes:
        store: Where session logs are kept; None: in memory.
        drain: How long closing waits for runs before it cancels them.
        on_busy: What a second run on a session does: `reject`, `queue`, `interrupt`, `rollback`
            or `steer`.
        max_sessions: Sessions in memory; beyond it the longest unused goes.
        session_ttl: How long an idle session stays in memory.
        tools_per_run: Calls of one run that may run at once.
        tools_per_runtime: Calls of all runs that may run at once.
        threads: Sync tools that may run at once.
        streams_per_endpoint: Streams of one endpoint that may be live at once; inf for no bound.
        subscriptions: How observers wait that do not say otherwise.
    """

    store: SessionStore | None = None
    drain: float = DRAIN
    on_busy: OnBusy = "reject"
    max_sessions: int = MAX_SESSIONS
    session_ttl: float = SESSION_TTL
    tools_per_run: int = TOOLS_PER_RUN
    tools_per_runtime: int = TOOLS_PER_RUNTIME
    threads: int = THREADS_PER_RUNTIME
    streams_per_endpoint: float = MAX_LIVE_STREAMS
    subscriptions: SubscriptionOptions = DEFAULTS

    def __attrs_post_init__(self) -> None:
        for name in ("max_sessions", "tools_per_run", "tools_per_runtime", "threads"):
            bound: int = getattr(self, name)
            if bound < 1:
                raise ConfigError(f"open_runtime: {name} must be at least 1; got {bound}")
        for name in ("session_ttl", "streams_per_endpoint"):
            limit: float = getattr(self, name)
            if not limit > 0:
                raise ConfigError(f"open_runtime: {name} must be above 0; got {limit}")
        if not self.drain >= 0:
            raise ConfigError(f"open_runtime: drain must not be negative; got {self.drain}")
        if self.subscriptions.after_seq is not None:
            raise ConfigError("open_runtime: after_seq is a matter of one subscription, not of all")
        check_policy(self.on_busy)


def waiting(on_busy: OnBusy) -> OnBusy:
    """The policy for what is no run: it waits for one, and neither stops it nor speaks to it."""
    return "reject" if on_busy == "reject" else "queue"


def check_policy(on_busy: str) -> None:
    """Check what a second run on a session is to meet.

    Raises:
        ConfigError: It is none of the policies.
    """
    if on_busy not in _GATE_POLICIES:
        raise ConfigError(f"on_busy must be one of {', '.join(_GATE_POLICIES)}; got {on_busy!r}")
