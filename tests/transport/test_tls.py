"""The client's TLS layer over a socket pair."""

import socket
import ssl
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from agent_actors.transport import tls as room
from agent_actors.transport.errors import ConnectFailed, ConnectionLost
from agent_actors.transport.tls import TlsLayer, verifying_context
from tests.transport.asking import MEGABYTE
from tests.transport.certificates import serving, trusting

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ends = socket.socketpair()
    for end in ends:
        end.setblocking(False)
    yield ends
    for end in ends:
        end.close()


async def agreed(pair: Pair) -> tuple[TlsLayer, trio.SSLStream[trio.SocketStream]]:
    """Return a client's layer and a server's stream after their handshake."""
    layer = TlsLayer(trusting(), "localhost")
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(pair[1]))
    server = trio.SSLStream(stream, serving(), server_side=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.do_handshake)
        await layer.handshake(pair[0])
    return layer, server


def test_process_shares_one_strict_context() -> None:
    context = verifying_context()
    assert context is verifying_context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


async def test_data_passes_in_both_directions(pair: Pair) -> None:
    layer, server = await agreed(pair)
    pair[0].send(layer.encrypt(b"hello"))
    assert await server.receive_some() == b"hello"
    await server.send_all(b"good" * 3000)
    heard = b""
    while len(heard) < 12_000:
        await trio.lowlevel.wait_readable(pair[0])
        heard += layer.decrypt(memoryview(pair[0].recv(777)))
    assert heard == b"good" * 3000
    assert not layer.closed
    assert not layer.unsent


async def test_tls_end_forbids_further_sends(pair: Pair) -> None:
    layer, server = await agreed(pair)
    await server.aclose()
    await trio.lowlevel.wait_readable(pair[0])
    assert layer.decrypt(memoryview(pair[0].recv(9999))) == b""
    assert layer.closed
    layer._tls = TlsLayer(trusting(), "localhost")._tls  # a layer without a handshake
    with pytest.raises(ConnectionLost, match="TLS: "):
        layer.encrypt(b"x")


async def test_invalid_record_is_an_error(pair: Pair) -> None:
    layer, _ = await agreed(pair)
    with pytest.raises(ConnectionLost, match="TLS: "):
        layer.decrypt(memoryview(b"HTTP/1.1 200 OK\r\n\r\n"))


async def test_handshake_survives_spurious_wakeup(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = trio.lowlevel.wait_readable
    calls = 0

    async def early(sock: socket.socket) -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            await wait(sock)

    monkeypatch.setattr(trio.lowlevel, "wait_readable", early)
    layer = TlsLayer(trusting(), "localhost")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(layer.handshake, pair[0])
        await trio.testing.wait_all_tasks_blocked()
        assert calls == 2
        nursery.cancel_scope.cancel()


async def test_handshake_waits_or_ends_with_peer(
    pair: Pair,
) -> None:
    pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    received = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(room._send_all, pair[0], bytes(MEGABYTE))
        await trio.testing.wait_all_tasks_blocked()
        while received < MEGABYTE:
            await trio.lowlevel.wait_readable(pair[1])
            received += len(pair[1].recv(1 << 16))
    pair[1].close()
    with pytest.raises(ConnectFailed, match=r"TLS: .*Broken pipe during the handshake"):
        await room._send_all(pair[0], b"x")
    with pytest.raises(ConnectFailed, match=r"TLS: .*Broken pipe during the handshake"):
        await TlsLayer(trusting(), "localhost").handshake(pair[0])
