"""Hooks as classes: what to override, and what a hook gets to know and to do."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import EventBuilder
from agent_actors.domain.model import ModelCompleted, ModelRequest
from agent_actors.domain.run import RunInfo
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

# What stands inside a hook that wraps: the next hook, and innermost the step itself.
ModelCall: TypeAlias = Callable[[ModelRequest], Awaitable[ModelCompleted]]
ToolCall: TypeAlias = Callable[[ToolUseBlock], Awaitable[ToolOutput]]


class HookContext(Protocol):
    """The run that a hook serves."""

    @property
    def run(self) -> RunInfo:
        """The run as it stands now; empty ids where a session ends."""
        ...

    @property
    def state(self) -> dict[str, object]:
        """What the hooks of this run keep, shared by all of them, gone with the run."""
        ...

    def record(self, event: EventBuilder) -> None:
        """Record an event in the session.

        In the tool phases the event is recorded in the same commit as the result of the call, in
        other phases with the next commit of the run.

        Args:
            event: An event without its header, for example
                `functools.partial(FileChanged, path="a.txt", content="new")`; also `TodosChanged`,
                `SkillActivated` and `Notification`.

        Raises:
            ConfigError: Events of this type are recorded by runs only.
            InvalidEventError: The event cannot be read back from a log.
            RuntimeError: The call, or the run, has ended.
        """
        ...

    def register_tool(self, tool: object) -> None:
        """Offer one more tool in this run, in `before_agent` only; it is never kept.

        Raises:
            ConfigError: It is no tool, its name is taken, or it is too late.
        """
        ...


class Hook:
    """A hook that takes part in the phases which it overrides; the others cost nothing.

    Every method is async, and may return None to proceed. `pre_tool_use`, `post_tool_use`,
    `before_model_call`, `after_model_call` and `stop` may be written in place of the phase of which
    they are another name.

    Attributes:
        name: Unique among the hooks of an agent; the class's name unless set.
        matcher: For the tool phases: the tools that it is for, such as `Edit|Write` or `mcp_*`;
            None: all.
        deadline: Seconds that one call of it may take; None: the agent's `hook_timeout`. What wraps
            has none but its own, since the step takes what it takes.
    """

    name: str = ""
    matcher: str | None = None
    deadline: float | None = None

    async def session_start(
        self, event: SessionStartEvent, ctx: HookContext
    ) -> HookDecision | None:
        """A session is opened in this runtime."""

    async def user_prompt_submit(
        self, event: UserPromptSubmitEvent, ctx: HookContext
    ) -> HookDecision | None:
        """The caller spoke: the prompt may be rewritten or refused."""

    async def before_agent(self, event: BeforeAgentEvent, ctx: HookContext) -> HookDecision | None:
        """A run begins: tools may be registered."""

    async def modify_request(self, request: ModelRequest, ctx: HookContext) -> ModelRequest | None:
        """Make another request of it, for this call only; None: leave it."""

    async def before_model(self, event: BeforeModelEvent, ctx: HookContext) -> HookDecision | None:
        """A request is about to be sent."""

    async def wrap_model_call(
        self, request: ModelRequest, call_next: ModelCall, ctx: HookContext
    ) -> ModelCompleted:
        """Stand around a model call.

        `call_next` may be called again, one call after the other: what was shown is void then, and
        each needs room in the run's limits. Two at a time are refused by a `HookError`.
        """
        return await call_next(request)

    async def after_model(self, event: AfterModelEvent, ctx: HookContext) -> HookDecision | None:
        """An answer is whole, and not yet recorded."""

    async def before_tool(self, event: PreToolUseEvent, ctx: HookContext) -> HookDecision | None:
        """A tool is about to be called: its arguments may be rewritten, or the call refused."""

    async def wrap_tool_call(
        self, call: ToolUseBlock, call_next: ToolCall, ctx: HookContext
    ) -> ToolOutput:
        """Stand around a tool's handler."""
        return await call_next(call)

    async def after_tool(self, event: PostToolUseEvent, ctx: HookContext) -> HookDecision | None:
        """A tool was called: its result may be replaced."""

    async def on_stop(self, event: StopEvent, ctx: HookContext) -> HookDecision | None:
        """The model has said its last word."""

    async def on_compact(self, event: CompactEvent, ctx: HookContext) -> HookDecision | None:
        """The history is about to be compacted."""

    async def subagent_start(
        self, event: SubagentStartEvent, ctx: HookContext
    ) -> HookDecision | None:
        """A tool starts a run."""

    async def subagent_stop(
        self, event: SubagentStopEvent, ctx: HookContext
    ) -> HookDecision | None:
        """That run has ended."""

    async def after_agent(self, event: AfterAgentEvent, ctx: HookContext) -> HookDecision | None:
        """The run has ended, however it did."""

    async def session_end(self, event: SessionEndEvent, ctx: HookContext) -> HookDecision | None:
        """The session leaves this runtime."""
