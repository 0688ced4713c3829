"""Runs that end with open questions or external calls, and runs that go on from there.

What such a session takes next: answers and results, or, if its agent says so, a prompt that closes
what is open. Of the results of calls that were carried out elsewhere all is known before the run
takes them up, what `after_tool` hooks make of them too: until then nothing is on record, and the
session stays as it was. What follows is one commit.
"""

from collections.abc import Callable, Mapping
from functools import partial

import attrs

from agent_actors.actors.question_board import Answer, check_answer
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import EventBuilder, RunSuspended
from agent_actors.domain.json import copy_object
from agent_actors.domain.messages import Messages
from agent_actors.domain.run import Question, StopReason, ToolCallResult
from agent_actors.errors import CallClosed, QuestionClosed, SessionSuspended
from agent_actors.options.agent_options import AgentOptions
from agent_actors.protocol.turn import (
    Command,
    Entry,
    Interrupted,
    ResultEntry,
    Resumed,
    StartTool,
    State,
    ToolFinished,
    TurnMachine,
    UserInput,
)
from agent_actors.run.hooks.run_hooks import HookedRun
from agent_actors.run.spec import RunSpec
from agent_actors.run.tools.external_tools import result_of
from agent_actors.run.tools.toolset import Toolset
from agent_actors.sessions import SessionState
from agent_actors.sessions.records import NO_RESULT
from agent_actors.tools.output import ToolOutput

_DENIED = "the call was not permitted: nobody answered, and the user said something else"


@attrs.define(eq=False)
class RunSuspension:
    """What one run takes up of a run before it, and what it leaves open itself.

    Args:
        spec: The run.
        toolset: Its tools.
        hooked: Its hooks; None: none.
        wall_clock: Seconds since the epoch.

    Attributes:
        questions: Those that it ended with.
        external_calls: The calls that it left to its caller, in the model's order.
    """

    _spec: RunSpec
    _toolset: Toolset
    _hooked: HookedRun | None
    _wall_clock: Callable[[], float]
    questions: tuple[Question, ...] = attrs.field(default=(), init=False)
    external_calls: tuple[ToolUseBlock, ...] = attrs.field(default=(), init=False)
    _open: tuple[ToolUseBlock, ...] = attrs.field(default=(), init=False)

    @property
    def resumes(self) -> bool:
        """Whether the run goes on with what another one left open."""
        return self._spec.answers is not None

    def begin(self, state: SessionState) -> list[Entry]:
        """Take what the session waits with; or the results that close it, if a prompt may do that.

        Raises:
            SessionSuspended: It waits, and this run has nothing for it; or the other way round.
            QuestionClosed: There is no such question; the session is as it was.
            ConfigError: An answer is none, or none to its question; likewise.
            CallClosed: No such call waits for its result; likewise.
        """
        session_id = self._spec.node.session_id
        if self._spec.answers is None:
            return closed(state, self._spec.options, session_id)
        self._toolset.answers = answers_by_call(state, session_id, self._spec.answers)
        self._toolset.check_answers(state.open_calls)
        for call_id in self._spec.results:
            if call_id not in state.external:
                raise CallClosed(call_id, session_id=session_id)
        self._open = state.open_calls
        self._toolset.external.update(state.external)
        return []

    async def first(
        self, machine: TurnMachine, said: UserInput, messages: Messages
    ) -> list[Command]:
        """The first commands of the run, whether it goes on with open calls or with a prompt.

        Raises:
            HookError: A hook failed; nothing was taken, and the session waits as before.

        Cancellation: likewise.
        """
        if not self.resumes:
            return machine.feed(said)
        given = self._spec.results
        results = [
            await self._told(self._toolset.external[call.id], given[call.id], messages)
            for call in self._open
            if call.id in given
        ]
        # From here on nothing waits: what was given is recorded at once.
        commands: list[Command] = [
            command
            for command in machine.feed(Resumed(self._open))
            if not (isinstance(command, StartTool) and command.call.id in self._toolset.external)
        ]
        for result in results:
            commands += machine.feed(ToolFinished(result))
        if self._hooked is not None and self._hooked.blocked is not None:
            return [command for command in commands if not isinstance(command, StartTool)]
        return [*commands, *self.leave(machine)]

    def leave(self, machine: TurnMachine) -> list[Command]:
        """End the run if nothing but questions and external calls is open."""
        if machine.state is not State.TOOLS:
            return []
        questions, external = self._toolset.questions, self._toolset.external
        if not questions and not external:
            return []
        waiting = external.keys() | {question.tool_use_id for question in questions}
        if self._spec.face is not None:
            waiting |= self._spec.face.handed.keys()
        if any(call.id not in waiting for call in machine.open_calls):
            return []
        self.questions = questions
        self.external_calls = tuple(
            external[call.id] for call in machine.open_calls if call.id in external
        )
        return machine.feed(Interrupted(StopReason.AWAITING_APPROVAL, "", leave_open=True))

    def draft(self) -> EventBuilder:
        """What the run leaves open, as a record."""
        return partial(
            RunSuspended,
            question_ids=tuple(question.id for question in self.questions),
            external_calls={call.id: copy_object(call.input) for call in self.external_calls},
        )

    async def _told(
        self, call: ToolUseBlock, output: ToolOutput, messages: Messages
    ) -> ToolCallResult:
        if self._hooked is not None:
            output = await self._hooked.ring.after_tool(call, output, messages)
        return result_of(call, output, self._wall_clock())


def answers_by_call(
    state: SessionState, session_id: str, answers: Mapping[str, Answer]
) -> dict[str, Answer]:
    """The answers, by the calls that wait for them.

    Raises:
        QuestionClosed: There is no such question; the session is as it was.
        ConfigError: It is neither text nor a decision.
        SessionSuspended: It is not suspended: there is nothing to go on with.
    """
    if not state.is_suspended:
        raise SessionSuspended(
            "it waits for no answers and no results; start it with a prompt", session_id=session_id
        )
    by_call: dict[str, Answer] = {}
    for question_id, answer in answers.items():
        if question_id not in state.suspended:
            raise QuestionClosed(question_id)
        check_answer(answer)
        by_call[state.suspended[question_id]] = answer
    return by_call


def closed(state: SessionState, options: AgentOptions, session_id: str) -> list[Entry]:
    """The results of calls that a new prompt closes; none on a session that waits for nobody.

    Raises:
        SessionSuspended: It waits, and its agent does not let a prompt close them.
    """
    if not state.is_suspended:
        return []
    if options.on_suspended == "raise":
        wanted = [("answers to", state.suspended), ("the results of calls", state.external)]
        waits = " and for ".join(f"{what} {', '.join(ids)}" for what, ids in wanted if ids)
        raise SessionSuspended(
            f"its last run waits for {waits}; pass them to runtime.resume, or let a prompt close "
            "them by on_suspended='deny'",
            session_id=session_id,
        )
    return [
        ResultEntry(
            ToolCallResult(
                call.id,
                call.name,
                call.input,
                NO_RESULT if call.id in state.external else _DENIED,
                is_error=True,
            ),
            synthetic=True,
        )
        for call in state.open_calls
    ]
