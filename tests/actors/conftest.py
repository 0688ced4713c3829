"""A time limit for every test of this folder: a missing reply fails the test instead of blocking
it.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import pytest
import trio
from trio.testing import MockClock

# Seconds; only a failing test waits this long. A virtual clock jumps there once all tasks wait.
_LIMIT: Final = 20.0
_VIRTUAL_LIMIT: Final = 1e9


def run_bounded(
    test: Callable[[], Awaitable[None]],
    *,
    clock: trio.abc.Clock | None = None,
    instruments: Sequence[trio.abc.Instrument] = (),
) -> None:
    async def bounded() -> None:
        with trio.fail_after(_VIRTUAL_LIMIT if isinstance(clock, MockClock) else _LIMIT):
            await test()

    trio.run(bounded, clock=clock, instruments=instruments)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("trio"):
            item.add_marker(pytest.mark.trio(run=run_bounded), append=False)
