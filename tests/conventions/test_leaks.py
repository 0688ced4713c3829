"""The guard in tests/conftest.py detects each kind of resource that a test may leave behind."""

import contextlib
import socket
import subprocess
import sys
import threading
from functools import partial

import trio

from tests.conventions.leaks import Snapshot


def test_nothing_new_is_nothing_left() -> None:
    assert Snapshot.take().left_behind() == []


def test_open_socket_is_named_until_closed() -> None:
    before = Snapshot.take()
    with socket.socket():
        (left,) = before.left_behind(grace=0)
        assert left.startswith("an open socket:")
    assert before.left_behind() == []


def test_closed_socket_does_not_hide_another() -> None:
    with contextlib.ExitStack() as stack:
        closed = socket.socket()
        before = Snapshot.take()
        closed.close()
        stack.enter_context(socket.socket())
        assert len(before.left_behind(grace=0)) == 1


def test_running_thread_is_named_until_ended() -> None:
    before = Snapshot.take()
    go_on = threading.Event()
    thread = threading.Thread(target=go_on.wait, name="straggler")
    thread.start()
    try:
        assert before.left_behind(grace=0) == ["thread 'straggler'"]
    finally:
        go_on.set()
        thread.join()
    assert before.left_behind(grace=0) == []


def test_ending_resources_get_some_time() -> None:
    before = Snapshot.take()
    threading.Timer(0.01, int).start()
    assert before.left_behind() == []


def test_child_process_is_named_until_reaped() -> None:
    before = Snapshot.take()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert before.left_behind(grace=0) == [f"child process {child.pid}"]
        assert child.stdin is not None
        child.stdin.close()
        child.wait()
    assert before.left_behind() == []


async def test_thread_abandoned_in_trio_is_named() -> None:
    before = Snapshot.take()
    started, go_on = threading.Event(), threading.Event()

    def job() -> None:
        started.set()
        go_on.wait()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(trio.to_thread.run_sync, job, abandon_on_cancel=True))
        await trio.to_thread.run_sync(started.wait)
        nursery.cancel_scope.cancel()
    left = before.left_behind(grace=0)
    go_on.set()
    assert [what.split()[0] for what in left] == ["thread"]


def test_an_idle_worker_of_trio_may_stay() -> None:
    before = Snapshot.take()
    trio.run(partial(trio.to_thread.run_sync, int))
    assert before.left_behind() == []
