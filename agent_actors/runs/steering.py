"""Steering: passes input to a run that is in progress.

Every run has an `Inbox`. A caller that sends steering input starts a separate run for it. That run
waits in the session's queue, and leaves a `Note` in the inbox of the run that holds the session. At
the next turn boundary, the inbox passes its notes to the turn machine. Once the notes are
committed, the inbox settles them, and the runs that left them end, because their input was taken.

If no turn boundary follows, the note is dropped. The run that left it has kept its place in the
queue, so it starts normally. All steps after leaving a note are synchronous, so an input is either
taken by the other run or used by its own run, but never both.
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
from agent_actors.runs.hooks.run_hooks import HookBlock, RunHooks

# The outcome of a run whose input another run took: an error, or otherwise a stop reason.
SteeringOutcome = tuple[Exception | None, str]


@attrs.define(eq=False)
class Note:
    """An input for a run that is in progress.

    Attributes:
        user_input: The input.
        settle: Called once with the outcome: whether the input was taken.
    """

    user_input: UserInput
    settle: Callable[[SteeringOutcome], None]


@attrs.define(eq=False)
class Inbox:
    """The steering input of one run.

    Args:
        agent: The agent of the run.
        machine: The turn machine, which takes input at turn boundaries.
        hooked: The run's hooks, which check every prompt; None if the run has no hooks.

    Attributes:
        session: The run's session; None until it is open.
    """

    agent: AgentOptions
    _machine: TurnMachine
    _hooked: RunHooks | None
    session: OpenSession | None = attrs.field(default=None, init=False)
    _closed: bool = attrs.field(default=False, init=False)
    _waiting: list[Note] = attrs.field(factory=list[Note], init=False)
    # The notes that were passed to the machine but are not yet committed to the log.
    _heard: list[Note] = attrs.field(factory=list[Note], init=False)

    async def vet(self, user_input: UserInput) -> UserInput | HookBlock:
        """Check an input with the run's hooks, in the task that sends the input.

        Returns:
            The input, as rewritten by the hooks, or the reason why a hook rejected it.

        Raises:
            HookError: A hook failed.

        Cancellation: safe.
        """
        if self._hooked is None or self.session is None:
            return user_input
        return await self._hooked.submit(user_input, self.session.history())

    def leave(self, note: Note) -> None:
        """Leave a note, unless the run takes no more input."""
        if not self._closed:
            self._waiting.append(note)

    def withdraw(self, note: Note) -> bool:
        """Withdraw a note; return False if it will be settled, as its input is being committed."""
        if note in self._waiting:
            self._waiting.remove(note)
        return note not in self._taken()

    def before_answer(self, answer: ModelCompleted) -> None:
        """Pass the notes to the machine before a response, if the response calls no tool.

        A response without tool calls is a turn boundary. If the model refused to respond, the run
        ends, so the notes stay in the inbox and are dropped.
        """
        if not answer.refused and not any(
            isinstance(block, ToolUseBlock) for block in answer.blocks
        ):
            self._hand_over()

    def before_results(self, count: int) -> None:
        """Pass the notes to the machine if the next `count` results complete the turn.

        The turn is complete, and a boundary is reached, when no other tool calls are open.
        """
        if count == len(self._machine.open_calls):
            self._hand_over()

    def confirm(self) -> None:
        """Settle the notes that the machine has taken, because their input is committed."""
        for note in self._taken():
            self._heard.remove(note)
            note.settle((None, StopReason.STEERED))

    def close(self) -> None:
        """Stop taking input, and drop the notes that are waiting."""
        self._closed = True
        self._waiting.clear()

    def end(self, failure: Exception | None) -> None:
        """Close the inbox at the end of the run; notes taken but not committed get an error.

        Args:
            failure: The error with which the run failed; None if the run did not fail.
        """
        self.close()
        for note in self._taken():
            session_id = "" if self.session is None else self.session.session_id
            error = SessionStoreError(
                "the run that took this input failed before it could confirm that the input was "
                f"recorded, so it is unknown whether it is in the history: {failure}",
                session_id=session_id,
            )
            error.__cause__ = failure
            note.settle((error, ""))
        self._heard.clear()

    def _hand_over(self) -> None:
        while self._waiting:
            note = self._waiting.pop(0)
            self._heard.append(note)
            self._machine.feed(note.user_input)

    def _taken(self) -> list[Note]:
        if not self._heard:
            return []
        # At a boundary, the machine takes all pending input, unless the machine is done and takes
        # no more. Inputs are compared by identity, since two equal inputs are separate notes.
        left = {id(user_input) for user_input in self._machine.pending_input}
        return [note for note in self._heard if id(note.user_input) not in left]


class Steering:
    """A run that waits in the queue while the run that holds the session may take its input.

    Args:
        settled: Called once, synchronously, when the outcome is known.
    """

    def __init__(self, settled: Callable[[SteeringOutcome], None]) -> None:
        self._settled = settled
        self._known = trio.Event()
        self._withdraw: Callable[[], bool] = _nothing_left

    async def speak(self, user_input: UserInput, inbox: Inbox | None) -> None:
        """Leave the input in the inbox of the run that holds the session.

        Args:
            user_input: The input.
            inbox: The inbox of that run; None if no run holds the session.

        Raises:
            HookError: A hook of that run failed.

        Cancellation: safe; no note is left in the inbox.
        """
        if inbox is None:
            return
        vetted = await inbox.vet(user_input)
        if isinstance(vetted, HookBlock):
            self._settle((None, vetted.stop_reason))
            return
        note = Note(vetted, self._settle)
        inbox.leave(note)
        self._withdraw = partial(inbox.withdraw, note)

    async def withdraw(self) -> None:
        """Withdraw the input; if the input is being committed, wait for the outcome.

        Cancellation: shielded; waits for one commit at most.
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
