"""Events: what happens in a run, as its readers, its observers and its session's log see it.

What all events of one model call have in common stands in one shared `EventScope`; the header
fields read the same on each event (`event.session_id`). Deltas, tool input, notices of the stream
and progress are live only (`seq` is None); every other event is recorded, and gets its `seq` with
the commit. An event of a type from the future survives as `UnknownEvent`. A damaged record of a log
is an `UnreadableEvent`. The JSON form lives in `codec/events.py`.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Protocol, TypeAlias, cast, get_args

import attrs

from agent_actors.domain.blocks import AssistantBlock, ContentBlock
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.model import FinishReason, StopDetails
from agent_actors.domain.usage import Usage

EVENT_VERSION: Final = 1

_NO_CALLS: Final[Mapping[str, JsonObject]] = {}

TodoStatus: TypeAlias = Literal["pending", "in_progress", "completed"]
TODO_STATUSES: Final[tuple[TodoStatus, ...]] = get_args(TodoStatus)


@attrs.frozen
class Todo:
    """An item of the list of tasks that an agent keeps in its session.

    Attributes:
        id: Tells it apart within its list.
        title: What is to be done.
        status: `pending`, `in_progress` or `completed`.
    """

    id: str
    title: str
    status: TodoStatus = "pending"


@attrs.frozen
class EventScope:
    """What the events of one model call, with its tools, have in common.

    Attributes:
        session_id: The session.
        run_id: The run.
        request_id: The caller's id of the request.
        iteration: The number of the model call within the run; 0 before the first.
        agent_name: The agent's name; None for a root run without one.
        parent_tool_use_id: For a child run, the call that started it.
    """

    session_id: str
    run_id: str
    request_id: str
    iteration: int = 0
    agent_name: str | None = None
    parent_tool_use_id: str | None = None


@attrs.frozen
class Event:
    """The header that every event carries.

    Attributes:
        scope: Session, run, request and iteration.
        id: UUIDv7, stable from emission to every reading.
        ts: Wall clock, in seconds since the epoch; never decreasing within a session.
        seq: Position in the session's log, from 1; None for a live event.
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
        """The number of the model call within the run; 0 before the first."""
        return self.scope.iteration

    @property
    def agent_name(self) -> str | None:
        """The agent's name; None for a root run without one."""
        return self.scope.agent_name

    @property
    def parent_tool_use_id(self) -> str | None:
        """For a child run, the call that started it."""
        return self.scope.parent_tool_use_id


@attrs.frozen
class SystemInit(Event):
    """A run began."""

    type: ClassVar[str] = "system.init"
    cwd: str
    sdk_version: str
    model: str = ""
    tools: tuple[str, ...] = ()


@attrs.frozen
class RunQueued(Event):
    """The run waits for its session; told anew whenever its place changes. Live only.

    Attributes:
        position: Its place in line, from 1: the next one.
        holder: The run that holds the session.
    """

    type: ClassVar[str] = "run.queued"
    recorded: ClassVar[bool] = False
    position: int
    holder: str


@attrs.frozen
class UserMessage(Event):
    """The caller spoke. `blocks` holds the whole content where it is more than text."""

    type: ClassVar[str] = "user.message"
    text: str
    blocks: tuple[ContentBlock, ...] = ()


@attrs.frozen
class AssistantDelta(Event):
    """More text of the answer. Live only."""

    type: ClassVar[str] = "assistant.delta"
    recorded: ClassVar[bool] = False
    text: str


@attrs.frozen
class AssistantThinking(Event):
    """More of the model's chain of thought. Live only."""

    type: ClassVar[str] = "assistant.thinking"
    recorded: ClassVar[bool] = False
    text: str


@attrs.frozen
class ToolDelta(Event):
    """More of a call's arguments, as JSON text. Live only, and only on request."""

    type: ClassVar[str] = "tool.delta"
    recorded: ClassVar[bool] = False
    tool_use_id: str
    name: str
    partial_json: str


@attrs.frozen
class StreamNotice(Event):
    """Something odd in the model's stream, which goes on all the same. Live only.

    No `Notification`: that one is recorded, and what stands between two pieces of an answer cannot
    be committed before it is shown.
    """

    type: ClassVar[str] = "stream.notice"
    recorded: ClassVar[bool] = False
    text: str


@attrs.frozen
class AssistantMessage(Event):
    """The model's answer is whole.

    Attributes:
        stop_details: The endpoint's own words about a refused or filtered response.
        damaged_lines: How many data lines of the response could not be read completely.
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
        """Its text blocks, joined."""
        return "".join(block.text for block in self.blocks if block.type == "text")


@attrs.frozen
class ToolUse(Event):
    """A tool is about to be called; `repaired` if the model's arguments were no JSON."""

    type: ClassVar[str] = "tool.use"
    tool_use_id: str
    name: str
    input: JsonObject
    repaired: bool = False


@attrs.frozen
class ToolProgress(Event):
    """A tool says how far it is. Live only, and dropped where the reader is slow."""

    type: ClassVar[str] = "tool.progress"
    recorded: ClassVar[bool] = False
    tool_use_id: str
    name: str
    progress: JsonValue


@attrs.frozen
class ToolResult(Event):
    """A call ended; `synthetic` if the runtime answered for a tool that could not."""

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


@attrs.frozen
class UserQuestion(Event):
    """The run asks a person and waits."""

    type: ClassVar[str] = "user.question"
    question_id: str
    prompt: str
    choices: tuple[str, ...] = ()
    tool_name: str | None = None
    tool_input: JsonObject | None = None
    tool_use_id: str = ""


@attrs.frozen
class HookEvent(Event):
    """A hook did something other than proceed."""

    type: ClassVar[str] = "hook.event"
    hook: str
    phase: str
    action: str
    matcher: str | None = None
    reason: str | None = None
    duration: float = 0.0


@attrs.frozen
class SkillActivated(Event):
    """A skill is in force from here on."""

    type: ClassVar[str] = "skill.activated"
    name: str


@attrs.frozen
class TodosChanged(Event):
    """The session's list of things to do is this one from here on."""

    type: ClassVar[str] = "todos.changed"
    todos: tuple[Todo, ...]


@attrs.frozen
class FileChanged(Event):
    """A file of the session's holds this text from here on; None: it is gone."""

    type: ClassVar[str] = "file.changed"
    path: str
    content: str | None


@attrs.frozen
class SessionCompacted(Event):
    """Everything up to `up_to_seq` is from here on stood for by `summary`."""

    type: ClassVar[str] = "session.compacted"
    up_to_seq: int
    summary: str


@attrs.frozen
class SessionRewind(Event):
    """Everything after `to_seq` and before this record no longer counts."""

    type: ClassVar[str] = "session.rewind"
    to_seq: int


@attrs.frozen
class RunSuspended(Event):
    """The run ended with open questions, or with calls that its caller carries out.

    Attributes:
        question_ids: The questions.
        external_calls: The calls: by their ids, the arguments to carry them out with.
    """

    type: ClassVar[str] = "run.suspended"
    question_ids: tuple[str, ...] = ()
    external_calls: Mapping[str, JsonObject] = _NO_CALLS


@attrs.frozen
class AttemptRestarted(Event):
    """What this answer showed so far is void: a new attempt begins."""

    type: ClassVar[str] = "attempt.restarted"
    attempt: int
    reason: str


@attrs.frozen
class UsageEvent(Event):
    """What the last model call used, and the run so far.

    The session's accounts are the sum of these: what they do not tell was not spent.

    Attributes:
        usage: Tokens of this model call, attempts that were given up included.
        total: Those of the run so far.
        requests: Requests that it took: more than 1 if attempts failed.
        tool_calls: Calls of its answer that were begun.
        cost: What `usage` cost by the prices of that time; None without prices.
    """

    type: ClassVar[str] = "usage"
    usage: Usage
    total: Usage
    requests: int = 1
    tool_calls: int = 0
    cost: float | None = None


@attrs.frozen
class Notification(Event):
    """Something a person may want to know; also for a caller's own use."""

    type: ClassVar[str] = "notification"
    text: str
    data: JsonValue = None


@attrs.frozen
class ResultEvent(Event):
    """The run has ended with a result; the last event of its stream.

    Where the agent names an `output_type`, `output` is the output as JSON; None if there is none.
    `stop_details` and `damaged_lines` are those of the `RunResult`.
    """

    type: ClassVar[str] = "result"
    text: str
    stop_reason: str
    usage: Usage
    iterations: int
    duration: float
    cost: float | None = None
    output: JsonValue = None
    stop_details: StopDetails | None = None
    damaged_lines: int = 0


@attrs.frozen
class ErrorEvent(Event):
    """The run has ended with an error; the last event of its stream."""

    type: ClassVar[str] = "error"
    error: str
    message: str


@attrs.frozen
class UnknownEvent:
    """An event of a type that this version does not know, kept whole."""

    raw: Mapping[str, JsonValue]

    @property
    def type(self) -> str:
        """Its type, as read."""
        return str(self.raw.get("type", ""))

    @property
    def seq(self) -> int | None:
        """Its position in the log, if it has one."""
        seq = self.raw.get("seq")
        return seq if isinstance(seq, int) else None

    @property
    def ts(self) -> float:
        """Its time; 0 if it has none."""
        ts = self.raw.get("ts")
        return float(ts) if isinstance(ts, int | float) else 0.0


@attrs.frozen
class UnreadableEvent:
    """A record of a session's log that cannot be decoded.

    The place of the record in the log is known, its content is not. The session is read without
    the record. Forks, exports and repairs keep the bytes.

    Attributes:
        session_id: The session whose log holds the record.
        seq: Position in the log, from 1.
        reason: Why the record cannot be decoded.
        raw: The bytes that the log holds in its place. Where one damaged stretch covers several
            records, the first of them has all bytes and the others have none.
    """

    type: ClassVar[str] = "record.unreadable"

    session_id: str
    seq: int
    reason: str
    raw: bytes = attrs.field(default=b"", repr=False)

    @property
    def id(self) -> str:
        """An id that is made of the position and the bytes."""
        return f"unreadable-{self.seq}-{self.digest[:16]}"

    @property
    def ts(self) -> float:
        """0: the time is lost."""
        return 0.0

    @property
    def digest(self) -> str:
        """The SHA-256 of the bytes, in hexadecimal digits."""
        return sha256(self.raw).hexdigest()


AnyEvent: TypeAlias = Event | UnknownEvent | UnreadableEvent

if TYPE_CHECKING:
    # A plain `EventBuilder` builds any event. `typing.TypeVar` has no defaults before Python 3.13.
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
        id: str,  # noqa: A002 - the header field's own name
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
    | SessionCompacted
    | SessionRewind
    | RunSuspended
    | AttemptRestarted
    | UsageEvent
    | Notification
    | ResultEvent
    | ErrorEvent
)
"""Every event that a run can show: a `match` over all of them may end in `assert_never`.

A later version may have more, which a type checker then tells of.
"""

EVENT_TYPES: Final[Mapping[str, type[Event]]] = {
    cls.type: cls for cls in cast("tuple[type[Event], ...]", get_args(RunEvent))
}
