"""The size of a session's next request, in tokens.

The endpoint reports the size of the conversation with each response. The messages after the last
response are estimated, and so is the complete request if the endpoint reported no size.
"""

import json
from collections.abc import Iterable
from typing import Final

import attrs

from agent_actors.domain.messages import Message, Messages
from agent_actors.domain.model import ToolSpec
from agent_actors.domain.usage import estimate_tokens
from agent_actors.options.agent_options import AgentOptions
from agent_actors.options.compaction import Compaction
from agent_actors.protocol.token_estimate import MESSAGE_TOKENS, rough_tokens
from agent_actors.sessions import SessionState
from agent_actors.sessions.skills import append_skills_prompt

_ESTIMATES: Final = "context_size.estimate"


@attrs.frozen
class ContextSize:
    """The parts of the next request of a session, in tokens.

    Attributes:
        system_prompt: The system prompt, estimated.
        tools: The descriptions of the tools, estimated.
        summary: The messages that the last compaction created, estimated.
        messages: All other messages without tool results, estimated.
        results: The tool results, estimated.
        total: The size of the request, from the endpoint's last report if there is one.
        reported: True if `total` is based on the endpoint's last report.
        window: The size of the context window.
        limit: The size above which the options make the conversation shorter; None: never.
    """

    system_prompt: int
    tools: int
    summary: int
    messages: int
    results: int
    total: int
    reported: bool
    window: int
    limit: int | None


def request_tokens(state: SessionState, options: AgentOptions) -> int:
    """Return the estimated size of a session's next request, in tokens.

    Args:
        state: The state of the session.
        options: The agent.
    """
    if state.reported_tokens:
        return state.reported_tokens + conversation_tokens(state.since_answer())
    return estimated_tokens(state, options)


def estimated_tokens(state: SessionState, options: AgentOptions) -> int:
    """Return the estimated size of a session's next request, without the endpoint's report."""
    fixed = _prompt_tokens(state, options) + _tool_tokens(options.tool_specs)
    return fixed + sum(state.memo.map(_ESTIMATES, state.history(), _message_tokens))


def conversation_tokens(messages: Iterable[Message]) -> int:
    """Return the estimated size of messages, in tokens."""
    return sum(map(_message_tokens, messages))


def context_size(state: SessionState, options: AgentOptions) -> ContextSize:
    """Return the size of the parts of a session's next request.

    Args:
        state: The state of the session.
        options: The agent.
    """
    history = state.history()
    results = Messages(message for message in history if message.role == "tool")
    settings = options.compaction
    all_messages = conversation_tokens(history)
    summary = conversation_tokens(history[: state.head])
    cleared = conversation_tokens(results)
    return ContextSize(
        system_prompt=_prompt_tokens(state, options),
        tools=_tool_tokens(options.tool_specs),
        summary=summary,
        messages=all_messages - summary - cleared,
        results=cleared,
        total=request_tokens(state, options),
        reported=bool(state.reported_tokens),
        window=(settings or Compaction()).window(options.profile_window),
        limit=None if settings is None else settings.limit(options.profile_window),
    )


def _prompt_tokens(state: SessionState, options: AgentOptions) -> int:
    # The text that a function returns is unknown before the run.
    prompt = options.system_prompt if isinstance(options.system_prompt, str) else ""
    return estimate_tokens(len(append_skills_prompt(prompt, state.skills)))


def _tool_tokens(tools: Iterable[ToolSpec]) -> int:
    return sum(
        estimate_tokens(
            len(tool.name) + len(tool.description) + len(json.dumps(tool.input_schema, default=str))
        )
        for tool in tools
    )


def _message_tokens(message: Message) -> int:
    return MESSAGE_TOKENS + rough_tokens((message,))
