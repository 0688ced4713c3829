"""The ports wake each thread once, however much work is waiting."""

import asyncio
from functools import partial

import pytest
import trio

from agent_actors.asyncio.ports import LoopPort, TrioPort, WakeUps


class CountingLoop(asyncio.SelectorEventLoop):
    """A loop that counts how often another thread wakes it."""

    woken = 0

    def _write_to_self(self) -> None:
        self.woken += 1
        super()._write_to_self()  # type: ignore[misc] # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]


@pytest.fixture
def loop() -> CountingLoop:
    return CountingLoop()


async def test_one_wake_up_serves_all_waiting_steps(loop: CountingLoop) -> None:
    seen: list[int] = []
    wake_ups = WakeUps()
    port = LoopPort(loop, TrioPort(), wake_ups)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wake_ups.run)
        await trio.testing.wait_all_tasks_blocked()
        for number in range(100):
            port.post(partial(seen.append, number))
        assert loop.woken == 0, "the wake-up waits for the other tasks of this tick"
        await trio.testing.wait_all_tasks_blocked()
        assert loop.woken == 1
        loop.call_soon(loop.stop)
        loop.run_forever()
        nursery.cancel_scope.cancel()
    loop.close()
    assert seen == [*range(100)]


async def test_interrupt_loses_no_step(loop: CountingLoop) -> None:
    seen: list[str] = []
    port = LoopPort(loop, TrioPort(), WakeUps())

    def interrupted() -> None:
        seen.append("interrupted")
        if len(seen) == 1:
            raise KeyboardInterrupt

    port.post(interrupted)
    port.post(lambda: seen.append("next"))
    port.wake()
    with pytest.raises(KeyboardInterrupt):
        loop.run_forever()
    port.repeat_wake_up()
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    assert seen == ["interrupted", "interrupted", "next"]


async def test_trio_thread_is_woken_once() -> None:
    seen: list[int] = []
    port = TrioPort()
    port.post(lambda: seen.append(0))
    port.open(trio.lowlevel.current_trio_token())
    port.post(lambda: port.post(lambda: seen.append(2)))
    port.post(lambda: seen.append(1))
    await trio.testing.wait_all_tasks_blocked()
    assert seen == [0, 1, 2]
