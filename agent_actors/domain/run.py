"""Runs: why they stop, what a tool may know of its run, and what a caller gets at the end."""

from enum import StrEnum
from typing import TYPE_CHECKING, Generic, cast

import attrs

from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import HookEvent
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import StopDetails
from agent_actors.domain.usage import Usage
from agent_actors.errors import OutputError

if TYPE_CHECKING:
    # Type checkers bring it along, so that the default asks for no package. With it, who wants no
    # output type never meets the parameter: `RunResult` is `RunResult[str]`.
    from typing_extensions import TypeVar

    OutputT_co = TypeVar("OutputT_co", covariant=True, default=str)
else:
    from typing import TypeVar

    OutputT_co = TypeVar("OutputT_co", covariant=True)


class StopReason(StrEnum):
    """Why a run ended with a result; with a detail: `budget:<what>`, `blocked:<phase>`."""

    COMPLETED = "completed"
    MAX_ITERATIONS = "max_iterations"
    LENGTH = "length"
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"
    OUTPUT_INVALID = "output_invalid"
    AWAITING_APPROVAL = "awaiting_approval"
    AWAITING_RESULTS = "awaiting_results"
    INTERRUPTED = "interrupted"
    ROLLED_BACK = "rolled_back"
    STEERED = "steered"


class CancelReason(StrEnum):
    """Why a run was cancelled; trio is told of it too."""

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
    """A question that a run waits with.

    Attributes:
        id: What it is answered by.
        session_id: The session.
        run_id: The run.
        prompt: The question, on one line.
        choices: What may be answered; empty: any text.
        tool_use_id: The call that waits.
        tool_name: Its tool.
        tool_input: Its arguments.
        reason: Why it is asked.
        asked_at: Wall clock, in seconds since the epoch.
        permission: True: whether the call may run; False: something that the call itself asks, as
            those of `AskUserQuestion` do.
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
    """A run as its tools and hooks see it; a snapshot.

    Attributes:
        session_id: The session.
        run_id: The run.
        request_id: The caller's id of the request, or one that was made.
        iteration: The number of model calls so far.
        started_at: Wall clock, in seconds since the epoch.
        last_output: The text of the model's last answer; empty before the first.
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
    """One tool call of a run and what became of it.

    Attributes:
        id: The call's id.
        name: The tool's name.
        input: The arguments that the tool got.
        content: What the model was told.
        is_error: True if the call failed.
        data: Structured data that the tool kept beside the text; None if there is none.
        started_at: Wall clock, in seconds since the epoch; 0 if the call never started.
        completed_at: Likewise, at its end.
        duration: Seconds between the two, by a clock that never goes back.
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


@attrs.frozen
class Output:
    """What a run's answer came to, where it had to be of some type.

    Attributes:
        value: The output; it counts only without a fault.
        fault: Why there is none; empty if there is one.
    """

    value: object = None
    fault: str = ""


@attrs.frozen
class RunResult(Generic[OutputT_co]):
    """What a run came to.

    Attributes:
        text: The text of the model's last answer.
        stop_reason: Why it ended; see `StopReason`.
        messages: The session's whole history after the run, always valid.
        tool_calls: The run's calls, in the model's order.
        usage: The run's tokens, summed over its model calls; those of runs that its tools started
            are theirs.
        iterations: The number of model calls.
        duration: Seconds from start to end.
        session_id: The session.
        run_id: The run.
        request_id: The caller's id of the request, or one that was made.
        cost: What `usage` cost, in the currency of `AgentOptions.prices`; None without prices.
        hook_events: What hooks did other than proceed, in order.
        questions: The questions that the run ended with, to be answered by `runtime.resume`.
        external_calls: The calls of tools without a handler that it ended with, in the model's
            order and with the arguments to carry them out with; `runtime.resume` takes the results.
        stop_details: The endpoint's own words, if the last response was refused or filtered.
        damaged_lines: How many data lines of the run's responses could not be read completely; if
            this is not 0, `text` and earlier messages may lack their content.
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
    stop_details: StopDetails | None = None
    damaged_lines: int = 0
    _output: Output | None = attrs.field(default=None, alias="output")

    @property
    def output(self) -> OutputT_co:
        """The answer in the agent's `output_type`; the text if it names none.

        Raises:
            OutputError: The run ended without such an answer; `stop_reason` says how.
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
