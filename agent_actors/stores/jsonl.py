"""Session logs as plain files, which can be read with an editor, `grep` or `tail`.

Each session has a directory. `_jsonl_core.py` does the work in a separate thread. `JsonlStore` is
the simpler of the on-disk stores: each append opens the session's file, and each listing reads
every session.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

from agent_actors.kernel.interrupts import protect_loaded_modules
from agent_actors.stores._jsonl_core import JsonlCore, Repair
from agent_actors.stores.disk.result_files import ResultFiles
from agent_actors.stores.disk.threaded_store import (
    CLEANUP_PERIOD_DAYS,
    DiskOptions,
    DiskStore,
    Durability,
)

__all__ = ["JsonlStore", "Repair"]


class JsonlStore(DiskStore):
    """A `SessionStore` with `sessions/<id>/events.jsonl` and `meta.json` files in a directory.

    Directory names are session ids; characters that are unsafe in file names are escaped. A crash
    can leave an incomplete line at the end of a log. This line is removed when a store next
    acquires the session. `repairs` lists the removals, and a logger below `agent_actors.stores`
    emits a warning. The directory `results` contains the complete texts of truncated tool results,
    at most 512 MiB per session.

    Args:
        path: The directory, which is created if it is missing. Only the owner can access files that
            the store creates.
        durability: The time at which a commit is flushed to the disk, after which it survives a
            power failure: before it is acknowledged (`sync`), within one second (`batch`), or when
            the store is closed (`exit`). With every value, commits survive the end of the process.
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
        self._repairs: list[Repair] = []
        core = JsonlCore(Path(path), sync=durability == "sync", on_repair=self._repairs.append)
        results = ResultFiles(Path(path) / "results")
        super().__init__(core, options, f"at {os.fspath(path)}", results)

    @property
    def repairs(self) -> tuple[Repair, ...]:
        """The removals of incomplete lines since this object was created, oldest first."""
        return tuple(self._repairs)


protect_loaded_modules()
