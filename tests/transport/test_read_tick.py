"""The pauses of a busy reactor, on simulated arrivals and on sockets with a virtual clock."""

import itertools
import math
import socket
from collections.abc import Callable, Iterator

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.transport.reactor import EpollReactor, set_read_tick, use_reactor
from agent_actors.transport.read_tick import CROWD, EAGER_LOOKS, READ_TICK, ReadTick

# Gaps between arrivals, in ticks: bursts, about a tick, and silences.
gaps = st.lists(
    st.sampled_from([0.0, 0.01, 0.3, 0.7, 0.99, 1.0, 1.5, 2.5, 40.0]), min_size=1, max_size=120
)


def delays(arrivals: list[float], tick: ReadTick, *, watched: int, work: float) -> list[float]:
    """Simulate a reactor; return the time that each arrival waits until a look finds it.

    The poller finds every arrival up to the current time. Each one takes `work` seconds to read.
    """
    now, at, pause, found = 0.0, 0, None, list[float]()
    while at < len(arrivals):
        now = max(now, arrivals[at]) if pause is None else now + pause
        began = now
        due = [one for one in arrivals[at:] if one <= began]
        found += [began - one for one in due]
        at += len(due)
        now += work * len(due)
        pause = tick.pause(began, now, found=len(due), watched=watched)
    return found


@given(gaps, st.integers(CROWD, 500), st.sampled_from([0.0, 1e-6, 1e-4]))
def test_tick_bounds_every_delay(steps: list[float], watched: int, work: float) -> None:
    arrivals = list(itertools.accumulate(step * READ_TICK for step in steps))
    found = delays(arrivals, ReadTick(), watched=watched, work=work)
    assert len(found) == len(arrivals)
    assert max(found) <= READ_TICK + work * len(arrivals) + 1e-9


@given(gaps, st.integers(CROWD, 500))
def test_first_data_after_silence_is_immediate(steps: list[float], watched: int) -> None:
    arrivals = list(itertools.accumulate(step * READ_TICK for step in steps))
    found = delays(arrivals, ReadTick(), watched=watched, work=0.0)
    silences = [math.inf, *(after - before for before, after in itertools.pairwise(arrivals))]
    for delay, silence in zip(found, silences, strict=True):
        if silence > 2 * READ_TICK:
            assert delay == 0


@given(gaps, st.integers(1, CROWD - 1))
def test_few_descriptors_are_never_delayed(steps: list[float], watched: int) -> None:
    arrivals = list(itertools.accumulate(step * READ_TICK for step in steps))
    assert set(delays(arrivals, ReadTick(), watched=watched, work=0.0)) == {0.0}


@given(gaps)
def test_tick_of_zero_never_delays(steps: list[float]) -> None:
    arrivals = list(itertools.accumulate(step * READ_TICK for step in steps))
    assert set(delays(arrivals, ReadTick(0), watched=500, work=0.0)) == {0.0}


def test_steady_load_shares_looks() -> None:
    looks = 0

    class Counting(ReadTick):
        __slots__ = ()

        def pause(self, began: float, ended: float, *, found: int, watched: int) -> float | None:
            nonlocal looks
            looks += 1
            return super().pause(began, ended, found=found, watched=watched)

    arrivals = [0.0002 * number for number in range(1000)]  # 100 streams of 50 deltas per second
    delays(arrivals, Counting(), watched=100, work=0.0)
    assert looks <= EAGER_LOOKS + 1000 / 10 + 2


def test_slow_look_is_not_followed_by_pause() -> None:
    tick = ReadTick()
    pauses = [
        tick.pause(at * 0.0001, at * 0.0001, found=5, watched=100) for at in range(EAGER_LOOKS + 1)
    ]
    assert pauses == [*[None] * EAGER_LOOKS, READ_TICK]
    assert tick.pause(1.0, 1.0 + 3 * READ_TICK, found=5, watched=100) == 0


class Reader:
    """Reads one end of a socket pair and records the times."""

    def __init__(self) -> None:
        self.sock, self.peer = socket.socketpair()
        self.sock.setblocking(False)
        self.times: list[float] = []

    def ready(self) -> None:
        self.sock.recv(10)
        self.times.append(trio.current_time())

    def shut(self) -> None:
        """Do nothing."""


@pytest.fixture
def crowd() -> Iterator[list[Reader]]:
    made = [Reader() for _ in range(CROWD)]
    yield made
    for one in made:
        one.sock.close()
        one.peer.close()


async def settle(clock: trio.testing.MockClock, done: Callable[[], bool], tick: float) -> None:
    """Move the clock by a tick at a time until the condition holds."""
    for _ in range(5):
        await trio.testing.wait_all_tasks_blocked(0.001)
        if done():
            return
        clock.jump(tick)
    raise AssertionError("the data was not read within five ticks")


async def test_busy_reactor_pauses_on_the_clock(
    crowd: list[Reader], mock_clock: trio.testing.MockClock
) -> None:
    reactor = EpollReactor(tick=0.5)
    for one in crowd:
        reactor.watch(one.sock.fileno(), one)
    first, second = crowd[0], crowd[1]
    # Without movement of the clock, the first looks are immediate.
    for count in range(EAGER_LOOKS + 1):
        first.peer.send(b"a")
        await trio.testing.wait_all_tasks_blocked(0.001)
        assert len(first.times) == count + 1
    # Now the reactor collects: data waits for the tick, and one look reads it all.
    for one in (first, second):
        one.peer.send(b"a")
    await trio.testing.wait_all_tasks_blocked(0.001)
    assert (len(first.times), len(second.times)) == (EAGER_LOOKS + 1, 0)
    await settle(mock_clock, lambda: len(second.times) == 1, 0.5)
    assert first.times[-1] == second.times[-1] == 0.5
    # A silence ends this, and the next data is read at once.
    mock_clock.jump(0.5)
    await trio.testing.wait_all_tasks_blocked(0.001)
    mock_clock.jump(10)
    second.peer.send(b"a")
    await trio.testing.wait_all_tasks_blocked(0.001)
    assert second.times[-1] == 11
    for one in crowd:
        reactor.unwatch(one.sock.fileno())
    await reactor.wait_done()


async def test_reactor_ends_during_pause(
    crowd: list[Reader], mock_clock: trio.testing.MockClock
) -> None:
    reactor = EpollReactor(tick=0.5)
    use_reactor(reactor)
    set_read_tick(7)
    for one in crowd:
        reactor.watch(one.sock.fileno(), one)
    for _ in range(EAGER_LOOKS + 1):
        crowd[0].peer.send(b"a")
        await trio.testing.wait_all_tasks_blocked(0.001)
    assert reactor.tick.collecting
    assert reactor.tick.seconds == 7
    for one in crowd:
        reactor.unwatch(one.sock.fileno())
    await reactor.wait_done()
    assert mock_clock.current_time() == 0
