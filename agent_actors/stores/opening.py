"""The store for a path: what a program that is configured from outside asks for."""

import os
from pathlib import Path
from typing import Literal, TypeAlias

from agent_actors.abc import SessionStore
from agent_actors.errors import ConfigError
from agent_actors.kernel.interrupts import protect_loaded_modules
from agent_actors.stores.disk.threaded_store import CLEANUP_PERIOD_DAYS, Durability
from agent_actors.stores.jsonl import JsonlStore
from agent_actors.stores.memory import MemoryStore
from agent_actors.stores.sqlite import SqliteStore

StoreFormat: TypeAlias = Literal["sqlite", "jsonl"]


def open_store(
    path: str | os.PathLike[str],
    *,
    format: StoreFormat | None = None,  # noqa: A002 - what a user calls it
    durability: Durability = "batch",
    cleanup_period_days: float = CLEANUP_PERIOD_DAYS,
) -> SessionStore:
    """The store at a path, to hand to `open_runtime`, which opens it.

    Args:
        path: A file for SQLite, a directory for plain files.
        format: Which; None: plain files if the path is a directory, else SQLite.
        durability: What outlives a loss of power: `sync`, `batch` or `exit`.
        cleanup_period_days: Days that a session is kept after its last record. 0: nothing is
            persisted, and what is at the path is left alone.

    Raises:
        ConfigError: A value is none of these.
    """
    if cleanup_period_days == 0:
        return MemoryStore()
    if format is None:
        format = "jsonl" if Path(path).is_dir() else "sqlite"  # noqa: A001 - see above
    if format == "sqlite":
        return SqliteStore(path, durability=durability, cleanup_period_days=cleanup_period_days)
    if format == "jsonl":
        return JsonlStore(path, durability=durability, cleanup_period_days=cleanup_period_days)
    raise ConfigError(f"a store is of format 'sqlite' or 'jsonl'; got {format!r}")


protect_loaded_modules()
