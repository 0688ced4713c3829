"""How the log of a session is read from the rows of a SqliteStore, and written anew by a repair.

A row holds the lines of one commit, and names the row of the session's commit before it. A log is
read by walking back from the last one. Where rows are damaged, all rows of the session are looked
at, one by one.
"""

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final, cast

import attrs

from agent_actors.sessions.alignment import Alignment, Damage, aligned
from agent_actors.stores._sqlite_listing import insert
from agent_actors.stores.disk.file_names import directory_name
from agent_actors.stores.disk.safe_files import write_all

# The columns of a commit.
COMMIT: Final = "id, session, first_seq, previous, lines"
# Commits that are read in one go: more would only make the value larger.
_READ_AT_ONCE: Final = 1_000
# Records in a row that a repair writes.
_WRITTEN_AT_ONCE: Final = 1_000
# JSON has no such character in it.
_BETWEEN: Final = b"\x1e"
# The lines of a session's commits from one back, as one value, and where to go on; 0 at an end.
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
        min(first_seq)
    FROM walk
"""
_COMMITS_OF: Final = """
    SELECT CAST(c.lines AS BLOB) FROM commits AS c JOIN sessions AS s ON c.session = s.number
    WHERE s.session_id = ? ORDER BY c.id
"""


def stored_lines(
    db: sqlite3.Connection, session_id: str, after_seq: int
) -> tuple[Sequence[bytes], int, int]:
    """The lines as they are stored, and the `seq` that the first and the last should have.

    They begin with the commit that holds the record after `after_seq`, or later if the rows do not
    lead there.
    """
    last_seq, commit = db.execute(
        "SELECT last_seq, last_commit FROM sessions WHERE session_id = ?", (session_id,)
    ).fetchone() or (0, 0)
    pieces: list[bytes] = []
    first = last_seq + 1
    while commit and after_seq < last_seq:
        found, commit, began = _walk_back(db, commit, after_seq)
        if began is None or not 0 < began < first:
            break  # its row is gone, or damaged
        first = began
        pieces += found.split(_BETWEEN)
    lines = [line for piece in reversed(pieces) for line in piece.split(b"\n")]
    return lines, first, last_seq


def _walk_back(
    db: sqlite3.Connection, commit: int, after_seq: int
) -> tuple[bytes, int, int | None]:
    try:
        row = db.execute(
            _WALK_BACK, {"commit": commit, "after_seq": after_seq, "most": _READ_AT_ONCE}
        ).fetchone()
    except sqlite3.DataError:  # more than a value may hold: images, by the hundred
        row = db.execute(
            _WALK_BACK, {"commit": commit, "after_seq": after_seq, "most": 1}
        ).fetchone()
    return cast("tuple[bytes, int, int | None]", row)


def alignment_of(db: sqlite3.Connection, session_id: str) -> tuple[Alignment, bytes]:
    """The session's log in order, and the log as it is stored if it is damaged."""
    lines, first, last_seq = stored_lines(db, session_id, 0)
    broken = last_seq > 0 and first > 1
    if not broken:
        found = aligned(session_id, lines, last_seq=last_seq, offsets=False)
        if not found.damage:
            return found, b""
    # Row by row, which finds those that no later row leads to, and damaged bytes as they are.
    rows = db.execute(_COMMITS_OF, (session_id,)).fetchall()
    lines = [line for (text,) in rows for line in text.split(b"\n")]
    found = aligned(session_id, lines, last_seq=last_seq, offsets=False)
    if broken and not found.damage:
        damage = Damage("the rows of the log do not lead from one to the next", 1)
        found = attrs.evolve(found, damage=(damage,))
    return found, b"\n".join(lines)


def back_up(store: Path, session_id: str, text: bytes) -> Path:
    """Write a log to a new file next to the store, through to the disk; the file."""
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
    """Put these lines in the place of a session's rows.

    Args:
        db: Within a transaction.
        session: The session's number.
        commit: The last number that a commit has.
        lines: The lines of the records, from the first on.

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
