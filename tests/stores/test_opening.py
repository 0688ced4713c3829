"""The store for a path."""

import os
from pathlib import Path

import pytest

from agent_actors import open_runtime
from agent_actors.errors import ConfigError
from agent_actors.stores.jsonl import JsonlStore
from agent_actors.stores.memory import MemoryStore
from agent_actors.stores.opening import open_store
from agent_actors.stores.sqlite import SqliteStore


def test_path_type_selects_the_store(tmp_path: Path) -> None:
    assert isinstance(open_store(tmp_path / "new"), SqliteStore)
    assert isinstance(open_store(tmp_path), JsonlStore)
    assert isinstance(open_store(str(tmp_path / "new"), format="jsonl"), JsonlStore)
    assert not (tmp_path / "new").exists()


@pytest.mark.feature("ASDK-049")
async def test_a_period_of_0_persists_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path / "new", cleanup_period_days=0)
    assert isinstance(store, MemoryStore)
    async with open_runtime(store=store):
        pass
    assert not os.listdir(tmp_path)  # noqa: PTH208 - one call


def test_invalid_store_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'sqlite' or 'jsonl'; got 'xml'"):
        open_store(tmp_path, format="xml")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - wrong on purpose
    with pytest.raises(ConfigError, match="above 0"):
        SqliteStore(tmp_path / "new", cleanup_period_days=0)
    with pytest.raises(ConfigError, match="above 0"):
        open_store(tmp_path / "new", cleanup_period_days=-1)
    with pytest.raises(ConfigError, match="sync, batch, exit; got 'never'"):
        JsonlStore(tmp_path, durability="never")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - wrong on purpose
