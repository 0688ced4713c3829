"""Appends as stores take them: checked, and in JSON; and what is told of those that are refused.

Pure, and the same for every store, so that all refuse the same things in the same words.
"""

from collections.abc import Mapping, Sequence

import attrs

from agent_actors.abc import LogAppend
from agent_actors.codec.events import encode_event, loads_events
from agent_actors.codec.json_values import to_json_object
from agent_actors.domain.events import AnyEvent
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.session import find_session_id_error
from agent_actors.errors import (
    EventError,
    SessionBusy,
    SessionError,
    SessionFenced,
    SessionStoreError,
)


@attrs.frozen
class Entry:
    """An append as a core takes it: checked, and in JSON.

    Attributes:
        append: What was asked.
        lines: The JSON of its events, one each.
        changes: What to note of the session; None: nothing.
    """

    append: LogAppend
    lines: Sequence[bytes]
    changes: JsonObject | None


def prepared(append: LogAppend) -> Entry | SessionError:
    """An append as a core takes it, or why there is none."""
    session_id = append.session_id
    if (fault := find_session_id_error(session_id)) is not None:
        return SessionStoreError(fault, session_id=str(session_id))
    if (fault := append_fault(append)) is not None:
        return SessionStoreError(fault, session_id=session_id)
    lines = append.lines
    if lines is None:
        lines = tuple([encode_event(event) for event in append.events])
    try:
        changes = plain_metadata(append.metadata, session_id) if append.metadata else None
    except SessionStoreError as error:
        return error
    return Entry(append, lines, changes)


def append_fault(append: LogAppend) -> str | None:
    """Why an append is none; None if it is one."""
    if not append.events:
        return "expected records to append, and got none"
    lines = append.lines
    if lines is not None and (
        len(lines) != len(append.events) or any(b"\n" in line for line in lines)
    ):
        return "expected a line of JSON for each event, without breaks"
    return None


def plain_metadata(metadata: Mapping[str, JsonValue], session_id: str) -> JsonObject:
    """Metadata as JSON values.

    Raises:
        SessionStoreError: A value is none; says which.
    """
    try:
        return to_json_object(metadata)
    except TypeError as error:
        raise SessionStoreError(f"its metadata: {error}", session_id=session_id) from None


def read_records(lines: Sequence[bytes], session_id: str, after_seq: int) -> list[AnyEvent]:
    """The records of these lines, which follow that `seq`.

    Raises:
        SessionStoreError: A line is no record, or not the next one.
    """
    try:
        records = loads_events(lines)
    except EventError as error:
        raise SessionStoreError(
            f"one of its records cannot be read: {error}", session_id=session_id
        ) from error
    for seq, record in enumerate(records, after_seq + 1):
        if record.seq != seq:
            raise SessionStoreError(
                f"its record {seq} says that it is {record.seq}; records are numbered from 1 "
                "without gaps",
                session_id=session_id,
            )
    return records


def used_elsewhere(session_id: str) -> SessionBusy:
    """What is told of a session that another opening of the store has."""
    return SessionBusy(
        session_id=session_id,
        run_id="in another process",
        reason="one process at a time has a session; wait for its run to end",
    )


def stale(append: LogAppend, last_seq: int, fence: int) -> SessionFenced | None:
    """Why an append does not follow the log's end; None if it does."""
    if append.fence < fence:
        return SessionFenced(
            f"the writer's fencing number {append.fence} is older than {fence}",
            session_id=append.session_id,
        )
    if append.expected_seq != last_seq:
        return SessionFenced(
            f"the writer expected the log to end at {append.expected_seq}, "
            f"and it ends at {last_seq}",
            session_id=append.session_id,
        )
    return None


def merged(metadata: Mapping[str, JsonValue], changes: JsonObject) -> JsonObject:
    """Metadata with keys noted, and those that are None forgotten."""
    return {key: value for key, value in {**metadata, **changes}.items() if value is not None}
