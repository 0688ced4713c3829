"""A user's code that handles every event of a run, for the type checkers only."""

from typing import assert_never, assert_type

from agent_actors import AgentOptions, RunStream, Runtime, ToolUseBlock, Usage
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.events import (
    AssistantDelta,
    AssistantMessage,
    AssistantThinking,
    AttemptRestarted,
    BackgroundEnded,
    BackgroundLost,
    BackgroundStarted,
    ErrorEvent,
    FileChanged,
    HookEvent,
    Notification,
    OutputDelta,
    ResultEvent,
    RunEvent,
    RunQueued,
    RunSuspended,
    SessionCompacted,
    SessionRewind,
    SkillActivated,
    StreamNotice,
    SubagentStarted,
    SystemInit,
    TodosChanged,
    ToolDelta,
    ToolProgress,
    ToolResult,
    ToolUse,
    UsageEvent,
    UserMessage,
    UserQuestion,
    WorkspaceCheckpoint,
)


def text_of(event: RunEvent) -> str:
    """Handle every event; a type checker reports an event that is missing."""
    match event:
        case AssistantDelta(text=text) | AssistantThinking(text=text):
            return text
        case StreamNotice(text=text) | Notification(text=text) | UserMessage(text=text):
            return text
        case ToolDelta(partial_json=text):
            return text
        case AssistantMessage(blocks=blocks):
            return "".join(block.name for block in blocks if isinstance(block, ToolUseBlock))
        case ToolUse(name=name, input=arguments):
            assert_type(arguments, JsonObject)
            return name
        case ToolProgress(progress=progress):
            assert_type(progress, JsonValue)
            return event.name
        case ToolResult(is_error=is_error):
            assert_type(is_error, bool)
            return event.name
        case UsageEvent():
            return event.session_id
        case ResultEvent(usage=usage, cost=cost):
            assert_type(usage, Usage)
            assert_type(cost, float | None)
            return event.text
        case ErrorEvent(error=error, message=message):
            return f"{error}: {message}"
        case SystemInit(tools=tools):
            return ", ".join(tools)
        case UserQuestion() | HookEvent() | AttemptRestarted() | SkillActivated():
            return event.type
        case RunQueued() | RunSuspended() | SessionCompacted() | SessionRewind():
            return event.run_id
        case OutputDelta(data=data):
            assert_type(data, JsonValue)
            return event.id
        case TodosChanged() | FileChanged() | WorkspaceCheckpoint():
            return event.id
        case SubagentStarted(child_session_id=child):
            return child
        case BackgroundStarted() | BackgroundEnded() | BackgroundLost():
            return event.task_id
        case _:
            assert_never(event)


async def show(runtime: Runtime, options: AgentOptions) -> list[str]:
    async with runtime.stream("Hello", options) as events:
        assert_type(events, RunStream)
        return [text_of(event) async for event in events]
