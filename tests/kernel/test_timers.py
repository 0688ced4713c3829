import math

import trio
import trio.testing

from agent_actors.kernel.timers import Alarms


class Bell:
    def __init__(self, alarms: Alarms, *others: "Bell") -> None:
        self.rung: list[float] = []
        self._alarms = alarms
        self._others = others

    def ring(self) -> None:
        self.rung.append(trio.current_time())
        for other in self._others:
            self._alarms.clear(other)


async def test_each_rings_at_its_time_and_once(autojump_clock: trio.testing.MockClock) -> None:
    alarms = Alarms()
    early, late = Bell(alarms), Bell(alarms)
    start = trio.current_time()
    alarms.set(late, start + 20)
    alarms.set(early, start + 10)
    await trio.sleep(100)
    assert (early.rung, late.rung) == ([start + 10], [start + 20])


async def test_a_later_setting_takes_the_place_of_an_earlier_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    alarms = Alarms()
    bell = Bell(alarms)
    start = trio.current_time()
    alarms.set(bell, start + 5)
    alarms.set(bell, start + 50)
    await trio.sleep(100)
    assert bell.rung == [start + 50]


async def test_what_is_cleared_or_never_due_does_not_ring(
    autojump_clock: trio.testing.MockClock,
) -> None:
    alarms = Alarms()
    cleared, never = Bell(alarms), Bell(alarms)
    alarms.set(cleared, trio.current_time() + 5)
    alarms.set(never, trio.current_time() + 5)
    alarms.set(never, math.inf)
    alarms.clear(cleared)
    alarms.clear(cleared)
    await trio.sleep(100)
    assert cleared.rung == never.rung == []


async def test_one_that_rings_may_silence_another_of_the_same_moment(
    autojump_clock: trio.testing.MockClock,
) -> None:
    alarms = Alarms()
    second = Bell(alarms)
    first = Bell(alarms, second)
    due = trio.current_time() + 5
    alarms.set(first, due)
    alarms.set(second, due)
    await trio.sleep(10)
    assert (first.rung, second.rung) == ([due], [])


async def test_the_task_ends_with_the_last_alarm_and_starts_again_with_the_next() -> None:
    alarms = Alarms()
    bell = Bell(alarms)
    before = trio.lowlevel.current_statistics().tasks_living
    for _ in range(3):
        alarms.set(bell, trio.current_time() + 1000)
        await trio.testing.wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().tasks_living == before + 1
        alarms.clear(bell)
        await trio.testing.wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().tasks_living == before


async def test_an_alarm_set_in_the_moment_of_the_end_rings_too(
    autojump_clock: trio.testing.MockClock,
) -> None:
    alarms = Alarms()
    first, second = Bell(alarms), Bell(alarms)
    alarms.set(first, trio.current_time() + 10)
    await trio.testing.wait_all_tasks_blocked()
    alarms.clear(first)
    due = trio.current_time() + 3
    alarms.set(second, due)
    await trio.sleep(50)
    assert (first.rung, second.rung) == ([], [due])
