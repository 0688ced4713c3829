"""The state of a session, computed from its records, with a history that is always valid.

`history = close_open(fold(log))`. Records are in chronological order. The fold puts tool results
into the order of the model's calls. A call without a result gets a synthetic error result, because
endpoints reject a conversation with an open call. Only this history is sent or returned. `apply`
adds one record at a time to the state, which is independent of stores, runs and locks.

A `session.rewind` restores the conversation as it was right after record `to_seq`. `seq`, time,
call ids, turns and usage are not rewound, so that no id is assigned twice and all tokens are
counted.

A `session.compacted` replaces older messages by a summary, or clears results. The records of the
replaced messages stay in the log, so a rewind to a point before the compaction restores them.

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
    BackgroundEnded,
    BackgroundLost,
    BackgroundStarted,
    FileChanged,
    Notification,
    ResultEvent,
    RunSuspended,
    SessionCompacted,
    SessionRewind,
    SkillActivated,
    SubagentStarted,
    SystemInit,
    Todo,
    TodosChanged,
    ToolResult,
    ToolUse,
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
from agent_actors.domain.workspace.background import BackgroundTask
from agent_actors.sessions.compaction import cleared_result, summary_message
from agent_actors.sessions.rewind_index import RewindIndex


@attrs.frozen
class _Untrusted:
    """A result with content from outside."""

    call_id: str


# A change to a session's conversation or to its other state.
Step: TypeAlias = (
    Message
    | ToolResultBlock
    | SessionCompacted
    | TodosChanged
    | FileChanged
    | SkillActivated
    | _Untrusted
)

UNFINISHED: Final = "the run ended before this call had a result"
# The text of the user message that replaces a possibly missing message.
LOST_MESSAGE: Final = "[A record of this conversation is damaged; a message may be missing here.]"
# The number of ended background commands that a session's state lists.
KEPT_ENDED_COMMANDS: Final = 8
# The key, in a notification's data, of the list of the unreadable records' `seq` numbers.
REPORTED_UNREADABLE: Final = "unreadable_records"
_NO_CUTS: Final[Mapping[str, int]] = MappingProxyType({})
_NO_TASKS: Final[Mapping[str, BackgroundTask]] = MappingProxyType({})
_NO_AGENTS: Final[Mapping[str, SubagentStarted]] = MappingProxyType({})
_NO_CALLS: Final[Mapping[str, ToolUseBlock]] = MappingProxyType({})
_NO_QUESTIONS: Final[Mapping[str, Question]] = MappingProxyType({})
_NONE_ASKED: Final[Mapping[str, UserQuestion]] = MappingProxyType({})


# The most frequent records that do not affect the state; a test for each other type takes longer.
_IGNORED: Final = frozenset({ToolUse, ResultEvent})


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
        background: The background commands that started and, as far as the records say, have not
            ended, and the newest ones that have ended, by id. Read-only; not rewound.
        subagents: The agents that calls of `Task` started, by call id. Read-only; not rewound.
        unreadable: The records that were skipped because they cannot be decoded.
        unreported: The `seq` of unreadable records that no run has reported yet.
        head: The number of messages at the beginning of the conversation that the last compaction
            created: its summary and the messages repeated after the summary.
        reported_tokens: The size of the conversation after the last response, as the endpoint
            reported it; 0 if unknown.
    """

    last_seq: int = 0
    last_ts: float = 0.0
    turns: int = 0
    usage: Usage = Usage()
    requests: int = 0
    tool_calls: int = 0
    memo: EncodedMessageCache = attrs.field(factory=EncodedMessageCache)
    # These defaults are shared, because the dicts are empty in most sessions.
    suspended: Mapping[str, Question] = _NO_QUESTIONS
    external: Mapping[str, ToolUseBlock] = _NO_CALLS
    cut_results: Mapping[str, int] = _NO_CUTS
    background: Mapping[str, BackgroundTask] = _NO_TASKS
    subagents: Mapping[str, SubagentStarted] = _NO_AGENTS
    unreadable: tuple[UnreadableEvent, ...] = ()
    unreported: tuple[int, ...] = ()
    head: int = 0
    reported_tokens: int = 0
    # True if a record was skipped since the last message.
    _gap: bool = False
    # The last run's questions whose calls have no result yet, by id.
    _asked: Mapping[str, UserQuestion] = _NONE_ASKED
    # The cost and the tokens of the model calls that were recorded with a cost. `spent` computes
    # the cost of all others.
    _cost: float = 0.0
    _priced: Usage = Usage()
    # A dict instead of a set: it is empty in most sessions, and an empty set takes 150 bytes more.
    _call_ids: dict[str, None] = attrs.field(factory=dict[str, None])
    # The messages without the last response and its results, and the `seq` of their records. The
    # `seq` of a tool message is that of the response with the call.
    _messages: list[Message] = attrs.field(factory=list[Message])
    _seqs: list[int] = attrs.field(factory=list[int])
    _answer: Message | None = None
    _answer_seq: int = 0
    _results: dict[str, ToolResultBlock | None] = attrs.field(
        factory=dict[str, "ToolResultBlock | None"]
    )
    # The number of characters that stay of each cleared result, by call id.
    _cleared: Mapping[str, int] = _NO_CUTS
    # Created on first use: most sessions have only messages.
    _extras: "_Extras | None" = None
    # The step that each record added: a message, a tool result (which belongs to the response with
    # the call), or a change to the other state.
    _trail: RewindIndex[Step] = attrs.field(factory=RewindIndex["Step"])

    @property
    def size(self) -> int:
        """The number of messages, without a last response that has open calls."""
        return len(self._messages)

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
        return () if self._extras is None else self._extras.todos

    @property
    def files(self) -> Mapping[str, str]:
        """The texts of the session's files, by path. Read-only."""
        return {} if self._extras is None else self._extras.files

    @property
    def skills(self) -> tuple[str, ...]:
        """The active skills, in the order of activation."""
        return () if self._extras is None else tuple(self._extras.skills)

    @property
    def untrusted_calls(self) -> AbstractSet[str]:
        """The ids of the calls whose results contain content from outside. Read-only."""
        return frozenset[str]() if self._extras is None else self._extras.untrusted.keys()

    def apply(self, record: AnyEvent) -> None:
        """Apply the next record. Types that do not affect the state are ignored."""
        if record.seq is not None:
            self.last_seq = record.seq
        self.last_ts = max(self.last_ts, record.ts)
        if type(record) in _IGNORED:
            return
        if isinstance(record, UserMessage):
            self._add(_user_message(record))
        elif isinstance(record, AssistantMessage):
            self._take_answer(record)
        elif isinstance(record, ToolResult) and record.tool_use_id not in self._call_ids:
            pass  # a call that a tool made, or whose response cannot be read
        elif isinstance(record, ToolResult):
            self._add(_result_block(record))
            if record.untrusted:
                self._add(_Untrusted(record.tool_use_id))
            if record.complete_bytes:
                self.cut_results = {**self.cut_results, record.tool_use_id: record.complete_bytes}
            if self._asked:
                asked = self._asked.items()
                self._asked = {one: q for one, q in asked if q.tool_use_id != record.tool_use_id}
            if record.tool_use_id in self.external:
                # The caller supplied the result between two runs.
                left = (call for call in self.external.values() if call.id != record.tool_use_id)
                self.external = {call.id: call for call in left}
        elif isinstance(record, UsageEvent):
            self._take_usage(record)
        elif isinstance(record, SessionRewind):
            self._trail.go_back(self.last_seq, record.to_seq)
            self._rebuild()
            self.suspended, self.external = _NO_QUESTIONS, _NO_CALLS
        elif isinstance(record, SessionCompacted):
            self._trail.add(self.last_seq, record)
            self._rebuild()
        elif isinstance(record, SystemInit):
            self.suspended, self._asked = _NO_QUESTIONS, _NONE_ASKED
            self.external = _NO_CALLS
        elif isinstance(record, UserQuestion):
            self._asked = {**self._asked, record.question_id: record}
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
        elif isinstance(record, BackgroundStarted | BackgroundEnded | BackgroundLost):
            self._take_background(record)
        elif isinstance(record, SubagentStarted):
            self.subagents = {**self.subagents, record.tool_use_id: record}
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

    def message_seqs(self) -> list[int]:
        """Return the `seq` of the record of each message in `history()`.

        The `seq` of a tool message is that of the response with the call.
        """
        if self._answer is None:
            return list(self._seqs)
        return [*self._seqs, *([self._answer_seq] * (1 + len(self._answer.tool_calls)))]

    def since_answer(self) -> list[Message]:
        """Return the messages after the last response, oldest first."""
        at = len(self._messages)
        while at and self._messages[at - 1].role != "assistant":
            at -= 1
        return self._messages[at:]

    def _take_usage(self, record: UsageEvent) -> None:
        self.usage += record.usage
        self.requests += record.requests
        self.tool_calls += record.tool_calls
        if record.cost is not None:
            self._cost += record.cost
            self._priced += record.usage

    def _take_background(
        self, record: BackgroundStarted | BackgroundEnded | BackgroundLost
    ) -> None:
        before = self.background.get(record.task_id)
        if isinstance(record, BackgroundStarted):
            task = BackgroundTask(
                task_id=record.task_id,
                command=record.command,
                started_at=record.ts,
                owner=record.owner,
            )
        else:
            task = before or BackgroundTask(task_id=record.task_id, command=record.command)
            if isinstance(record, BackgroundLost):
                task = attrs.evolve(task, status="lost")
            else:
                task = attrs.evolve(
                    task,
                    status="killed" if record.killed else "ended",
                    end=record.end,
                    dropped_bytes=record.dropped_bytes,
                )
        tasks = {**self.background, record.task_id: task}
        ended = [one for one, task in tasks.items() if task.status != "running"]
        for old in ended[: max(len(ended) - KEPT_ENDED_COMMANDS, 0)]:
            del tasks[old]
        self.background = tasks

    def _take_answer(self, record: AssistantMessage) -> None:
        self.turns += 1
        message = Message(
            "assistant",
            _as_sent(record.blocks),
            refused=record.finish_reason in REFUSALS,
        )
        self._call_ids.update(dict.fromkeys(call.id for call in message.tool_calls))
        if self._gap and self._answer is None and not _awaits_answer(self._messages):
            self._add(Message("user", (TextBlock(LOST_MESSAGE),)))
        # An empty response must be added too, because it completes the previous response.
        self._add(message)
        usage = record.usage
        self.reported_tokens = 0 if usage.estimated else usage.total_tokens

    def _take_report(self, data: JsonValue) -> None:
        reported = data.get(REPORTED_UNREADABLE) if isinstance(data, dict) else None
        if isinstance(reported, list | tuple):
            self.unreported = tuple(seq for seq in self.unreported if seq not in reported)

    def _add(self, step: Step) -> None:
        if isinstance(step, Message):
            self._gap = False
        self._trail.add(self.last_seq, step)
        self._take(step, self.last_seq)

    def _rebuild(self) -> None:
        """Compute the conversation anew from the active steps, after a rewind or a compaction."""
        steps = self._trail.dated()
        compactions = [step for _, step in steps if isinstance(step, SessionCompacted)]
        self._messages, self._seqs, self._answer, self._results = [], [], None, {}
        self._extras, self.reported_tokens = None, 0
        self._cleared = {
            call_id: step.kept_characters for step in compactions for call_id in step.cleared
        }
        shortened = next((one for one in reversed(compactions) if one.kind != "results"), None)
        replaced = 0 if shortened is None else shortened.up_to_seq
        if shortened is not None:
            self._messages.append(summary_message(shortened))
            self._seqs.append(0)
            for seq, step in steps:
                if seq in shortened.repeated and isinstance(step, Message) and step.role == "user":
                    self._messages.append(step)
                    self._seqs.append(seq)
        self.head = len(self._messages)
        for seq, step in steps:
            if seq > replaced or not isinstance(step, Message | ToolResultBlock):
                self._take(step, seq)

    def _take(self, step: Step, seq: int) -> None:
        if isinstance(step, ToolResultBlock):
            self._take_result(step)
            return
        if isinstance(step, SessionCompacted):
            return  # `_rebuild` has applied it
        if not isinstance(step, Message):
            self._extras = self._extras or _Extras()
            self._extras.take(step)
            return
        self._close_answer()
        if step.role == "user":
            self._messages.append(step)
            self._seqs.append(seq)
            return
        calls = step.tool_calls
        opaque = any(isinstance(block, OpaqueBlock) for block in step.blocks)
        if not calls and not step.content and not opaque:
            return  # an empty response is not a message, because endpoints reject it
        if not calls:
            self._messages.append(step)
            self._seqs.append(seq)
            return
        self._answer, self._answer_seq = step, seq
        self._results = dict.fromkeys(call.id for call in calls)

    def _take_result(self, result: ToolResultBlock) -> None:
        if result.tool_use_id not in self._results:
            return  # already closed; endpoints accept only one result per call
        if result.tool_use_id in self._cleared:
            result = cleared_result(result, self._cleared[result.tool_use_id])
        self._results[result.tool_use_id] = result
        if all(self._results.values()):
            self._close_answer()

    def _close_answer(self) -> None:
        if self._answer is not None:
            self._messages += (self._answer, *self._result_messages())
            self._seqs += [self._answer_seq] * (1 + len(self._answer.tool_calls))
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
class _Extras:
    """The parts of a session's state other than its messages."""

    todos: tuple[Todo, ...] = ()
    files: dict[str, str] = attrs.field(factory=dict[str, str])
    skills: dict[str, None] = attrs.field(factory=dict[str, None])
    untrusted: dict[str, None] = attrs.field(factory=dict[str, None])

    def take(self, step: TodosChanged | FileChanged | SkillActivated | _Untrusted) -> None:
        if isinstance(step, TodosChanged):
            self.todos = step.todos
        elif isinstance(step, SkillActivated):
            self.skills[step.name] = None
        elif isinstance(step, _Untrusted):
            self.untrusted[step.call_id] = None
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


def _as_sent(blocks: tuple[AssistantBlock, ...]) -> tuple[ContentBlock, ...]:
    if not any(isinstance(block, ToolUseError) for block in blocks):
        return blocks  # shared with the record
    return tuple(
        block.as_tool_use() if isinstance(block, ToolUseError) else block for block in blocks
    )
