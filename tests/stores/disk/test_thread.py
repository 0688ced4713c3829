"""A store's thread: order, outcomes, cancellation, and postponed work."""

import logging
import threading
from functools import partial

import pytest
import trio
import trio.testing

from agent_actors.stores.disk.thread import StoreThread


async def test_jobs_run_in_order_in_thread() -> None:
    thread, done = StoreThread("t"), list[tuple[int, int]]()

    def note(number: int) -> None:
        done.append((number, threading.get_ident()))

    thread.start()
    async with trio.open_nursery() as nursery:
        for number in range(5):
            thread.post(partial(note, number))
            nursery.start_soon(thread.run, lambda: None)
    assert [number for number, _ in done] == list(range(5))
    assert {ident for _, ident in done} != {threading.get_ident()}
    assert len({ident for _, ident in done}) == 1
    thread.end()
    thread.end()


async def test_job_exception_reaches_its_caller() -> None:
    thread = StoreThread("t")
    thread.start()

    def fails() -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        await thread.run(fails)
    assert await thread.run(lambda: 7) == 7
    thread.end()


async def test_cancelled_job_runs_only_if_begun() -> None:
    thread, done = StoreThread("t"), list[str]()
    thread.start()
    entered, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        entered.set()
        go_on.wait(5)
        done.append("slow")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(thread.run, slow)
        await trio.to_thread.run_sync(entered.wait, 5)
        nursery.start_soon(thread.run, lambda: done.append("never"))
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert done == []
    go_on.set()
    await thread.run(lambda: done.append("after"))
    assert done == ["slow", "after"]
    thread.end()


async def test_a_cancelled_caller_asks_for_nothing() -> None:
    thread, done = StoreThread("t"), list[str]()
    thread.start()
    with trio.CancelScope() as scope:
        scope.cancel()
        await thread.run(lambda: done.append("never"))
    assert scope.cancelled_caught
    await thread.run(lambda: None)
    assert done == []
    thread.end()


async def test_unawaited_failing_job_keeps_thread(
    caplog: pytest.LogCaptureFixture,
) -> None:
    thread = StoreThread("t")
    thread.start()

    def fails() -> None:
        raise ValueError("a bug")

    with caplog.at_level(logging.ERROR, "agent_actors.stores"):
        thread.post(fails)
        assert await thread.run(lambda: 7) == 7
    assert "a bug" in caplog.text
    thread.end()


async def test_delayed_job_runs_once_on_time() -> None:
    now, done = [0.0], list[str]()
    thread = StoreThread("t", lambda: now[0])

    def later() -> None:
        done.append("later")

    def plan() -> None:
        thread.later(later, 10)
        thread.later(later, 20)

    thread.start()
    await thread.run(plan)
    await thread.run(lambda: None)
    assert done == []
    now[0] = 10.0
    await thread.run(lambda: None)
    await thread.run(lambda: None)
    assert done == ["later"]
    now[0] = 30.0
    await thread.run(lambda: thread.later(later, 1))
    await thread.run(thread.forget_later)
    now[0] = 40.0
    await thread.run(lambda: None)
    assert done == ["later"]
    thread.end()


async def test_idle_thread_wakes_for_due_job() -> None:
    thread, done = StoreThread("t"), threading.Event()
    thread.start()
    await thread.run(lambda: thread.later(done.set, 0.005))
    assert await trio.to_thread.run_sync(done.wait, 5)
    thread.end()


def test_late_job_notifies_no_ended_run() -> None:
    thread = StoreThread("t")
    entered, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def slow() -> None:
        entered.set()
        go_on.wait(5)

    async def leave() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(thread.run, slow)
            await trio.to_thread.run_sync(entered.wait, 5)
            nursery.cancel_scope.cancel()

    thread.start()
    trio.run(leave)
    go_on.set()
    thread.post(ended.set)
    assert ended.wait(5)
    thread.end()


async def test_restarted_thread_waits_for_predecessor() -> None:
    thread, done = StoreThread("t"), list[str]()
    go_on = threading.Event()

    def slow() -> None:
        go_on.wait(5)
        done.append("before")

    thread.start()
    thread.post(slow)
    thread.end()
    thread.start()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(thread.run, lambda: done.append("after"))
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert done == []
        go_on.set()
    thread.end()
    assert done == ["before", "after"]
