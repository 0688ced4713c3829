"""Appends as stores take them: checked, and in JSON; and what is told of those that are refused.

Pure, and the same for every store, so that all refuse the same things in the same words.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from agent_actors.abc import LogAppend
from agent_actors.codec.events import check_line, encode_event, loads_events
from agent_actors.codec.json_values import to_json_object
from agent_actors.domain.events import AnyEvent, UnreadableEvent
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.session import find_session_id_error
from agent_actors.errors import (
    InvalidEventError,
    SessionBusy,
    SessionError,
    SessionFenced,
    SessionStoreError,
)
from agent_actors.sessions.alignment import aligned, is_aligned

_LOG: Final = logging.getLogger("agent_actors.stores")
# What encoding an event and reading it back raise where the event holds anything at all.
_UNREADABLE: Final = (
    InvalidEventError,
    TypeError,
    KeyError,
    AttributeError,
    ValueError,
    OverflowError,
    RecursionError,
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
    try:
        lines = _checked_lines(append)
        changes = plain_metadata(append.metadata, session_id) if append.metadata else None
    except SessionStoreError as error:
        return error
    except InvalidEventError as error:
        return SessionStoreError(f"a record cannot be written: {error}", session_id=session_id)
    return Entry(append, lines, changes)


def _checked_lines(append: LogAppend) -> Sequence[bytes]:
    """The JSON of an append's events, of which all can be read back.

    Raises:
        SessionStoreError: One cannot; says which, and why.
    """
    lines = append.lines
    try:
        if lines is None:
            lines = tuple([encode_event(event) for event in append.events])
        for seq, line in enumerate(lines, append.expected_seq + 1):
            check_line(line, seq)
    except _UNREADABLE as error:
        # A provider, a hook or a store's caller of any kind may have built the event.
        raise SessionStoreError(
            f"nothing was written, since a record could not be read back: {error}",
            session_id=append.session_id,
        ) from error
    return lines


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


def placed(
    lines: Sequence[bytes], session_id: str, first_seq: int = 1, last_seq: int | None = None
) -> Sequence[bytes]:
    """The stored lines of a log with one for each record, damaged or not.

    Args:
        lines: The lines as they are stored.
        session_id: The session.
        first_seq: The `seq` of the first.
        last_seq: The `seq` of the last, if it is known.

    Raises:
        SessionStoreError: Records are missing without a trace.
    """
    complete = last_seq is None or len(lines) == last_seq - first_seq + 1
    if complete and is_aligned(lines, first_seq):
        return lines
    found = aligned(session_id, lines, first_seq=first_seq, last_seq=last_seq)
    if found.lost is not None:
        raise lost_records(session_id, found.lost.seq, found.lost.seq + found.lost.lost - 1)
    return found.lines


def lost_records(session_id: str, first: int, last: int) -> SessionStoreError:
    """What is raised where records are missing without a trace."""
    which = f"record {first} is" if first == last else f"records {first} to {last} are"
    return SessionStoreError(
        f"{which} missing from its log, and nothing tells what they said; `agent-actors sessions "
        "repair`, or `runtime.sessions.repair`, makes it usable without them",
        session_id=session_id,
    )


def read_records(lines: Sequence[bytes], session_id: str, after_seq: int) -> list[AnyEvent]:
    """The records of these lines, one each, which follow that `seq`."""
    records = loads_events(lines, session_id, after_seq=after_seq)
    damaged = [record for record in records if isinstance(record, UnreadableEvent)]
    if damaged:
        _LOG.warning(
            "session %r: %d of its records cannot be read and are left out; the first is record "
            "%d: %s",
            session_id,
            len(damaged),
            damaged[0].seq,
            damaged[0].reason,
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
