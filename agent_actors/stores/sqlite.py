"""Session logs in an SQLite file: the recommended store for sessions that outlive the program.

The store is a database file with a write-ahead log. Each process writes from a separate thread.
`_sqlite_core.py` does the work, and `_sqlite_schema.py` defines the layout of the file.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

from agent_actors.kernel.interrupts import protect_loaded_modules
from agent_actors.stores._sqlite_core import SqliteCore
from agent_actors.stores.disk.result_files import ResultFiles
from agent_actors.stores.disk.threaded_store import (
    CLEANUP_PERIOD_DAYS,
    DiskOptions,
    DiskStore,
    Durability,
)


class SqliteStore(DiskStore):
    """A `SessionStore` in one SQLite file.

    An acknowledged append has reached the operating system and survives the end of the process,
    even if the process is killed. `durability` determines which commits also survive a power
    failure.

    Args:
        path: The file, on a local disk. If it is missing, it is created with its directories, and
            only its owner can access it. The store also uses `<path>-wal`, `<path>-shm` and
            `<path>-lock`, and the directory `<path>-results` for the complete texts of truncated
            tool results, at most 512 MiB per session.
        durability: The time at which a commit is flushed to the disk, after which it survives a
            power failure: before it is acknowledged (`sync`), within one second (`batch`), or when
            the store is closed or SQLite checkpoints its log (`exit`). A power failure never
            corrupts the file. Only the last commits can be lost, each of them completely.
        cleanup_period_days: How many days a session is kept after its last record. Must be above 0;
            `math.inf` keeps sessions forever. Old sessions are deleted after the store is opened,
            and then once a day.
        wall_clock: A function that returns seconds since the epoch; used to compute the age of
            sessions.

    Raises:
        ConfigError: A value is invalid.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "batch",
        cleanup_period_days: float = CLEANUP_PERIOD_DAYS,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        options = DiskOptions(
            durability=durability,
            cleanup_period_days=cleanup_period_days,
            wall_clock=wall_clock,
        )
        core = SqliteCore(Path(path), sync=durability == "sync")
        results = ResultFiles(Path(f"{os.fspath(path)}-results"))
        super().__init__(core, options, f"at {os.fspath(path)}", results)


protect_loaded_modules()
