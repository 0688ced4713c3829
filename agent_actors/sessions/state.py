"""The state of a session, computed from its records, with a history that is always valid.

`history = close_open(fold(log))`. Records are in chronological order. The fold puts tool results
into the order of the model's calls. A call without a result gets a synthetic error result, because
endpoints reject a conversation with an open call. Only this history is sent or returned. `apply`
adds one record at a time to the state, which is independent of stores, runs and locks.

A `session.rewind` restores the conversation as it was right after record `to_seq`. `seq`, time,
call ids, turns and usage are not rewound, so that no id is assigned twice and all tokens are
counted.

A record that cannot be read (`UnreadableEvent`) is skipped and listed in `unreadable`. If an
assistant message would then follow another assistant message or begin the conversation, a user
message in between says that a message may be missing.
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
from agent_actors.domain.run import Question
from agent_actors.domain.usage import Usage
from agent_actors.sessions.rewind_index import RewindIndex

# A change to a session's conversation or to its other state.
Step: TypeAlias = Message | ToolResultBlock | TodosChanged | FileChanged | SkillActivated

UNFINISHED: Final = "the run ended before this call had a result"
# The text of the user message that replaces a possibly missing message.
LOST_MESSAGE: Final = "[A record of this conversation is damaged; a message may be missing here.]"
# The key, in a notification's data, of the list of the unreadable records' `seq` numbers.
REPORTED_UNREADABLE: Final = "unreadable_records"
_NO_CUTS: Final[Mapping[str, int]] = MappingProxyType({})
_NO_CALLS: Final[Mapping[str, ToolUseBlock]] = MappingProxyType({})


@attrs.define(eq=False)
class SessionState:
    """The state that results from a session's records.

    Attributes:
        last_seq: `seq` of the last record; 0 if there is none.
        last_ts: The latest time of a record, in seconds since the epoch; 0 if there is none.
        turns: The number of responses so far.
        usage: Tokens of all model calls.
        requests: The number of requests for all model calls, including requests without a response.
        tool_calls: The number of tool calls started.
        memo: A cache of encoded messages, which is dropped while the session is idle.
        suspended: The open questions of a suspended last run, by id. Empty if the last run was not
            suspended.
        external: The arguments of the open calls that the last run deferred to its caller, by call
            id. Read-only.
        cut_results: For each truncated tool result, the size of its complete text in bytes, by call
            id. Read-only; not rewound.
        unreadable: The records that were skipped because they cannot be decoded.
        unreported: The `seq` of unreadable records that no run has reported yet.
    """

    last_seq: int = 0
    last_ts: float = 0.0
    turns: int = 0
    usage: Usage = Usage()
    requests: int = 0
    tool_calls: int = 0
    memo: EncodedMessageCache = attrs.field(factory=EncodedMessageCache)
    suspended: dict[str, Question] = attrs.field(factory=dict[str, Question])
    # The default is shared, because the dict is empty in most sessions.
    external: Mapping[str, ToolUseBlock] = _NO_CALLS
    cut_results: Mapping[str, int] = _NO_CUTS
    unreadable: tuple[UnreadableEvent, ...] = ()
    unreported: tuple[int, ...] = ()
    # True if a record was skipped since the last message.
    _gap: bool = False
    # The last run's questions whose calls have no result yet, by id.
    _asked: dict[str, UserQuestion] = attrs.field(factory=dict[str, UserQuestion])
    # The cost and the tokens of the model calls that were recorded with a cost. `spent` computes
    # the cost of all others.
    _cost: float = 0.0
    _priced: Usage = Usage()
    # A dict instead of a set: it is empty in most sessions, and an empty set takes 150 bytes more.
    _call_ids: dict[str, None] = attrs.field(factory=dict[str, None])
    _messages: list[Message] = attrs.field(factory=list[Message])
    _answer: Message | None = None
    _results: dict[str, ToolResultBlock | None] = attrs.field(
        factory=dict[str, "ToolResultBlock | None"]
    )
    # Created on first use: most sessions have only messages.
    _beside: "_Beside | None" = None
    # The step that each record added: a message, a tool result (which belongs to the response with
    # the call), or a change to the other state.
    _trail: RewindIndex[Step] = attrs.field(factory=RewindIndex["Step"])

    @property
    def call_ids(self) -> AbstractSet[str]:
        """The ids of all calls so far, as a live view."""
        return self._call_ids.keys()

    @property
    def open_calls(self) -> tuple[ToolUseBlock, ...]:
        """The calls in the last response that have no result yet, in the model's order."""
        calls = () if self._answer is None else self._answer.tool_calls
        return tuple(call for call in calls if self._results[call.id] is None)

    @property
    def is_suspended(self) -> bool:
        """True if the last run ended with open questions or deferred calls."""
        return bool(self.suspended or self.external)

    @property
    def todos(self) -> tuple[Todo, ...]:
        """The todo list."""
        return () if self._beside is None else self._beside.todos

    @property
    def files(self) -> Mapping[str, str]:
        """The texts of the session's files, by path. Read-only."""
        return {} if self._beside is None else self._beside.files

    @property
    def skills(self) -> tuple[str, ...]:
        """The active skills, in the order of activation."""
        return () if self._beside is None else tuple(self._beside.skills)

    def apply(self, record: AnyEvent) -> None:
        """Apply the next record. Types that do not affect the state are ignored."""
        if record.seq is not None:
            self.last_seq = record.seq
        self.last_ts = max(self.last_ts, record.ts)
        if isinstance(record, UserMessage):
            self._add(_user_message(record))
        elif isinstance(record, AssistantMessage):
            self._take_answer(record)
        elif isinstance(record, ToolResult):
            self._add(_result_block(record))
            if record.complete_bytes:
                self.cut_results = {**self.cut_results, record.tool_use_id: record.complete_bytes}
            if self._asked:
                asked = self._asked.items()
                self._asked = {one: q for one, q in asked if q.tool_use_id != record.tool_use_id}
            if (
                record.tool_use_id in self.external
            ):  # the caller supplied the result between two runs
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
            self._asked[record.question_id] = record
        elif isinstance(record, RunSuspended):
            self.suspended = {
                one: _question(one, self._asked.get(one), record) for one in record.question_ids
            }
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

    def questions(self, session_id: str) -> tuple[Question, ...]:
        """Return copies of the open questions if the last run was suspended.

        Args:
            session_id: The session for the copies; the records may come from another session.
        """
        return tuple(
            attrs.evolve(one, session_id=session_id, tool_input=copy_object(one.tool_input))
            for one in self.suspended.values()
        )

    def spent(self, prices: Prices | None) -> Spent:
        """Return the resources that the session has used so far.

        Args:
            prices: The prices for model calls that were recorded without a cost; None if they are
                free.
        """
        cost = self._cost
        if prices is not None and self._priced != self.usage:
            cost += max(0.0, prices.cost(self.usage) - prices.cost(self._priced))
        return Spent(self.requests, self.tool_calls, self.usage, cost)

    def history(self) -> Messages:
        """Return the conversation, with synthetic error results for open calls."""
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
        # An empty response must be added too, because it completes the previous response.
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
            return  # an empty response is not a message, because endpoints reject it
        if not calls:
            self._messages.append(step)
            return
        self._answer = step
        self._results = dict.fromkeys(call.id for call in calls)

    def _take_result(self, result: ToolResultBlock) -> None:
        if result.tool_use_id not in self._results:
            return  # already closed; endpoints accept only one result per call
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
    """The parts of a session's state other than its messages."""

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
    """Return the state that results from these records."""
    state = SessionState()
    for record in records:
        state.apply(record)
    return state


def _awaits_answer(messages: Sequence[Message]) -> bool:
    return bool(messages) and messages[-1].role != "assistant"


def _user_message(record: UserMessage) -> Message:
    blocks: tuple[ContentBlock, ...] = record.blocks or (TextBlock(record.text),)
    return Message("user", blocks)


def _question(question_id: str, asked: UserQuestion | None, ended: RunSuspended) -> Question:
    if asked is None:  # the question's record cannot be read
        return Question(question_id, ended.session_id, ended.run_id, "")
    return Question(
        question_id,
        asked.session_id,
        asked.run_id,
        asked.prompt,
        asked.choices,
        asked.tool_use_id,
        asked.tool_name or "",
        asked.tool_input or {},
        asked.reason,
        asked.ts,
        asked.permission,
    )


def _result_block(record: ToolResult) -> ToolResultBlock:
    return ToolResultBlock(record.tool_use_id, record.content, record.is_error, record.name)


def _as_sent(block: AssistantBlock) -> ContentBlock:
    return block.as_tool_use() if isinstance(block, ToolUseError) else block
