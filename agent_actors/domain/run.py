"""Runs: stop reasons, questions, snapshots for tools and hooks, and results."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Generic, Literal, Never, TypeAlias, cast

import attrs

# `typing.TypeVar` has defaults from Python 3.13 on. A default keeps `AgentOptions[City]` valid.
from typing_extensions import TypeVar as TypeVarWithDefault

from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import CompactionKind, HookEvent
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import FinishReason, StopDetails
from agent_actors.domain.usage import NO_TOKENS, Usage
from agent_actors.domain.workspace.project import NO_PROJECT, HandlerResult, ProjectReport
from agent_actors.domain.workspace.report import NO_RESOURCES, CallResources, WorkspaceReport
from agent_actors.domain.workspace.trees import FileChange
from agent_actors.errors import OutputError

if TYPE_CHECKING:
    # Type checkers include `typing_extensions`, so the default needs no package at run time.
    # Because of the default, `RunResult` means `RunResult[str]` for callers who use no output type.
    from typing_extensions import TypeVar

    OutputT_co = TypeVar("OutputT_co", covariant=True, default=str)
else:
    from typing import TypeVar

    OutputT_co = TypeVar("OutputT_co", covariant=True)

DepsT_co = TypeVarWithDefault("DepsT_co", covariant=True, default=object)
"""The dependencies that a context offers; `object` for code that does not use them."""

DepsT_contra = TypeVarWithDefault("DepsT_contra", contravariant=True, default=Never)
"""The dependencies that an agent needs. `AgentOptions[City]` therefore means any agent whose output
is a `City`, whatever its dependencies are.
"""

HookDepsT_contra = TypeVarWithDefault("HookDepsT_contra", contravariant=True, default=object)
"""The dependencies that a hook needs; `object` for a hook that does not use them."""


class StopReason(StrEnum):
    """The reason why a run ended with a result; may have details after a colon: `budget:<what>`."""

    COMPLETED = "completed"
    MAX_ITERATIONS = "max_iterations"
    LENGTH = "length"
    PAUSED = "paused"
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"
    OUTPUT_INVALID = "output_invalid"
    AWAITING_APPROVAL = "awaiting_approval"
    AWAITING_RESULTS = "awaiting_results"
    INTERRUPTED = "interrupted"
    ROLLED_BACK = "rolled_back"
    STEERED = "steered"


class CancelReason(StrEnum):
    """The reason why a run was cancelled; also passed to trio."""

    CALLER = "caller"
    READER_LEFT = "reader_left"
    READER_STALLED = "reader_stalled"
    INTERRUPT = "interrupt"
    ROLLBACK = "rollback"
    SHUTDOWN = "shutdown"
    DEADLINE = "deadline"
    LEASE_LOST = "lease_lost"


@attrs.frozen
class Question:
    """An open question of a run.

    Attributes:
        id: The id to pass with the answer.
        session_id: The session.
        run_id: The run.
        prompt: The question, on one line.
        choices: The accepted answers; if empty, any text is accepted.
        tool_use_id: Id of the call that is waiting for the answer.
        tool_name: Name of the call's tool.
        tool_input: The call's arguments.
        reason: Why the question is asked.
        asked_at: Wall-clock time in seconds since the epoch.
        permission: True if the question asks for permission to run the call. False if the call
            itself asks, as `AskUserQuestion` does.
    """

    id: str
    session_id: str
    run_id: str
    prompt: str
    choices: tuple[str, ...] = ()
    tool_use_id: str = ""
    tool_name: str = ""
    tool_input: JsonObject = attrs.field(factory=dict[str, JsonValue])
    reason: str = ""
    asked_at: float = 0.0
    permission: bool = True


EntryPoint: TypeAlias = Literal["cli", "ci", "platform"]
"""The kind of program that starts a run."""

ENTRY_POINTS: Final[tuple[EntryPoint, ...]] = ("cli", "ci", "platform")


@attrs.frozen
class RunInfo:
    """A snapshot of a run for its tools and hooks.

    Attributes:
        session_id: The session.
        run_id: The run.
        request_id: The caller's id of the request, or a generated id.
        iteration: The number of model calls so far.
        started_at: Wall-clock time in seconds since the epoch.
        last_output: The text of the model's last response; empty before the first.
        agent_name: The agent's name; empty for a root run without one.
        traits: The traits that the caller gave the request.
        channels: The channels that the caller gave the request.
        tags: The tags of the request, with those in the metadata.
        metadata: The metadata of the request.
        entry_point: The kind of program that starts the run; None if the caller named none.
    """

    session_id: str
    run_id: str
    request_id: str
    iteration: int
    started_at: float
    last_output: str = ""
    agent_name: str = ""
    traits: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    tags: Mapping[str, str] = attrs.field(factory=dict[str, str])
    metadata: JsonObject = attrs.field(factory=dict[str, JsonValue])
    entry_point: EntryPoint | None = None


@attrs.frozen
class ToolCallResult:
    """A tool call in a run, with its result.

    Attributes:
        id: The call's id.
        name: The tool's name.
        input: The arguments that the tool received.
        content: The result that the model receives.
        is_error: True if the call failed.
        data: Structured data that the tool returned in addition to the text; None if there is none.
        started_at: Wall-clock time in seconds since the epoch; 0 if the call never started.
        completed_at: Wall-clock time at which the call ended.
        duration: Duration in seconds, measured by a monotonic clock.
        exception: The exception that the tool raised, with its traceback; None if it raised none,
            or if the result comes from a log. Events and logs contain only the message. The
            traceback keeps the tool's local variables in memory.
        complete_bytes: Size of the complete text if `content` was truncated because it was too
            long; otherwise 0.
        resources: The files, hosts and resources that the call used, as far as its tool reported
            them. Empty if the result comes from a log.
        untrusted: True if the result contains content from outside, or depends on such content.
    """

    id: str
    name: str
    input: JsonObject
    content: str | JsonObject | list[JsonValue]
    is_error: bool = False
    data: JsonValue = None
    started_at: float = 0.0
    completed_at: float = 0.0
    duration: float = 0.0
    complete_bytes: int = 0
    exception: BaseException | None = attrs.field(default=None, eq=False, repr=False)
    resources: CallResources = NO_RESOURCES
    untrusted: bool = False


@attrs.frozen
class SubagentResult:
    """An agent that a run started with the tool `Task`, and its result.

    Attributes:
        agent_name: The name of the agent.
        session_id: The session of the agent's run; empty if a handler did the task.
        tool_use_id: The call of `Task`.
        text: The text of the agent's last response, or of the handler's result.
        stop_reason: The stop reason of the agent's run; `error` if it failed.
        usage: Tokens of the agent's model calls, and of the agents that it started; zero if its run
            failed. `RunResult.usage_total` contains these tokens as well.
        error: The error with which the run or the handler failed; empty if there is none.
    """

    agent_name: str
    session_id: str
    tool_use_id: str
    text: str
    stop_reason: str
    usage: Usage = NO_TOKENS
    error: str = ""


@attrs.frozen
class CompactionReport:
    """A step in which a run made its conversation shorter.

    Attributes:
        kind: `summary`, `window` (messages were left out) or `results` (results were cleared).
        tokens_before: The estimated size of the next request before the step, in tokens.
        tokens_after: The estimated size of the next request after the step, in tokens.
        replaced_messages: The number of messages that were replaced.
        summary: The summary; empty if there is none.
        cleared_results: The number of results that were cleared.
    """

    kind: CompactionKind
    tokens_before: int
    tokens_after: int
    replaced_messages: int = 0
    summary: str = ""
    cleared_results: int = 0


@attrs.frozen
class Output:
    """The validated output of a run whose agent has an `output_type`.

    Attributes:
        value: The output; only meaningful if `fault` is empty.
        fault: The reason why there is no output; empty if there is an output.
    """

    value: object = None
    fault: str = ""


@attrs.frozen(eq=False)
class AgentContext(Generic[DepsT_co]):
    """The context of a function in an agent's options, such as `system_prompt`.

    Attributes:
        run: The state of the run.
        deps: The dependencies that the run was given.
        messages: The conversation so far.
    """

    run: RunInfo
    deps: DepsT_co = attrs.field(repr=False)
    messages: Messages = attrs.field(repr=False)


@attrs.frozen(eq=False)
class Partial(Generic[OutputT_co]):
    """The output of a run while it is streamed. It is not validated.

    Attributes:
        data: The output so far as JSON. A string may continue. A number, a literal or a key appears
            only when it is complete.
    """

    data: JsonValue
    _convert: Callable[[JsonValue], OutputT_co | None] = attrs.field(repr=False)

    @property
    def value(self) -> OutputT_co | None:
        """The output so far in its type; None until all required fields have begun to arrive.

        A list omits its last item until the item has all required fields. The value is converted
        when it is read.
        """
        return self._convert(self.data)


@attrs.frozen
class RunResult(Generic[OutputT_co]):
    """The result of a run.

    Attributes:
        text: The text of the model's last response.
        stop_reason: The reason why the run ended; see `StopReason`.
        messages: The session's complete history after the run, which is always valid. If the
            session was compacted, it begins with the summary.
        tool_calls: The run's calls, in the model's order.
        usage: Tokens of all of the run's model calls. Nested runs, which its tools start, have
            their own usage.
        usage_total: `usage`, and the usage of the agents that `Task` started, at any depth.
        iterations: The number of model calls.
        duration: Duration of the run, in seconds.
        session_id: The session.
        run_id: The run.
        request_id: The caller's id of the request, or a generated id.
        cost: Cost of `usage`, in the currency of `AgentOptions.prices`; None without prices.
        hook_events: Hook decisions other than "proceed", in order.
        questions: The open questions; pass the answers to `runtime.resume`.
        external_calls: The open calls of tools without a handler, with their arguments and in the
            model's order. Pass the results to `runtime.resume`.
        finish_reason: The reason why the last response ended; `unknown` if there was no response.
            `unmarked` means that the endpoint never marked the end, so the response may be
            incomplete even though the run is `completed`.
        stop_details: The endpoint's explanation, if the last response was refused or filtered.
        damaged_lines: The number of data lines in the run's responses that could not be read
            completely. If it is not 0, content may be missing from `text` and from earlier
            messages.
        sandbox: The report about the workspace at the end of the run: root, allowed paths, network,
            limits, and the operations that were refused; None if the run had no workspace.
        files: The files that the run changed, sorted by path. Changes by commands are included only
            if the agent has `checkpoints`.
        subagents: The agents that the run started with `Task`, in the order in which they ended.
        compactions: The steps in which the run made its conversation shorter, in order.
        skill_results: The results and errors of the handlers of skills, in the order of the calls.
        command_results: The results and errors of slash commands, in the order of their lines.
        settings: The files of the project that the run read, and the problems with files.
        tags: The tags of the request, with those in its metadata.
    """

    text: str
    stop_reason: str
    messages: Messages
    tool_calls: tuple[ToolCallResult, ...]
    usage: Usage
    iterations: int
    duration: float
    session_id: str
    run_id: str
    request_id: str
    cost: float | None = None
    hook_events: tuple[HookEvent, ...] = ()
    questions: tuple[Question, ...] = ()
    external_calls: tuple[ToolUseBlock, ...] = ()
    finish_reason: FinishReason = "unknown"
    stop_details: StopDetails | None = None
    damaged_lines: int = 0
    sandbox: WorkspaceReport | None = None
    files: tuple[FileChange, ...] = ()
    subagents: tuple[SubagentResult, ...] = ()
    usage_total: Usage = NO_TOKENS
    compactions: tuple[CompactionReport, ...] = ()
    skill_results: tuple[HandlerResult, ...] = ()
    command_results: tuple[HandlerResult, ...] = ()
    settings: ProjectReport = NO_PROJECT
    tags: Mapping[str, str] = attrs.field(factory=dict[str, str])
    _output: Output | None = attrs.field(default=None, alias="output")

    @property
    def output(self) -> OutputT_co:
        """The output of the agent's `output_type`; the text if the agent has none.

        Raises:
            OutputError: The run ended without a valid output; see `stop_reason`.
        """
        output = Output(self.text) if self._output is None else self._output
        if output.fault:
            raise OutputError(
                output.fault,
                stop_reason=self.stop_reason,
                text=self.text,
                messages=self.messages,
            )
        return cast(OutputT_co, output.value)
