"""Session logs as plain files, a directory a session: to read with an editor, `grep` and `tail`.

The work is done by `_jsonl_core.py`, in a thread of its own. It is the simple store: each append
opens its session's file, and a listing looks at every session.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

from agent_actors.kernel.interrupts import protect_loaded_modules
from agent_actors.stores._jsonl_core import JsonlCore, Repair
from agent_actors.stores.disk.threaded_store import (
    CLEANUP_PERIOD_DAYS,
    DiskOptions,
    DiskStore,
    Durability,
)

__all__ = ["JsonlStore", "Repair"]


class JsonlStore(DiskStore):
    """A `SessionStore` of `sessions/<id>/events.jsonl` and `meta.json` under a directory.

    An id whose characters no file name should have is spelled with escapes. A line without its end,
    as a crash may leave one, is cut when its session is next taken; `repairs` has what was cut, and
    the log `agent_actors.stores` a warning.

    Args:
        path: The directory; made if it is not there. What is made in it is for its owner only.
        durability: `sync`: every commit is on the disk before it is acknowledged. `batch`: within
            a second. `exit`: when the store is closed. All three outlive the process.
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
        self._repairs: list[Repair] = []
        core = JsonlCore(Path(path), sync=durability == "sync", on_repair=self._repairs.append)
        super().__init__(core, options, f"at {os.fspath(path)}")

    @property
    def repairs(self) -> tuple[Repair, ...]:
        """What was cut from logs since this object was made, the oldest first."""
        return tuple(self._repairs)


protect_loaded_modules()
