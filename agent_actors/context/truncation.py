"""Selects the part at the end of a conversation that is kept.

A conversation may be truncated anywhere except between a tool call and its result, which every
endpoint requires to be together. The kept part is always the end of the conversation without gaps,
optionally preceded by the system messages from the beginning. The functions return positions, so
that callers keep their own message objects.
"""

from collections.abc import Callable, Iterator, Sequence

from agent_actors.domain.blocks import ToolResultBlock, ToolUseBlock, ToolUseError
from agent_actors.domain.messages import Message


def whole_from(messages: Sequence[Message]) -> list[bool]:
    """Return, for each position and for the end, whether all later results have their calls.

    A result belongs to the last preceding call with the same id, because ids may be reused in later
    turns. A result without any call does not matter.
    """
    callers: dict[str, int] = {}
    needs: list[int] = []
    for at, message in enumerate(messages):
        needs.append(min((callers.get(one, at) for one in _answered(message)), default=at))
        callers.update((one, at) for one in _called(message))
    cuttable = [True]
    reach = len(messages)
    for at in range(len(messages) - 1, -1, -1):
        reach = min(reach, needs[at])
        cuttable.append(reach >= at)
    return cuttable[::-1]


def head_of(messages: Sequence[Message]) -> int:
    """Return the number of system messages at the beginning."""
    return next((at for at, one in enumerate(messages) if one.role != "system"), len(messages))


def last_messages(messages: Sequence[Message], keep: int, *, preserve_system: bool) -> list[int]:
    """Return the positions of the last messages, and of the messages that their results need.

    Args:
        messages: The conversation.
        keep: Number of messages to keep, at least 0. If the kept part would begin between a call
            and its result, everything from the call on is kept.
        preserve_system: True to also keep the system messages at the beginning.
    """
    head = head_of(messages) if preserve_system else 0
    start = max(head, len(messages) - keep)
    cuttable = whole_from(messages)
    while not cuttable[start]:
        start -= 1
    return [*range(head), *range(start, len(messages))]


def affordable_messages(
    messages: Sequence[Message],
    budget: int,
    cost: Callable[[Message], int],
    *,
    preserve_system: bool,
) -> list[int]:
    """Return the positions of the longest part at the end of the conversation within the budget.

    Args:
        messages: The conversation.
        budget: Maximum total cost; if it is 0 or less, nothing is kept.
        cost: Returns the cost of one message. It is called for the newest message first, and only
            as often as needed.
        preserve_system: True to keep the system messages at the beginning, counted first. If they
            alone exceed the budget, nothing is kept.
    """
    head = head_of(messages) if preserve_system else 0
    left = budget - sum(cost(message) for message in messages[:head]) if budget > 0 else 0
    if left < 0 or budget <= 0:
        return []
    cuttable = whole_from(messages)
    start = len(messages)
    for at in range(len(messages) - 1, head - 1, -1):
        left -= cost(messages[at])
        if left < 0:
            break
        if cuttable[at]:
            start = at
    return [*range(head), *range(start, len(messages))]


def _called(message: Message) -> Iterator[str]:
    return (one.id for one in message.blocks if isinstance(one, ToolUseBlock | ToolUseError))


def _answered(message: Message) -> Iterator[str]:
    return (one.tool_use_id for one in message.blocks if isinstance(one, ToolResultBlock))
