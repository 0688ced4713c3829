"""Public API for hooks, which observe, rewrite, refuse or stop the steps of a run.

This package starts no tasks and reads no clock: the runtime calls the hooks, enforces their
timeouts and records their decisions.
"""

from agent_actors.hooks.decision import HookDecision as HookDecision
from agent_actors.hooks.events import AfterAgentEvent as AfterAgentEvent
from agent_actors.hooks.events import AfterModelEvent as AfterModelEvent
from agent_actors.hooks.events import BeforeAgentEvent as BeforeAgentEvent
from agent_actors.hooks.events import BeforeModelEvent as BeforeModelEvent
from agent_actors.hooks.events import CompactEvent as CompactEvent
from agent_actors.hooks.events import PhaseEvent as PhaseEvent
from agent_actors.hooks.events import PostToolUseEvent as PostToolUseEvent
from agent_actors.hooks.events import PreToolUseEvent as PreToolUseEvent
from agent_actors.hooks.events import SessionEndEvent as SessionEndEvent
from agent_actors.hooks.events import SessionStartEvent as SessionStartEvent
from agent_actors.hooks.events import StopEvent as StopEvent
from agent_actors.hooks.events import SubagentStartEvent as SubagentStartEvent
from agent_actors.hooks.events import SubagentStopEvent as SubagentStopEvent
from agent_actors.hooks.events import UserPromptSubmitEvent as UserPromptSubmitEvent
from agent_actors.hooks.guardrail import Guardrail as Guardrail
from agent_actors.hooks.hook import Hook as Hook
from agent_actors.hooks.hook import HookContext as HookContext
from agent_actors.hooks.hook import ModelCall as ModelCall
from agent_actors.hooks.hook import ToolCall as ToolCall
from agent_actors.hooks.phases import HOOK_POST_TOOL_USE as HOOK_POST_TOOL_USE
from agent_actors.hooks.phases import HOOK_PRE_TOOL_USE as HOOK_PRE_TOOL_USE
from agent_actors.hooks.phases import HOOK_USER_PROMPT_SUBMIT as HOOK_USER_PROMPT_SUBMIT
from agent_actors.hooks.phases import Phase as Phase
from agent_actors.hooks.registry import HookChain as HookChain
from agent_actors.hooks.registry import HookMatcher as HookMatcher
from agent_actors.hooks.registry import Hooks as Hooks
from agent_actors.hooks.registry import compile_hooks as compile_hooks
