"""The agent loop as a transition table: events in, commands out, no awaits.

The machine knows the state of one run: whether the model is being called, which tool calls are
open, and what to record next. It does not know tasks, clocks, stores or endpoints. The driver feeds
events to the machine and executes the returned commands in order. `TABLE` defines the loop; the
diagram in the docs is generated from it. An event that the table does not list for the current
state raises `IllegalTransition`.

    ready ──UserInput──▶ model ──ModelCompleted──▶ tools ──ToolFinished──▶ model … ──▶ done

If the run has an output type, `model` leads to `output`: the driver reports whether the response is
valid. If it is invalid, the validation error is sent to the model, which is called again up to
`output_retries` times. If an invalid response was cut off, the model is not called again.

A response that was refused or filtered ends the run. Its calls are not executed: each becomes a
`ToolUseError` and gets a synthetic result, so that the history stays valid.

At most `max_calls` calls of one response are executed. The others get synthetic error results.

Input that arrives during the run waits for the next turn boundary.

If the conversation is too long for the next model call, the driver reports `ContextFull`. The
machine then compacts the conversation before the call.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, TypeAlias, TypeVar

import attrs

from agent_actors.domain.blocks import AssistantBlock, ContentBlock, ToolUseBlock, ToolUseError
from agent_actors.domain.limits import DEFAULT_MAX_CALLS
from agent_actors.domain.model import REFUSED_CALL, FinishReason, ModelCompleted
from agent_actors.domain.run import StopReason, ToolCallResult
from agent_actors.protocol.compaction import CompactionTrigger


class State(StrEnum):
    """The state of a run."""

    READY = "ready"
    MODEL = "model"
    TOOLS = "tools"
    OUTPUT = "output"
    DONE = "done"


# ---- events ----


@attrs.frozen
class UserInput:
    """Input from the caller, which starts the run or steers it later.

    Empty input, without text and blocks, starts a run that continues the conversation unchanged.
    """

    text: str
    blocks: tuple[ContentBlock, ...] = ()


@attrs.frozen
class Resumed:
    """The run continues with the tool calls that an earlier run left open.

    Attributes:
        calls: The open calls, in the model's order.
        results: The results that the caller supplied for some of the calls.
        deferred: The ids of calls that stay open and are not started.
    """

    calls: tuple[ToolUseBlock, ...]
    results: tuple[ToolCallResult, ...] = ()
    deferred: frozenset[str] = frozenset()


@attrs.frozen
class CompactionRequested:
    """The run only compacts the conversation, and then ends.

    Attributes:
        instructions: The caller's instructions for the summary; empty: none.
    """

    instructions: str = ""


@attrs.frozen
class ContextFull:
    """The conversation is too long for the next model call, so it must be compacted first.

    Attributes:
        trigger: `threshold` if the conversation exceeds the limit of the options; `overflow` if the
            endpoint refused the request because of its length.
    """

    trigger: CompactionTrigger


@attrs.frozen
class ToolFinished:
    """A tool call has ended, successfully or not."""

    result: ToolCallResult


@attrs.frozen
class OutputValid:
    """The response matches the requested output type."""


@attrs.frozen
class OutputInvalid:
    """The response does not match the requested output type.

    Attributes:
        feedback: The validation error, which is sent to the model.
    """

    feedback: str


@attrs.frozen
class Interrupted:
    """The run must end now.

    The driver has already waited for the running tools and has fed their results.

    Attributes:
        stop_reason: The stop reason of the run.
        why: The content of the synthetic results for calls without a result.
        leave_open: True to leave these calls open instead; they get results or answers after the
            run has ended.
    """

    stop_reason: str
    why: str
    leave_open: bool = False


@attrs.frozen
class BudgetExceeded:
    """A budget is used up, so the run must end with the stop reason `budget:<what>`.

    In the state `done`, this event replaces the stop reason if a budget cut the run short.

    Attributes:
        what: The name of the budget.
    """

    what: str


@attrs.frozen
class Continued:
    """A hook refuses to end the run, which therefore continues with more input.

    Attributes:
        text: The input.
    """

    text: str


TurnEvent: TypeAlias = (
    UserInput
    | Resumed
    | CompactionRequested
    | ContextFull
    | ModelCompleted
    | ToolFinished
    | OutputValid
    | OutputInvalid
    | Interrupted
    | BudgetExceeded
    | Continued
)

# ---- commands ----


@attrs.frozen
class UserEntry:
    """Record the caller's input, or the feedback on an invalid output."""

    text: str
    blocks: tuple[ContentBlock, ...] = ()


@attrs.frozen
class AnswerEntry:
    """Record the model's response."""

    answer: ModelCompleted


@attrs.frozen
class CallEntry:
    """Record that the model called a tool."""

    call: ToolUseBlock


@attrs.frozen
class ResultEntry:
    """Record the result of a tool call.

    Attributes:
        result: The result.
        synthetic: True if the machine created the result because the tool did not return one.
    """

    result: ToolCallResult
    synthetic: bool = False


Entry: TypeAlias = UserEntry | AnswerEntry | CallEntry | ResultEntry


@attrs.frozen
class Append:
    """Commit these entries together, before executing the next command."""

    entries: tuple[Entry, ...]


@attrs.frozen
class CallModel:
    """Call the model, and feed the `ModelCompleted`.

    Attributes:
        iteration: The number of this model call in the run, from 1.
    """

    iteration: int


@attrs.frozen
class Compact:
    """Make the conversation shorter, if possible. The next command follows in any case.

    Attributes:
        trigger: The reason.
        instructions: The caller's instructions for the summary; empty: none.
    """

    trigger: CompactionTrigger
    instructions: str = ""


@attrs.frozen
class StartTool:
    """Start this tool call, and feed `ToolFinished` when the call has ended."""

    call: ToolUseBlock


@attrs.frozen
class CheckOutput:
    """Check this text against the output type, and feed `OutputValid` or `OutputInvalid`."""

    text: str


@attrs.frozen
class Finish:
    """End the run with this stop reason."""

    stop_reason: str


Command: TypeAlias = Append | CallModel | Compact | StartTool | CheckOutput | Finish
Commands: TypeAlias = tuple[Command, ...]


class IllegalTransition(Exception):
    """The driver has a bug: it fed an event that the table does not list for the state."""

    def __init__(self, state: State, event: object, detail: str = "") -> None:
        super().__init__(f"{type(event).__name__} in state {state.value}{detail}")
        self.state = state
        self.event = event


_STOP_OF: Final[Mapping[FinishReason, StopReason]] = {
    "stop": StopReason.COMPLETED,
    "tool_calls": StopReason.COMPLETED,
    "unmarked": StopReason.COMPLETED,
    "unknown": StopReason.COMPLETED,
    "paused": StopReason.PAUSED,
    "length": StopReason.LENGTH,
    "refusal": StopReason.REFUSAL,
    "content_filter": StopReason.CONTENT_FILTER,
    "refused": StopReason.REFUSAL,
}


_DAMAGED_OUTPUT: Final = "a part of your answer was lost in transit; send the complete answer again"


@attrs.define(eq=False)
class TurnMachine:
    """One run of the agent loop.

    Args:
        max_iterations: The maximum number of model calls in the run.
        output_retries: How often, in the whole run, the model is called again after an invalid
            response. None: the run has no output type, and every response is valid.
        max_calls: The maximum number of calls in one response that are executed.
    """

    max_iterations: int
    output_retries: int | None = None
    max_calls: int = DEFAULT_MAX_CALLS
    state: State = attrs.field(default=State.READY, init=False)
    iteration: int = attrs.field(default=0, init=False)
    _open: dict[str, ToolUseBlock] = attrs.field(factory=dict[str, ToolUseBlock], init=False)
    _waiting: list[UserInput] = attrs.field(factory=list[UserInput], init=False)
    # The stop reason to use if the response being checked is invalid; None: call the model again.
    _end_if_invalid: StopReason | None = attrs.field(default=None, init=False)

    @property
    def open_calls(self) -> tuple[ToolUseBlock, ...]:
        """The calls that have no result yet, in the model's order."""
        return tuple(self._open.values())

    @property
    def pending_input(self) -> tuple[UserInput, ...]:
        """Input that arrived during the run and has not been used in a turn yet, oldest first."""
        return tuple(self._waiting)

    def feed(self, event: TurnEvent) -> Commands:
        """Process one event, and return the commands to execute, in order.

        Raises:
            IllegalTransition: The table does not list the event for the state, or the event names a
                call that is not open.
        """
        transition = TABLE[self.state].get(type(event))
        if transition is None:
            raise IllegalTransition(self.state, event)
        before = self.state
        commands = transition.action(self, event)
        if self.state not in transition.to:
            raise IllegalTransition(before, event, f" led to {self.state.value}")
        return commands

    # Actions: the functions in the cells of TABLE.

    def start(self, event: UserInput) -> Commands:
        """Record the first input, and call the model."""
        has_content = bool(event.text or event.blocks)
        append: Commands = (Append((UserEntry(event.text, event.blocks),)),) if has_content else ()
        return append + self._call_model()

    def resume(self, event: Resumed) -> Commands:
        """Record the supplied results, and start the other calls."""
        self._open.update((call.id, call) for call in event.calls)
        self.state = State.TOOLS
        for result in event.results:
            self._take_call(result.id, event)
        append: Commands = ()
        if event.results:
            append = (Append(tuple(ResultEntry(result) for result in event.results)),)
        if not self._open:
            return append + self._next_turn()
        started = (call for call in self._open.values() if call.id not in event.deferred)
        return append + tuple(StartTool(call) for call in started)

    def compact_only(self, event: CompactionRequested) -> Commands:
        """Compact the conversation, and end the run."""
        return (Compact("manual", event.instructions), *self._finish(StopReason.COMPLETED))

    def make_room(self, event: ContextFull) -> Commands:
        """Compact the conversation, and then make the model call."""
        return (Compact(event.trigger), CallModel(self.iteration))

    def wait_for_boundary(self, event: UserInput) -> Commands:
        """Keep the input for the next turn."""
        self._waiting.append(event)
        return ()

    def take_answer(self, answer: ModelCompleted) -> Commands:
        """Record the response, reject malformed and excess calls, and start the others."""
        if answer.refused:
            return self._take_refusal(answer)
        entries: list[Entry] = [AnswerEntry(answer)]
        refused: list[Entry] = []
        for block in answer.blocks:
            if isinstance(block, ToolUseBlock):
                entries.append(CallEntry(block))
                if len(self._open) < self.max_calls:
                    self._open[block.id] = block
                else:
                    refused.append(_synthetic(block, self._too_many_calls()))
            elif isinstance(block, ToolUseError):
                call = block.as_tool_use()
                entries.append(CallEntry(call))
                refused.append(_synthetic(call, block.error))
        if answer.done:
            refused.extend(
                self._close_open("this call was not run, because the model ended the run")
            )
        append = Append((*entries, *refused))
        if self._open:
            self.state = State.TOOLS
            return (append, *(StartTool(call) for call in self._open.values()))
        if (refused or self._waiting) and not answer.done:
            return (append, *self._next_turn())
        if self.output_retries is not None:
            return (append, *self._check_output(answer))
        return (append, *self._finish(_STOP_OF[answer.finish_reason]))

    def _too_many_calls(self) -> str:
        return (
            f"this call was not run: a response may contain at most {self.max_calls} calls; make "
            "the remaining calls in the next response"
        )

    def _take_refusal(self, answer: ModelCompleted) -> Commands:
        # Pending input is not taken: it becomes the prompt of a separate run.
        blocks = tuple(_refused_call(block) for block in answer.blocks)
        entries: list[Entry] = [AnswerEntry(attrs.evolve(answer, blocks=blocks))]
        calls = [block for block in blocks if isinstance(block, ToolUseError)]
        entries += [CallEntry(call.as_tool_use()) for call in calls]
        entries += [_synthetic(call.as_tool_use(), call.error) for call in calls]
        return (Append(tuple(entries)), *self._finish(_STOP_OF[answer.finish_reason]))

    def take_result(self, event: ToolFinished) -> Commands:
        """Record the result; after the last open call, begin the next turn."""
        self._take_call(event.result.id, event)
        append = Append((ResultEntry(event.result),))
        return (append,) if self._open else (append, *self._next_turn())

    def take_output(self, _: OutputValid) -> Commands:
        """Accept the output, and end the run unless new input has arrived."""
        return self._next_turn() if self._waiting else self._finish(StopReason.COMPLETED)

    def refuse_output(self, event: OutputInvalid) -> Commands:
        """Send the validation error to the model and call it again, if retries are left."""
        if self._end_if_invalid is not None:
            return self._finish(self._end_if_invalid)
        if not self.output_retries:
            return self._finish(StopReason.OUTPUT_INVALID)
        if self.iteration >= self.max_iterations:
            return self._finish(StopReason.MAX_ITERATIONS)
        self.output_retries -= 1
        return (Append((UserEntry(event.feedback),)), *self._next_turn())

    def interrupt(self, event: Interrupted) -> Commands:
        """Close open calls, and end the run."""
        entries = [] if event.leave_open else self._close_open(event.why)
        append: Commands = (Append(tuple(entries)),) if entries else ()
        return append + self._finish(event.stop_reason)

    def exceed(self, event: BudgetExceeded) -> Commands:
        """Close open calls, and end the run with `budget:<limit>`."""
        what = f"budget:{event.what}"
        return self.interrupt(Interrupted(what, f"the run's budget is used up: {event.what}"))

    def continue_run(self, event: Continued) -> Commands:
        """Record the input, and call the model again unless the iterations are used up."""
        if self.iteration >= self.max_iterations:
            return self._finish(StopReason.MAX_ITERATIONS)
        return (Append((UserEntry(event.text),)), *self._call_model())

    # Steps that several actions share.

    def _next_turn(self) -> Commands:
        if self.iteration >= self.max_iterations:
            return self._finish(StopReason.MAX_ITERATIONS)
        entries = tuple(UserEntry(item.text, item.blocks) for item in self._waiting)
        self._waiting.clear()
        append: Commands = (Append(entries),) if entries else ()
        return append + self._call_model()

    def _call_model(self) -> Commands:
        self.state = State.MODEL
        self.iteration += 1
        return (CallModel(self.iteration),)

    def _check_output(self, answer: ModelCompleted) -> Commands:
        self.state = State.OUTPUT
        self._end_if_invalid = None
        if answer.damaged_lines:
            # An incomplete response may still be valid but have a different meaning.
            return self.refuse_output(OutputInvalid(_DAMAGED_OUTPUT))
        if answer.finish_reason in {"length", "paused"}:
            # Some endpoints report "length" for complete responses, so the response is checked. If
            # it is invalid, another attempt would be cut off as well.
            self._end_if_invalid = _STOP_OF[answer.finish_reason]
        elif answer.done:
            self._end_if_invalid = StopReason.OUTPUT_INVALID
        return (CheckOutput(answer.text if answer.output is None else answer.output),)

    def _finish(self, stop_reason: str) -> Commands:
        self.state = State.DONE
        return (Finish(stop_reason),)

    def _take_call(self, call_id: str, event: TurnEvent) -> ToolUseBlock:
        call = self._open.pop(call_id, None)
        if call is None:
            raise IllegalTransition(self.state, event, f": call {call_id} is not open")
        return call

    def _close_open(self, why: str) -> list[Entry]:
        entries: list[Entry] = [_synthetic(call, why) for call in self._open.values()]
        self._open.clear()
        return entries


def _refused_call(block: AssistantBlock) -> AssistantBlock:
    if not isinstance(block, ToolUseBlock):
        return block
    raw = block.arguments_text
    return ToolUseError(
        REFUSED_CALL, raw, block.id, block.name, extra=block.extra, origin=block.origin
    )


def _synthetic(call: ToolUseBlock, why: str) -> ResultEntry:
    result = ToolCallResult(call.id, call.name, call.input, why, is_error=True)
    return ResultEntry(result, synthetic=True)


# ---- the table ----


@attrs.frozen
class Transition:
    """One cell of the table.

    Attributes:
        action: Returns the commands for the event, and sets the next state.
        to: The states that the action may lead to.
        about: A one-line description of the action.
    """

    action: Callable[[TurnMachine, TurnEvent], Commands]
    to: tuple[State, ...]
    about: str


_E = TypeVar("_E")
_Cell: TypeAlias = tuple[type, Transition]


def _on(event_type: type[_E], action: Callable[[TurnMachine, _E], Commands], *to: State) -> _Cell:
    def act(machine: TurnMachine, event: TurnEvent) -> Commands:
        assert isinstance(event, event_type)  # `feed` found this cell by the event's type
        return action(machine, event)

    return event_type, Transition(act, to, (action.__doc__ or "").strip())


_ENDINGS: Final = (
    _on(Interrupted, TurnMachine.interrupt, State.DONE),
    _on(BudgetExceeded, TurnMachine.exceed, State.DONE),
)

TABLE: Final[Mapping[State, Mapping[type, Transition]]] = {
    State.READY: dict(
        (
            _on(UserInput, TurnMachine.start, State.MODEL),
            _on(Resumed, TurnMachine.resume, State.TOOLS, State.MODEL, State.DONE),
            _on(CompactionRequested, TurnMachine.compact_only, State.DONE),
            *_ENDINGS,
        )
    ),
    State.MODEL: dict(
        (
            _on(UserInput, TurnMachine.wait_for_boundary, State.MODEL),
            _on(ContextFull, TurnMachine.make_room, State.MODEL),
            _on(
                ModelCompleted,
                TurnMachine.take_answer,
                State.MODEL,
                State.TOOLS,
                State.OUTPUT,
                State.DONE,
            ),
            *_ENDINGS,
        )
    ),
    State.TOOLS: dict(
        (
            _on(UserInput, TurnMachine.wait_for_boundary, State.TOOLS),
            _on(ToolFinished, TurnMachine.take_result, State.TOOLS, State.MODEL, State.DONE),
            *_ENDINGS,
        )
    ),
    State.OUTPUT: dict(
        (
            _on(UserInput, TurnMachine.wait_for_boundary, State.OUTPUT),
            _on(OutputValid, TurnMachine.take_output, State.MODEL, State.DONE),
            _on(OutputInvalid, TurnMachine.refuse_output, State.MODEL, State.DONE),
            *_ENDINGS,
        )
    ),
    State.DONE: dict(
        (
            _on(BudgetExceeded, TurnMachine.exceed, State.DONE),
            _on(Continued, TurnMachine.continue_run, State.MODEL, State.DONE),
        )
    ),
}
