"""Reads a session's log from the rows of a `SqliteStore`, and rewrites it in a repair.

A row contains the lines of one commit and the id of the session's previous commit. A log is read by
following these links back from the last commit. If rows are damaged, all rows of the session are
read one by one.
"""

import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

import attrs

from agent_actors.domain.session import Damage
from agent_actors.sessions.alignment import Alignment, aligned
from agent_actors.stores._sqlite_listing import damaged_row, insert
from agent_actors.stores.disk.file_names import directory_name
from agent_actors.stores.disk.safe_files import write_all

# The columns of a commit.
COMMIT: Final = "id, session, first_seq, previous, lines"
# Number of commits per read. A higher number would only make the returned value larger.
_READ_AT_ONCE: Final = 1_000
# Number of records in each row that a repair writes.
_WRITTEN_AT_ONCE: Final = 1_000
# A separator that cannot occur in JSON, but may occur in a damaged line.
_BETWEEN: Final = b"\x1e"
# Walks back from a commit and selects the lines of all commits as one value, and the commit to
# continue with (0 at the end).
_WALK_BACK: Final = """
    WITH RECURSIVE walk (first_seq, previous, lines) AS (
        SELECT first_seq, previous, lines FROM commits WHERE id = :commit
        UNION ALL
        SELECT c.first_seq, c.previous, c.lines
        FROM walk AS w JOIN commits AS c ON c.id = w.previous
        WHERE w.first_seq > :after_seq + 1
        LIMIT :most
    )
    SELECT CAST(coalesce(group_concat(lines, char(30)), '') AS BLOB),
        coalesce(iif(min(first_seq) > :after_seq + 1, min(previous), 0), 0),
        min(first_seq),
        count(*)
    FROM walk
"""
_COMMITS_OF: Final = """
    SELECT CAST(c.lines AS BLOB) FROM commits AS c JOIN sessions AS s ON c.session = s.number
    WHERE s.session_id = ? ORDER BY c.id
"""


def stored_lines(
    db: sqlite3.Connection, session_id: str, after_seq: int
) -> tuple[Sequence[bytes], int, int]:
    """Return the stored lines, and the `seq` that their first and last records should have.

    The lines begin with the commit that holds the record after `after_seq`. If the links between
    the rows are broken, the lines begin later.
    """
    last_seq, commit = db.execute(
        "SELECT last_seq, last_commit FROM sessions WHERE session_id = ?", (session_id,)
    ).fetchone() or (0, 0)
    if not isinstance(last_seq, int) or not isinstance(commit, int):
        raise damaged_row(session_id, "its position in the log is damaged")
    pieces: list[bytes] = []
    first = last_seq + 1
    while commit and after_seq < last_seq:
        found, commit, began = _walk_back(db, commit, after_seq)
        if began is None or not 0 < began < first:
            break  # the row is missing or damaged
        first = began
        pieces += found
    lines = [line for piece in reversed(pieces) for line in piece.split(b"\n")]
    return lines, first, last_seq


def _walk_back(
    db: sqlite3.Connection, commit: int, after_seq: int
) -> tuple[list[bytes], int, int | None]:
    """Return the lines of commits (last commit first), the next commit, and the first `seq`.

    Many commits are read as one value, unless the value is too large (for example, because of many
    images) or a damaged line contains the separator.
    """
    asked = {"commit": commit, "after_seq": after_seq}
    with suppress(sqlite3.DataError):
        text, following, began, count = db.execute(
            _WALK_BACK, {**asked, "most": _READ_AT_ONCE}
        ).fetchone()
        pieces = cast(bytes, text).split(_BETWEEN)
        if len(pieces) == count:
            return pieces, following, began
    text, following, began, _ = db.execute(_WALK_BACK, {**asked, "most": 1}).fetchone()
    return [text], following, began


def alignment_of(db: sqlite3.Connection, session_id: str) -> tuple[Alignment, bytes]:
    """Return the session's log in order and, if the log is damaged, its stored bytes."""
    lines, first, last_seq = stored_lines(db, session_id, 0)
    broken = last_seq > 0 and first > 1
    if not broken:
        found = aligned(session_id, lines, last_seq=last_seq, offsets=False)
        if not found.damage:
            return found, b""
    # Read row by row, which finds rows that no later row links to, and preserves damaged bytes.
    rows = db.execute(_COMMITS_OF, (session_id,)).fetchall()
    lines = [line for (text,) in rows for line in text.split(b"\n")]
    found = aligned(session_id, lines, last_seq=last_seq, offsets=False)
    if broken and not found.damage:
        damage = Damage("the links between the rows of the log are broken", 1)
        found = attrs.evolve(found, damage=(damage,))
    return found, b"\n".join(lines)


def back_up(store: Path, session_id: str, text: bytes) -> Path:
    """Write a log to a new file next to the store, flush the file and return its path."""
    name = f"{store.name}-{directory_name(session_id)}.damaged-"
    number = 1
    while (path := store.with_name(f"{name}{number}")).exists():
        number += 1
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        write_all(opened, text)
        os.fsync(opened)
    finally:
        os.close(opened)
    return path


def rewrite(db: sqlite3.Connection, session: int, commit: int, lines: Sequence[bytes]) -> int:
    """Replace a session's rows with new rows that contain these lines.

    Args:
        db: The connection, within a transaction.
        session: The session's number.
        commit: The highest commit number in use.
        lines: The lines of all records, starting with the first one.

    Returns:
        The number of the session's last commit.
    """
    db.execute("DELETE FROM commits WHERE session = ?", (session,))
    previous = 0
    for at in range(0, len(lines), _WRITTEN_AT_ONCE):
        commit += 1
        some = b"\n".join(lines[at : at + _WRITTEN_AT_ONCE]).decode()
        row: list[int | float | str] = [commit, session, at + 1, previous, some]
        insert(db, f"INSERT INTO commits ({COMMIT}) VALUES", "", row, 5)
        previous = commit
    return previous
