"""Options of a runtime, their validation, and the runtime's statistics."""

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

# Seconds to wait for live runs when closing, before they are cancelled.
DRAIN: Final = 30.0

_GATE_POLICIES: Final = ("reject", "queue", "interrupt", "rollback", "steer")


@attrs.frozen
class RuntimeStatistics:
    """A snapshot of a runtime.

    Attributes:
        runs: The number of live runs.
        runs_started: The number of runs started so far.
        gate: Statistics of the SessionGate.
        tools: Statistics of the ToolExecutor.
        endpoints: Statistics of each endpoint's ModelStream.
        log: Statistics of the SessionLog.
        bus: Statistics of the HookBus.
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
    """Options of a runtime: the arguments of `open_runtime`, where they are documented.

    Attributes:
        store: Where session logs are stored; None: in memory.
        drain: Seconds to wait for live runs when closing, before they are cancelled.
        on_busy: The policy for a run on a session that another run holds: `reject`, `queue`,
            `interrupt`, `rollback` or `steer`.
        max_sessions: The maximum number of sessions in memory; when it is exceeded, the least
            recently used session is evicted.
        session_ttl: Seconds that an idle session stays in memory.
        tools_per_run: The maximum number of concurrent tool calls in one run.
        tools_per_runtime: The maximum number of concurrent tool calls across all runs.
        threads: The maximum number of concurrent calls to sync tools.
        streams_per_endpoint: The maximum number of live streams per endpoint.
        subscriptions: The default options for subscriptions.
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
            raise ConfigError(
                "open_runtime: after_seq cannot be a default for all subscriptions; "
                "pass it to subscribe()"
            )
        check_policy(self.on_busy)


def queue_policy(on_busy: OnBusy) -> OnBusy:
    """Return the policy for commits between runs, which may wait for a run but not stop it."""
    return "reject" if on_busy == "reject" else "queue"


def check_policy(on_busy: str) -> None:
    """Check that a value is a valid `on_busy` policy.

    Raises:
        ConfigError: The value is not a valid policy.
    """
    if on_busy not in _GATE_POLICIES:
        raise ConfigError(f"on_busy must be one of {', '.join(_GATE_POLICIES)}; got {on_busy!r}")
