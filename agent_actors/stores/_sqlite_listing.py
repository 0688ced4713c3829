"""Labels for the sessions in a `SqliteStore`, and listings that use them.

A label is a metadata key and the JSON of its value, stored with the session's creation time. The
sessions with a label are ordered by creation time. A listing that filters by one label can
therefore start reading a page at the right place, however many sessions exist. If a listing filters
by several keys, the rarest label selects the candidates, and each candidate is checked against its
metadata.
"""

import logging
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import Final, TypeAlias, cast

import msgspec

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.session import SessionInfo, SessionPage, find_session_id_error
from agent_actors.errors import SessionStoreError
from agent_actors.stores.disk.listing import Place, Query, encoded

# Maximum number of rows per INSERT and names per SELECT, which limits the number of different
# statements to prepare.
ROWS_AT_ONCE: Final = 64
# Maximum number of bytes of a value. For a longer JSON value, the label contains a digest.
_LABEL_BYTES: Final = 64
# The number up to which the sessions with a label are counted to find the rarest label.
_RARE: Final = 5_000
# For a page ordered by the last update, the sessions with a label are read and sorted if there are
# fewer than this number. Otherwise, all sessions in the store are read in order, which is faster.
_SORTED: Final = 1_000

# The columns that `info_of` reads.
INFO: Final = "session_id, created_at, updated_at, last_seq, metadata"

_LOG: Final = logging.getLogger(__name__)
_METADATA: Final = msgspec.json.Decoder(dict[str, object])
Row: TypeAlias = tuple[bytes, float, float, int, bytes]


def read_page(db: sqlite3.Connection, query: Query) -> SessionPage:
    """Return a page of sessions."""
    label, count = _rarest_label(db, query.where)
    if label is None or (query.order == "updated" and count >= _SORTED):
        rows = _in_order(db, query)
    elif query.order == "updated":
        return query.page_of_all(infos_of(_labelled(db, label, None)))
    else:
        rows = _labelled(db, label, query.after)
    return query.page(islice(filter(query.takes, infos_of(rows)), query.limit + 1))


def _in_order(db: sqlite3.Connection, query: Query) -> Iterator[Row]:
    column = f"{query.order}_at"
    begin = f"WHERE ({column}, session_id) < (?, ?)" if query.after else ""
    return db.execute(
        f"SELECT {INFO} FROM sessions {begin} ORDER BY {column} DESC, session_id DESC",
        query.after or (),
    )


def _labelled(db: sqlite3.Connection, label: tuple[str, str], after: Place | None) -> Iterator[Row]:
    begin = "AND (l.created_at, l.session_id) < (?, ?)" if after else ""
    return db.execute(
        "SELECT s.session_id, s.created_at, s.updated_at, s.last_seq, s.metadata "
        "FROM labels AS l CROSS JOIN sessions AS s ON s.session_id = l.session_id "
        f"WHERE l.key = ? AND l.value = ? {begin} "
        "ORDER BY l.created_at DESC, l.session_id DESC",
        (*label, *(after or ())),
    )


def _rarest_label(
    db: sqlite3.Connection, where: Mapping[str, bytes]
) -> tuple[tuple[str, str] | None, int]:
    rarest: tuple[str, str] | None = None
    fewest = _RARE + 1
    for key, value in where.items():
        if value == b"null":
            continue  # an absent key has no label
        (count,) = db.execute(
            "SELECT count(*) FROM (SELECT 1 FROM labels WHERE key = ? AND value = ? LIMIT ?)",
            (key, _label(value), _RARE),
        ).fetchone()
        if count < fewest:
            rarest, fewest = (key, _label(value)), count
    return rarest, fewest


def relabel(
    db: sqlite3.Connection,
    before: Mapping[str, JsonValue] | None,
    after: Mapping[str, JsonValue],
    place: Place,
) -> None:
    """Update the labels of a session after a change of its metadata.

    Args:
        db: The connection, within a transaction.
        before: The previous metadata; None if it was damaged, so that all labels are replaced.
        after: The metadata after the change.
        place: The creation time and the id of the session.
    """
    if before is None:
        db.execute("DELETE FROM labels WHERE session_id = ?", place[1:])
    old, new = _labels(before or {}), _labels(after)
    gone = [(key, value, *place) for key, value in old.items() if new.get(key) != value]
    if gone:
        db.executemany(
            "DELETE FROM labels WHERE key = ? AND value = ? AND created_at = ? AND session_id = ?",
            gone,
        )
    come: list[str | float] = []
    for key, value in new.items():
        if old.get(key) != value:
            come += (key, value, *place)
    insert(db, "INSERT INTO labels (key, value, created_at, session_id) VALUES", "", come, 4)


def insert(
    db: sqlite3.Connection,
    into: str,
    conflict: str,
    values: Sequence[int | float | str],
    columns: int,
) -> None:
    """Insert rows, given as one flat sequence of values, with as few statements as possible."""
    row = f"({', '.join('?' * columns)})"
    step = ROWS_AT_ONCE * columns
    for at in range(0, len(values), step):
        some = values[at : at + step]
        db.execute(f"{into} {', '.join([row] * (len(some) // columns))} {conflict}", some)


def infos_of(rows: Iterable[Row]) -> Iterator[SessionInfo]:
    """Decode rows of the `sessions` table, skipping rows that cannot be used."""
    for row in rows:
        if find_row_damage(row) is None:
            yield info_of(row)
        else:
            _LOG.warning("skipped a damaged row of the sessions table: %.200r", row)


def info_of(row: Row) -> SessionInfo:
    """Decode a usable row of the `sessions` table, omitting damaged metadata."""
    name, created_at, updated_at, last_seq, metadata = row
    return SessionInfo(name.decode(), created_at, updated_at, last_seq, metadata_of(metadata) or {})


def find_row_damage(row: Sequence[object]) -> str | None:
    """Return why a row of the `sessions` table cannot be used; None if it can be used.

    Args:
        row: A row with the columns of `INFO`. Any further columns must be numbers.
    """
    session_id, created_at, updated_at, last_seq, _, *numbers = row
    try:
        valid = isinstance(session_id, bytes) and find_session_id_error(session_id.decode()) is None
    except UnicodeDecodeError:
        valid = False
    if not valid:
        return "its session_id is damaged"
    if not isinstance(created_at, float) or not isinstance(updated_at, float):
        return "its times are damaged"
    if not all(isinstance(number, int) for number in (last_seq, *numbers)):
        return "its position in the log is damaged"
    return None


def damaged_row(session_id: str, damage: str) -> SessionStoreError:
    """Return the error for a row that cannot be used."""
    return SessionStoreError(
        f"its row in the table `sessions` cannot be used: {damage}; delete the session, or restore "
        "the row from a copy of the store",
        session_id=session_id,
    )


def metadata_of(text: object) -> JsonObject | None:
    """Decode the metadata column; return None if it is damaged."""
    try:
        return cast(JsonObject, _METADATA.decode(cast(bytes, text)))
    except (ValueError, RecursionError, TypeError):
        return None


def _labels(metadata: Mapping[str, JsonValue]) -> dict[str, str]:
    """Return a session's labels: one per key whose value is neither a list nor an object."""
    return {
        key: _label(encoded(value))
        for key, value in metadata.items()
        if not isinstance(value, list | tuple | dict)
    }


def _label(value: bytes) -> str:
    if len(value) <= _LABEL_BYTES:
        return value.decode()
    return f"#{sha256(value).hexdigest()}"
