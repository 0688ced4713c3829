"""The turn machine together with the fold: the history is valid after any events of a run."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agent_actors.domain.blocks import TextBlock, ToolUseBlock, ToolUseError
from agent_actors.domain.events import AnyEvent, AssistantMessage, EventScope, ToolResult
from agent_actors.domain.events import UserMessage as Said
from agent_actors.domain.model import ModelCompleted
from agent_actors.domain.run import ToolCallResult
from agent_actors.protocol.turn import (
    AnswerEntry,
    Append,
    CallEntry,
    CallModel,
    CheckOutput,
    Command,
    Compact,
    Entry,
    Finish,
    IllegalTransition,
    Interrupted,
    OutputInvalid,
    OutputValid,
    ResultEntry,
    StartTool,
    State,
    ToolFinished,
    TurnEvent,
    TurnMachine,
    UserEntry,
    UserInput,
)
from agent_actors.sessions import SessionState
from tests.sessions.test_state import check

SCOPE = EventScope("s", "r", "q")
MAX_ITERATIONS = 4


def record_of(entry: Entry) -> AnyEvent | None:
    match entry:
        case UserEntry(text=text):
            return Said(SCOPE, "id", 1.0, text)
        case AnswerEntry(answer=answer):
            return AssistantMessage(SCOPE, "id", 1.0, answer.blocks)
        case ResultEntry(result=result):
            return ToolResult(SCOPE, "id", 1.0, result.id, result.name, result.content)
        case CallEntry():
            return None


class Run(RuleBasedStateMachine):
    """A run in which the model, the tools and the caller act at random."""

    retries: int | None = None

    def __init__(self) -> None:
        super().__init__()
        self.machine = TurnMachine(MAX_ITERATIONS, output_retries=self.retries)
        self.state = SessionState()
        self.model_calls = 0
        self.calls = 0
        self.broken: set[str] = set()
        self.running: list[str] = []
        self.recorded: list[str] = []
        self.answered: list[str] = []
        self.ends = 0
        self.feed(UserInput("go"))

    def feed(self, event: TurnEvent) -> None:
        for command in self.machine.feed(event):
            self.carry_out(command)

    def carry_out(self, command: Command) -> None:
        match command:
            case Append(entries=entries):
                for entry in entries:
                    self.keep(entry)
            case StartTool(call=call):
                assert call.id not in self.broken, "a call that did not parse would run"
                self.running.append(call.id)
            case CallModel():
                self.model_calls += 1
            case Compact():
                raise AssertionError("no event asks for a compaction")
            case CheckOutput():
                assert self.machine.state is State.OUTPUT
            case Finish():
                self.ends += 1

    def keep(self, entry: Entry) -> None:
        if isinstance(entry, CallEntry):
            self.recorded.append(entry.call.id)
        if isinstance(entry, ResultEntry):
            self.answered.append(entry.result.id)
        record = record_of(entry)
        if record is not None:
            self.state.apply(record)

    @precondition(lambda self: self.machine.state is State.MODEL)
    @rule(
        text=st.sampled_from(["", "Hm."]),
        kinds=st.lists(st.booleans(), max_size=3),
        done=st.booleans(),
    )
    def model_answers(self, text: str, kinds: list[bool], done: bool) -> None:
        blocks: list[TextBlock | ToolUseBlock | ToolUseError] = [TextBlock(text)]
        for good in kinds:
            self.calls += 1
            call_id = f"c{self.calls}"
            if good:
                blocks.append(ToolUseBlock(call_id, "tool", {}))
            else:
                self.broken.add(call_id)
                blocks.append(ToolUseError("no", None, call_id))
        self.feed(ModelCompleted(tuple(blocks), done=done))

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def tool_ends(self, data: st.DataObject) -> None:
        call_id = data.draw(st.sampled_from(self.running))
        self.running.remove(call_id)
        self.feed(ToolFinished(ToolCallResult(call_id, "tool", {}, "fine")))

    @precondition(lambda self: self.machine.state is State.OUTPUT)
    @rule(fits=st.booleans())
    def answer_is_looked_at(self, fits: bool) -> None:
        self.feed(OutputValid() if fits else OutputInvalid("no"))

    @precondition(lambda self: self.machine.state not in (State.READY, State.DONE))
    @rule()
    def caller_steers(self) -> None:
        self.feed(UserInput("and?"))

    @precondition(lambda self: self.machine.state is not State.DONE and self.model_calls > 1)
    @rule()
    def run_is_interrupted(self) -> None:
        self.feed(Interrupted("interrupted", "stop"))
        self.running.clear()

    @precondition(lambda self: self.machine.state is State.DONE)
    @rule()
    def nothing_is_taken_after_the_end(self) -> None:
        with pytest.raises(IllegalTransition):
            self.machine.feed(UserInput("too late"))

    @invariant()
    def history_is_valid(self) -> None:
        check(self.state.history())

    @invariant()
    def bounds_hold(self) -> None:
        assert self.model_calls <= MAX_ITERATIONS
        assert len(set(self.answered)) == len(self.answered)
        assert set(self.answered) <= set(self.recorded)
        assert self.ends == (self.machine.state is State.DONE)
        if self.machine.state is State.DONE:
            assert sorted(self.answered) == sorted(self.recorded)
            assert self.machine.open_calls == ()


class RunWithOutput(Run):
    """A run whose last response must have some type."""

    retries: int | None = 2


TestRun = Run.TestCase
TestRun.settings = settings(stateful_step_count=25)
TestRunWithOutput = RunWithOutput.TestCase
TestRunWithOutput.settings = settings(stateful_step_count=25)
