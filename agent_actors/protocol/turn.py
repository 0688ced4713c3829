"""The agent loop as a transition table: events in, commands out, no awaits.

The machine knows one run's place in the loop: whether the model is thinking, which calls are
open, and what has to be recorded next. It knows nothing of tasks, clocks, stores or wires: the
driver feeds it and carries out the commands that come back, in order. `TABLE` is the loop; the
diagram in the docs is drawn from it, and an event that the table does not have for a state
raises. What changes here changes in `TABLE` first.

    ready ──UserInput──▶ model ──ModelCompleted──▶ tools ──ToolFinished──▶ model … ──▶ done

Where the answer has to be of some type, `model` leads to `output`: the driver says whether it fits,
and what does not fit is told to the model, which is asked again as often as `output_retries` says.
An answer that was cut and does not fit is not asked for again.

A response that was refused or filtered ends the run. None of its calls runs: each becomes a
`ToolUseError` and gets a synthetic result, so that the history stays valid.

Input that comes while the run is under way waits for the next turn boundary. Permission is kept
per call, so that calls that need no asking go on while one waits for its answer.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, TypeAlias, TypeVar

import attrs

from agent_actors.domain.blocks import AssistantBlock, ContentBlock, ToolUseBlock, ToolUseError
from agent_actors.domain.json import JsonObject
from agent_actors.domain.model import REFUSED_CALL, FinishReason, ModelCompleted
from agent_actors.domain.run import StopReason, ToolCallResult


class State(StrEnum):
    """Where the run stands."""

    READY = "ready"
    MODEL = "model"
    TOOLS = "tools"
    OUTPUT = "output"
    DONE = "done"


# ---- events in ----


@attrs.frozen
class UserInput:
    """The caller speaks: first to start the run, later to steer it.

    One that says nothing starts a run that goes on where the conversation stands.
    """

    text: str
    blocks: tuple[ContentBlock, ...] = ()


@attrs.frozen
class Resumed:
    """The run goes on with the calls that another one left open, in the model's order."""

    calls: tuple[ToolUseBlock, ...]


@attrs.frozen
class ToolFinished:
    """A call ended, well or not."""

    result: ToolCallResult


@attrs.frozen
class DecisionNeeded:
    """A call may not run before somebody has decided."""

    call_id: str
    question: str


@attrs.frozen
class Decided:
    """Somebody decided: the call runs, with this input if given, or is refused with a reason."""

    call_id: str
    allowed: bool
    input: JsonObject | None = None
    reason: str = ""


@attrs.frozen
class OutputFits:
    """The answer is what was asked for."""


@attrs.frozen
class OutputMisfit:
    """The answer is not what was asked for; `told` says so to the model, and how to mend it."""

    told: str


@attrs.frozen
class Interrupted:
    """The run is to end now. Tools that still ran have been joined, and their results fed.

    Attributes:
        stop_reason: How it ends.
        why: What calls are told that have no result.
        leave_open: Leave these open instead: somebody answers them when the run has ended.
    """

    stop_reason: str
    why: str
    leave_open: bool = False


@attrs.frozen
class BudgetExceeded:
    """A budget is used up: the run ends at once, with `budget:<what>` as its stop reason."""

    what: str


TurnEvent: TypeAlias = (
    UserInput
    | Resumed
    | ModelCompleted
    | ToolFinished
    | DecisionNeeded
    | Decided
    | OutputFits
    | OutputMisfit
    | Interrupted
    | BudgetExceeded
)

# ---- commands out ----


@attrs.frozen
class UserEntry:
    """Record what the caller said."""

    text: str
    blocks: tuple[ContentBlock, ...] = ()


@attrs.frozen
class AnswerEntry:
    """Record the model's answer."""

    answer: ModelCompleted


@attrs.frozen
class CallEntry:
    """Record that a tool is about to be called."""

    call: ToolUseBlock


@attrs.frozen
class ResultEntry:
    """Record what a call gave; `synthetic` where the machine answers in the tool's place."""

    result: ToolCallResult
    synthetic: bool = False


Entry: TypeAlias = UserEntry | AnswerEntry | CallEntry | ResultEntry


@attrs.frozen
class Append:
    """Commit these entries together, before anything that follows."""

    entries: tuple[Entry, ...]


@attrs.frozen
class CallModel:
    """Ask the model; answer with `ModelCompleted`."""

    iteration: int


@attrs.frozen
class StartTool:
    """Run this call; answer with `ToolFinished` or `DecisionNeeded`."""

    call: ToolUseBlock


@attrs.frozen
class Ask:
    """Ask whether this call may run; answer with `Decided`."""

    call: ToolUseBlock
    question: str


@attrs.frozen
class CheckOutput:
    """See whether this text is what was asked for; answer with `OutputFits` or `OutputMisfit`."""

    text: str


@attrs.frozen
class Finish:
    """The run is over."""

    stop_reason: str


Command: TypeAlias = Append | CallModel | StartTool | Ask | CheckOutput | Finish


class IllegalTransition(Exception):
    """The driver fed an event that the state does not have: a bug, never a user's fault."""

    def __init__(self, state: State, event: object, detail: str = "") -> None:
        super().__init__(f"{type(event).__name__} in state {state.value}{detail}")
        self.state = state
        self.event = event


_STOP_OF: Final[Mapping[FinishReason, StopReason]] = {
    "stop": StopReason.COMPLETED,
    "tool_calls": StopReason.COMPLETED,
    "unknown": StopReason.COMPLETED,
    "length": StopReason.LENGTH,
    "refusal": StopReason.REFUSAL,
    "content_filter": StopReason.CONTENT_FILTER,
    "refused": StopReason.REFUSAL,
}


_DAMAGED_OUTPUT: Final = "a part of your answer was lost on the way; send all of it again"


@attrs.define(eq=False)
class TurnMachine:
    """One run of the agent loop.

    Args:
        max_iterations: The most model calls of the run.
        output_retries: How often an answer that does not fit is asked for again, in the whole run;
            None: any answer will do.
    """

    max_iterations: int
    output_retries: int | None = None
    state: State = attrs.field(default=State.READY, init=False)
    iteration: int = attrs.field(default=0, init=False)
    _open: dict[str, ToolUseBlock] = attrs.field(factory=dict[str, ToolUseBlock], init=False)
    _asking: set[str] = attrs.field(factory=set[str], init=False)
    _waiting: list[UserInput] = attrs.field(factory=list[UserInput], init=False)
    # How the run ends if the answer that is being looked at does not fit; None: it is asked again.
    _end_on_misfit: StopReason | None = attrs.field(default=None, init=False)

    @property
    def open_calls(self) -> tuple[ToolUseBlock, ...]:
        """The calls that have no result yet, in the model's order."""
        return tuple(self._open.values())

    @property
    def untaken(self) -> tuple[UserInput, ...]:
        """Input that came while the run was under way and that no turn has taken yet."""
        return tuple(self._waiting)

    def feed(self, event: TurnEvent) -> list[Command]:
        """Take one event; return what to do, in order.

        Raises:
            IllegalTransition: The table has no such event for the state, or it names a call
                that is not open.
        """
        transition = TABLE[self.state].get(type(event))
        if transition is None:
            raise IllegalTransition(self.state, event)
        before = self.state
        commands = transition.action(self, event)
        if self.state not in transition.to:
            raise IllegalTransition(before, event, f" led to {self.state.value}")
        return commands

    # Actions: the cells of TABLE.

    def start(self, event: UserInput) -> list[Command]:
        """Record the first input, and ask the model."""
        said = bool(event.text or event.blocks)
        append = [Append((UserEntry(event.text, event.blocks),))] if said else []
        return [*append, *self._call_model()]

    def resume(self, event: Resumed) -> list[Command]:
        """Start the recorded calls."""
        self._open.update((call.id, call) for call in event.calls)
        self.state = State.TOOLS
        return [StartTool(call) for call in event.calls]

    def wait_for_boundary(self, event: UserInput) -> list[Command]:
        """Keep the input for the next turn."""
        self._waiting.append(event)
        return []

    def take_answer(self, answer: ModelCompleted) -> list[Command]:
        """Record the response, write results for malformed calls, and start the others."""
        if answer.refused:
            return self._take_refusal(answer)
        entries: list[Entry] = [AnswerEntry(answer)]
        refused: list[Entry] = []
        for block in answer.blocks:
            if isinstance(block, ToolUseBlock):
                self._open[block.id] = block
                entries.append(CallEntry(block))
            elif isinstance(block, ToolUseError):
                call = block.as_tool_use()
                entries.append(CallEntry(call))
                refused.append(_synthetic(call, block.error))
        if answer.done:
            refused.extend(self._close_open("the model ended the run before this call ran"))
        append = Append((*entries, *refused))
        if self._open:
            self.state = State.TOOLS
            return [append, *(StartTool(call) for call in self._open.values())]
        if (refused or self._waiting) and not answer.done:
            return [append, *self._next_turn()]
        if self.output_retries is not None:
            return [append, *self._look_at(answer)]
        return [append, *self._finish(_STOP_OF[answer.finish_reason])]

    def _take_refusal(self, answer: ModelCompleted) -> list[Command]:
        # Input that waits is not taken: the caller that left it starts a run of its own.
        blocks = tuple(_refused_call(block) for block in answer.blocks)
        entries: list[Entry] = [AnswerEntry(attrs.evolve(answer, blocks=blocks))]
        calls = [block for block in blocks if isinstance(block, ToolUseError)]
        entries += [CallEntry(call.as_tool_use()) for call in calls]
        entries += [_synthetic(call.as_tool_use(), call.error) for call in calls]
        return [Append(tuple(entries)), *self._finish(_STOP_OF[answer.finish_reason])]

    def take_result(self, event: ToolFinished) -> list[Command]:
        """Record the result; after the last call, begin the next turn."""
        self._take_call(event.result.id, event)
        append = Append((ResultEntry(event.result),))
        return [append] if self._open else [append, *self._next_turn()]

    def ask(self, event: DecisionNeeded) -> list[Command]:
        """Ask for a decision about the call."""
        call = self._open.get(event.call_id)
        if call is None or event.call_id in self._asking:
            raise IllegalTransition(self.state, event, f": call {event.call_id} is not running")
        self._asking.add(event.call_id)
        return [Ask(call, event.question)]

    def decide(self, event: Decided) -> list[Command]:
        """Start the call, or write the denial as its result."""
        if event.call_id not in self._asking:
            raise IllegalTransition(self.state, event, f": call {event.call_id} is not asked about")
        self._asking.discard(event.call_id)
        if event.allowed:
            call = self._open[event.call_id]
            if event.input is not None:
                call = attrs.evolve(call, input=event.input)
                self._open[event.call_id] = call
            return [StartTool(call)]
        call = self._take_call(event.call_id, event)
        append = Append((_synthetic(call, event.reason or "the call was refused"),))
        return [append] if self._open else [append, *self._next_turn()]

    def take_output(self, _: OutputFits) -> list[Command]:
        """Accept the output, and end the run unless there is new input."""
        return self._next_turn() if self._waiting else self._finish(StopReason.COMPLETED)

    def refuse_output(self, event: OutputMisfit) -> list[Command]:
        """Send the validation error to the model, and ask again while retries are left."""
        if self._end_on_misfit is not None:
            return self._finish(self._end_on_misfit)
        if not self.output_retries:
            return self._finish(StopReason.OUTPUT_INVALID)
        if self.iteration >= self.max_iterations:
            return self._finish(StopReason.MAX_ITERATIONS)
        self.output_retries -= 1
        return [Append((UserEntry(event.told),)), *self._next_turn()]

    def interrupt(self, event: Interrupted) -> list[Command]:
        """Close open calls, and end the run."""
        entries = [] if event.leave_open else self._close_open(event.why)
        append: list[Command] = [Append(tuple(entries))] if entries else []
        return [*append, *self._finish(event.stop_reason)]

    def exceed(self, event: BudgetExceeded) -> list[Command]:
        """Close open calls, and end the run with `budget:<limit>`."""
        what = f"budget:{event.what}"
        return self.interrupt(Interrupted(what, f"the run's budget is used up: {event.what}"))

    # Steps that actions share.

    def _next_turn(self) -> list[Command]:
        if self.iteration >= self.max_iterations:
            return self._finish(StopReason.MAX_ITERATIONS)
        entries = tuple(UserEntry(item.text, item.blocks) for item in self._waiting)
        self._waiting.clear()
        append: list[Command] = [Append(entries)] if entries else []
        return [*append, *self._call_model()]

    def _call_model(self) -> list[Command]:
        self.state = State.MODEL
        self.iteration += 1
        return [CallModel(self.iteration)]

    def _look_at(self, answer: ModelCompleted) -> list[Command]:
        self.state = State.OUTPUT
        self._end_on_misfit = None
        if answer.damaged_lines:
            # What is left of it may be valid and say something else.
            return self.refuse_output(OutputMisfit(_DAMAGED_OUTPUT))
        if answer.finish_reason == "length":
            # It may be whole all the same: endpoints err here. If not, it would be cut again.
            self._end_on_misfit = StopReason.LENGTH
        elif answer.done:
            self._end_on_misfit = StopReason.OUTPUT_INVALID
        return [CheckOutput(answer.text if answer.output is None else answer.output)]

    def _finish(self, stop_reason: str) -> list[Command]:
        self.state = State.DONE
        return [Finish(stop_reason)]

    def _take_call(self, call_id: str, event: TurnEvent) -> ToolUseBlock:
        call = self._open.pop(call_id, None)
        if call is None:
            raise IllegalTransition(self.state, event, f": call {call_id} is not open")
        self._asking.discard(call_id)
        return call

    def _close_open(self, why: str) -> list[Entry]:
        entries: list[Entry] = [_synthetic(call, why) for call in self._open.values()]
        self._open.clear()
        self._asking.clear()
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
    """One cell: what to do, the states it may lead to, and what it is about in a line."""

    action: Callable[[TurnMachine, TurnEvent], list[Command]]
    to: tuple[State, ...]
    about: str


_E = TypeVar("_E")
_Cell: TypeAlias = tuple[type, Transition]


def _on(
    event_type: type[_E], action: Callable[[TurnMachine, _E], list[Command]], *to: State
) -> _Cell:
    def act(machine: TurnMachine, event: TurnEvent) -> list[Command]:
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
            _on(Resumed, TurnMachine.resume, State.TOOLS),
            *_ENDINGS,
        )
    ),
    State.MODEL: dict(
        (
            _on(UserInput, TurnMachine.wait_for_boundary, State.MODEL),
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
            _on(DecisionNeeded, TurnMachine.ask, State.TOOLS),
            _on(Decided, TurnMachine.decide, State.TOOLS, State.MODEL, State.DONE),
            *_ENDINGS,
        )
    ),
    State.OUTPUT: dict(
        (
            _on(UserInput, TurnMachine.wait_for_boundary, State.OUTPUT),
            _on(OutputFits, TurnMachine.take_output, State.MODEL, State.DONE),
            _on(OutputMisfit, TurnMachine.refuse_output, State.MODEL, State.DONE),
            *_ENDINGS,
        )
    ),
    State.DONE: {},
}
