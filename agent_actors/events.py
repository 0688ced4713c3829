"""Public API: the events of a run, and their JSON form."""

from agent_actors.codec.events import dumps_event as dumps_event
from agent_actors.codec.events import loads_event as loads_event
from agent_actors.domain.events import AnyEvent as AnyEvent
from agent_actors.domain.events import AssistantDelta as AssistantDelta
from agent_actors.domain.events import AssistantMessage as AssistantMessage
from agent_actors.domain.events import AssistantThinking as AssistantThinking
from agent_actors.domain.events import AttemptRestarted as AttemptRestarted
from agent_actors.domain.events import ErrorEvent as ErrorEvent
from agent_actors.domain.events import Event as Event
from agent_actors.domain.events import EventScope as EventScope
from agent_actors.domain.events import FileChanged as FileChanged
from agent_actors.domain.events import HookEvent as HookEvent
from agent_actors.domain.events import Notification as Notification
from agent_actors.domain.events import ResultEvent as ResultEvent
from agent_actors.domain.events import RunEvent as RunEvent
from agent_actors.domain.events import RunQueued as RunQueued
from agent_actors.domain.events import RunStopped as RunStopped
from agent_actors.domain.events import RunSuspended as RunSuspended
from agent_actors.domain.events import SessionCompacted as SessionCompacted
from agent_actors.domain.events import SessionRewind as SessionRewind
from agent_actors.domain.events import SessionStarted as SessionStarted
from agent_actors.domain.events import SkillActivated as SkillActivated
from agent_actors.domain.events import StreamNotice as StreamNotice
from agent_actors.domain.events import SubagentStopped as SubagentStopped
from agent_actors.domain.events import SystemInit as SystemInit
from agent_actors.domain.events import Todo as Todo
from agent_actors.domain.events import TodosChanged as TodosChanged
from agent_actors.domain.events import ToolDelta as ToolDelta
from agent_actors.domain.events import ToolProgress as ToolProgress
from agent_actors.domain.events import ToolResult as ToolResult
from agent_actors.domain.events import ToolUse as ToolUse
from agent_actors.domain.events import UnknownEvent as UnknownEvent
from agent_actors.domain.events import UnreadableEvent as UnreadableEvent
from agent_actors.domain.events import UsageEvent as UsageEvent
from agent_actors.domain.events import UserMessage as UserMessage
from agent_actors.domain.events import UserQuestion as UserQuestion
from agent_actors.domain.events import bare_event as bare_event
from agent_actors.kernel.interrupts import protect_loaded_modules
from agent_actors.runtime.sessions.rebuild import rebuild_messages as rebuild_messages

protect_loaded_modules()
