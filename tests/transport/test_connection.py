"""A single connection over a socket pair, with fake TLS."""

import math
import socket
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, cast

import pytest
import trio
import trio.testing

from agent_actors.transport.connection import CloseReason, Connection, Listener
from agent_actors.transport.errors import ConnectionLost, SendTimeout
from agent_actors.transport.reactor import EpollReactor, Reactor
from agent_actors.transport.response import ResponseHead, ResponseReader
from tests.transport.asking import MEGABYTE, OK

if TYPE_CHECKING:
    from agent_actors.transport.tls import TlsLayer


class Pool:
    """A pool that records its callbacks."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def on_drain(self, connection: Connection) -> None:
        self.calls.append("drain")

    def on_idle(self, connection: Connection) -> None:
        self.calls.append("idle")

    def on_closed(self, connection: Connection, closer: CloseReason) -> None:
        self.calls.append(closer.value)


class Noting:
    """A listener that records its callbacks."""

    def __init__(self, *, done: bool = False) -> None:
        self.body = b""
        self.ends: list[Exception | None] = []
        self.full = False
        self.done = done
        self.pauses = 0

    def on_head(self, head: ResponseHead) -> None:
        pass

    def on_body(self, data: bytes) -> bool | None:
        self.body += data
        return None

    def on_pause(self) -> None:
        self.pauses += 1

    def on_end(self, failure: Exception | None) -> None:
        self.ends.append(failure)


class Spoken:
    """Fake TLS: decrypting removes the first byte, which represents TLS's own data."""

    def __init__(self) -> None:
        self.closed = False
        self.says = b""
        self.broken = False

    @property
    def unsent(self) -> bool:
        return bool(self.says)

    def encrypt(self, data: bytes) -> bytes:
        if self.broken:
            raise ConnectionLost("TLS: ended")
        said, self.says = self.says, b""
        return data + said

    def decrypt(self, data: memoryview) -> bytes:
        return bytes(data[1:])


class Stage:
    """A connection with its pool, reactor and peer."""

    def __init__(self, tls: Spoken | None = None) -> None:
        self.sock, self.peer = socket.socketpair()
        self.sock.setblocking(False)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        self.pool = Pool()
        self.reactor: Reactor = EpollReactor()
        self.tls = tls or Spoken()
        layer = cast("TlsLayer", self.tls) if tls is not None else None
        self.connection = Connection(self.sock, layer, self.reactor, self.pool)

    def begin(self, listener: Listener) -> None:
        self.connection.begin(listener, ResponseReader())

    async def close(self) -> None:
        self.connection.close(CloseReason.SHUTDOWN)
        await self.reactor.wait_done()
        self.sock.close()
        self.peer.close()


@pytest.fixture
async def stage() -> AsyncGenerator[Stage]:
    made = Stage()
    yield made
    await made.close()


@pytest.fixture
async def secure() -> AsyncGenerator[Stage]:
    made = Stage(Spoken())
    yield made
    await made.close()


# --- sending --------------------------------------------------------------------------------------


async def test_partial_send_is_left_to_listener(
    stage: Stage,
) -> None:
    listener = Noting()
    stage.begin(listener)
    stage.reactor.unwatch(
        stage.sock.fileno()
    )  # the reactor must not notice that the peer disconnects
    async with trio.open_nursery() as nursery:

        async def send() -> None:
            await stage.connection.send(bytes(MEGABYTE))

        nursery.start_soon(send)
        await trio.testing.wait_all_tasks_blocked()
        assert stage.connection.sent_any
        stage.peer.close()
    assert listener.ends == []
    stage.connection.ready()
    (end,) = listener.ends
    assert isinstance(end, ConnectionLost)
    assert stage.pool.calls == ["peer"]


async def test_peer_gone_before_send_is_error(stage: Stage) -> None:
    stage.begin(Noting())
    stage.peer.close()
    with pytest.raises(ConnectionLost, match="Broken pipe"):
        await stage.connection.send(b"x")
    assert not stage.connection.sent_any
    stage.connection.close(CloseReason.PEER)


async def test_stuck_peer_times_out(stage: Stage) -> None:
    stage.begin(Noting())
    with pytest.raises(SendTimeout):
        await stage.connection.send(bytes(MEGABYTE), stall=0.01)
    stage.connection.close(CloseReason.CANCEL)


async def test_close_ends_blocked_send(stage: Stage) -> None:
    stage.begin(Noting())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.connection.send, bytes(MEGABYTE))
        await trio.testing.wait_all_tasks_blocked()
        stage.connection.close(CloseReason.SHUTDOWN)
    await stage.connection.send(b"nobody hears this")
    assert stage.pool.calls == ["shutdown"]


async def test_closed_tls_depends_on_sent_bytes(secure: Stage) -> None:
    secure.begin(Noting())
    secure.tls.broken = True
    with pytest.raises(ConnectionLost, match="ended"):
        await secure.connection.send(b"a")
    secure.tls.broken = False
    await secure.connection.send(b"b")
    secure.tls.broken = True
    await secure.connection.send(b"c")
    assert secure.peer.recv(10) == b"b"
    secure.connection.close(CloseReason.CANCEL)


# --- TLS's own messages ---------------------------------------------------------------------------


async def test_tls_data_is_sent_immediately(secure: Stage) -> None:
    secure.begin(Noting())
    secure.tls.says = b"update"
    secure.peer.send(b"!")
    await trio.testing.wait_all_tasks_blocked(0.001)
    assert secure.peer.recv(10) == b"update"
    secure.connection.close(CloseReason.CANCEL)


async def test_tls_reply_follows_current_send(secure: Stage) -> None:
    secure.begin(Noting())
    secure.peer.setblocking(False)
    received = b""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(secure.connection.send, b"x" * MEGABYTE)
        await trio.testing.wait_all_tasks_blocked()
        secure.tls.says = b"update"
        secure.peer.send(b"!")
        await trio.testing.wait_all_tasks_blocked(0.001)
        while len(received) < MEGABYTE + 6:
            await trio.lowlevel.wait_readable(secure.peer)
            received += secure.peer.recv(1 << 16)
    assert received == b"x" * MEGABYTE + b"update"
    secure.connection.close(CloseReason.CANCEL)


async def test_peer_ignoring_tls_reply_is_dropped(secure: Stage) -> None:
    listener = Noting()
    secure.begin(listener)
    secure.tls.says = bytes(MEGABYTE)
    secure.peer.send(b"!")
    await trio.testing.wait_all_tasks_blocked(0.001)
    assert [str(end) for end in listener.ends] == ["TLS: the peer does not accept data"]
    assert secure.pool.calls == ["fault"]


async def test_peer_gone_before_tls_reply(secure: Stage) -> None:
    listener = Noting()
    secure.begin(listener)
    secure.tls.says = b"update"
    secure.peer.send(b"!")
    secure.peer.close()
    await trio.testing.wait_all_tasks_blocked(0.001)
    assert secure.pool.calls == ["fault"]


# --- idle -----------------------------------------------------------------------------------------


async def test_tls_notice_keeps_connection_idle(secure: Stage) -> None:
    secure.peer.send(b"!")
    assert secure.connection.is_usable()
    secure.connection.close(CloseReason.SHUTDOWN)


async def test_end_after_tls_notice_is_seen(secure: Stage) -> None:
    secure.peer.send(b"!")
    secure.peer.close()
    assert not secure.connection.is_usable()
    assert secure.pool.calls == ["peer"]
    assert not secure.connection.is_usable()


@pytest.mark.parametrize("seconds", [0.001, math.inf])
async def test_keep_alive_limits_idle_time(stage: Stage, seconds: float) -> None:
    stage.connection.keep(seconds)
    await trio.sleep(0.01)
    assert stage.pool.calls == (["expiry"] if seconds < 1 else [])
    stage.connection.close(CloseReason.SHUTDOWN)


# --- the listener's end ---------------------------------------------------------------------------


async def test_release_is_idempotent(stage: Stage) -> None:
    stage.connection.detach_listener()
    assert stage.pool.calls == []
    stage.begin(Noting())
    await stage.connection.send(b"x")
    stage.connection.sent()
    stage.connection.detach_listener()
    stage.connection.detach_listener()
    assert stage.pool.calls == ["drain"]
    stage.connection.close(CloseReason.SHUTDOWN)
    stage.connection.detach_listener()
    stage.connection.close(CloseReason.SHUTDOWN)
    assert stage.pool.calls == ["drain", "shutdown"]


async def test_release_before_full_request_closes(stage: Stage) -> None:
    stage.begin(Noting())
    stage.connection.detach_listener()
    assert stage.pool.calls == ["answer"]


async def test_a_spurious_call_reads_nothing(stage: Stage) -> None:
    listener = Noting()
    stage.begin(listener)
    stage.connection.ready()
    assert (listener.body, listener.ends, stage.pool.calls) == (b"", [], [])
    stage.connection.close(CloseReason.SHUTDOWN)


async def test_full_listener_pauses_reading(stage: Stage) -> None:
    listener = Noting()
    listener.full = True
    stage.begin(listener)
    stage.connection.sent()
    stage.peer.send(OK + b"content-length: 4\r\n\r\nab")
    await trio.testing.wait_all_tasks_blocked(0.001)
    assert (listener.body, listener.pauses) == (b"ab", 1)
    stage.peer.send(b"cd")
    await trio.testing.wait_all_tasks_blocked(0.001)
    assert listener.body == b"ab"
    listener.full = False
    stage.connection.resume()
    stage.connection.resume()
    await trio.testing.wait_all_tasks_blocked(0.001)
    assert (listener.body, listener.ends, stage.pool.calls) == (b"abcd", [None], ["idle"])
    stage.connection.close(CloseReason.SHUTDOWN)
    stage.connection.resume()


async def test_run_end_reaches_listener(stage: Stage) -> None:
    listener = Noting()
    stage.begin(listener)
    stage.connection.shut()
    assert [str(end) for end in listener.ends] == ["the exchange is closed"]
    assert stage.pool.calls == ["shutdown"]
