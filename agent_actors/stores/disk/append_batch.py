"""Validates and encodes appends, and creates the errors for rejected ones.

Pure functions, shared by all stores, so that all stores reject the same appends with the same
messages.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final, cast

import attrs

from agent_actors.abc import LogAppend
from agent_actors.codec.events import check_line, encode_event, loads_events
from agent_actors.codec.json_values import to_json_object
from agent_actors.domain.events import AnyEvent, UnreadableEvent
from agent_actors.domain.json import JsonObject, JsonValue, copy_object
from agent_actors.domain.session import find_session_id_error
from agent_actors.errors import (
    InvalidEventError,
    SessionBusy,
    SessionError,
    SessionFenced,
    SessionStoreError,
)
from agent_actors.sessions.alignment import aligned, is_aligned

_LOG: Final = logging.getLogger(__name__)
# Exceptions that encoding an event, or reading it back, can raise for arbitrary field values.
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
    """A validated append with its events encoded as JSON.

    Attributes:
        append: The original append.
        lines: The JSON of the append's events, one line each.
        changes: Metadata keys to update; None to leave the metadata unchanged.
    """

    append: LogAppend
    lines: Sequence[bytes]
    changes: JsonObject | None


def prepared(append: LogAppend) -> Entry | SessionError:
    """Validate and encode an append; return an error if it is invalid."""
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
    """Return the JSON of an append's events, after checking that each line can be decoded.

    Raises:
        SessionStoreError: A line cannot be decoded; the message says which one and why.
    """
    lines = append.lines
    try:
        if lines is None:
            lines = tuple([encode_event(event) for event in append.events])
        for seq, line in enumerate(lines, append.expected_seq + 1):
            check_line(line, seq)
    except _UNREADABLE as error:
        # Providers, hooks and direct callers of a store may create events with arbitrary values.
        raise SessionStoreError(
            f"nothing was written, because a record could not be read back: {error}",
            session_id=append.session_id,
        ) from error
    return lines


def append_fault(append: LogAppend) -> str | None:
    """Return the reason why an append is invalid; None if it is valid."""
    if not append.events:
        return "an append must have at least one record; got none"
    lines = append.lines
    if lines is not None and (
        len(lines) != len(append.events) or any(b"\n" in line for line in lines)
    ):
        return "`lines` must contain one line of JSON per event, without line breaks"
    return None


def plain_metadata(metadata: Mapping[str, JsonValue], session_id: str) -> JsonObject:
    """Convert metadata to JSON values.

    Raises:
        SessionStoreError: A value is not a JSON value; the message says which one.
    """
    if all(map(_is_ascii, metadata)) and all(map(_is_plain, metadata.values())):
        return copy_object(metadata)
    try:
        return to_json_object(metadata)
    except TypeError as error:
        raise SessionStoreError(f"invalid metadata: {error}", session_id=session_id) from None


def _is_plain(value: object) -> bool:
    """Return whether a value is None, ASCII text or a list of it, as nearly all values are."""
    if type(value) is list:
        return all(map(_is_ascii, cast("list[object]", value)))
    return value is None or _is_ascii(value)


def _is_ascii(value: object) -> bool:
    return type(value) is str and value.isascii()  # other text may contain a lone surrogate


def placed(
    lines: Sequence[bytes], session_id: str, first_seq: int = 1, last_seq: int | None = None
) -> Sequence[bytes]:
    """Return a log's stored lines, one per record, damaged or not.

    Args:
        lines: The lines as they are stored.
        session_id: The session.
        first_seq: The `seq` of the first record.
        last_seq: The `seq` of the last record; None if unknown.

    Raises:
        SessionStoreError: Records are missing completely.
    """
    complete = last_seq is None or len(lines) == last_seq - first_seq + 1
    if complete and is_aligned(lines, first_seq):
        return lines
    found = aligned(session_id, lines, first_seq=first_seq, last_seq=last_seq)
    if found.lost is not None:
        raise lost_records(session_id, found.lost.seq, found.lost.seq + found.lost.lost - 1)
    return found.lines


def lost_records(session_id: str, first: int, last: int) -> SessionStoreError:
    """Return the error for records that are missing completely."""
    which = f"record {first} is" if first == last else f"records {first} to {last} are"
    return SessionStoreError(
        f"{which} missing from the log and cannot be recovered; `agent-actors sessions repair` or "
        "`runtime.sessions.repair` makes the rest of the session usable",
        session_id=session_id,
    )


def read_records(lines: Sequence[bytes], session_id: str, after_seq: int) -> list[AnyEvent]:
    """Decode each line to a record; the first has the `seq` after `after_seq`."""
    records = loads_events(lines, session_id, after_seq=after_seq)
    damaged = [record for record in records if isinstance(record, UnreadableEvent)]
    if damaged:
        _LOG.warning(
            "session %r: skipped %d records that cannot be read; the first is record %d: %s",
            session_id,
            len(damaged),
            damaged[0].seq,
            damaged[0].reason,
        )
    return records


def used_elsewhere(session_id: str) -> SessionBusy:
    """Return the error for a session that another instance of the store holds."""
    return SessionBusy(
        session_id=session_id,
        run_id="in another process",
        reason="only one process at a time can use a session; wait for its run to end",
    )


def stale(append: LogAppend, last_seq: int, fence: int) -> SessionFenced | None:
    """Return the error for an append that does not follow the end of the log; None if it does."""
    if append.fence < fence:
        return SessionFenced(
            f"the writer's fencing number {append.fence} is older than {fence}",
            session_id=append.session_id,
        )
    if append.expected_seq != last_seq:
        return SessionFenced(
            f"the writer expected the log to end at {append.expected_seq}, "
            f"but it ends at {last_seq}",
            session_id=append.session_id,
        )
    return None


def merged(metadata: Mapping[str, JsonValue], changes: JsonObject) -> JsonObject:
    """Return the metadata with the changes applied; a change to None removes the key."""
    return {key: value for key, value in {**metadata, **changes}.items() if value is not None}
