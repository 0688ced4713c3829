"""A process that is killed at any moment loses no acknowledged record."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.stores.crash_helpers import STORES, kill_often
from tests.sweeps import DEEP

# A few with `make test`; the full number with `make test-deep`.
KILLS: Final = 500 if DEEP else 4


@pytest.mark.feature("OAS-112", "OAGS-070", "WICK-096")
@pytest.mark.parametrize("kind", STORES)
def test_kill_loses_nothing_acknowledged(
    kind: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    tally = kill_often(kind, KILLS, tmp_path, seed=os.getpid() if DEEP else 7)
    record_property("crash_table", tally.line(kind))
    assert tally.kills == KILLS
    assert tally.acknowledged > KILLS
    assert (tally.lost, tally.invalid) == (0, [])
