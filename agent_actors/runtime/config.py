"""Options of a runtime, their validation, and the runtime's statistics."""

from typing import Final, TypedDict

import attrs

from agent_actors.abc import Instrumentation, SessionStore
from agent_actors.actors.hook_bus import DEFAULTS, BusStatistics, SubscriptionOptions
from agent_actors.actors.model_stream import MAX_LIVE_STREAMS, StreamStatistics
from agent_actors.actors.resources.session_resources import WORKSPACE_TTL, ResourceStatistics
from agent_actors.actors.session_gate import GateStatistics, OnBusy
from agent_actors.actors.session_log import MAX_SESSIONS, SESSION_TTL, LogStatistics
from agent_actors.actors.tool_executor import (
    THREADS_PER_RUNTIME,
    TOOLS_PER_RUN,
    TOOLS_PER_RUNTIME,
    ToolStatistics,
)
from agent_actors.actors.tool_servers.servers import ToolServerStatistics
from agent_actors.errors import ConfigError
from agent_actors.transport.read_tick import LONGEST_READ_TICK, READ_TICK

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
        resources: The workspaces and background commands of sessions.
        tool_servers: The connections to servers of remote tools.
    """

    runs: int
    runs_started: int
    gate: GateStatistics
    tools: ToolStatistics
    endpoints: tuple[StreamStatistics, ...]
    log: LogStatistics
    bus: BusStatistics
    resources: ResourceStatistics
    tool_servers: ToolServerStatistics


class RuntimeArguments(TypedDict, total=False):
    """The keyword arguments of `open_runtime`, where they are documented."""

    store: SessionStore | None
    drain: float
    on_busy: OnBusy
    max_sessions: int
    session_ttl: float
    workspace_ttl: float
    tools_per_run: int
    tools_per_runtime: int
    threads: int
    streams_per_endpoint: float
    read_tick: float
    subscriptions: SubscriptionOptions
    instrumentation: Instrumentation | None


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
        workspace_ttl: Seconds that the workspace of an idle session stays open.
        tools_per_run: The maximum number of concurrent tool calls in one run.
        tools_per_runtime: The maximum number of concurrent tool calls across all runs.
        threads: The maximum number of concurrent calls to sync tools.
        streams_per_endpoint: The maximum number of live streams per endpoint.
        read_tick: Under load, the minimum number of seconds between two reads of a connection.
        subscriptions: The default options for subscriptions.
        instrumentation: Observes the operations of the runtime; None: nothing does.
    """

    store: SessionStore | None = None
    drain: float = DRAIN
    on_busy: OnBusy = "reject"
    max_sessions: int = MAX_SESSIONS
    session_ttl: float = SESSION_TTL
    workspace_ttl: float = WORKSPACE_TTL
    tools_per_run: int = TOOLS_PER_RUN
    tools_per_runtime: int = TOOLS_PER_RUNTIME
    threads: int = THREADS_PER_RUNTIME
    streams_per_endpoint: float = MAX_LIVE_STREAMS
    read_tick: float = READ_TICK
    subscriptions: SubscriptionOptions = DEFAULTS
    instrumentation: Instrumentation | None = None

    def __attrs_post_init__(self) -> None:
        for name in ("max_sessions", "tools_per_run", "tools_per_runtime", "threads"):
            bound: int = getattr(self, name)
            if bound < 1:
                raise ConfigError(f"open_runtime: {name} must be at least 1; got {bound}")
        for name in ("session_ttl", "workspace_ttl", "streams_per_endpoint"):
            limit: float = getattr(self, name)
            if not limit > 0:
                raise ConfigError(f"open_runtime: {name} must be above 0; got {limit}")
        if not self.drain >= 0:
            raise ConfigError(f"open_runtime: drain must not be negative; got {self.drain}")
        if not 0 <= self.read_tick <= LONGEST_READ_TICK:
            raise ConfigError(
                f"open_runtime: read_tick must be between 0 and {LONGEST_READ_TICK:g} seconds; "
                f"got {self.read_tick}"
            )
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
