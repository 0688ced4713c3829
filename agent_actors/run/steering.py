"""Input for a run that is under way, and its outcome.

A run has an `Inbox`. A caller that steers is a run of its own: it waits in the session's queue and
leaves a `Note` in the inbox meanwhile. At a turn boundary the inbox passes its notes to the turn
machine. When they are committed, the inbox settles them, and their runs end: the input was taken.
If no boundary comes, a note is void, and its run, which kept its place in the queue, runs normally.
After a note is left everything is synchronous, so an input is taken once or run once, never both.
"""

from collections.abc import Callable
from functools import partial

import attrs
import trio

from agent_actors.actors.session_log import OpenSession
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.model import ModelCompleted
from agent_actors.domain.run import StopReason
from agent_actors.errors import SessionStoreError
from agent_actors.options.agent_options import AgentOptions
from agent_actors.protocol.turn import TurnMachine, UserInput
from agent_actors.run.hooks.run_hooks import HookBlock, RunHooks

# How a run ends whose input went into another: with a failure, or with a stop reason.
SteeringOutcome = tuple[Exception | None, str]


@attrs.define(eq=False)
class Note:
    """An input on its way into a run.

    Attributes:
        said: The input.
        settle: Told, once, that it was taken, or what kept it from that.
    """

    said: UserInput
    settle: Callable[[SteeringOutcome], None]


@attrs.define(eq=False)
class Inbox:
    """What is said to one run while it is under way.

    Args:
        agent: The agent that is spoken to.
        machine: Takes input at turn boundaries.
        hooked: The run's hooks, which look at every prompt; None: none.

    Attributes:
        session: The run's session, once it is open.
    """

    agent: AgentOptions
    _machine: TurnMachine
    _hooked: RunHooks | None
    session: OpenSession | None = attrs.field(default=None, init=False)
    _closed: bool = attrs.field(default=False, init=False)
    _waiting: list[Note] = attrs.field(factory=list[Note], init=False)
    # Handed to the machine, and not confirmed by the log.
    _heard: list[Note] = attrs.field(factory=list[Note], init=False)

    async def vet(self, said: UserInput) -> UserInput | HookBlock:
        """What the run's hooks make of an input; called by the task of whoever speaks.

        Raises:
            HookError: One of them failed.

        Cancellation: safe.
        """
        if self._hooked is None or self.session is None:
            return said
        return await self._hooked.submit(said, self.session.history())

    def leave(self, note: Note) -> None:
        """Leave a note; where the run takes no more, it just stays where it is."""
        if not self._closed:
            self._waiting.append(note)

    def withdraw(self, note: Note) -> bool:
        """Take a note back; False if it is being put on record, of which it will be told."""
        if note in self._waiting:
            self._waiting.remove(note)
        return note not in self._taken()

    def before_answer(self, answer: ModelCompleted) -> None:
        """The machine is about to be told of an answer: a boundary, if it calls no tool.

        After a refused response the run ends, so its inbox keeps the notes, which become void.
        """
        if not answer.refused and not any(
            isinstance(block, ToolUseBlock) for block in answer.blocks
        ):
            self._hand_over()

    def before_results(self, count: int) -> None:
        """The machine is about to be told of so many results: a boundary after the last."""
        if count == len(self._machine.open_calls):
            self._hand_over()

    def confirm(self) -> None:
        """Whatever the machine has taken is on record."""
        for note in self._taken():
            self._heard.remove(note)
            note.settle((None, StopReason.STEERED))

    def close(self) -> None:
        """The run takes nothing any more."""
        self._closed = True
        self._waiting.clear()

    def end(self, failure: Exception | None) -> None:
        """The run has ended; what it took and could not put on record has failed with it."""
        self.close()
        for note in self._taken():
            session_id = "" if self.session is None else self.session.session_id
            told = SessionStoreError(
                "the run that took this input could not record it; whether it is in the history "
                f"is not known: {failure}",
                session_id=session_id,
            )
            told.__cause__ = failure
            note.settle((told, ""))
        self._heard.clear()

    def _hand_over(self) -> None:
        while self._waiting:
            note = self._waiting.pop(0)
            self._heard.append(note)
            self._machine.feed(note.said)

    def _taken(self) -> list[Note]:
        # At a boundary the machine takes all that waits, or it is done and takes nothing more. By
        # identity: two who say the same are two.
        left = {id(said) for said in self._machine.pending_input}
        return [note for note in self._heard if id(note.said) not in left]


class Steering:
    """A run that waits in line, and whose input may go into the run that holds the session.

    Args:
        settled: Called, synchronously and once, when the outcome is known.
    """

    def __init__(self, settled: Callable[[SteeringOutcome], None]) -> None:
        self._settled = settled
        self._known = trio.Event()
        self._withdraw: Callable[[], bool] = _nothing_left

    async def speak(self, said: UserInput, inbox: Inbox | None) -> None:
        """Leave the input with the run that holds the session.

        Raises:
            HookError: A hook of that run failed.

        Cancellation: safe; nothing is left there.
        """
        if inbox is None:
            return
        vetted = await inbox.vet(said)
        if isinstance(vetted, HookBlock):
            self._settle((None, vetted.stop_reason))
            return
        note = Note(vetted, self._settle)
        inbox.leave(note)
        self._withdraw = partial(inbox.withdraw, note)

    async def withdraw(self) -> None:
        """Take the input back; or, if it is being put on record, wait for what becomes of it.

        Cancellation: none; it waits for one commit at most.
        """
        if not self._known.is_set() and not self._withdraw():
            with trio.CancelScope(shield=True):
                await self._known.wait()

    def _settle(self, outcome: SteeringOutcome) -> None:
        if not self._known.is_set():
            self._known.set()
            self._settled(outcome)


def _nothing_left() -> bool:
    return True
