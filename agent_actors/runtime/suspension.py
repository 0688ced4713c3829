"""Runs that end with open questions, and runs that go on from there.

What such a session takes next: the answers, or, if its agent says so, a prompt that denies what was
asked. Nothing here waits.
"""

from collections.abc import Mapping

from agent_actors.domain.run import ToolCallResult
from agent_actors.errors import QuestionClosed, SessionSuspended
from agent_actors.protocol.turn import Entry, ResultEntry
from agent_actors.runtime.options import AgentOptions
from agent_actors.runtime.questions import Answer
from agent_actors.sessions import SessionState

_DENIED = "the call was not permitted: nobody answered, and the user said something else"


def answers_by_call(
    state: SessionState, session_id: str, answers: Mapping[str, Answer]
) -> dict[str, Answer]:
    """The answers, by the calls that wait for them.

    Raises:
        QuestionClosed: There is no such question; the session is as it was.
        SessionSuspended: It is not suspended: there is nothing to go on with.
    """
    if not state.suspended:
        raise SessionSuspended(
            "it waits for no answers; start it with a prompt", session_id=session_id
        )
    by_call: dict[str, Answer] = {}
    for question_id, answer in answers.items():
        if question_id not in state.suspended:
            raise QuestionClosed(question_id)
        by_call[state.suspended[question_id]] = answer
    return by_call


def denied(state: SessionState, options: AgentOptions, session_id: str) -> list[Entry]:
    """The results of calls that a new prompt denies; none on a session that waits for nobody.

    Raises:
        SessionSuspended: It waits, and its agent does not let a prompt deny.
    """
    if not state.suspended:
        return []
    if options.on_suspended == "raise":
        ids = ", ".join(state.suspended)
        raise SessionSuspended(
            f"its last run waits for answers to {ids}; pass them to runtime.resume, or let a "
            "prompt deny them by on_suspended='deny'",
            session_id=session_id,
        )
    return [
        ResultEntry(
            ToolCallResult(call.id, call.name, call.input, _DENIED, is_error=True), synthetic=True
        )
        for call in state.open_calls
    ]
