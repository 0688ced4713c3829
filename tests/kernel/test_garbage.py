"""The settings of the garbage collector."""

import gc
from collections.abc import Iterator

import pytest

from agent_actors import tune_gc
from agent_actors.errors import ConfigError


@pytest.fixture
def collector() -> Iterator[None]:
    threshold = gc.get_threshold()
    yield
    gc.set_threshold(*threshold)
    gc.unfreeze()


@pytest.mark.usefixtures("collector")
def test_tuned_collector_skips_old_objects() -> None:
    kept: list[object] = [[]]
    gc.set_threshold(700, 11, 12)
    tune_gc(40_000)
    assert gc.get_threshold() == (40_000, 11, 12)
    assert gc.get_freeze_count() > 0
    assert not any(one is kept for one in gc.get_objects())
    assert gc.isenabled()


@pytest.mark.usefixtures("collector")
def test_threshold_that_never_collects_is_refused() -> None:
    before = gc.get_threshold()
    with pytest.raises(ConfigError, match="young_objects must be at least 1; got 0"):
        tune_gc(0)
    assert gc.get_threshold() == before
