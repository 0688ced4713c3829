"""Session logs in one SQLite file: the store to choose where sessions are to outlive the program.

One file with its write-ahead log, one writer a process, in a thread of its own; the work is done by
`_sqlite_core.py`, and the file is laid out by `_sqlite_schema.py`.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

from agent_actors.kernel.interrupts import protect_loaded_modules
from agent_actors.stores._sqlite_core import SqliteCore
from agent_actors.stores.disk.threaded_store import (
    CLEANUP_PERIOD_DAYS,
    DiskOptions,
    DiskStore,
    Durability,
)


class SqliteStore(DiskStore):
    """A `SessionStore` in one SQLite file.

    What an append has acknowledged is with the system: it outlives the process, killed or not.
    `durability` says what outlives a loss of power, too.

    Args:
        path: The file; made, with its directories, if it is not there, for its owner only. Beside
            it stand `<path>-wal`, `<path>-shm` and `<path>-lock`. It has to be on a local disk.
        durability: `sync`: every commit is on the disk before it is acknowledged. `batch`: within
            a second. `exit`: when the store is closed, or SQLite clears its log. Neither harms the
            file: what is lost is the last commits, whole.
        cleanup_period_days: How long a session is kept after its last record; above 0, and
            `math.inf` for ever. Old ones are deleted after opening, and once a day.
        wall_clock: Seconds since the epoch; for what is old.

    Raises:
        ConfigError: A value is none of these.
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
        super().__init__(core, options, f"at {os.fspath(path)}")


protect_loaded_modules()
