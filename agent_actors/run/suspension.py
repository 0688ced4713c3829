"""What a suspended session accepts: answers and results, or a prompt that closes its calls. Pure.

The agent's `on_suspended` says whether a prompt may close the open calls.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from agent_actors.actors.question_board import Answer, check_answer
from agent_actors.domain.run import ToolCallResult
from agent_actors.errors import CallClosed, QuestionClosed, SessionSuspended
from agent_actors.options.agent_options import AgentOptions
from agent_actors.protocol.turn import Entry, ResultEntry
from agent_actors.sessions import SessionState
from agent_actors.sessions.records import NO_RESULT

_DENIED: Final = "the call was not permitted: nobody answered, and the user said something else"


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


def check_results(state: SessionState, session_id: str, call_ids: Iterable[str]) -> None:
    """Check that the session waits for the results of these calls.

    Raises:
        CallClosed: It does not wait for one of them; the session is unchanged.
    """
    for call_id in call_ids:
        if call_id not in state.external:
            raise CallClosed(call_id, session_id=session_id)


def close_suspended(state: SessionState, options: AgentOptions, session_id: str) -> list[Entry]:
    """Return the results of calls that a new prompt closes; none if it is not suspended.

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
