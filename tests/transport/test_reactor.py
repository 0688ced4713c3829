"""The reactors over socket pairs."""

import os
import socket
import sys
from collections.abc import Callable, Iterator

import pytest
import trio
import trio.testing

from agent_actors.transport import reactor as room
from agent_actors.transport.reactor import (
    EpollReactor,
    Reactor,
    WaitReactor,
    current_reactor,
    use_reactor,
)
from tests.transport.asking import descriptors

Make = Callable[[], Reactor]


class End:
    """One end of a socket pair. A test sets `then`, which is called after each read."""

    def __init__(self, pair: tuple[socket.socket, socket.socket]) -> None:
        self.sock, self.peer = pair
        self.sock.setblocking(False)
        self.reads: list[bytes] = []
        self.shuts = 0
        self.then: Callable[[], None] = lambda: None

    @property
    def number(self) -> int:
        return self.sock.fileno()

    def ready(self) -> None:
        try:
            self.reads.append(self.sock.recv(10))
        except BlockingIOError:  # the event was meant for an earlier socket with this number
            return
        self.then()

    def shut(self) -> None:
        self.shuts += 1


@pytest.fixture
def pairs() -> Iterator[Callable[[], End]]:
    made: list[End] = []

    def make() -> End:
        made.append(End(socket.socketpair()))
        return made[-1]

    yield make
    for end in made:
        end.sock.close()
        end.peer.close()


async def settled(reactor: Reactor) -> None:
    await trio.testing.wait_all_tasks_blocked(0.001)
    await reactor.wait_done()


def tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


@pytest.fixture(params=[EpollReactor, WaitReactor])
def make(request: pytest.FixtureRequest) -> Make:
    found: Make = request.param
    return found


async def test_readable_descriptor_calls_its_watcher(make: Make, pairs: Callable[[], End]) -> None:
    reactor, end = make(), pairs()
    reactor.watch(end.number, end)
    end.peer.send(b"a")
    await trio.testing.wait_all_tasks_blocked(0.001)
    end.peer.send(b"b")
    await trio.testing.wait_all_tasks_blocked(0.001)
    assert end.reads == [b"a", b"b"]
    reactor.unwatch(end.number)
    end.peer.send(b"c")
    await settled(reactor)
    assert end.reads == [b"a", b"b"]


async def test_unwatching_an_unwatched_descriptor_is_harmless(make: Make) -> None:
    reactor = make()
    reactor.unwatch(0)
    await reactor.wait_done()


async def test_idle_reactor_stops_and_restarts(make: Make, pairs: Callable[[], End]) -> None:
    reactor, end = make(), pairs()
    before, held = tasks(), descriptors()
    for _ in range(3):
        reactor.watch(end.number, end)
        await trio.testing.wait_all_tasks_blocked()
        assert tasks() == before + 1
        reactor.unwatch(end.number)
        await reactor.wait_done()
        assert (tasks(), descriptors()) == (before, held)


async def test_watch_during_stop_is_kept(make: Make, pairs: Callable[[], End]) -> None:
    reactor, end, other = make(), pairs(), pairs()
    reactor.watch(end.number, end)
    await trio.testing.wait_all_tasks_blocked()
    reactor.unwatch(end.number)
    reactor.watch(other.number, other)
    await reactor.wait_done()
    other.peer.send(b"a")
    await trio.testing.wait_all_tasks_blocked(0.001)
    assert other.reads == [b"a"]
    reactor.unwatch(other.number)
    await settled(reactor)


async def test_immediate_resume_keeps_watching(make: Make, pairs: Callable[[], End]) -> None:
    reactor, end = make(), pairs()

    def again() -> None:
        reactor.unwatch(end.number)
        reactor.watch(end.number, end)

    end.then = again
    reactor.watch(end.number, end)
    for expected in ([b"a"], [b"a", b"a"]):
        end.peer.send(b"a")
        await trio.testing.wait_all_tasks_blocked(0.001)
        assert end.reads == expected
    reactor.unwatch(end.number)
    await settled(reactor)


async def test_unwatched_descriptor_is_not_called(make: Make, pairs: Callable[[], End]) -> None:
    reactor, one, other = make(), pairs(), pairs()

    def leave() -> None:
        for end in (one, other):
            reactor.unwatch(end.number)

    one.then = other.then = leave
    for end in (one, other):
        reactor.watch(end.number, end)
        end.peer.send(b"a")
    await settled(reactor)
    assert len(one.reads) + len(other.reads) == 1


async def test_reused_descriptor_number_is_new(make: Make, pairs: Callable[[], End]) -> None:
    reactor, one, other, later = make(), pairs(), pairs(), pairs()
    number = other.number

    def replace() -> None:
        one.then = lambda: None
        reactor.unwatch(number)
        other.sock.close()
        os.dup2(later.number, number)
        reactor.watch(number, later)

    one.then = replace
    reactor.watch(one.number, one)
    reactor.watch(number, other)
    one.peer.send(b"a")
    other.peer.send(b"b")
    # `one` comes first: it is earlier in the batch, or its task was started earlier.
    await trio.testing.wait_all_tasks_blocked(0.001)
    assert later.reads == []
    later.peer.send(b"c")
    await trio.testing.wait_all_tasks_blocked(0.001)
    assert later.reads == [b"c"]
    reactor.unwatch(one.number)
    reactor.unwatch(number)
    os.close(number)
    await settled(reactor)


async def test_large_batch_yields_to_others(
    pairs: Callable[[], End], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "_BATCH", 4)
    turns: list[int] = []

    class Counting(EpollReactor):
        def _handle(self, events: list[tuple[int, int]]) -> int:
            turns.append(len(events))
            return super()._handle(events)

    reactor = Counting()
    ends = [pairs() for _ in range(10)]
    for end in ends:
        reactor.watch(end.number, end)
        end.peer.send(b"a")
    await trio.testing.wait_all_tasks_blocked(0.001)
    assert [end.reads for end in ends] == [[b"a"]] * 10
    assert turns == [4, 4, 2]
    for end in ends:
        reactor.unwatch(end.number)
    await settled(reactor)


async def test_more_than_a_batch_is_handled(pairs: Callable[[], End]) -> None:
    reactor = EpollReactor()
    ends = [pairs() for _ in range(300)]
    for end in ends:
        reactor.watch(end.number, end)
        end.peer.send(b"a")
    await trio.testing.wait_all_tasks_blocked(0.001)
    assert all(end.reads == [b"a"] for end in ends)
    for end in ends:
        reactor.unwatch(end.number)
    await settled(reactor)


async def test_settled_returns_while_watching(make: Make, pairs: Callable[[], End]) -> None:
    reactor, end = make(), pairs()
    reactor.watch(end.number, end)
    await reactor.wait_done()
    reactor.unwatch(end.number)
    await settled(reactor)


async def test_waiting_for_the_end_can_be_cancelled(make: Make, pairs: Callable[[], End]) -> None:
    reactor, end = make(), pairs()
    reactor.watch(end.number, end)
    await trio.testing.wait_all_tasks_blocked()
    reactor.unwatch(end.number)
    with trio.CancelScope() as scope:
        scope.cancel()
        await reactor.wait_done()
    assert scope.cancelled_caught
    await reactor.wait_done()


def test_run_end_closes_watched_descriptors(make: Make, pairs: Callable[[], End]) -> None:
    ends = [pairs(), pairs()]
    held = descriptors()

    async def main() -> None:
        reactor = make()
        for end in ends:
            reactor.watch(end.number, end)
        await trio.testing.wait_all_tasks_blocked()

    trio.run(main)
    assert [end.shuts for end in ends] == [1, 1]
    assert descriptors().keys() == held.keys()


async def test_a_run_has_one_reactor() -> None:
    assert current_reactor() is current_reactor()


async def test_a_test_may_bring_its_own() -> None:
    own = WaitReactor()
    use_reactor(own)
    assert current_reactor() is own


@pytest.mark.parametrize(
    ("platform", "kind"), [("linux", EpollReactor), ("darwin", WaitReactor), ("win32", WaitReactor)]
)
async def test_fallback_without_epoll_uses_tasks(
    platform: str, kind: type[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert isinstance(current_reactor(), kind)
