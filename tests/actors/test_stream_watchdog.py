"""Deadlines of many streams in one sweeper task, under a virtual clock."""

import math
from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock, assert_no_checkpoints, wait_all_tasks_blocked

from agent_actors.actors.stream_watchdog import Sweeper, Watch
from agent_actors.domain.limits import Timeouts
from agent_actors.errors import DeadlineKind


class Streams:
    """A sweeper, and the number of its tasks."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.started = 0
        self.live = 0
        self._nursery = nursery
        self.sweeper = Sweeper(self._start)

    def _start(self, task: Callable[[], Awaitable[None]]) -> None:
        async def counted() -> None:
            self.started += 1
            self.live += 1
            try:
                await task()
            finally:
                self.live -= 1

        self._nursery.start_soon(counted)

    def watch(self, deadlines: Timeouts) -> Watch:
        return self.sweeper.watch(deadlines, trio.CancelScope())

    async def expiry(self, watch: Watch) -> tuple[DeadlineKind | None, float]:
        """Wait until the watch is cancelled; return the missed deadline and the time."""
        with watch.scope:
            await trio.sleep_forever()
        self.sweeper.unwatch(watch)
        return watch.expired, trio.current_time()


@pytest.fixture
def streams(nursery: trio.Nursery) -> Streams:
    return Streams(nursery)


DEADLINES = Timeouts(first_token=20, idle=5, total=100)


async def test_unstarted_stream_misses_first_token_deadline(
    streams: Streams, autojump_clock: MockClock
) -> None:
    watch = streams.watch(DEADLINES)
    assert await streams.expiry(watch) == ("first_token", 20)
    assert watch.seconds() == 20


async def test_silent_stream_misses_idle_deadline(
    streams: Streams, autojump_clock: MockClock
) -> None:
    watch = streams.watch(DEADLINES)
    for _ in range(4):
        await trio.sleep(4)
        with assert_no_checkpoints():
            watch.touch()
    assert await streams.expiry(watch) == ("idle", 21)
    assert watch.seconds() == 5


async def test_long_stream_misses_total_deadline(
    streams: Streams, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    watch = streams.watch(DEADLINES)

    async def keep_touching() -> None:
        while True:
            await trio.sleep(1)
            watch.touch()

    nursery.start_soon(keep_touching)
    assert await streams.expiry(watch) == ("total", 100)
    assert watch.seconds() == 100


async def test_pause_restarts_the_idle_deadline(
    streams: Streams, autojump_clock: MockClock
) -> None:
    watch = streams.watch(DEADLINES)
    watch.touch()
    watch.pause()
    await trio.sleep(50)
    assert watch.expired is None
    watch.resume()
    assert await streams.expiry(watch) == ("idle", 55)


async def test_total_deadline_is_never_paused(streams: Streams, autojump_clock: MockClock) -> None:
    watch = streams.watch(DEADLINES)
    watch.pause()
    assert await streams.expiry(watch) == ("total", 100)


@pytest.mark.parametrize("idle", [math.inf, 1_000.0])
async def test_first_token_deadline_survives_a_pause(
    streams: Streams, autojump_clock: MockClock, idle: float
) -> None:
    watch = streams.watch(Timeouts(first_token=10, idle=idle))
    await trio.sleep(5)
    watch.pause()
    await trio.sleep(8)
    watch.resume()
    assert await streams.expiry(watch) == ("first_token", 23)


async def test_idle_deadline_shorter_than_first_token_fires(
    streams: Streams, autojump_clock: MockClock
) -> None:
    watch = streams.watch(Timeouts(first_token=1_000, idle=3))
    await trio.sleep(400.5)
    watch.touch()
    assert await streams.expiry(watch) == ("idle", 403.5)


async def test_nearer_deadline_wakes_the_sweeper(
    streams: Streams, autojump_clock: MockClock
) -> None:
    slow = streams.watch(Timeouts(first_token=1_000, idle=1_000))
    await wait_all_tasks_blocked()
    fast = streams.watch(Timeouts(first_token=2, idle=2))
    assert await streams.expiry(fast) == ("first_token", 2)
    assert slow.expired is None
    assert await streams.expiry(slow) == ("first_token", 1_000)
    assert streams.started == 1


async def test_slow_ending_stream_does_not_spin_sweeper(
    streams: Streams, autojump_clock: MockClock
) -> None:
    late = streams.watch(Timeouts(first_token=1, idle=1))
    other = streams.watch(Timeouts(first_token=9, idle=9))
    await trio.sleep(5)
    assert late.expired == "first_token"
    assert await streams.expiry(other) == ("first_token", 9)
    streams.sweeper.unwatch(late)


async def test_one_task_sweeps_all_streams(streams: Streams, autojump_clock: MockClock) -> None:
    first = streams.watch(DEADLINES)
    await wait_all_tasks_blocked()
    second = streams.watch(DEADLINES)
    assert (streams.started, streams.live) == (1, 1)
    streams.sweeper.unwatch(first)
    streams.sweeper.unwatch(first)
    streams.sweeper.unwatch(second)
    await trio.sleep(10)
    third = streams.watch(DEADLINES)
    assert await streams.expiry(third) == ("first_token", 30)
    assert (streams.started, streams.live) == (1, 1)


async def test_idle_sweeper_has_no_deadline(streams: Streams, autojump_clock: MockClock) -> None:
    before = trio.lowlevel.current_statistics().seconds_to_next_deadline
    streams.sweeper.unwatch(streams.watch(DEADLINES))
    await trio.sleep(1_000)
    # The task would keep a virtual clock running for ever.
    assert trio.lowlevel.current_statistics().seconds_to_next_deadline == before - 1_000


async def test_stream_added_during_last_removal_is_swept(
    streams: Streams, autojump_clock: MockClock
) -> None:
    first = streams.watch(DEADLINES)
    await wait_all_tasks_blocked()
    streams.sweeper.unwatch(first)
    second = streams.watch(Timeouts(first_token=50, idle=50))
    assert await streams.expiry(second) == ("first_token", 50)


async def test_without_deadlines_no_task_sweeps(
    streams: Streams, autojump_clock: MockClock
) -> None:
    endless = Timeouts(first_token=math.inf, idle=math.inf)
    watch = streams.watch(endless)
    await wait_all_tasks_blocked()
    assert streams.started == 0
    timed = streams.watch(DEADLINES)
    assert await streams.expiry(timed) == ("first_token", 20)
    await trio.sleep(1_000)
    assert watch.expired is None
