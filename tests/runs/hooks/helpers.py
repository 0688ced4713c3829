"""An agent with hooks, a record of its tool calls, and a hook that sees every phase."""

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.model import ModelCompleted, ModelRequest
from agent_actors.domain.run import RunResult
from agent_actors.hooks import (
    AfterAgentEvent,
    AfterModelEvent,
    BeforeAgentEvent,
    BeforeModelEvent,
    Hook,
    HookContext,
    Hooks,
    ModelCall,
    PhaseEvent,
    PostToolUseEvent,
    PreToolUseEvent,
    SessionEndEvent,
    SessionStartEvent,
    StopEvent,
    ToolCall,
    UserPromptSubmitEvent,
)
from agent_actors.testing import ScriptedModel, Turn, call
from agent_actors.tools.output import ToolOutput
from tests.runs.helpers import check_history, check_quiet

ran: list[str] = []


@tool
async def echo(text: str) -> str:
    """Say it again."""
    ran.append(text)
    return f"said {text}"


def agent(*turns: Turn, hooks: Hooks = (), max_retries: int = 0) -> AgentOptions:
    model = ScriptedModel(turns)
    return AgentOptions(
        model="m", provider=model, tools=[echo], hooks=hooks, max_retries=max_retries
    )


def asked(options: AgentOptions) -> list[ModelRequest]:
    assert isinstance(options.provider, ScriptedModel)
    return options.provider.requests


async def run(options: AgentOptions, *, prompt: str = "Go.") -> RunResult:
    async with open_runtime() as runtime:
        result = await runtime.run(prompt, options, session_id="s")
        check_history(result.messages)
        check_quiet(runtime)
        return result


def results(result: RunResult) -> list[str]:
    return [str(call.content) for call in result.tool_calls]


def actions(result: RunResult) -> list[tuple[str, str, str]]:
    return [(event.hook, event.phase, event.action) for event in result.hook_events]


USE: list[Turn] = [call("echo", {"text": "a"}), "Done."]


class Recorder(Hook):
    """Records every phase; it takes part in all of them."""

    name = "recorder"

    def __init__(self) -> None:
        self.phases: list[str] = []

    def note(self, event: PhaseEvent) -> None:
        self.phases.append(event.phase.value)
        assert event.session_id == "s"

    async def session_start(self, event: SessionStartEvent, ctx: HookContext) -> None:
        self.note(event)

    async def user_prompt_submit(self, event: UserPromptSubmitEvent, ctx: HookContext) -> None:
        self.note(event)

    async def before_agent(self, event: BeforeAgentEvent, ctx: HookContext) -> None:
        self.note(event)

    async def modify_request(self, request: ModelRequest, ctx: HookContext) -> None:
        self.phases.append("modify_request")

    async def before_model(self, event: BeforeModelEvent, ctx: HookContext) -> None:
        self.note(event)

    async def wrap_model_call(
        self, request: ModelRequest, call_next: ModelCall, ctx: HookContext
    ) -> ModelCompleted:
        self.phases.append("wrap_model_call")
        return await call_next(request)

    async def after_model(self, event: AfterModelEvent, ctx: HookContext) -> None:
        self.note(event)

    async def before_tool(self, event: PreToolUseEvent, ctx: HookContext) -> None:
        self.note(event)

    async def wrap_tool_call(
        self, call: ToolUseBlock, call_next: ToolCall, ctx: HookContext
    ) -> ToolOutput:
        self.phases.append("wrap_tool_call")
        return await call_next(call)

    async def after_tool(self, event: PostToolUseEvent, ctx: HookContext) -> None:
        self.note(event)

    async def on_stop(self, event: StopEvent, ctx: HookContext) -> None:
        self.note(event)

    async def after_agent(self, event: AfterAgentEvent, ctx: HookContext) -> None:
        self.note(event)

    async def session_end(self, event: SessionEndEvent, ctx: HookContext) -> None:
        self.note(event)
