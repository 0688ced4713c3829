"""Selects a store by its path, for programs that are configured externally."""

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
    format: StoreFormat | None = None,  # noqa: A002 - the natural name of the option
    durability: Durability = "batch",
    cleanup_period_days: float = CLEANUP_PERIOD_DAYS,
) -> SessionStore:
    """Return the store for a path; pass it to `open_runtime`, which opens it.

    Args:
        path: A file for SQLite, a directory for plain files.
        format: The storage format. None selects plain files if the path is a directory, and
            SQLite otherwise.
        durability: When commits are flushed to the disk: `sync`, `batch` or `exit`;
            see `SqliteStore`.
        cleanup_period_days: How many days a session is kept after its last record. If 0, nothing is
            persisted, and existing files at the path are not touched.

    Raises:
        ConfigError: A value is invalid.
    """
    if cleanup_period_days == 0:
        return MemoryStore()
    if format is None:
        format = "jsonl" if Path(path).is_dir() else "sqlite"  # noqa: A001 - as above
    if format == "sqlite":
        return SqliteStore(path, durability=durability, cleanup_period_days=cleanup_period_days)
    if format == "jsonl":
        return JsonlStore(path, durability=durability, cleanup_period_days=cleanup_period_days)
    raise ConfigError(f"format must be 'sqlite' or 'jsonl'; got {format!r}")


protect_loaded_modules()
