"""Checks what a suspended session accepts: answers and results, or a prompt that closes its calls.

The agent's `on_suspended` option defines whether a prompt may close the open calls. The module does
no I/O.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from agent_actors.actors.question_board import Answer, check_answer
from agent_actors.domain.run import ToolCallResult
from agent_actors.errors import CallClosed, QuestionClosed, SessionSuspended, SessionUnknown
from agent_actors.options.agent_options import AgentOptions
from agent_actors.protocol.turn import Entry, ResultEntry
from agent_actors.sessions import SessionState
from agent_actors.sessions.records import NO_RESULT

_DENIED: Final = "the call was not permitted: no answer came, and the user sent another message"


def answers_by_call(
    state: SessionState, session_id: str, answers: Mapping[str, Answer]
) -> dict[str, Answer]:
    """Return the answers by the ids of the calls that wait for them.

    Raises:
        QuestionClosed: The session has no such question; the session is unchanged.
        ConfigError: An answer is neither text nor a decision.
        SessionUnknown: The session has no records.
        SessionSuspended: The session is not suspended, so there is no run to resume.
    """
    if not state.last_seq:
        raise SessionUnknown(session_id)
    if not state.is_suspended:
        raise SessionSuspended(
            "it waits for no answers and no results; start it with a prompt", session_id=session_id
        )
    by_call: dict[str, Answer] = {}
    for question_id, answer in answers.items():
        if question_id not in state.suspended:
            raise QuestionClosed(question_id)
        check_answer(answer)
        by_call[state.suspended[question_id].tool_use_id] = answer
    return by_call


def check_results(state: SessionState, session_id: str, call_ids: Iterable[str]) -> None:
    """Check that the session waits for the results of these calls.

    Raises:
        CallClosed: The session does not wait for one of the calls; the session is unchanged.
    """
    for call_id in call_ids:
        if call_id not in state.external:
            raise CallClosed(call_id, session_id=session_id)


def close_suspended(state: SessionState, options: AgentOptions, session_id: str) -> list[Entry]:
    """Return error results for the calls that a new prompt closes; empty if not suspended.

    Raises:
        SessionSuspended: The session is suspended, and its agent does not let a prompt close the
            open calls.
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
