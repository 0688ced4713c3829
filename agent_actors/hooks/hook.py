"""The base class of hooks, and the context that hooks receive."""

from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeAlias

from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import EventBuilder
from agent_actors.domain.model import ModelCompleted, ModelRequest
from agent_actors.domain.run import DepsT_co, HookDepsT_contra, RunInfo
from agent_actors.hooks.decision import HookDecision
from agent_actors.hooks.events import (
    AfterAgentEvent,
    AfterModelEvent,
    BeforeAgentEvent,
    BeforeModelEvent,
    CompactEvent,
    PostToolUseEvent,
    PreToolUseEvent,
    SessionEndEvent,
    SessionStartEvent,
    StopEvent,
    SubagentStartEvent,
    SubagentStopEvent,
    UserPromptSubmitEvent,
)
from agent_actors.tools.output import ToolOutput

# The next step for a wrapping hook: the next hook or, for the innermost hook, the call itself.
ModelCall: TypeAlias = Callable[[ModelRequest], Awaitable[ModelCompleted]]
ToolCall: TypeAlias = Callable[[ToolUseBlock], Awaitable[ToolOutput]]


class HookContext(Protocol[DepsT_co]):
    """The run for which a hook is called.

    A hook that uses `deps` names their type: `class Audit(Hook[Database])`, whose methods take a
    `HookContext[Database]`.
    """

    @property
    def deps(self) -> DepsT_co:
        """The dependencies of the run; None at the end of a session, which belongs to no run."""
        ...

    @property
    def run(self) -> RunInfo:
        """The current state of the run; its ids are empty at the end of a session."""
        ...

    @property
    def state(self) -> dict[str, object]:
        """A dict for values of hooks, shared by the hooks of a run and dropped with the run."""
        ...

    def record(self, event: EventBuilder) -> None:
        """Record an event in the session.

        In the tool phases, the event is recorded in the same commit as the result of the call. In
        other phases, it is recorded with the run's next commit.

        Args:
            event: An event without its header, for example
                `functools.partial(FileChanged, path="a.txt", content="new")`; also `TodosChanged`,
                `SkillActivated` and `Notification`.

        Raises:
            ConfigError: Only runs may record events of this type.
            InvalidEventError: The event could not be read back from a log.
            RuntimeError: The call, or the run, has ended.
        """
        ...

    def register_tool(self, tool: object) -> None:
        """Add a tool to this run only; allowed only in `before_agent`.

        Raises:
            ConfigError: The object is not a tool, its name is taken, or the phase is not
                `before_agent`.
        """
        ...


class Hook(Generic[HookDepsT_contra]):
    """A hook that runs in the phases whose methods it overrides; other phases cost nothing.

    Every method is async, and may return None to let the run proceed. `pre_tool_use`,
    `post_tool_use`, `before_model_call`, `after_model_call` and `stop` are aliases, which can be
    defined instead of the method of their phase.

    Attributes:
        name: Unique among the hooks of an agent; by default, the class's name.
        matcher: For tool phases, the tools for which the hook runs, for example `Edit|Write` or
            `mcp_*`; None for all tools.
        deadline: Timeout for one call of the hook, in seconds, including the time in `call_next`.
            If None, the agent's `hook_timeout` applies, which does not include that time. Wrapping
            methods have no default timeout, because the wrapped step may take any time.
    """

    name: str = ""
    matcher: str | None = None
    deadline: float | None = None

    async def session_start(
        self, event: SessionStartEvent, ctx: HookContext[HookDepsT_contra]
    ) -> HookDecision | None:
        """Called when a session is opened in this runtime."""

    async def user_prompt_submit(
        self, event: UserPromptSubmitEvent, ctx: HookContext[HookDepsT_contra]
    ) -> HookDecision | None:
        """Called with the caller's prompt; may rewrite or refuse it."""

    async def before_agent(
        self, event: BeforeAgentEvent, ctx: HookContext[HookDepsT_contra]
    ) -> HookDecision | None:
        """Called when a run starts; may register tools."""

    async def modify_request(
        self, request: ModelRequest, ctx: HookContext[HookDepsT_contra]
    ) -> ModelRequest | None:
        """Return a different request for this call only, or None to keep the request."""

    async def before_model(
        self, event: BeforeModelEvent, ctx: HookContext[HookDepsT_contra]
    ) -> HookDecision | None:
        """Called before a request is sent."""

    async def wrap_model_call(
        self, request: ModelRequest, call_next: ModelCall, ctx: HookContext[HookDepsT_contra]
    ) -> ModelCompleted:
        """Wrap a model call.

        `call_next` may be called repeatedly, but not concurrently: concurrent calls raise
        `HookError`. A repeated call discards the deltas shown so far and counts towards the run's
        limits.
        """
        return await call_next(request)

    async def after_model(
        self, event: AfterModelEvent, ctx: HookContext[HookDepsT_contra]
    ) -> HookDecision | None:
        """Called when a response is complete, before it is recorded."""

    async def before_tool(
        self, event: PreToolUseEvent, ctx: HookContext[HookDepsT_contra]
    ) -> HookDecision | None:
        """Called before a tool is called; may rewrite the arguments or refuse the call."""

    async def wrap_tool_call(
        self, call: ToolUseBlock, call_next: ToolCall, ctx: HookContext[HookDepsT_contra]
    ) -> ToolOutput:
        """Wrap a tool's handler."""
        return await call_next(call)

    async def after_tool(
        self, event: PostToolUseEvent, ctx: HookContext[HookDepsT_contra]
    ) -> HookDecision | None:
        """Called after a tool was called; may replace the result."""

    async def on_stop(
        self, event: StopEvent, ctx: HookContext[HookDepsT_contra]
    ) -> HookDecision | None:
        """Called after the model's final response."""

    async def on_compact(
        self, event: CompactEvent, ctx: HookContext[HookDepsT_contra]
    ) -> HookDecision | None:
        """Called before the history is compacted."""

    async def subagent_start(
        self, event: SubagentStartEvent, ctx: HookContext[HookDepsT_contra]
    ) -> HookDecision | None:
        """Called when a tool starts a nested run."""

    async def subagent_stop(
        self, event: SubagentStopEvent, ctx: HookContext[HookDepsT_contra]
    ) -> HookDecision | None:
        """Called when a nested run has ended."""

    async def after_agent(
        self, event: AfterAgentEvent, ctx: HookContext[HookDepsT_contra]
    ) -> HookDecision | None:
        """Called when the run has ended, regardless of the outcome."""

    async def session_end(
        self, event: SessionEndEvent, ctx: HookContext[HookDepsT_contra]
    ) -> HookDecision | None:
        """Called when the session leaves this runtime."""
