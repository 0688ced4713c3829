"""The schema of a `SqliteStore` file and its migrations.

`MIGRATIONS` contains the statements that upgrade each schema version to the next. A file's version
is SQLite's `user_version`. All pending steps run in one transaction. SQLite's `application_id`
identifies the files of this package, so another program's database is never written to.

A row in `commits` contains the records of one append, one line of JSON each, and the id of the
session's previous commit. Rows are only appended to the table, so a transaction writes only as many
pages as its records fill, however many sessions they belong to. A log is read by following the
links backwards. `labels` contains the metadata by which listings can filter.
"""

import sqlite3
from typing import Final

# "AgAc", stored in SQLite's `application_id` field.
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
    """The file is not a store that this version can use; the message says why."""


def migrate(connection: sqlite3.Connection) -> int:
    """Upgrade a file to the current schema, increment its epoch, and return the epoch.

    Raises:
        ForeignFile: The file belongs to another program or to a newer version. It is unchanged.
        sqlite3.Error: The file cannot be written.
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


def epoch_of(connection: sqlite3.Connection) -> int:
    """Return the epoch of a file that is open for reading.

    Raises:
        ForeignFile: The file belongs to another program or to another version.
        sqlite3.Error: The file cannot be read.
    """
    version = _version(connection)
    if version != len(MIGRATIONS):
        raise ForeignFile(
            f"the file has schema {version} and cannot be upgraded to {len(MIGRATIONS)}, because "
            "it cannot be written"
        )
    return int(connection.execute("SELECT epoch FROM store").fetchone()[0])


def _version(connection: sqlite3.Connection) -> int:
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if owner != APPLICATION_ID and (tables or owner or version):
        raise ForeignFile("the file is another program's database; choose another path")
    if version > len(MIGRATIONS):
        raise ForeignFile(
            f"the file was written by a newer version of agent_actors (schema {version}; this "
            f"version supports up to {len(MIGRATIONS)}); update the package"
        )
    return int(version)
