"""Which end of a conversation is kept where not all of it may be.

Owns where a conversation may be cut: anywhere but between a tool use and its result, which no
endpoint takes apart. What is kept is always an end of the conversation, with nothing left out in
it, and before it the system messages at the head where those are to stay. Answers are positions,
so that whoever has messages in another form keeps objects of their own.
"""

from collections.abc import Callable, Iterator, Sequence

from agent_actors.domain.blocks import ToolResultBlock, ToolUseBlock, ToolUseError
from agent_actors.domain.messages import Message


def whole_from(messages: Sequence[Message]) -> list[bool]:
    """For each position, and for the end, whether what begins there has the call of each result.

    A result belongs to the last call of its id before it: ids may come again in a later turn. One
    without a call belongs to nothing, and nothing is cut from it.
    """
    callers: dict[str, int] = {}
    needs: list[int] = []
    for at, message in enumerate(messages):
        needs.append(min((callers.get(one, at) for one in _answered(message)), default=at))
        callers.update((one, at) for one in _called(message))
    whole = [True]
    reach = len(messages)
    for at in range(len(messages) - 1, -1, -1):
        reach = min(reach, needs[at])
        whole.append(reach >= at)
    return whole[::-1]


def head_of(messages: Sequence[Message]) -> int:
    """How many system messages stand at the head."""
    return next((at for at, one in enumerate(messages) if one.role != "system"), len(messages))


def last_messages(messages: Sequence[Message], keep: int, *, preserve_system: bool) -> list[int]:
    """The positions of the last messages, and of those that their results need.

    Args:
        messages: The conversation.
        keep: How many, 0 at least. Where the cut would part a result from its call, everything from
            that call on is kept: what came last is never lost to the rule.
        preserve_system: Whether the system messages at the head stay, beside the others.
    """
    head = head_of(messages) if preserve_system else 0
    start = max(head, len(messages) - keep)
    whole = whole_from(messages)
    while not whole[start]:
        start -= 1
    return [*range(head), *range(start, len(messages))]


def affordable_messages(
    messages: Sequence[Message],
    budget: int,
    cost: Callable[[Message], int],
    *,
    preserve_system: bool,
) -> list[int]:
    """The positions of the longest end of the conversation that costs no more than the budget.

    Args:
        messages: The conversation.
        budget: What may be spent; none at 0 or below.
        cost: What one message costs; asked from the newest on, and no further than is needed.
        preserve_system: Whether the system messages at the head are paid for first. If they alone
            cost too much, nothing is kept.
    """
    head = head_of(messages) if preserve_system else 0
    left = budget - sum(cost(message) for message in messages[:head]) if budget > 0 else 0
    if left < 0 or budget <= 0:
        return []
    whole = whole_from(messages)
    start = len(messages)
    for at in range(len(messages) - 1, head - 1, -1):
        left -= cost(messages[at])
        if left < 0:
            break
        if whole[at]:
            start = at
    return [*range(head), *range(start, len(messages))]


def _called(message: Message) -> Iterator[str]:
    return (one.id for one in message.blocks if isinstance(one, ToolUseBlock | ToolUseError))


def _answered(message: Message) -> Iterator[str]:
    return (one.tool_use_id for one in message.blocks if isinstance(one, ToolResultBlock))
