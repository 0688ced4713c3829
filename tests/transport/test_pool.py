"""Admission, idle connections, origins, and connecting to an origin."""

import gc
import math
import socket

import pytest
import trio
import trio.testing

from agent_actors.transport import engine as engine_room
from agent_actors.transport.connect import Origin, dial
from agent_actors.transport.connection import CloseReason, Connection
from agent_actors.transport.engine import Engine, EngineLimits
from agent_actors.transport.errors import ConnectFailed, ConnectionLost, ConnectTimeout
from agent_actors.transport.pool import Pool, PoolCounts, PoolLimits
from agent_actors.transport.reactor import current_reactor
from agent_actors.transport.request import build_request, parse_url
from tests.transport.asking import AGAIN, HELLO, body_of, connections, descriptors, opened, quiet
from tests.transport.wire_helpers import WireServer, ask, tell, until

NOWHERE = Origin(False, "127.0.0.1", 1)


def pool(limit: float = 1, origin: Origin = NOWHERE) -> Pool:
    return Pool(origin, PoolLimits(max_connections=limit), PoolCounts())


# --- admission ------------------------------------------------------------------------------------


async def test_waiters_are_admitted_in_order() -> None:
    crowded = pool()
    order: list[int] = []
    first = object()
    assert await crowded.admit(first, patience=0)

    async def wait(number: int) -> None:
        assert await crowded.admit(number, patience=math.inf)
        order.append(number)
        crowded.leave(number)

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(wait, number)
            await trio.testing.wait_all_tasks_blocked()
        assert crowded.waiting == 5
        crowded.leave(first)
    assert (order, crowded.waiting, crowded.unused) == ([0, 1, 2, 3, 4], 0, True)


async def test_later_request_does_not_jump_queue() -> None:
    crowded = pool()
    first, second, third = object(), object(), object()
    await crowded.admit(first, patience=0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: crowded.admit(second, patience=math.inf))
        await trio.testing.wait_all_tasks_blocked()
        crowded.leave(first)
        assert not await crowded.admit(third, patience=0)
    crowded.leave(second)
    assert crowded.unused


async def test_timeout_and_cancel_free_the_place(
    autojump_clock: trio.testing.MockClock,
) -> None:
    crowded = pool()
    first = object()
    await crowded.admit(first, patience=0)
    began = trio.current_time()
    assert not await crowded.admit(object(), patience=5)
    assert trio.current_time() - began == 5
    with trio.move_on_after(1) as scope:
        await crowded.admit(object(), patience=math.inf)
    assert scope.cancelled_caught
    assert (crowded.waiting, crowded.unused) == (0, False)
    crowded.leave(first)
    assert crowded.unused


# --- idle connections -----------------------------------------------------------------------------


async def test_a_closed_pool_opens_nothing() -> None:
    before = descriptors()
    accepted = trio.Event()
    async with WireServer([tell(accepted)]) as server:
        closed = pool(origin=Origin(False, "127.0.0.1", server.port))
        closed.close()
        with pytest.raises(ConnectFailed, match="the exchange is closed"):
            await closed.connect()
        await server.wait_gone(1)
    assert closed.unused
    assert descriptors().keys() == before.keys()


async def test_few_draining_connections_are_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    ready = Connection.ready

    def counted(connection: Connection) -> None:
        nonlocal looks
        looks += 1
        ready(connection)

    many = pool(100)
    pairs = [socket.socketpair() for _ in range(30)]
    reactor = current_reactor()
    drained: list[Connection] = []
    for sock, _ in pairs:
        sock.setblocking(False)
        drained.append(Connection(sock, None, reactor, many))
        many.on_drain(drained[-1])
    monkeypatch.setattr(Connection, "ready", counted)
    assert many.take_idle() is None
    assert 0 < looks < 30
    many.on_idle(drained[0])
    looks = 0
    assert many.take_idle() is drained[0]
    assert looks == 0
    for connection in drained:
        connection.close(CloseReason.SHUTDOWN)
    for pair in pairs:
        pair[1].close()
    await reactor.wait_done()


async def test_dead_idle_connections_are_skipped() -> None:
    meet = trio.Event()
    scripts = [[ask, until(meet), HELLO] for _ in range(3)]
    async with WireServer(*scripts, [ask, AGAIN]) as server, opened() as exchange:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(body_of, exchange, server)
            await server.wait_requests(3)
            meet.set()
        await quiet()
        assert connections(exchange).idle == 3
        for peer in server.peers:
            peer.close(reset=True)
        assert await body_of(exchange, server) == b"again"
        assert connections(exchange).closed_by_peer == 3


# --- the engine -----------------------------------------------------------------------------------


class Deaf:
    """A listener that ignores its callbacks."""

    full = False
    done = False

    def on_head(self, head: object) -> None: ...
    def on_body(self, data: bytes) -> bool | None: ...
    def on_pause(self) -> None: ...
    def on_end(self, failure: Exception | None) -> None: ...


async def test_unsent_request_changes_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The peer disconnects after the connection was checked and before the request is sent.
    failures = 2
    send = Connection.send

    async def failing(connection: Connection, data: bytes, *, stall: float = math.inf) -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise ConnectionLost("gone")
        await send(connection, data, stall=stall)

    meet = trio.Event()
    scripts = [[ask, until(meet), HELLO] for _ in range(2)]
    async with WireServer(*scripts, [ask, AGAIN]) as server, opened() as exchange:
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(body_of, exchange, server)
            await server.wait_requests(2)
            meet.set()
        monkeypatch.setattr(Connection, "send", failing)
        assert await body_of(exchange, server) == b"again"
        assert connections(exchange).closed_by_peer == 2


async def test_stuck_fresh_connection_is_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def failing(connection: Connection, data: bytes, *, stall: float) -> None:
        raise ConnectionLost("gone")

    monkeypatch.setattr(Connection, "send", failing)
    async with WireServer([]) as server:
        engine = Engine(EngineLimits())
        request = build_request("POST", parse_url(server.url), [])
        passage = await engine.admit(request.origin)
        assert passage is not None
        with pytest.raises(ConnectionLost):
            await engine.send(passage, request, b"", Deaf())
        passage.abandon()
        passage.abandon()
        await engine.aclose()
        assert engine.counts.closed[CloseReason.PEER] == 1


async def test_unused_origins_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_room, "_POOLS", 4)
    engine = Engine(EngineLimits())
    kept = await engine.admit(Origin(False, "kept", 1))
    assert kept is not None
    for port in range(1, 30):
        passage = await engine.admit(Origin(False, "x", port))
        assert passage is not None
        passage.leave()
        passage.leave()
        assert len(engine._pools) <= 5
    again = await engine.admit(Origin(False, "kept", 1))
    assert again is not None
    assert again.pool is kept.pool
    kept.leave()
    again.leave()
    await engine.aclose()


async def test_place_is_released_once() -> None:
    engine = Engine(EngineLimits(PoolLimits(max_connections=1)))
    passage = await engine.admit(NOWHERE)
    assert passage is not None
    passage.abandon()
    other = await engine.admit(NOWHERE)
    assert other is not None
    passage.leave()
    passage.abandon()
    assert await engine.admit(NOWHERE, patience=0) is None
    other.leave()


async def test_finished_connections_need_no_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        async with WireServer([ask, HELLO] * 3) as server, opened() as exchange:
            for _ in range(3):
                await body_of(exchange, server)
            kinds = [type(thing).__name__ for thing in gc.get_objects()]
            assert kinds.count("ResponseReader") == 0
            assert kinds.count("HttpResponseParser") == 0
    finally:
        gc.enable()


# --- dialling -------------------------------------------------------------------------------------


async def test_unreachable_address_fails_immediately() -> None:
    # The kernel refuses to connect to the broadcast address and sends nothing.
    with pytest.raises(ConnectFailed):
        await dial(Origin(False, "255.255.255.255", 1), connect_timeout=5, context=None)


async def test_ipv6_address_is_dialled() -> None:
    try:
        listeners = await trio.open_tcp_listeners(0, host="::1")
    except OSError:
        pytest.skip("this machine has no IPv6")
    async with listeners[0] as listener:
        port = listener.socket.getsockname()[1]
        sock, tls = await dial(Origin(False, "::1", port), connect_timeout=5, context=None)
        assert (sock.family, tls) == (socket.AF_INET6, None)
        sock.close()


async def test_cancelling_a_dial_leaves_nothing_open() -> None:
    before = descriptors()
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    fillers: list[socket.socket] = []
    try:
        # A full backlog accepts no more connections, so the next attempt gets no response.
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
            fillers.append(filler)
        origin = Origin(False, "127.0.0.1", listener.getsockname()[1])
        with pytest.raises(ConnectTimeout):
            await dial(origin, connect_timeout=0.02, context=None)
        with trio.move_on_after(0.02) as scope:
            await dial(origin, connect_timeout=math.inf, context=None)
        assert scope.cancelled_caught
    finally:
        for sock in (listener, *fillers):
            sock.close()
    assert descriptors().keys() == before.keys()
