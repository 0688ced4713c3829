"""Batches of appends from a mailbox."""

import pytest
import trio
from trio.testing import MockClock

from agent_actors.actors.session_log import GATHER, AppendBatches
from agent_actors.kernel.mailbox import Mailbox


async def test_waiting_appends_are_batched_in_order(autojump_clock: MockClock) -> None:
    mailbox: Mailbox[int] = Mailbox(100)
    batches = AppendBatches(mailbox)
    for number in range(3):
        mailbox.put_nowait(number)
    assert await batches.next() == [0, 1, 2]
    mailbox.put_nowait(3)
    assert await batches.next() == [3]
    assert trio.current_time() == 0.0
    mailbox.close()
    with pytest.raises(trio.EndOfChannel):
        await batches.next()


async def test_first_append_after_batch_waits_for_others(
    autojump_clock: MockClock,
) -> None:
    mailbox: Mailbox[int] = Mailbox(100)
    batches = AppendBatches(mailbox)
    for number in range(5):
        mailbox.put_nowait(number)
    await batches.next()
    found: list[list[int]] = []

    async def read() -> None:
        found.append(list(await batches.next()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        for number in range(3):
            mailbox.put_nowait(number)
            await trio.sleep(GATHER / 4)
    assert found == [[0, 1, 2]]
    assert trio.current_time() == GATHER
    mailbox.put_nowait(9)
    assert await batches.next() == [9]
    assert trio.current_time() == GATHER, "a batch of three makes the next one not wait"


async def test_complete_batch_does_not_wait(autojump_clock: MockClock) -> None:
    mailbox: Mailbox[int] = Mailbox(100)
    batches = AppendBatches(mailbox)
    for _ in range(3):
        for number in range(6):
            mailbox.put_nowait(number)
        assert len(await batches.next()) == 6
    assert trio.current_time() == 0.0
