"""Whether the records of a session are valid.

Pure. The lines of the log are given, one for each record. Problems are found and nothing is
repaired. A call without a result, as a crash leaves one, is no problem: the fold closes it, and the
next run records that. An `UnreadableEvent` that keeps the place of a damaged record is none either.
"""

from collections.abc import Iterator, Sequence

from agent_actors.codec.events import loads_event
from agent_actors.domain.events import AnyEvent, Event, UnknownEvent, UnreadableEvent
from agent_actors.errors import EventError, MessageError
from agent_actors.sessions.state import SessionState


def faults_of(session_id: str, lines: Sequence[bytes]) -> Iterator[tuple[int, str]]:
    """What is wrong with the records of a session; nothing if they are valid.

    Args:
        session_id: The session.
        lines: Its records from the first on, a line of JSON each.

    Yields:
        The `seq` of a record, or 0 for the conversation, and what is wrong, as text.
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
            yield 0, f"the conversation: {error}"


def _faults_of_record(session_id: str, seq: int, record: AnyEvent, last_ts: float) -> Iterator[str]:
    if record.seq != seq:
        yield f"record {seq} says that it is {record.seq}; they are numbered from 1 on"
    if record.ts < last_ts and not isinstance(record, UnreadableEvent):
        yield f"record {seq} is older than the one before it"
    if isinstance(record, UnknownEvent):
        return
    if record.session_id != session_id:
        yield f"record {seq} is one of the session {record.session_id!r:.80}"
    if isinstance(record, Event) and not record.recorded:
        yield f"record {seq} ({record.type}) is shown only, and never recorded"
