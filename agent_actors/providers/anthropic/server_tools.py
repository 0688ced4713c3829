"""Leave out incomplete calls of the endpoint's own tools: calls without results and vice versa.

The endpoint runs its own tools (`server_tool_use`, `mcp_tool_use`) and sends their results as
blocks of the response. It refuses a call without a result, and a result without a call. A call has
no result if the response was cut off at its token limit, or if the endpoint paused the response and
no further request was made. A result has no call if the call was trimmed from the conversation.

A response that is still in progress may contain calls without results, because the endpoint runs
them when it gets the next request.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from agent_actors.domain.blocks import OpaqueBlock, ToolResultBlock, ToolUseBlock
from agent_actors.domain.messages import Message
from agent_actors.providers.anthropic.block_builders import PROVIDER

_CALL: Final = "_tool_use"
_RESULT: Final = "_tool_result"


def without_torn_server_calls(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages without calls that have no result and without results that have no call.

    Args:
        messages: The conversation. Messages that lose no block stay the same objects.
    """
    calls: dict[str, OpaqueBlock] = {}
    answered: set[str] = set()
    for block in _blocks(messages):
        if call := _id_of_call(block):
            calls.setdefault(call, block)
        elif (result := _id_of_result(block)) in calls:
            answered.add(result)
    if not calls and not any(map(_id_of_result, _blocks(messages))):
        return messages
    kept = answered | _needed(messages) | _in_progress(messages)
    return [_only(message, kept, answered) for message in messages]


def _only(message: Message, calls: set[str], answered: set[str]) -> Message:
    blocks = tuple(
        block
        for block in message.blocks
        if not isinstance(block, OpaqueBlock) or _is_kept(block, calls, answered)
    )
    return message if len(blocks) == len(message.blocks) else attrs.evolve(message, blocks=blocks)


def _is_kept(block: OpaqueBlock, calls: set[str], answered: set[str]) -> bool:
    call, result = _id_of_call(block), _id_of_result(block)
    return (not call or call in calls) and (not result or result in answered)


def _needed(messages: Sequence[Message]) -> set[str]:
    """Return the ids of server-side calls that made client-side calls, such as running code."""
    found: set[str] = set()
    for message in messages:
        for block in message.blocks:
            caller = block.extra.get("caller") if isinstance(block, ToolUseBlock) else None
            made_by = caller.get("tool_id") if isinstance(caller, dict) else None
            if isinstance(made_by, str):
                found.add(made_by)
    return found


def _in_progress(messages: Sequence[Message]) -> set[str]:
    """Return the ids of the calls in a last response that the endpoint will continue.

    If results of client-side tools follow the response, a call without input is left out, because
    its input was cut off.
    """
    after = False
    for message in reversed(messages):
        if message.role == "assistant":
            calls = {
                _id_of_call(block)
                for block in _blocks([message])
                if block.data.get("input") or not after
            }
            return calls - {""}
        if not all(isinstance(block, ToolResultBlock) for block in message.blocks):
            return set()
        after = True
    return set()


def _blocks(messages: Sequence[Message]) -> Iterator[OpaqueBlock]:
    for message in messages:
        for block in message.blocks:
            if isinstance(block, OpaqueBlock):
                yield block


def _id_of_call(block: OpaqueBlock) -> str:
    return _id(block, _CALL, "id")


def _id_of_result(block: OpaqueBlock) -> str:
    return _id(block, _RESULT, "tool_use_id")


def _id(block: OpaqueBlock, kind: str, key: str) -> str:
    """Return the id in a block of this kind; empty if the block is of another kind."""
    found, name = block.data.get("type"), block.data.get(key)
    matches = isinstance(found, str) and found.endswith(kind) and block.provider == PROVIDER
    return name if matches and isinstance(name, str) else ""
