"""The mailbox: its capacity, its waiters and its statistics."""

from functools import partial

import pytest
import trio
from trio.testing import assert_no_checkpoints, wait_all_tasks_blocked

from agent_actors.kernel.mailbox import Mailbox
from tests.actors.helpers import Attempt


async def test_letters_keep_their_order() -> None:
    mailbox = Mailbox[int](3)
    for letter in range(3):
        await mailbox.put(letter)
    assert [await mailbox.get() for _ in range(3)] == [0, 1, 2]


async def test_put_and_take_need_no_checkpoint() -> None:
    mailbox = Mailbox[str](1)
    with assert_no_checkpoints():
        await mailbox.put("first")
        assert mailbox.get_nowait() == "first"
        mailbox.put_nowait("second")
        mailbox.statistics()


async def test_full_mailbox_blocks_senders_in_order(
    nursery: trio.Nursery,
) -> None:
    mailbox = Mailbox[str](1)
    await mailbox.put("first")
    with pytest.raises(trio.WouldBlock):
        mailbox.put_nowait("refused")
    second = Attempt(nursery, partial(mailbox.put, "second"))
    await wait_all_tasks_blocked()
    third = Attempt(nursery, partial(mailbox.put, "third"))
    await wait_all_tasks_blocked()
    assert (second.outcome, third.outcome) == ("waiting", "waiting")
    assert [await mailbox.get() for _ in range(3)] == ["first", "second", "third"]


async def test_a_cancelled_put_has_left_nothing(nursery: trio.Nursery) -> None:
    mailbox = Mailbox[str](1)
    await mailbox.put("first")
    waiting = Attempt(nursery, partial(mailbox.put, "withdrawn"))
    await wait_all_tasks_blocked()
    waiting.scope.cancel()
    await waiting.ended.wait()
    assert await mailbox.get() == "first"
    with pytest.raises(trio.WouldBlock):
        mailbox.get_nowait()


async def test_closed_mailbox_drains_then_ends() -> None:
    mailbox = Mailbox[str](2)
    mailbox.put_nowait("first")
    mailbox.put_nowait("second")
    mailbox.close()
    mailbox.close()
    with pytest.raises(trio.ClosedResourceError):
        await mailbox.put("late")
    assert [letter async for letter in mailbox] == ["first", "second"]
    with pytest.raises(trio.EndOfChannel):
        await mailbox.get()


async def test_abandon_discards_letters_and_wakes_senders(
    nursery: trio.Nursery,
) -> None:
    mailbox = Mailbox[str](1)
    mailbox.put_nowait("lost")
    sender = Attempt(nursery, partial(mailbox.put, "waiting"))
    await wait_all_tasks_blocked()
    mailbox.abandon()
    mailbox.abandon()
    await sender.ended.wait()
    assert isinstance(sender.error, trio.BrokenResourceError | trio.ClosedResourceError)
    assert mailbox.statistics().depth == 0


async def test_statistics_show_depth_peak_and_capacity(
    nursery: trio.Nursery,
) -> None:
    mailbox = Mailbox[int](4)
    assert mailbox.statistics().peak == 0
    for letter in range(3):
        mailbox.put_nowait(letter)
    mailbox.get_nowait()
    mailbox.get_nowait()
    mailbox.put_nowait(3)
    found = mailbox.statistics()
    assert (found.depth, found.peak, found.capacity) == (2, 3, 4)
    for letter in range(2):
        mailbox.put_nowait(letter)
    Attempt(nursery, partial(mailbox.put, 5))
    await wait_all_tasks_blocked()
    found = mailbox.statistics()
    assert (found.depth, found.peak) == (4, 4)
