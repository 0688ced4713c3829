"""A session's state as the fold of its records, and the history that is always valid.

`history = close_open(fold(log))`: records keep the order in which things happened; the fold puts
tool results into the model's order; a call without a result is answered by a synthetic error, so
that an endpoint never refuses the session. Nothing else is ever sent or returned. A fold grows by
`apply`, one record at a time, and knows nothing of stores, runs or locks.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

import attrs

from agent_actors.domain.blocks import (
    AssistantBlock,
    ContentBlock,
    OpaqueBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseError,
)
from agent_actors.domain.events import (
    AnyEvent,
    AssistantMessage,
    ToolResult,
    UsageEvent,
    UserMessage,
)
from agent_actors.domain.limits import Prices, Spent
from agent_actors.domain.memo import MessageMemo
from agent_actors.domain.messages import Message, Messages
from agent_actors.domain.usage import Usage

UNFINISHED: Final = "the run ended before this call had a result"


@attrs.define(eq=False)
class SessionState:
    """What a session's records add up to.

    Attributes:
        last_seq: `seq` of the last record; 0 if there is none.
        last_ts: Its time; 0 if there is none.
        turns: The number of model answers so far.
        usage: Tokens of all model calls.
        requests: Requests that they took, those without an answer included.
        tool_calls: Tool calls that were begun.
        memo: What was made of the messages; forgotten when the session is idle.
    """

    last_seq: int = 0
    last_ts: float = 0.0
    turns: int = 0
    usage: Usage = Usage()
    requests: int = 0
    tool_calls: int = 0
    memo: MessageMemo = attrs.field(factory=MessageMemo)
    # What the model calls that had prices cost, and their tokens: others have to be priced anew.
    _cost: float = 0.0
    _priced: Usage = Usage()
    # A dict: of most sessions it is empty, and an empty set takes 150 bytes more.
    _call_ids: dict[str, None] = attrs.field(factory=dict[str, None])
    _messages: list[Message] = attrs.field(factory=list[Message])
    _answer: Message | None = None
    _results: dict[str, ToolResultBlock | None] = attrs.field(
        factory=dict[str, "ToolResultBlock | None"]
    )

    @property
    def call_ids(self) -> AbstractSet[str]:
        """The ids of all calls so far; it grows with them."""
        return self._call_ids.keys()

    def apply(self, record: AnyEvent) -> None:
        """Take the next record. Types that do not bear on the state are passed over."""
        if record.seq is not None:
            self.last_seq = record.seq
        self.last_ts = max(self.last_ts, record.ts)
        if isinstance(record, UserMessage):
            self._close_answer()
            self._messages.append(_user_message(record))
        elif isinstance(record, AssistantMessage):
            self._close_answer()
            self._take_answer(record)
        elif isinstance(record, ToolResult):
            self._take_result(record)
        elif isinstance(record, UsageEvent):
            self._take_usage(record)

    def spent(self, prices: Prices | None) -> Spent:
        """What the session used so far.

        Args:
            prices: For model calls that were made without prices; None: they cost nothing.
        """
        cost = self._cost
        if prices is not None and self._priced != self.usage:
            cost += max(0.0, prices.cost(self.usage) - prices.cost(self._priced))
        return Spent(self.requests, self.tool_calls, self.usage, cost)

    def history(self) -> Messages:
        """The conversation, valid as it stands: open calls are closed by synthetic errors."""
        if self._answer is None:
            return Messages(self._messages)
        return Messages((*self._messages, self._answer, *self._result_messages()))

    def _take_usage(self, record: UsageEvent) -> None:
        self.usage += record.usage
        self.requests += record.requests
        self.tool_calls += record.tool_calls
        if record.cost is not None:
            self._cost += record.cost
            self._priced += record.usage

    def _take_answer(self, record: AssistantMessage) -> None:
        self.turns += 1
        blocks = tuple(_as_sent(block) for block in record.blocks)
        message = Message("assistant", blocks)
        calls = message.tool_calls
        opaque = any(isinstance(block, OpaqueBlock) for block in blocks)
        if not calls and not message.content and not opaque:
            return  # an empty answer is no message: endpoints refuse it
        self._call_ids.update(dict.fromkeys(call.id for call in calls))
        if not calls:
            self._messages.append(message)
            return
        self._answer = message
        self._results = dict.fromkeys(call.id for call in calls)

    def _take_result(self, record: ToolResult) -> None:
        if record.tool_use_id not in self._results:
            return  # its call was closed already; one answer a call is all that endpoints take
        self._results[record.tool_use_id] = ToolResultBlock(
            record.tool_use_id, record.content, record.is_error, record.name
        )
        if all(self._results.values()):
            self._close_answer()

    def _close_answer(self) -> None:
        if self._answer is not None:
            self._messages += (self._answer, *self._result_messages())
            self._answer = None
            self._results = {}

    def _result_messages(self) -> Iterable[Message]:
        assert self._answer is not None
        for call in self._answer.tool_calls:
            result = self._results[call.id]
            if result is None:
                result = ToolResultBlock(call.id, UNFINISHED, is_error=True, name=call.name)
            yield Message("tool", (result,))


def fold(records: Iterable[AnyEvent]) -> SessionState:
    """The state that these records add up to."""
    state = SessionState()
    for record in records:
        state.apply(record)
    return state


def _user_message(record: UserMessage) -> Message:
    blocks: tuple[ContentBlock, ...] = record.blocks or (TextBlock(record.text),)
    return Message("user", blocks)


def _as_sent(block: AssistantBlock) -> ContentBlock:
    return block.as_tool_use() if isinstance(block, ToolUseError) else block
