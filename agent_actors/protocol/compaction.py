"""Plan how to make a long conversation shorter. Pure.

A plan names the messages at the beginning of a conversation that a summary or a notice replaces.
The remaining messages begin with a user message or a response, so a call is never separated from
its result. The newest user message is always sent: if it is among the replaced messages, it is
repeated after the summary. `check_plan` enforces both rules for every strategy.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias

import attrs

from agent_actors.domain.blocks import ToolResultBlock
from agent_actors.domain.messages import Message, Messages
from agent_actors.errors import ConfigError
from agent_actors.protocol.token_estimate import rough_tokens

DEFAULT_CONTEXT_WINDOW: Final = 128_000
"""The size of a context window, in tokens, if neither the options nor the profile name one."""

CompactionTrigger: TypeAlias = Literal["threshold", "overflow", "manual"]

# The maximum share of the limit for the messages that stay, so that a compaction has an effect.
_KEPT_SHARE: Final = 0.5
# The minimum number of characters of a result for which a placeholder is worthwhile.
_WORTH_CLEARING: Final = 400


@attrs.frozen(kw_only=True)
class CompactionBudget:
    """The space for a conversation, and the part of it that should stay.

    Attributes:
        tokens: The estimated size of the next request, in tokens.
        limit: The size at which a compaction is due, in tokens.
        window: The size of the model's context window, in tokens.
        keep: The share of the newest messages that should stay, from 0 to 1.
        keep_min: The minimum number of messages that should stay.
        head: The number of messages at the beginning that an earlier compaction created: its
            summary, and the messages repeated after the summary.
        boundaries: The positions at which the conversation may be cut.
    """

    tokens: int
    limit: int
    window: int
    keep: float = 0.10
    keep_min: int = 2
    head: int = 0
    boundaries: tuple[int, ...] = ()


@attrs.frozen
class CompactionPlan:
    """The part of a conversation to replace.

    Attributes:
        cut: The position of the first message that stays, which is one of the budget's
            `boundaries`; 0: nothing is replaced.
        pinned: The positions of replaced user messages that are repeated after the summary. The
            newest user message is repeated in any case.
        summarize: True to replace the messages by a summary; False to replace them by a notice.
    """

    cut: int = 0
    pinned: tuple[int, ...] = ()
    summarize: bool = True


Planner: TypeAlias = Callable[[Messages, CompactionBudget], CompactionPlan]
"""A compaction strategy. It must not change the conversation, and must return a plan for it."""


def boundaries_of(messages: Sequence[Message], seqs: Sequence[int], head: int) -> tuple[int, ...]:
    """Return the positions at which a conversation may be cut, in ascending order.

    Args:
        messages: The conversation.
        seqs: The `seq` of each message's record.
        head: The number of messages that an earlier compaction created.
    """
    return tuple(
        at
        for at in range(head + 1, len(messages))
        if messages[at].role != "tool" and seqs[at] > seqs[at - 1]
    )


def summarize_old_messages(history: Messages, budget: CompactionBudget) -> CompactionPlan:
    """Return the plan of the default strategy: a summary of all but the newest messages.

    The newest messages stay: the share `keep`, and at least `keep_min`. If they fill more than half
    of the limit, fewer of them stay. The cut moves to the nearest boundary before these messages,
    or after them if there is none.
    """
    wanted = len(history) - max(budget.keep_min, math.ceil(len(history) * budget.keep))
    earlier = [at for at in budget.boundaries if at <= wanted]
    most = len(history) - budget.keep_min
    later = [at for at in budget.boundaries if wanted < at <= most]
    candidates = [*earlier[-1:], *later]
    room = budget.limit * _KEPT_SHARE
    for at in candidates:
        if rough_tokens(history[at:]) <= room:
            return CompactionPlan(at)
    return CompactionPlan(candidates[-1] if candidates else 0)


def sliding_window(pinned: int = 1) -> Planner:
    """Return a strategy that drops old messages without a summary.

    Args:
        pinned: The number of user messages at the beginning of the conversation that stay.

    Raises:
        ConfigError: `pinned` is negative.
    """
    if pinned < 0:
        raise ConfigError(f"sliding_window: pinned must not be negative; got {pinned}")

    def plan(history: Messages, budget: CompactionBudget) -> CompactionPlan:
        cut = summarize_old_messages(history, budget).cut
        # The first message of a compacted conversation is the notice of the last compaction.
        first = 1 if budget.head else 0
        users = [at for at in range(first, cut) if history[at].role == "user"]
        return CompactionPlan(cut, tuple(users[:pinned]), summarize=False)

    return plan


def check_plan(plan: CompactionPlan, history: Messages, budget: CompactionBudget) -> CompactionPlan:
    """Return a plan in which the newest user message stays.

    Raises:
        ConfigError: The plan does not fit the conversation. The message names the rule.
    """
    if not plan.cut:
        return plan
    if plan.cut not in budget.boundaries:
        raise ConfigError(
            f"the compaction plan cuts at message {plan.cut}; expected one of "
            f"{list(budget.boundaries)}, which do not separate a call from its result"
        )
    for at in plan.pinned:
        if not 0 <= at < plan.cut or history[at].role != "user":
            raise ConfigError(
                f"the compaction plan pins message {at}; expected the position of a user message "
                f"before {plan.cut}"
            )
    if any(message.role == "user" for message in history[plan.cut :]):
        return plan
    users = [at for at in range(plan.cut) if history[at].role == "user"]
    newest = [at for at in users[-1:] if at or not budget.head]
    return attrs.evolve(plan, pinned=tuple(sorted({*plan.pinned, *newest})))


def results_to_clear(history: Messages, after: int) -> tuple[str, ...]:
    """Return the ids of the calls whose results are old and long enough to clear.

    Args:
        history: The conversation.
        after: The number of newest responses whose results stay.
    """
    responses = [at for at, message in enumerate(history) if message.role == "assistant"]
    old = len(history) if not after else responses[-after] if after <= len(responses) else 0
    return tuple(
        block.tool_use_id
        for message in history[:old]
        for block in message.blocks
        if isinstance(block, ToolResultBlock) and len(block.text) >= _WORTH_CLEARING
    )
