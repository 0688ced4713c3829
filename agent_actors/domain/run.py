"""Runs: stop reasons, questions, snapshots for tools and hooks, and results."""

from enum import StrEnum
from typing import TYPE_CHECKING, Generic, cast

import attrs

from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import HookEvent
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import FinishReason, StopDetails
from agent_actors.domain.usage import Usage
from agent_actors.errors import OutputError

if TYPE_CHECKING:
    # Type checkers include `typing_extensions`, so the default needs no package at run time.
    # Because of the default, `RunResult` means `RunResult[str]` for callers who use no output type.
    from typing_extensions import TypeVar

    OutputT_co = TypeVar("OutputT_co", covariant=True, default=str)
else:
    from typing import TypeVar

    OutputT_co = TypeVar("OutputT_co", covariant=True)


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
    """

    session_id: str
    run_id: str
    request_id: str
    iteration: int
    started_at: float
    last_output: str = ""
    agent_name: str = ""


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


@attrs.frozen
class Output:
    """The validated output of a run whose agent has an `output_type`.

    Attributes:
        value: The output; only meaningful if `fault` is empty.
        fault: The reason why there is no output; empty if there is an output.
    """

    value: object = None
    fault: str = ""


@attrs.frozen
class RunResult(Generic[OutputT_co]):
    """The result of a run.

    Attributes:
        text: The text of the model's last response.
        stop_reason: The reason why the run ended; see `StopReason`.
        messages: The session's complete history after the run, which is always valid.
        tool_calls: The run's calls, in the model's order.
        usage: Tokens of all of the run's model calls. Nested runs, which its tools start, have
            their own usage.
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
