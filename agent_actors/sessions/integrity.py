"""Validation of a session's records.

Pure. The input is the log, with one line per record. Problems are reported but not repaired. A tool
call without a result, which a crash can cause, is not a problem: `SessionState` closes the call,
and the next run records the closing result. An `UnreadableEvent` in place of a damaged record is
not a problem either.
"""

from collections.abc import Iterator, Sequence

from agent_actors.codec.events import loads_event
from agent_actors.domain.events import AnyEvent, Event, UnknownEvent, UnreadableEvent
from agent_actors.errors import EventError, MessageError
from agent_actors.sessions.state import SessionState


def faults_of(session_id: str, lines: Sequence[bytes]) -> Iterator[tuple[int, str]]:
    """Yield the validation errors in a session's records; none if the records are valid.

    Args:
        session_id: The session.
        lines: All of the session's records in order, each as one line of JSON.

    Yields:
        The `seq` of the record, or 0 if the problem concerns the conversation; and a description.
    """
    state = SessionState()
    for seq, line in enumerate(lines, 1):
        try:
            record = loads_event(line)
        except EventError as error:
            yield seq, f"record {seq}: {error}"
            continue
        for fault in _faults_of_record(session_id, seq, record, state.last_ts):
            yield seq, fault
        state.apply(record)
    for index, message in enumerate(state.history()):
        try:
            message.validate(index=index)
        except MessageError as error:
            yield 0, f"the conversation is invalid: {error}"


def _faults_of_record(session_id: str, seq: int, record: AnyEvent, last_ts: float) -> Iterator[str]:
    if record.seq != seq:
        yield f"record {seq} has the number {record.seq}; expected {seq}"
    if record.ts < last_ts and not isinstance(record, UnreadableEvent):
        yield f"record {seq} is older than the previous record"
    if isinstance(record, UnknownEvent):
        return
    if record.session_id != session_id:
        yield f"record {seq} belongs to session {record.session_id!r:.80}"
    if isinstance(record, Event) and not record.recorded:
        yield f"record {seq} ({record.type}) is only streamed and must not be recorded"
