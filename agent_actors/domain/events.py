"""Events, which record a run for its readers, its subscribers and its session's log.

The events of one model call share one `EventScope`. Each event also has the scope's fields as
properties, for example `event.session_id`. Deltas, tool input, stream notices and progress are only
streamed and never recorded, so their `seq` is None. Every other event is recorded and gets its
`seq` when it is committed. An event whose type this version does not know is kept as an
`UnknownEvent`. A damaged record in a log becomes an `UnreadableEvent`. `codec/events.py` defines
the JSON form.

Tests and imports may omit the header: `UserMessage(text="hi")` is a bare event, with empty ids and
no position. `bare_event` creates the same event in a form that type checkers accept.
"""

from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    ClassVar,
    Final,
    Literal,
    Protocol,
    TypeAlias,
    cast,
    get_args,
)

import attrs

from agent_actors.domain.blocks import AssistantBlock, ContentBlock
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.model import FinishReason, StopDetails
from agent_actors.domain.structs.attrs_struct import AttrsStruct
from agent_actors.domain.usage import Usage
from agent_actors.domain.workspace.background import BackgroundOwner
from agent_actors.domain.workspace.processes import ProcessEnd
from agent_actors.domain.workspace.trees import CheckpointPhase

EVENT_VERSION: Final = 1

_NO_CALLS: Final[Mapping[str, JsonObject]] = {}

CompactionKind: TypeAlias = Literal["summary", "window", "results"]

TodoStatus: TypeAlias = Literal["pending", "in_progress", "completed"]
TODO_STATUSES: Final[tuple[TodoStatus, ...]] = get_args(TodoStatus)

if TYPE_CHECKING:
    _GivenStatus: TypeAlias = TodoStatus
else:  # the codec reads this annotation
    _GivenStatus = Literal["pending", "in_progress", "completed", "done"]


@attrs.frozen
class Todo:
    """An item of the task list that an agent keeps in its session.

    Attributes:
        id: The item's id, unique within the list.
        title: Description of the task.
        status: `pending`, `in_progress` or `completed`; `done` is accepted as `completed`.
    """

    id: str
    title: str
    status: _GivenStatus = "pending"

    def __attrs_post_init__(self) -> None:
        if cast(str, self.status) == "done":
            object.__setattr__(self, "status", "completed")


@attrs.frozen
class EventScope:
    """The fields that all events of one model call and its tools share.

    Attributes:
        session_id: The session.
        run_id: The run.
        request_id: The caller's id of the request.
        iteration: The number of the model call within the run, counted from 1; 0 before the first
            call.
        agent_name: The agent's name; None for a root run without one.
        parent_tool_use_id: For a nested run, the id of the tool call that started it; otherwise
            None.
    """

    session_id: str
    run_id: str
    request_id: str
    iteration: int = 0
    agent_name: str | None = None
    parent_tool_use_id: str | None = None


# The header of an event that was created without one.
BARE_HEADER: Final[Mapping[str, object]] = MappingProxyType(
    {"scope": EventScope("", "", ""), "id": "", "ts": 0.0}
)


@attrs.frozen
class Event(AttrsStruct, header=BARE_HEADER):
    """The base class of all events, with the header that every event carries.

    Attributes:
        scope: Session, run, request and iteration.
        id: A UUIDv7; the same in the live stream and in the log.
        ts: Wall-clock time in seconds since the epoch; never decreases within a session.
        seq: Position in the session's log, from 1; None for an event that is not recorded.
    """

    type: ClassVar[str] = ""
    version: ClassVar[int] = EVENT_VERSION
    recorded: ClassVar[bool] = True

    scope: EventScope
    id: str
    ts: float
    seq: int | None = attrs.field(default=None, kw_only=True)

    @property
    def session_id(self) -> str:
        """The session."""
        return self.scope.session_id

    @property
    def run_id(self) -> str:
        """The run."""
        return self.scope.run_id

    @property
    def request_id(self) -> str:
        """The caller's id of the request."""
        return self.scope.request_id

    @property
    def iteration(self) -> int:
        """The number of the model call within the run, counted from 1; 0 before the first call."""
        return self.scope.iteration

    @property
    def agent_name(self) -> str | None:
        """The agent's name; None for a root run without one."""
        return self.scope.agent_name

    @property
    def parent_tool_use_id(self) -> str | None:
        """For a nested run, the id of the tool call that started it; otherwise None."""
        return self.scope.parent_tool_use_id


@attrs.frozen
class SystemInit(Event):
    """A run started.

    Attributes:
        cwd: The working directory.
        sdk_version: The version of this package.
        model: The model's name.
        tools: Names of the tools offered to the model, including those that hooks registered.
    """

    type: ClassVar[str] = "system.init"
    cwd: str
    sdk_version: str
    model: str = ""
    tools: tuple[str, ...] = ()


@attrs.frozen
class RunQueued(Event):
    """The run is waiting for its session; emitted again when its position changes. Not recorded.

    Attributes:
        position: Position in the queue; 1 is the next run.
        holder: Id of the run that holds the session.
    """

    type: ClassVar[str] = "run.queued"
    recorded: ClassVar[bool] = False
    position: int
    holder: str


@attrs.frozen
class UserMessage(Event):
    """The user's input. If it is more than text, `blocks` contains the complete content."""

    type: ClassVar[str] = "user.message"
    text: str
    blocks: tuple[ContentBlock, ...] = ()


@attrs.frozen
class AssistantDelta(Event, gc=False):
    """A delta of the response's text. Not recorded."""

    type: ClassVar[str] = "assistant.delta"
    recorded: ClassVar[bool] = False
    text: str


@attrs.frozen
class OutputDelta(Event):
    """The output so far, for the reader of a run whose agent has an `output_type`. Not recorded.

    Each event contains the complete output so far, not only the new part. It is not validated.
    `RunStream.partial` is the same output in its type.

    Attributes:
        data: The output so far as JSON. A string may continue. A number, a literal or a key appears
            only when it is complete.
    """

    type: ClassVar[str] = "output.delta"
    recorded: ClassVar[bool] = False
    data: JsonValue


@attrs.frozen
class AssistantThinking(Event, gc=False):
    """A delta of the model's thinking. Not recorded."""

    type: ClassVar[str] = "assistant.thinking"
    recorded: ClassVar[bool] = False
    text: str


@attrs.frozen
class ToolDelta(Event, gc=False):
    """A delta of a call's arguments, as JSON text. Not recorded, and emitted only on request."""

    type: ClassVar[str] = "tool.delta"
    recorded: ClassVar[bool] = False
    tool_use_id: str
    name: str
    partial_json: str


@attrs.frozen
class StreamNotice(Event, gc=False):
    """An irregularity in the model's stream that does not end the stream. Not recorded.

    A `Notification` is recorded, and therefore cannot be emitted between two deltas of a response.
    """

    type: ClassVar[str] = "stream.notice"
    recorded: ClassVar[bool] = False
    text: str


@attrs.frozen
class AssistantMessage(Event):
    """A complete response of the model.

    Attributes:
        stop_details: The endpoint's explanation of a refused or filtered response.
        damaged_lines: The number of data lines of the response that could not be read completely.
    """

    type: ClassVar[str] = "assistant.message"
    blocks: tuple[AssistantBlock, ...]
    finish_reason: FinishReason = "stop"
    usage: Usage = Usage()
    model: str = ""
    stop_details: StopDetails | None = None
    damaged_lines: int = 0

    @property
    def text(self) -> str:
        """The joined text blocks."""
        return "".join(block.text for block in self.blocks if block.type == "text")


@attrs.frozen
class ToolUse(Event):
    """A tool is about to be called.

    `repaired` is True if the model's arguments were not valid JSON.
    """

    type: ClassVar[str] = "tool.use"
    tool_use_id: str
    name: str
    input: JsonObject
    repaired: bool = False


@attrs.frozen
class ToolProgress(Event):
    """Progress reported by a tool. Not recorded; dropped if the reader is slow."""

    type: ClassVar[str] = "tool.progress"
    recorded: ClassVar[bool] = False
    tool_use_id: str
    name: str
    progress: JsonValue


@attrs.frozen
class ToolResult(Event):
    """A tool call ended.

    `synthetic` is True if the result comes from the runtime, not from the tool. `complete_bytes` is
    the size of the complete text if `content` was truncated; otherwise 0. `untrusted` is True if
    the result contains content from outside, or depends on such content.
    """

    type: ClassVar[str] = "tool.result"
    tool_use_id: str
    name: str
    content: str | JsonObject | list[JsonValue]
    is_error: bool = False
    data: JsonValue = None
    started_at: float = 0.0
    completed_at: float = 0.0
    duration: float = 0.0
    synthetic: bool = False
    complete_bytes: int = 0
    untrusted: bool = False


@attrs.frozen
class UserQuestion(Event):
    """The run asks a question and waits for the answer.

    Attributes:
        question_id: The id to pass with the answer.
        prompt: The question.
        choices: The accepted answers; if empty, any text is accepted.
        tool_name: Name of the call's tool.
        tool_input: The call's arguments.
        tool_use_id: Id of the call that is waiting for the answer.
        reason: The reason for the question.
        permission: True if the question asks for permission to run the call.
        by_function: True if the question goes to `can_use_tool`; `runtime.answer` then accepts no
            answer. If the function passes the question on, another event with a different id asks a
            person.
    """

    type: ClassVar[str] = "user.question"
    question_id: str
    prompt: str
    choices: tuple[str, ...] = ()
    tool_name: str | None = None
    tool_input: JsonObject | None = None
    tool_use_id: str = ""
    by_function: bool = False
    reason: str = ""
    permission: bool = True


@attrs.frozen
class HookEvent(Event):
    """A hook returned a decision other than to proceed."""

    type: ClassVar[str] = "hook.event"
    hook: str
    phase: str
    action: str
    matcher: str | None = None
    reason: str | None = None
    duration: float = 0.0


@attrs.frozen
class SkillActivated(Event):
    """A skill was activated; it applies to the following turns."""

    type: ClassVar[str] = "skill.activated"
    name: str


@attrs.frozen
class TodosChanged(Event):
    """The session's task list changed to this list."""

    type: ClassVar[str] = "todos.changed"
    todos: tuple[Todo, ...]


@attrs.frozen
class FileChanged(Event):
    """A file of the session was written or deleted.

    Attributes:
        path: The file.
        content: The new text; None if the file was deleted, or if the text is too long to be
            recorded.
        digest: The digest of a content that is too long, for example `sha256:…`; otherwise empty.
        size: The size in bytes of a content that is too long; otherwise 0.
    """

    type: ClassVar[str] = "file.changed"
    path: str
    content: str | None
    digest: str = ""
    size: int = 0


@attrs.frozen
class BackgroundStarted(Event):
    """A background command started.

    Attributes:
        task_id: Id of the command.
        command: The command, as the model wrote it.
        owner: The owner, with which the command ends at the latest: the `session` or the `runtime`.
    """

    type: ClassVar[str] = "background.started"
    task_id: str
    command: str
    owner: BackgroundOwner = "session"


@attrs.frozen
class BackgroundEnded(Event):
    """A background command ended, during this run or since the last run of the session.

    Attributes:
        task_id: Id of the command.
        command: The command, as the model wrote it.
        end: How the command ended.
        killed: True if the command was killed on request.
        dropped_bytes: The number of bytes of output that were discarded because they were not read
            in time.
    """

    type: ClassVar[str] = "background.ended"
    task_id: str
    command: str
    end: ProcessEnd
    killed: bool = False
    dropped_bytes: int = 0


@attrs.frozen
class BackgroundLost(Event):
    """The end of a background command is not known, since the program that ran it has ended.

    Attributes:
        task_id: Id of the command.
        command: The command, as the model wrote it.
    """

    type: ClassVar[str] = "background.lost"
    task_id: str
    command: str


@attrs.frozen
class SubagentStarted(Event):
    """A call of the tool `Task` starts an agent. Committed before the agent's run begins.

    Attributes:
        subagent_name: The name of the agent.
        child_session_id: The session of the agent's run.
        tool_use_id: The call.
    """

    type: ClassVar[str] = "subagent.started"
    subagent_name: str
    child_session_id: str
    tool_use_id: str


@attrs.frozen
class SessionCompacted(Event):
    """The conversation was made shorter. The records that it replaces stay in the log.

    Attributes:
        up_to_seq: For `summary` and `window`, the `seq` of the last record whose message is
            replaced; otherwise 0.
        summary: The summary that replaces the messages; empty if they are left out without one.
        kind: `summary` if a summary replaces the older messages; `window` if they are left out;
            `results` if only the results of tool calls are cleared.
        repeated: The `seq` of each replaced user message that is repeated after the summary.
        cleared: The ids of the calls whose results are cleared.
        kept_characters: The number of characters that stay of each cleared result.
        tokens_before: The estimated size of the next request before the compaction, in tokens.
        tokens_after: The estimated size of the next request after the compaction, in tokens.
    """

    type: ClassVar[str] = "session.compacted"
    up_to_seq: int
    summary: str
    kind: CompactionKind = "summary"
    repeated: tuple[int, ...] = ()
    cleared: tuple[str, ...] = ()
    kept_characters: int = 0
    tokens_before: int = 0
    tokens_after: int = 0


@attrs.frozen
class SessionRewind(Event):
    """The records between `to_seq` and this record are discarded."""

    type: ClassVar[str] = "session.rewind"
    to_seq: int


@attrs.frozen
class WorkspaceCheckpoint(Event):
    """The files of the workspace were copied, so that a rewind can restore them.

    Attributes:
        phase: `before` if only others changed files since the previous checkpoint; `after` if it
            ends a run or a rewind.
        checkpoint_id: Id of the copy; empty if the files could not be copied.
        root: The root of the workspace.
        files: The number of files in the copy.
        not_covered: Descriptions of the files that the copy does not contain.
        error: Why the files could not be copied; empty if they were copied.
    """

    type: ClassVar[str] = "workspace.checkpoint"
    phase: CheckpointPhase
    checkpoint_id: str
    root: str = ""
    files: int = 0
    not_covered: tuple[str, ...] = ()
    error: str = ""


@attrs.frozen
class RunSuspended(Event):
    """The run ended with open questions, or with calls that its caller executes.

    Attributes:
        question_ids: Ids of the open questions.
        external_calls: Arguments of the calls, by call id.
    """

    type: ClassVar[str] = "run.suspended"
    question_ids: tuple[str, ...] = ()
    external_calls: Mapping[str, JsonObject] = _NO_CALLS


@attrs.frozen
class AttemptRestarted(Event):
    """The model call is retried: discard the deltas of the response shown so far."""

    type: ClassVar[str] = "attempt.restarted"
    attempt: int
    reason: str


@attrs.frozen
class UsageEvent(Event):
    """Usage of the last model call and of the run so far.

    The usage of a session is the sum of these events.

    Attributes:
        usage: Tokens of this model call, including failed attempts.
        total: Tokens of the run so far.
        requests: Number of requests of this model call; more than 1 if attempts failed.
        tool_calls: Number of calls of the response that were started.
        cost: Cost of `usage` at the prices in effect at that time; None without prices.
    """

    type: ClassVar[str] = "usage"
    usage: Usage
    total: Usage
    requests: int = 1
    tool_calls: int = 0
    cost: float | None = None


@attrs.frozen
class Notification(Event):
    """A message for a person; callers may also emit their own."""

    type: ClassVar[str] = "notification"
    text: str
    data: JsonValue = None


@attrs.frozen
class ResultEvent(Event):
    """The run ended with a result. This is the last event of the run's stream.

    If the agent has an `output_type`, `output` is the output as JSON; None if there is no output.
    `finish_reason`, `stop_details` and `damaged_lines` have the same values as in the `RunResult`.
    """

    type: ClassVar[str] = "result"
    text: str
    stop_reason: str
    usage: Usage
    iterations: int
    duration: float
    cost: float | None = None
    output: JsonValue = None
    finish_reason: FinishReason = "unknown"
    stop_details: StopDetails | None = None
    damaged_lines: int = 0


@attrs.frozen
class ErrorEvent(Event):
    """The run ended with an error. This is the last event of the run's stream."""

    type: ClassVar[str] = "error"
    error: str
    message: str


@attrs.frozen
class SessionStarted(Event):
    """A session was opened in this runtime. Only subscribers receive this event.

    Attributes:
        source: `new`, or `resumed` if the session has records.
    """

    type: ClassVar[str] = "session.started"
    recorded: ClassVar[bool] = False
    source: str


@attrs.frozen
class RunStopped(Event):
    """A run ended. Emitted after its hooks and before its last record, to subscribers only.

    Attributes:
        stop_reason: The stop reason; `error` if the run failed.
        text: The text of the model's last response.
    """

    type: ClassVar[str] = "run.stopped"
    recorded: ClassVar[bool] = False
    stop_reason: str
    text: str = ""


@attrs.frozen
class SubagentStopped(Event):
    """A nested run, which a tool started, ended. Only subscribers receive this event.

    The event has the header of the run whose tool started the nested run.

    Attributes:
        subagent_name: The name of the nested run's agent; empty if the agent has no name.
        subagent_session_id: The session of the nested run.
        stop_reason: The stop reason of the nested run; `error` if it failed.
        text: The text of the nested run's last response.
        tool_use_id: The call that started the nested run; empty if unknown.
    """

    type: ClassVar[str] = "subagent.stopped"
    recorded: ClassVar[bool] = False
    subagent_name: str
    subagent_session_id: str
    stop_reason: str
    text: str = ""
    tool_use_id: str = ""


OBSERVER_EVENTS: Final = (SessionStarted, RunStopped, SubagentStopped)
"""The events that subscribers receive in addition to the events in a run's stream."""


@attrs.frozen
class UnknownEvent:
    """An event whose type this version does not know, with all of its fields."""

    raw: Mapping[str, JsonValue]

    @property
    def type(self) -> str:
        """The event's type."""
        return str(self.raw.get("type", ""))

    @property
    def seq(self) -> int | None:
        """Position in the session's log; None if there is none."""
        seq = self.raw.get("seq")
        return seq if isinstance(seq, int) else None

    @property
    def ts(self) -> float:
        """Wall-clock time in seconds since the epoch; 0 if there is none."""
        ts = self.raw.get("ts")
        return float(ts) if isinstance(ts, int | float) else 0.0


@attrs.frozen
class UnreadableEvent:
    """A record in a session's log that cannot be decoded.

    The record's position in the log is known, but its content is not. The session is read without
    the record. Forks, exports and repairs keep the record's bytes.

    Attributes:
        session_id: The session whose log contains the record.
        seq: Position in the log, from 1.
        reason: The reason why the record cannot be decoded.
        raw: The record's bytes. If one damaged section covers several records, the first of them
            has all of the bytes and the others have none.
    """

    type: ClassVar[str] = "record.unreadable"

    session_id: str
    seq: int
    reason: str
    raw: bytes = attrs.field(default=b"", repr=False)

    @property
    def id(self) -> str:
        """An id derived from the position and the bytes."""
        return f"unreadable-{self.seq}-{self.digest[:16]}"

    @property
    def ts(self) -> float:
        """Always 0: the time is unknown."""
        return 0.0

    @property
    def digest(self) -> str:
        """The SHA-256 of the bytes, in hexadecimal digits."""
        return sha256(self.raw).hexdigest()


AnyEvent: TypeAlias = Event | UnknownEvent | UnreadableEvent

if TYPE_CHECKING:
    # `EventBuilder` without a parameter builds any event. Before Python 3.13, `typing.TypeVar` does
    # not support defaults.
    from typing_extensions import TypeVar

    EventT_co = TypeVar("EventT_co", bound=Event, covariant=True, default=Event)
else:
    from typing import TypeVar

    EventT_co = TypeVar("EventT_co", bound=Event, covariant=True)


class EventBuilder(Protocol[EventT_co]):
    """Build an event from its header, for example `functools.partial(UserMessage, text="Hi")`."""

    def __call__(
        self,
        scope: EventScope,
        id: str,  # noqa: A002 - the name of the header field
        ts: float,
        /,
        *,
        seq: int | None = None,
    ) -> EventT_co:
        """Return the event with this header."""
        ...


RunEvent: TypeAlias = (
    SystemInit
    | RunQueued
    | UserMessage
    | AssistantDelta
    | OutputDelta
    | AssistantThinking
    | ToolDelta
    | StreamNotice
    | AssistantMessage
    | ToolUse
    | ToolProgress
    | ToolResult
    | UserQuestion
    | HookEvent
    | SkillActivated
    | TodosChanged
    | FileChanged
    | BackgroundStarted
    | BackgroundEnded
    | BackgroundLost
    | WorkspaceCheckpoint
    | SubagentStarted
    | SessionCompacted
    | SessionRewind
    | RunSuspended
    | AttemptRestarted
    | UsageEvent
    | Notification
    | ResultEvent
    | ErrorEvent
)
"""Every event that a run can emit. A `match` over all of them may end with `assert_never`.

Later versions may add events; type checkers then report the missing cases.
"""

EVENT_TYPES: Final[Mapping[str, type[Event]]] = {
    cls.type: cls for cls in cast("tuple[type[Event], ...]", get_args(RunEvent))
}

BareT = TypeVar("BareT", bound=Event)


def bare_event(event_type: type[BareT], /, **fields: object) -> BareT:
    """Create an event without a header, for tests and imports; its ids are empty and `ts` is 0.

    `UserMessage(text="hi")` does the same, but type checkers report the missing header.

    Args:
        event_type: The class of the event.
        fields: The event's own fields.

    Raises:
        TypeError: A required field is missing, or the event has no such field.
    """
    make = cast("Callable[..., BareT]", partial(event_type, EventScope("", "", ""), "", 0.0))
    return make(**fields)
