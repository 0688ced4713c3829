"""Checks whether a suspended session accepts the given answers and results, or a new prompt.

A prompt closes the open calls, if the agent's `on_suspended` option allows it. This module does no
I/O.
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

_DENIED: Final = (
    "the call was not permitted: the user sent another message before the question was answered"
)


def answers_by_call(
    state: SessionState, session_id: str, answers: Mapping[str, Answer]
) -> dict[str, Answer]:
    """Return the answers by the ids of the calls that are waiting for them.

    Raises:
        QuestionClosed: The session has no such question. The session is unchanged.
        ConfigError: An answer is neither text nor a decision.
        SessionUnknown: The session has no records.
        SessionSuspended: The session is not suspended, so there is no run to resume.
    """
    if not state.last_seq:
        raise SessionUnknown(session_id)
    if not state.is_suspended:
        raise SessionSuspended(
            "it is not waiting for answers or results; continue it with a prompt",
            session_id=session_id,
        )
    by_call: dict[str, Answer] = {}
    for question_id, answer in answers.items():
        if question_id not in state.suspended:
            raise QuestionClosed(question_id)
        check_answer(answer)
        by_call[state.suspended[question_id].tool_use_id] = answer
    return by_call


def check_results(state: SessionState, session_id: str, call_ids: Iterable[str]) -> None:
    """Check that the session is waiting for the results of these calls.

    Raises:
        CallClosed: The session is not waiting for one of the calls. The session is unchanged.
    """
    for call_id in call_ids:
        if call_id not in state.external:
            raise CallClosed(call_id, session_id=session_id)


def close_suspended(state: SessionState, options: AgentOptions, session_id: str) -> list[Entry]:
    """Return error results for the calls that a new prompt closes; empty if none are suspended.

    Raises:
        SessionSuspended: The session is suspended, and the agent's options do not let a prompt
            close the open calls.
    """
    if not state.is_suspended:
        return []
    if options.on_suspended == "raise":
        missing = [("answers to", state.suspended), ("the results of calls", state.external)]
        waits = " and for ".join(f"{what} {', '.join(ids)}" for what, ids in missing if ids)
        raise SessionSuspended(
            f"its last run is waiting for {waits}; pass them to runtime.resume(), or set "
            "on_suspended='deny' so that a prompt closes the open calls",
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
