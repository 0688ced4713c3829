"""When a stop takes effect, and which of several reasons is reported."""

import trio

from agent_actors import AgentOptions
from agent_actors.domain.run import CancelReason
from agent_actors.protocol.turn import TurnMachine, UserInput
from agent_actors.runs.cancellation import RunStop
from agent_actors.runs.steering import Inbox, Note
from agent_actors.testing import ScriptedModel


def made() -> tuple[RunStop, Inbox]:
    machine = TurnMachine(25)
    machine.feed(UserInput("go"))
    inbox = Inbox(AgentOptions(model="m", provider=ScriptedModel([])), machine, None)
    return RunStop(inbox), inbox


def takes_input(inbox: Inbox) -> bool:
    note = Note(UserInput("more"), lambda _: None)
    inbox.leave(note)
    return note in inbox._waiting


async def test_stop_waits_for_session_cancel_does_not() -> None:
    stop, inbox = made()
    assert takes_input(inbox)
    stop.stop(CancelReason.INTERRUPT, "")
    seen = [stop.scope.cancel_called]
    assert not takes_input(inbox)
    stop.opened()
    assert [*seen, stop.scope.cancel_called] == [False, True]
    other, _ = made()
    other.cancel("caller")
    assert other.scope.cancel_called


async def test_first_reason_wins_except_rollback() -> None:
    stop, _ = made()
    stop.opened()
    assert (stop.reason, stop.scope.cancel_called) == (None, False)
    stop.stop(CancelReason.INTERRUPT, "stop it")
    stop.stop(CancelReason.ROLLBACK, "no, undo it")
    stop.cancel("shutdown")
    assert stop.reason is CancelReason.INTERRUPT
    assert stop.explanation == "the run was stopped: stop it"
    assert stop.outcome("interrupted") == stop.outcome("completed") == "rolled_back"


async def test_missing_explanation_uses_the_reason() -> None:
    stop, _ = made()
    stop.stop(CancelReason.INTERRUPT, "")
    assert stop.explanation == "the run was stopped (interrupt)"
    assert stop.outcome("interrupted") == "interrupted"


async def test_a_stop_cancels_running_work() -> None:
    stop, _ = made()
    stop.opened()
    with stop.scope:
        stop.stop(CancelReason.INTERRUPT, "")
        await trio.sleep_forever()
    assert stop.scope.cancelled_caught
