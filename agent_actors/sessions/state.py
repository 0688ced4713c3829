"""A session's state as the fold of its records, and the history that is always valid.

`history = close_open(fold(log))`: records keep the order in which things happened; the fold puts
tool results into the model's order; a call without a result is answered by a synthetic error, so
that an endpoint never refuses the session. Nothing else is ever sent or returned. A fold grows by
`apply`, one record at a time, and knows nothing of stores, runs or locks.

A `session.rewind` takes the conversation back to what it was right after record `to_seq`: the fold
of the log up to there. What happened since did happen all the same: `seq`, time, call ids, turns
and what was spent stay, so that no id is given twice and no token is forgotten.

A record that cannot be read (`UnreadableEvent`) is left out, and listed in `unreadable`. Where the
model's answer would otherwise follow another one, or begin the conversation, since the message
before it may be what is lost, a message of the user says so.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Final, TypeAlias

import attrs

from agent_actors.domain.blocks import (
    AssistantBlock,
    ContentBlock,
    OpaqueBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.encoded_message_cache import EncodedMessageCache
from agent_actors.domain.events import (
    AnyEvent,
    AssistantMessage,
    FileChanged,
    Notification,
    RunSuspended,
    SessionRewind,
    SkillActivated,
    SystemInit,
    Todo,
    TodosChanged,
    ToolResult,
    UnreadableEvent,
    UsageEvent,
    UserMessage,
    UserQuestion,
)
from agent_actors.domain.json import JsonValue, copy_object
from agent_actors.domain.limits import Prices, Spent
from agent_actors.domain.messages import Message, Messages
from agent_actors.domain.model import REFUSALS
from agent_actors.domain.usage import Usage
from agent_actors.sessions.rewind_index import Trail

# What takes a conversation, or what is kept beside it, a step further.
Step: TypeAlias = Message | ToolResultBlock | TodosChanged | FileChanged | SkillActivated

UNFINISHED: Final = "the run ended before this call had a result"
# The message that keeps the place of one that may be lost.
LOST_MESSAGE: Final = "[A record of this conversation is damaged; a message may be missing here.]"
# The key of a notification's data: the `seq` of each unreadable record that it reports.
REPORTED_UNREADABLE: Final = "unreadable_records"
_NO_CALLS: Final[Mapping[str, ToolUseBlock]] = MappingProxyType({})


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
        suspended: The questions with which the last run ended, and the calls that wait for their
            answers; empty if it ended otherwise.
        external: The open calls, by id, that it left to its caller, with the arguments to carry
            them out with; for reading only.
        unreadable: The records that were left out, since they cannot be decoded.
        unreported: The `seq` of those that no run has reported yet.
    """

    last_seq: int = 0
    last_ts: float = 0.0
    turns: int = 0
    usage: Usage = Usage()
    requests: int = 0
    tool_calls: int = 0
    memo: EncodedMessageCache = attrs.field(factory=EncodedMessageCache)
    suspended: dict[str, str] = attrs.field(factory=dict[str, str])
    # One for all: of most sessions it is empty.
    external: Mapping[str, ToolUseBlock] = _NO_CALLS
    unreadable: tuple[UnreadableEvent, ...] = ()
    unreported: tuple[int, ...] = ()
    # Whether a record was left out since the last message.
    _gap: bool = False
    _asked: dict[str, str] = attrs.field(factory=dict[str, str])
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
    # Made when first needed: most sessions keep nothing beside their messages.
    _beside: "_Beside | None" = None
    # What each record added: a message, a call's result, which takes its place in its answer, or
    # something beside them.
    _trail: Trail[Step] = attrs.field(factory=Trail["Step"])

    @property
    def call_ids(self) -> AbstractSet[str]:
        """The ids of all calls so far; it grows with them."""
        return self._call_ids.keys()

    @property
    def open_calls(self) -> tuple[ToolUseBlock, ...]:
        """The calls of the last answer that have no result yet, in the model's order."""
        calls = () if self._answer is None else self._answer.tool_calls
        return tuple(call for call in calls if self._results[call.id] is None)

    @property
    def is_suspended(self) -> bool:
        """Whether the last run ended with something for somebody to answer or to carry out."""
        return bool(self.suspended or self.external)

    @property
    def todos(self) -> tuple[Todo, ...]:
        """What there is to do."""
        return () if self._beside is None else self._beside.todos

    @property
    def files(self) -> Mapping[str, str]:
        """The texts of the session's files, by path; for reading only."""
        return {} if self._beside is None else self._beside.files

    @property
    def skills(self) -> tuple[str, ...]:
        """The skills in force, in the order in which they came into it."""
        return () if self._beside is None else tuple(self._beside.skills)

    def apply(self, record: AnyEvent) -> None:
        """Take the next record. Types that do not bear on the state are passed over."""
        if record.seq is not None:
            self.last_seq = record.seq
        self.last_ts = max(self.last_ts, record.ts)
        if isinstance(record, UserMessage):
            self._add(_user_message(record))
        elif isinstance(record, AssistantMessage):
            self._take_answer(record)
        elif isinstance(record, ToolResult):
            self._add(_result_block(record))
            if record.tool_use_id in self.external:  # given between two runs
                left = (call for call in self.external.values() if call.id != record.tool_use_id)
                self.external = {call.id: call for call in left}
        elif isinstance(record, UsageEvent):
            self._take_usage(record)
        elif isinstance(record, SessionRewind):
            self._go_back(record.to_seq)
            self.suspended, self.external = {}, _NO_CALLS
        elif isinstance(record, SystemInit):
            self.suspended, self._asked, self.external = {}, {}, _NO_CALLS
        elif isinstance(record, UserQuestion):
            self._asked[record.question_id] = record.tool_use_id
        elif isinstance(record, RunSuspended):
            self.suspended = {one: self._asked.get(one, "") for one in record.question_ids}
            self.external = {
                call.id: attrs.evolve(call, input=copy_object(record.external_calls[call.id]))
                for call in self.open_calls
                if call.id in record.external_calls
            }
        elif isinstance(record, TodosChanged | FileChanged | SkillActivated):
            self._add(record)
        elif isinstance(record, UnreadableEvent):
            self.unreadable = (*self.unreadable, record)
            self.unreported = (*self.unreported, record.seq)
            self._gap = True
        elif isinstance(record, Notification) and self.unreported:
            self._take_report(record.data)

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
        message = Message(
            "assistant",
            tuple(_as_sent(block) for block in record.blocks),
            refused=record.finish_reason in REFUSALS,
        )
        self._call_ids.update(dict.fromkeys(call.id for call in message.tool_calls))
        if self._gap and self._answer is None and not _awaits_answer(self._messages):
            self._add(Message("user", (TextBlock(LOST_MESSAGE),)))
        # Also one that says nothing: it closes the answer before it.
        self._add(message)

    def _take_report(self, data: JsonValue) -> None:
        reported = data.get(REPORTED_UNREADABLE) if isinstance(data, dict) else None
        if isinstance(reported, list | tuple):
            self.unreported = tuple(seq for seq in self.unreported if seq not in reported)

    def _add(self, step: Step) -> None:
        if isinstance(step, Message):
            self._gap = False
        self._trail.add(self.last_seq, step)
        self._take(step)

    def _go_back(self, to_seq: int) -> None:
        steps = self._trail.go_back(self.last_seq, to_seq)
        self._messages, self._answer, self._results, self._beside = [], None, {}, None
        for step in steps:
            self._take(step)

    def _take(self, step: Step) -> None:
        if isinstance(step, ToolResultBlock):
            self._take_result(step)
            return
        if not isinstance(step, Message):
            self._beside = self._beside or _Beside()
            self._beside.take(step)
            return
        self._close_answer()
        if step.role == "user":
            self._messages.append(step)
            return
        calls = step.tool_calls
        opaque = any(isinstance(block, OpaqueBlock) for block in step.blocks)
        if not calls and not step.content and not opaque:
            return  # an empty answer is no message: endpoints refuse it
        if not calls:
            self._messages.append(step)
            return
        self._answer = step
        self._results = dict.fromkeys(call.id for call in calls)

    def _take_result(self, result: ToolResultBlock) -> None:
        if result.tool_use_id not in self._results:
            return  # its call was closed already; one answer a call is all that endpoints take
        self._results[result.tool_use_id] = result
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


@attrs.define(eq=False)
class _Beside:
    """What a session keeps beside its messages."""

    todos: tuple[Todo, ...] = ()
    files: dict[str, str] = attrs.field(factory=dict[str, str])
    skills: dict[str, None] = attrs.field(factory=dict[str, None])

    def take(self, step: TodosChanged | FileChanged | SkillActivated) -> None:
        if isinstance(step, TodosChanged):
            self.todos = step.todos
        elif isinstance(step, SkillActivated):
            self.skills[step.name] = None
        elif step.content is None:
            self.files.pop(step.path, None)
        else:
            self.files[step.path] = step.content


def fold(records: Iterable[AnyEvent]) -> SessionState:
    """The state that these records add up to."""
    state = SessionState()
    for record in records:
        state.apply(record)
    return state


def _awaits_answer(messages: Sequence[Message]) -> bool:
    return bool(messages) and messages[-1].role != "assistant"


def _user_message(record: UserMessage) -> Message:
    blocks: tuple[ContentBlock, ...] = record.blocks or (TextBlock(record.text),)
    return Message("user", blocks)


def _result_block(record: ToolResult) -> ToolResultBlock:
    return ToolResultBlock(record.tool_use_id, record.content, record.is_error, record.name)


def _as_sent(block: AssistantBlock) -> ContentBlock:
    return block.as_tool_use() if isinstance(block, ToolUseError) else block
