"""A typed, actor-style runtime for LLM agents on trio.

This module offers the public API. It imports the module of a name when a program first uses the
name, so `import agent_actors` itself is fast. It protects the loaded modules from
`KeyboardInterrupt`.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from agent_actors.actors.hook_bus import Subscription as Subscription
    from agent_actors.actors.hook_bus import SubscriptionOptions as SubscriptionOptions
    from agent_actors.client.client import Client as Client
    from agent_actors.client.client import ClientMessages as ClientMessages
    from agent_actors.client.content_stream import AnswerRestarted as AnswerRestarted
    from agent_actors.client.content_stream import FaceBlock as FaceBlock
    from agent_actors.client.content_stream import StreamBlock as StreamBlock
    from agent_actors.client.helpers import create_client as create_client
    from agent_actors.client.helpers import format_messages as format_messages
    from agent_actors.client.query import AssistantMessage as AssistantMessage
    from agent_actors.client.query import PartialOutput as PartialOutput
    from agent_actors.client.query import Query as Query
    from agent_actors.client.query import QueryMessage as QueryMessage
    from agent_actors.client.query import query as query
    from agent_actors.client.query import run as run
    from agent_actors.client.query import run_sync as run_sync
    from agent_actors.domain.blocks import FileBlock as FileBlock
    from agent_actors.domain.blocks import ImageBlock as ImageBlock
    from agent_actors.domain.blocks import OpaqueBlock as OpaqueBlock
    from agent_actors.domain.blocks import TextBlock as TextBlock
    from agent_actors.domain.blocks import ThinkingBlock as ThinkingBlock
    from agent_actors.domain.blocks import ToolResultBlock as ToolResultBlock
    from agent_actors.domain.blocks import ToolUseBlock as ToolUseBlock
    from agent_actors.domain.blocks import ToolUseError as ToolUseError
    from agent_actors.domain.limits import Prices as Prices
    from agent_actors.domain.limits import UsageLimits as UsageLimits
    from agent_actors.domain.messages import Message as Message
    from agent_actors.domain.messages import Messages as Messages
    from agent_actors.domain.run import AgentContext as AgentContext
    from agent_actors.domain.run import CancelReason as CancelReason
    from agent_actors.domain.run import Partial as Partial
    from agent_actors.domain.run import Question as Question
    from agent_actors.domain.run import RunInfo as RunInfo
    from agent_actors.domain.run import RunResult as RunResult
    from agent_actors.domain.run import StopReason as StopReason
    from agent_actors.domain.run import SubagentResult as SubagentResult
    from agent_actors.domain.run import ToolCallResult as ToolCallResult
    from agent_actors.domain.session import SessionInfo as SessionInfo
    from agent_actors.domain.session import SessionPage as SessionPage
    from agent_actors.domain.session import SessionSnapshot as SessionSnapshot
    from agent_actors.domain.session import SessionStats as SessionStats
    from agent_actors.domain.usage import TokenStats as TokenStats
    from agent_actors.domain.usage import Usage as Usage
    from agent_actors.errors import AgentError as AgentError
    from agent_actors.errors import CallbackError as CallbackError
    from agent_actors.errors import ClientError as ClientError
    from agent_actors.errors import OutputError as OutputError
    from agent_actors.errors import PromptBlocked as PromptBlocked
    from agent_actors.errors import QuestionClosed as QuestionClosed
    from agent_actors.hooks import HOOK_POST_TOOL_USE as HOOK_POST_TOOL_USE
    from agent_actors.hooks import HOOK_PRE_TOOL_USE as HOOK_PRE_TOOL_USE
    from agent_actors.hooks import HOOK_USER_PROMPT_SUBMIT as HOOK_USER_PROMPT_SUBMIT
    from agent_actors.hooks import Guardrail as Guardrail
    from agent_actors.hooks import Hook as Hook
    from agent_actors.hooks import HookContext as HookContext
    from agent_actors.hooks import HookDecision as HookDecision
    from agent_actors.hooks import HookMatcher as HookMatcher
    from agent_actors.hooks import PostToolUseEvent as PostToolUseEvent
    from agent_actors.hooks import PreToolUseEvent as PreToolUseEvent
    from agent_actors.hooks import UserPromptSubmitEvent as UserPromptSubmitEvent
    from agent_actors.kernel.garbage import tune_gc as tune_gc
    from agent_actors.options.agent_definition import AgentDefinition as AgentDefinition
    from agent_actors.options.agent_options import AgentOptions as AgentOptions
    from agent_actors.options.checkpoints import Checkpoints as Checkpoints
    from agent_actors.options.compaction import Compaction as Compaction
    from agent_actors.options.files.agent_file import AgentRegistry as AgentRegistry
    from agent_actors.permissions import PermissionDecision as PermissionDecision
    from agent_actors.permissions import PermissionPolicy as PermissionPolicy
    from agent_actors.project.commands import Command as Command
    from agent_actors.project.skills import Skill as Skill
    from agent_actors.runs.inheritance import in_current_run as in_current_run
    from agent_actors.runs.prompt import Prompt as Prompt
    from agent_actors.runtime.approval_queue import ApprovalQueue as ApprovalQueue
    from agent_actors.runtime.approval_queue import Whitelisted as Whitelisted
    from agent_actors.runtime.runtime import Runtime as Runtime
    from agent_actors.runtime.runtime import open_runtime as open_runtime
    from agent_actors.runtime.stream import RunStream as RunStream
    from agent_actors.tools import Tool as Tool
    from agent_actors.tools import ToolContext as ToolContext
    from agent_actors.tools import ToolOutput as ToolOutput
    from agent_actors.tools import tool as tool
    from agent_actors.tools.ask import ask_user_question as ask_user_question
    from agent_actors.tools.output_spec import OutputSpec as OutputSpec
    from agent_actors.version import __version__ as __version__

_HOMES: Final = {
    "actors.hook_bus": ("Subscription", "SubscriptionOptions"),
    "client.client": ("Client", "ClientMessages"),
    "client.content_stream": ("AnswerRestarted", "FaceBlock", "StreamBlock"),
    "client.helpers": ("create_client", "format_messages"),
    "client.query": (
        "AssistantMessage",
        "PartialOutput",
        "Query",
        "QueryMessage",
        "query",
        "run",
        "run_sync",
    ),
    "domain.blocks": (
        "FileBlock",
        "ImageBlock",
        "OpaqueBlock",
        "TextBlock",
        "ThinkingBlock",
        "ToolResultBlock",
        "ToolUseBlock",
        "ToolUseError",
    ),
    "domain.limits": ("Prices", "UsageLimits"),
    "domain.messages": ("Message", "Messages"),
    "domain.run": (
        "AgentContext",
        "CancelReason",
        "Partial",
        "Question",
        "RunInfo",
        "RunResult",
        "StopReason",
        "SubagentResult",
        "ToolCallResult",
    ),
    "domain.session": ("SessionInfo", "SessionPage", "SessionSnapshot", "SessionStats"),
    "domain.usage": ("TokenStats", "Usage"),
    "errors": (
        "AgentError",
        "CallbackError",
        "ClientError",
        "OutputError",
        "PromptBlocked",
        "QuestionClosed",
    ),
    "hooks": (
        "Guardrail",
        "HOOK_POST_TOOL_USE",
        "HOOK_PRE_TOOL_USE",
        "HOOK_USER_PROMPT_SUBMIT",
        "Hook",
        "HookContext",
        "HookDecision",
        "HookMatcher",
        "PostToolUseEvent",
        "PreToolUseEvent",
        "UserPromptSubmitEvent",
    ),
    "kernel.garbage": ("tune_gc",),
    "options.agent_definition": ("AgentDefinition",),
    "options.agent_options": ("AgentOptions",),
    "options.checkpoints": ("Checkpoints",),
    "options.compaction": ("Compaction",),
    "options.files.agent_file": ("AgentRegistry",),
    "permissions": ("PermissionDecision", "PermissionPolicy"),
    "project.commands": ("Command",),
    "project.skills": ("Skill",),
    "runs.inheritance": ("in_current_run",),
    "runs.prompt": ("Prompt",),
    "runtime.approval_queue": ("ApprovalQueue", "Whitelisted"),
    "runtime.runtime": ("Runtime", "open_runtime"),
    "runtime.stream": ("RunStream",),
    "tools": ("Tool", "ToolContext", "ToolOutput", "tool"),
    "tools.ask": ("ask_user_question",),
    "tools.output_spec": ("OutputSpec",),
    "version": ("__version__",),
}
"""The public names of each module: the imports above, as a table."""

_MODULES: Final = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "HOOK_POST_TOOL_USE",
    "HOOK_PRE_TOOL_USE",
    "HOOK_USER_PROMPT_SUBMIT",
    "AgentContext",
    "AgentDefinition",
    "AgentError",
    "AgentOptions",
    "AgentRegistry",
    "AnswerRestarted",
    "ApprovalQueue",
    "AssistantMessage",
    "CallbackError",
    "CancelReason",
    "Checkpoints",
    "Client",
    "ClientError",
    "ClientMessages",
    "Command",
    "Compaction",
    "FaceBlock",
    "FileBlock",
    "Guardrail",
    "Hook",
    "HookContext",
    "HookDecision",
    "HookMatcher",
    "ImageBlock",
    "Message",
    "Messages",
    "OpaqueBlock",
    "OutputError",
    "OutputSpec",
    "Partial",
    "PartialOutput",
    "PermissionDecision",
    "PermissionPolicy",
    "PostToolUseEvent",
    "PreToolUseEvent",
    "Prices",
    "Prompt",
    "PromptBlocked",
    "Query",
    "QueryMessage",
    "Question",
    "QuestionClosed",
    "RunInfo",
    "RunResult",
    "RunStream",
    "Runtime",
    "SessionInfo",
    "SessionPage",
    "SessionSnapshot",
    "SessionStats",
    "Skill",
    "StopReason",
    "StreamBlock",
    "SubagentResult",
    "Subscription",
    "SubscriptionOptions",
    "TextBlock",
    "ThinkingBlock",
    "TokenStats",
    "Tool",
    "ToolCallResult",
    "ToolContext",
    "ToolOutput",
    "ToolResultBlock",
    "ToolUseBlock",
    "ToolUseError",
    "Usage",
    "UsageLimits",
    "UserPromptSubmitEvent",
    "Whitelisted",
    "__version__",
    "ask_user_question",
    "create_client",
    "format_messages",
    "in_current_run",
    "open_runtime",
    "query",
    "run",
    "run_sync",
    "tool",
    "tune_gc",
]


def __getattr__(name: str) -> object:
    """Import a public name, or a package of the library."""
    home = _MODULES.get(name)
    if home is not None:
        value = getattr(import_module(f"{__name__}.{home}"), name)
        globals()[name] = value
    elif not name.startswith("_") and find_spec(f"{__name__}.{name}") is not None:
        value = import_module(f"{__name__}.{name}")
    else:
        text = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(text, name=name, obj=sys.modules[__name__])
    import_module(f"{__name__}.kernel.interrupts").protect_loaded_modules()
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
