"""Makes mock clocks wait for worker threads.

A clock that jumps on its own jumps when all tasks are blocked. A task that waits for a worker
thread is blocked too, so on a busy machine the clock would jump to a deadline before the thread has
run.
"""

from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, Final, cast

import pytest
import trio
from trio.lowlevel import current_clock
from trio.testing import MockClock

THREAD_THRESHOLD: Final = 0.5
"""Seconds that all tasks must be blocked before the clock jumps, while a worker thread runs.

A test whose thread blocks until a deadline has passed takes this much longer.
"""


@contextmanager
def waiting_for_threads() -> Generator[None]:
    """Raise the threshold of every mock clock while `trio.to_thread.run_sync` runs."""
    run_sync = cast("Callable[..., Coroutine[Any, Any, object]]", trio.to_thread.run_sync)
    running: dict[MockClock, tuple[int, float]] = {}

    async def waiting(*args: object, **options: object) -> object:
        clock = current_clock()
        if not isinstance(clock, MockClock) or clock.rate:
            return await run_sync(*args, **options)
        count, threshold = running.get(clock, (0, clock.autojump_threshold))
        running[clock] = (count + 1, threshold)
        clock.autojump_threshold = max(threshold, THREAD_THRESHOLD)
        try:
            return await run_sync(*args, **options)
        finally:
            count, threshold = running.pop(clock)
            if count > 1:
                running[clock] = (count - 1, threshold)
            else:
                clock.autojump_threshold = threshold

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trio.to_thread, "run_sync", waiting)
        yield
