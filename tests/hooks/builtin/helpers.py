"""A context for hooks, without a runtime."""

import attrs

from agent_actors.domain.events import EventBuilder
from agent_actors.domain.run import RunInfo
from agent_actors.errors import ConfigError
from agent_actors.hooks import HookContext, PostToolUseEvent, PreToolUseEvent


@attrs.define(eq=False)
class Clock:
    """A clock that the test moves."""

    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


@attrs.define(eq=False)
class Run:
    """The `HookContext` of one run."""

    session_id: str = "s"
    run_id: str = "r"
    deps: object = None
    state: dict[str, object] = attrs.field(factory=dict[str, object])

    @property
    def run(self) -> RunInfo:
        return RunInfo(self.session_id, self.run_id, "q", iteration=1, started_at=0.0)

    def register_tool(self, tool: object) -> None:
        raise ConfigError(f"{tool!r}: not here")

    def record(self, event: EventBuilder) -> None:
        raise RuntimeError(f"{event!r}: not here")


def context(session_id: str = "s", run_id: str = "r") -> HookContext:
    return Run(session_id, run_id)


def before(name: str = "echo", *, session_id: str = "s", recheck: bool = False) -> PreToolUseEvent:
    return PreToolUseEvent(
        session_id=session_id, tool_name=name, tool_input={}, tool_use_id="c", recheck=recheck
    )


def after(result: object, name: str = "echo") -> PostToolUseEvent:
    return PostToolUseEvent(
        session_id="s",
        run_id="r",
        tool_name=name,
        tool_input={},
        tool_use_id="c",
        tool_result=result,  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    )
