"""Fixtures: a workspace of each implementation with directories."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.toolbox.workspace.places import PLACES, OpenPlace, Place


@pytest.fixture(params=PLACES)
def open_place(request: pytest.FixtureRequest) -> OpenPlace:
    return PLACES[request.param]


@pytest.fixture
async def place(open_place: OpenPlace, tmp_path: Path) -> AsyncIterator[Place]:
    async with open_place(tmp_path) as opened:
        yield opened
