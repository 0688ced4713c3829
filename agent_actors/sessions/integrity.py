"""Whether the records of a session are sound.

Pure: what is given are the lines as a store has them. It finds faults, and repairs nothing; what a
crash leaves (a call without a result) is no fault, since the fold closes it and the next run
records that.
"""

from collections.abc import Iterator, Sequence

from agent_actors.codec.events import loads_event
from agent_actors.domain.events import Event
from agent_actors.errors import EventError, MessageError
from agent_actors.sessions.state import SessionState


def faults_of(session_id: str, lines: Sequence[bytes]) -> Iterator[str]:
    """What is wrong with the records of a session, as text; nothing if they are sound.

    Args:
        session_id: The session.
        lines: Its records from the first on, a line of JSON each.
    """
    state = SessionState()
    for seq, line in enumerate(lines, 1):
        try:
            record = loads_event(line)
        except EventError as error:
            yield f"record {seq}: {error}"
            continue
        if record.seq != seq:
            yield f"record {seq} says that it is {record.seq}; they are numbered from 1 on"
        if record.ts < state.last_ts:
            yield f"record {seq} is older than the one before it"
        if isinstance(record, Event):
            if record.session_id != session_id:
                yield f"record {seq} is one of the session {record.session_id!r:.80}"
            if not record.recorded:
                yield f"record {seq} ({record.type}) is shown only, and never recorded"
        state.apply(record)
    for index, message in enumerate(state.history()):
        try:
            message.validate(index=index)
        except MessageError as error:
            yield f"the conversation: {error}"
