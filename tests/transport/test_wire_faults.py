"""Peers that disconnect at any moment and in any way."""

import errno
import socket
from collections.abc import Sequence
from typing import Literal, TypeAlias

import pytest
import trio

from agent_actors.abc import HttpRequest
from agent_actors.errors import ProviderConnectError, ProviderProtocolError
from agent_actors.transport.reactor import EpollReactor, WaitReactor, use_reactor
from tests.transport.asking import (
    AGAIN,
    HELLO,
    MEGABYTE,
    OK,
    body_of,
    closed,
    connections,
    descriptors,
    opened,
    post,
    quiet,
)
from tests.transport.sinks import ByteCollector
from tests.transport.wire_helpers import (
    Step,
    WireServer,
    ask,
    ask_head,
    beat,
    close,
    half_close,
    reset,
    stall,
    tell,
    until,
)

BIG = bytes(8 * MEGABYTE)


@pytest.fixture(params=[EpollReactor, WaitReactor], autouse=True)
async def reactor(request: pytest.FixtureRequest) -> EpollReactor | WaitReactor:
    made: EpollReactor | WaitReactor = request.param()
    use_reactor(made)
    return made


# --- before and during a response -----------------------------------------------------------------


@pytest.mark.parametrize("end", [close, half_close, reset])
@pytest.mark.parametrize(
    "before",
    [
        (),
        (ask,),
        (ask, OK[:7], beat),
        (ask, HELLO[:-9], beat),
        (ask, HELLO[:-2], beat),
        (ask, OK + b"transfer-encoding: chunked\r\n\r\n3", beat),
        (ask, b"HTTP/1.1 100 Continue\r\n\r\n", beat),
    ],
    ids=["accepted", "asked", "line", "head", "body", "chunk", "interim"],
)
async def test_premature_end_is_connect_error(before: Sequence[Step], end: Step) -> None:
    async with WireServer([*before, end], [ask, AGAIN]) as server, opened() as exchange:
        with pytest.raises(ProviderConnectError, match="the connection broke"):
            await body_of(exchange, server)
        await server.wait_gone(1)
        assert closed(connections(exchange)) == {"peer": 1}
        assert await body_of(exchange, server) == b"again"
        assert exchange.statistics().live == 0


# --- idle connections that the peer has closed ----------------------------------------------------


@pytest.mark.parametrize("end", [close, half_close, reset])
async def test_idle_connection_closes_with_peer(end: Step) -> None:
    leave = trio.Event()
    async with (
        WireServer([ask, HELLO, until(leave), end], [ask, AGAIN]) as server,
        opened() as exchange,
    ):
        await body_of(exchange, server)
        assert connections(exchange).idle == 1
        leave.set()
        await server.wait_gone(1)
        await quiet()
        assert (connections(exchange).idle, closed(connections(exchange))) == (0, {"peer": 1})
        assert await body_of(exchange, server) == b"again"


@pytest.mark.parametrize("by_reset", [False, True])
async def test_peer_leaving_before_send_is_harmless(*, by_reset: bool) -> None:
    async with WireServer([ask, HELLO, stall], [ask, AGAIN]) as server, opened() as exchange:
        await body_of(exchange, server)
        await quiet()
        peer = server.peers[0].sock.socket
        # No task runs between the disconnect and the request.
        if by_reset:
            server.peers[0].close(reset=True)
        else:
            peer.shutdown(socket.SHUT_RDWR)
        assert await body_of(exchange, server) == b"again"
        assert (server.connections, len(server.requests)) == (2, 2)


@pytest.mark.parametrize("end", [close, reset])
async def test_peer_leaving_after_send_is_error(end: Step) -> None:
    # A POST is never sent again, because the peer may already have acted on it.
    async with WireServer([ask, HELLO, ask, end]) as server, opened() as exchange:
        await body_of(exchange, server)
        with pytest.raises(ProviderConnectError, match="the connection broke"):
            await body_of(exchange, server)
        assert (server.connections, len(server.requests)) == (1, 2)


async def test_unsolicited_response_closes_idle_connection() -> None:
    speak = trio.Event()
    async with (
        WireServer(
            [ask, HELLO, until(speak), b"HTTP/1.1 408 Late\r\n\r\n"], [ask, AGAIN]
        ) as server,
        opened() as exchange,
    ):
        await body_of(exchange, server)
        await quiet()
        speak.set()
        await server.wait_gone(1)
        assert closed(connections(exchange)) == {"fault": 1}
        assert await body_of(exchange, server) == b"again"


async def test_unsolicited_response_is_never_used() -> None:
    async with WireServer([ask, HELLO, ask], [ask, AGAIN]) as server, opened() as exchange:
        await body_of(exchange, server)
        await quiet()
        server.peers[0].send_now(HELLO)
        assert await body_of(exchange, server) == b"again"
        assert server.connections == 2


async def test_the_connection_used_last_is_used_first() -> None:
    names: list[Step] = [OK + b"content-length: 1\r\n\r\n" + name for name in (b"a", b"b")]
    both = trio.Event()
    first: list[Step] = [ask, until(both), names[0], *[ask, names[0]] * 3]
    second: list[Step] = [ask, until(both), beat, names[1], *[ask, names[1]] * 3]
    async with WireServer(first, second) as server, opened() as exchange:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(body_of, exchange, server)
            nursery.start_soon(body_of, exchange, server)
            await server.wait_requests(2)
            both.set()
        assert connections(exchange).idle == 2
        assert [await body_of(exchange, server) for _ in range(3)] == [b"b"] * 3
        assert connections(exchange).reused == 3


async def test_old_idle_connection_is_closed() -> None:
    async with (
        WireServer([ask, HELLO], [ask, AGAIN]) as server,
        opened(keepalive=0.01) as exchange,
    ):
        await body_of(exchange, server)
        await server.wait_gone(1)
        assert closed(connections(exchange)) == {"expiry": 1}
        assert await body_of(exchange, server) == b"again"


# --- while the request is being sent --------------------------------------------------------------

TOO_LARGE = b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig"


@pytest.mark.parametrize(
    "rest",
    [(), (half_close,), (close,), (reset,)],
    ids=["stays", "half-closes", "closes", "resets"],
)
async def test_response_may_precede_full_request(rest: Sequence[Step]) -> None:
    script: list[Step] = [ask_head, TOO_LARGE, *rest]
    async with WireServer(script, [ask, AGAIN]) as server, opened() as exchange:
        sink = ByteCollector()
        await exchange.exchange(post(server, BIG), sink)
        assert (sink.status, sink.body) == (413, b"big")
        # The request was only partly sent, so the connection cannot be used for another request.
        await server.wait_gone(1)
        assert sum(closed(connections(exchange)).values()) == 1
        assert await body_of(exchange, server) == b"again"


async def test_finished_sink_stops_sending() -> None:
    answer = OK + b"content-length: 1000000\r\n\r\nenough"
    async with WireServer([ask_head, answer, stall]) as server, opened() as exchange:
        sink = ByteCollector(done_when=lambda body: b"enough" in body)
        await exchange.exchange(post(server, BIG), sink)
        assert sink.body == b"enough"
        assert closed(connections(exchange)) == {"answer": 1}


async def test_non_http_refusal_stops_sending() -> None:
    async with WireServer([ask_head, b"no!\r\n\r\n", stall]) as server, opened() as exchange:
        with pytest.raises(ProviderProtocolError):
            await body_of(exchange, server, BIG)
        assert closed(connections(exchange)) == {"fault": 1}


@pytest.mark.parametrize("end", [close, reset])
async def test_peer_leaving_midway_is_error(end: Step) -> None:
    async with WireServer([ask_head, beat, end]) as server, opened() as exchange:
        with pytest.raises(ProviderConnectError, match="the connection broke"):
            await body_of(exchange, server, BIG)
        assert closed(connections(exchange)) == {"peer": 1}


async def test_a_big_request_arrives_whole() -> None:
    content = bytes(range(256)) * (8 * MEGABYTE // 256)
    async with WireServer([ask, HELLO]) as server, opened() as exchange:
        assert await body_of(exchange, server, content) == b"hello"
        assert server.requests[0].endswith(b"\r\n\r\n" + content)


async def test_stuck_sending_can_be_cancelled() -> None:
    stuck = trio.Event()
    async with WireServer([ask_head, tell(stuck), stall]) as server, opened() as exchange:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(body_of, exchange, server, BIG)
            await stuck.wait()
            await quiet()
            assert exchange.statistics().live == 1
            nursery.cancel_scope.cancel()
        assert closed(connections(exchange)) == {"cancel": 1}


async def test_close_ends_stuck_sending() -> None:
    stuck = trio.Event()
    async with WireServer([ask_head, tell(stuck), stall]) as server, opened() as exchange:

        async def send() -> None:
            with pytest.raises(ProviderConnectError, match="the exchange is closed"):
                await body_of(exchange, server, BIG)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await stuck.wait()
            await quiet()
            await exchange.aclose()
        assert closed(connections(exchange)) == {"shutdown": 1}


# --- no connection --------------------------------------------------------------------------------


async def test_refused_port_is_connect_error() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        request = HttpRequest(f"http://127.0.0.1:{held.getsockname()[1]}/", {}, b"")
        before = descriptors()
        async with opened() as exchange:
            with pytest.raises(ProviderConnectError, match=r"could not connect: .*[Rr]efused"):
                await exchange.exchange(request, ByteCollector())
            assert connections(exchange).opened == 0
        assert descriptors() == before


_Found: TypeAlias = (
    tuple[Literal[socket.AddressFamily.AF_INET], socket.SocketKind, int, str, tuple[str, int]]
    | tuple[
        Literal[socket.AddressFamily.AF_INET6],
        socket.SocketKind,
        int,
        str,
        tuple[str, int, int, int] | tuple[int, bytes],
    ]
)


class Resolver(trio.abc.HostnameResolver):
    """A resolver that knows one name, which has several addresses."""

    def __init__(self, *addresses: str) -> None:
        self._addresses = addresses

    async def getaddrinfo(  # noqa: PLR0917 - the signature in trio
        self,
        host: bytes | None,
        port: bytes | str | int | None,
        family: int = 0,
        type: int = 0,  # noqa: A002 - named as in trio
        proto: int = 0,
        flags: int = 0,
    ) -> list[_Found]:
        if host != b"several.test":
            raise socket.gaierror(errno.ENOENT, "no such name")
        assert isinstance(port, int)
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in self._addresses
        ]

    async def getnameinfo(
        self, sockaddr: tuple[str, int] | tuple[str, int, int, int], flags: int
    ) -> tuple[str, str]:
        raise NotImplementedError


async def test_next_address_is_tried() -> None:
    trio.socket.set_custom_hostname_resolver(Resolver("127.0.0.2", "127.0.0.1"))
    async with WireServer([ask, HELLO]) as server, opened() as exchange:
        sink = ByteCollector()
        request = HttpRequest(f"http://several.test:{server.port}/", {}, b"")
        await exchange.exchange(request, sink)
        assert sink.body == b"hello"
        assert b"host: several.test" in server.requests[0]


async def test_all_addresses_refused_is_error() -> None:
    trio.socket.set_custom_hostname_resolver(Resolver("127.0.0.2", "127.0.0.3"))
    before = descriptors()
    async with WireServer() as server, opened() as exchange:
        request = HttpRequest(f"http://several.test:{server.port}/", {}, b"")
        with pytest.raises(ProviderConnectError, match=r"could not connect: .*[Rr]efused"):
            await exchange.exchange(request, ByteCollector())
    assert descriptors() == before


@pytest.mark.parametrize("url", ["http://unknown.test/", "http://a..b/", "http://.x/"])
async def test_unknown_name_is_connect_error(url: str) -> None:
    trio.socket.set_custom_hostname_resolver(Resolver())
    async with opened() as exchange:
        with pytest.raises(ProviderConnectError):
            await exchange.exchange(HttpRequest(url, {}, b""), ByteCollector())
