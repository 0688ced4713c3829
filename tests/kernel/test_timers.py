import math

import trio
import trio.lowlevel
import trio.testing

from agent_actors.kernel.timers import Timers


class Bell:
    def __init__(self, alarms: Timers, *others: "Bell") -> None:
        self.rung: list[float] = []
        self._alarms = alarms
        self._others = others

    def ring(self) -> None:
        self.rung.append(trio.current_time())
        for other in self._others:
            self._alarms.clear(other)


async def test_timer_fires_once_at_its_time(autojump_clock: trio.testing.MockClock) -> None:
    alarms = Timers()
    early, late = Bell(alarms), Bell(alarms)
    start = trio.current_time()
    alarms.set(late, start + 20)
    alarms.set(early, start + 10)
    await trio.sleep(100)
    assert (early.rung, late.rung) == ([start + 10], [start + 20])


async def test_later_deadline_replaces_earlier_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    alarms = Timers()
    bell = Bell(alarms)
    start = trio.current_time()
    alarms.set(bell, start + 5)
    alarms.set(bell, start + 50)
    await trio.sleep(100)
    assert bell.rung == [start + 50]


async def test_cleared_timer_does_not_fire(
    autojump_clock: trio.testing.MockClock,
) -> None:
    alarms = Timers()
    cleared, never = Bell(alarms), Bell(alarms)
    alarms.set(cleared, trio.current_time() + 5)
    alarms.set(never, trio.current_time() + 5)
    alarms.set(never, math.inf)
    alarms.clear(cleared)
    alarms.clear(cleared)
    await trio.sleep(100)
    assert cleared.rung == never.rung == []


async def test_timer_may_clear_simultaneous_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    alarms = Timers()
    second = Bell(alarms)
    first = Bell(alarms, second)
    due = trio.current_time() + 5
    alarms.set(first, due)
    alarms.set(second, due)
    await trio.sleep(10)
    assert (first.rung, second.rung) == ([due], [])


async def test_one_task_serves_all_alarms(autojump_clock: trio.testing.MockClock) -> None:
    deadline = trio.lowlevel.current_statistics().seconds_to_next_deadline
    alarms = Timers()
    bell = Bell(alarms)
    before = trio.lowlevel.current_statistics().tasks_living
    for _ in range(3):
        alarms.set(bell, trio.current_time() + 1000)
        await trio.testing.wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().tasks_living == before + 1
        alarms.clear(bell)
    await trio.sleep(2000)
    # The task would keep a virtual clock running for ever.
    assert trio.lowlevel.current_statistics().seconds_to_next_deadline == deadline - 2000


async def test_task_of_empty_table_can_be_ended() -> None:
    alarms = Timers()
    bell = Bell(alarms)
    before = trio.lowlevel.current_statistics().tasks_living
    await alarms.stop_if_empty()
    alarms.set(bell, trio.current_time() + 1000)
    await alarms.stop_if_empty()
    assert trio.lowlevel.current_statistics().tasks_living == before + 1
    alarms.clear(bell)
    await alarms.stop_if_empty()
    assert trio.lowlevel.current_statistics().tasks_living == before


async def test_alarm_set_during_the_end_rings(autojump_clock: trio.testing.MockClock) -> None:
    alarms = Timers()
    bell = Bell(alarms)
    alarms.set(bell, trio.current_time() + 5)
    alarms.clear(bell)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(alarms.stop_if_empty)
        await trio.lowlevel.checkpoint()
        due = trio.current_time() + 7
        alarms.set(bell, due)
    await trio.sleep(10)
    assert bell.rung == [due]


def test_alarms_survive_their_trio_run() -> None:
    alarms = Timers()

    async def main() -> None:
        bell = Bell(alarms)
        alarms.set(bell, 5.0)
        await trio.sleep(10)
        assert bell.rung == [5.0]

    for _ in range(2):
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def test_timer_set_at_the_end_fires(
    autojump_clock: trio.testing.MockClock,
) -> None:
    alarms = Timers()
    first, second = Bell(alarms), Bell(alarms)
    alarms.set(first, trio.current_time() + 10)
    await trio.testing.wait_all_tasks_blocked()
    alarms.clear(first)
    due = trio.current_time() + 3
    alarms.set(second, due)
    await trio.sleep(50)
    assert (first.rung, second.rung) == ([], [due])
