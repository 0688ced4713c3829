"""The schema of a SqliteStore's file, and how a file of an older version becomes one of this.

`MIGRATIONS` is the whole history: the statements that lead from each version to the next. A file's
version is SQLite's `user_version`; each step is one transaction. A file is ours by SQLite's
`application_id`, so that another program's database is never written to.

A commit's row holds the records of one append, a line of JSON each, and the row of the session's
commit before it: rows are only ever added at the end, so that a transaction writes as few pages as
its records fill, however many sessions they belong to. A session is read by walking back. `labels`
holds each key of a session's metadata, to list by.
"""

import sqlite3
from typing import Final

# "AgAc", in SQLite's field for what a file is.
APPLICATION_ID: Final = 0x41674163

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        "CREATE TABLE store (epoch INTEGER NOT NULL)",
        "INSERT INTO store VALUES (0)",
        """CREATE TABLE sessions (
            number INTEGER PRIMARY KEY,
            session_id TEXT NOT NULL UNIQUE,
            created_at REAL NOT NULL,
            updated_at REAL NOT NULL,
            last_seq INTEGER NOT NULL,
            last_commit INTEGER NOT NULL,
            metadata TEXT NOT NULL
        )""",
        "CREATE INDEX sessions_created ON sessions (created_at, session_id)",
        "CREATE INDEX sessions_updated ON sessions (updated_at, session_id)",
        """CREATE TABLE commits (
            id INTEGER PRIMARY KEY,
            session INTEGER NOT NULL,
            first_seq INTEGER NOT NULL,
            previous INTEGER NOT NULL,
            lines TEXT NOT NULL
        )""",
        """CREATE TABLE labels (
            key TEXT NOT NULL,
            value TEXT NOT NULL,
            created_at REAL NOT NULL,
            session_id TEXT NOT NULL,
            PRIMARY KEY (key, value, created_at, session_id)
        ) WITHOUT ROWID""",
    ),
)


class ForeignFile(Exception):
    """The file is no store of this version; says what it is."""


def migrate(connection: sqlite3.Connection) -> int:
    """Bring a file to this version, and begin an opening; return its epoch.

    Raises:
        ForeignFile: It is another program's, or a newer version's; nothing was changed.
        sqlite3.Error: It cannot be written.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection)
        for statements in MIGRATIONS[version:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("UPDATE store SET epoch = epoch + 1")
        epoch = int(connection.execute("SELECT epoch FROM store").fetchone()[0])
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise
    return epoch


def _version(connection: sqlite3.Connection) -> int:
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if owner != APPLICATION_ID and (tables or owner or version):
        raise ForeignFile("it is the database of another program; name another path")
    if version > len(MIGRATIONS):
        raise ForeignFile(
            f"it was written by a newer version of agent_actors (schema {version}, and this one "
            f"knows {len(MIGRATIONS)}); update the package"
        )
    return int(version)
