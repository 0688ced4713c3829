"""Input to a running run waits for a boundary, then the machine takes it; its caller then learns
so.
"""

from collections.abc import Callable

import attrs
import pytest

from agent_actors import AgentOptions
from agent_actors.domain.blocks import AssistantBlock, TextBlock, ToolUseBlock, ToolUseError
from agent_actors.domain.model import ModelCompleted
from agent_actors.domain.run import ToolCallResult
from agent_actors.errors import SessionStoreError
from agent_actors.protocol.turn import (
    Append,
    State,
    ToolFinished,
    TurnMachine,
    UserEntry,
    UserInput,
)
from agent_actors.runs.steering import Inbox, Note, Steering, SteeringOutcome
from agent_actors.testing import ScriptedModel

AGENT = AgentOptions(model="m", provider=ScriptedModel([]))


@attrs.define(eq=False)
class Run:
    """A running machine, its inbox, and the outcomes of the inputs sent to it."""

    machine: TurnMachine
    inbox: Inbox
    fates: dict[str, SteeringOutcome] = attrs.field(factory=dict[str, SteeringOutcome])

    def leave(self, text: str) -> Note:
        note = Note(UserInput(text), self._settle(text))
        self.inbox.leave(note)
        return note

    def _settle(self, text: str) -> Callable[[SteeringOutcome], None]:
        def settle(fate: SteeringOutcome) -> None:
            assert text not in self.fates, "reported twice"
            self.fates[text] = fate

        return settle

    def answer(self, *blocks: AssistantBlock, done: bool = False) -> list[str]:
        """Feed a response to the machine, and return the inputs that the machine takes."""
        answer = ModelCompleted(blocks, done=done)
        self.inbox.before_answer(answer)
        commands = self.machine.feed(answer)
        entries = [entry for c in commands if isinstance(c, Append) for entry in c.entries]
        return [entry.text for entry in entries if isinstance(entry, UserEntry)]

    def results(self, *ids: str) -> list[str]:
        """Feed the results of calls that end together, and return the inputs that the machine
        takes.
        """
        self.inbox.before_results(len(ids))
        said: list[str] = []
        for call_id in ids:
            result = ToolCallResult(call_id, "t", {}, "fine")
            for command in self.machine.feed(ToolFinished(result)):
                if isinstance(command, Append):
                    said += [e.text for e in command.entries if isinstance(e, UserEntry)]
        return said


def made(max_iterations: int = 25) -> Run:
    machine = TurnMachine(max_iterations)
    machine.feed(UserInput("go"))
    return Run(machine, Inbox(AGENT, machine, None))


SAID = TextBlock("Well.")
USES = (ToolUseBlock("a", "t", {}), ToolUseBlock("b", "t", {}))
TAKEN: SteeringOutcome = (None, "steered")


def test_boundary_is_response_without_calls() -> None:
    run = made()
    run.leave("one")
    assert run.answer(*USES) == []
    assert run.results("b") == []
    run.leave("two")
    assert run.results("a") == ["one", "two"]
    run.leave("three")
    assert run.answer(SAID) == ["three"]
    assert run.machine.state is State.MODEL


def test_broken_calls_are_answered_at_boundary() -> None:
    run = made()
    run.leave("one")
    assert run.answer(ToolUseError("no", None, "x")) == ["one"]


def test_only_recorded_inputs_were_taken() -> None:
    run = made()
    run.leave("one")
    run.answer(SAID)
    run.leave("two")
    assert run.fates == {}
    run.inbox.confirm()
    run.inbox.confirm()
    assert run.fates == {"one": TAKEN}


@pytest.mark.parametrize("done", [False, True])
def test_ended_run_releases_its_inbox(done: bool) -> None:
    run = made(max_iterations=1)
    note = run.leave("one")
    assert run.answer(SAID, done=done) == []
    assert run.machine.state is State.DONE
    run.inbox.confirm()
    assert run.inbox.withdraw(note)
    run.inbox.end(None)
    assert run.fates == {}


def test_withdrawn_input_is_not_sent() -> None:
    run = made()
    notes = [run.leave(text) for text in ("one", "two")]
    assert run.inbox.withdraw(notes[0])
    assert run.inbox.withdraw(notes[0]), "the input is gone for good"
    assert run.answer(SAID) == ["two"]
    assert not run.inbox.withdraw(notes[1]), "it is being recorded"
    run.inbox.confirm()
    assert run.inbox.withdraw(notes[1]), "its outcome is known"
    assert run.fates == {"two": TAKEN}


def test_input_can_be_withdrawn_during_calls() -> None:
    run = made()
    early = run.leave("early")
    run.answer(*USES)
    late = run.leave("late")
    run.results("a")
    assert run.inbox.withdraw(early)
    assert run.inbox.withdraw(late)
    assert run.results("b") == []


def test_closed_inbox_forgets_waiting_input() -> None:
    run = made()
    run.leave("one")
    run.inbox.close()
    run.leave("two")
    assert run.answer(SAID) == []
    run.inbox.end(None)
    assert run.fates == {}


def test_equal_inputs_count_separately() -> None:
    run = made()
    first = Note(UserInput("same"), run._settle("first"))
    second = Note(UserInput("same"), run._settle("second"))
    run.inbox.leave(first)
    run.answer(SAID)
    run.inbox.leave(second)
    run.inbox.confirm()
    assert run.fates == {"first": TAKEN}
    assert run.inbox.withdraw(second)


def test_unrecorded_input_fails_with_run() -> None:
    run = made()
    run.leave("one")
    run.answer(SAID)
    cause = SessionStoreError("full", session_id="s")
    run.inbox.end(cause)
    failure, _ = run.fates["one"]
    assert isinstance(failure, SessionStoreError)
    assert failure.__cause__ is cause
    assert "full" in str(failure)
    run.inbox.end(cause)


async def test_run_without_input_waits() -> None:
    outcomes: list[SteeringOutcome] = []
    steering = Steering(outcomes.append)
    await steering.speak(UserInput("x"), None)
    await steering.withdraw()
    assert outcomes == []


async def test_outcome_is_settled_once() -> None:
    outcomes: list[SteeringOutcome] = []
    run, steering = made(), Steering(outcomes.append)
    await steering.speak(UserInput("x"), run.inbox)
    assert run.answer(SAID) == ["x"]
    run.inbox.confirm()
    steering._settle((None, "other"))
    await steering.withdraw()
    assert outcomes == [TAKEN]
