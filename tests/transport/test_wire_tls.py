"""TLS over sockets: trust, the end of a response, and TLS's own messages."""

import select
import ssl
from collections.abc import Callable
from typing import cast

import httpx
import pytest
import trio
import trustme

from agent_actors.abc import HttpRequest
from agent_actors.errors import ProviderConnectError, ProviderDeadlineError
from agent_actors.transport.backends.httpx_transport import EngineTransport
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
    quiet,
)
from tests.transport.certificates import authority, serving, trusting
from tests.transport.sinks import ByteCollector
from tests.transport.wire_helpers import (
    Peer,
    Step,
    WireServer,
    ask,
    ask_head,
    beat,
    close,
    goodbye,
    reset,
    until,
)

CONTENT = bytes(range(256)) * (4 * MEGABYTE // 256)
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


def of_version(version: ssl.TLSVersion) -> ssl.SSLContext:
    context = serving()
    context.minimum_version = context.maximum_version = version
    return context


def to_localhost(server: WireServer) -> HttpRequest:
    return HttpRequest(f"https://localhost:{server.port}/", {}, b"")


# --- trust ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("reactor", [EpollReactor, WaitReactor])
@pytest.mark.parametrize("version", VERSIONS)
async def test_trusted_endpoint_uses_one_connection(
    version: ssl.TLSVersion, reactor: type[EpollReactor | WaitReactor]
) -> None:
    use_reactor(reactor())
    script: list[Step] = [ask, HELLO, beat, ask, AGAIN]
    async with (
        WireServer(script, tls=of_version(version)) as server,
        opened(ssl_context=trusting()) as exchange,
    ):
        assert await body_of(exchange, server) == b"hello"
        # The session tickets of TLS 1.3 arrive while no request is open.
        await quiet()
        assert connections(exchange).idle == 1
        assert await body_of(exchange, server) == b"again"
        assert server.connections == 1


async def test_name_and_address_are_verified() -> None:
    async with (
        WireServer([ask, HELLO], tls=serving("localhost")) as server,
        opened(ssl_context=trusting()) as exchange,
    ):
        sink = ByteCollector()
        await exchange.exchange(to_localhost(server), sink)
        assert sink.body == b"hello"


@pytest.mark.parametrize(
    ("context", "message"),
    [
        (lambda: serving("other.test"), "[Hh]ostname mismatch.*not valid for 'localhost'"),
        (lambda: serving(expired=True), "certificate has expired"),
        (lambda: serving(by=trustme.CA()), "unable to get local issuer certificate|self"),
    ],
    ids=["wrong host", "expired", "unknown authority"],
)
async def test_untrusted_endpoint_gets_no_request(
    context: Callable[[], ssl.SSLContext], message: str
) -> None:
    before = descriptors()
    async with (
        WireServer([ask], tls=context()) as server,
        opened(ssl_context=trusting()) as exchange,
    ):
        with pytest.raises(
            ProviderConnectError, match=f"could not connect: TLS: the certificate .*{message}"
        ):
            await exchange.exchange(to_localhost(server), ByteCollector())
        await server.wait_gone(1)
        assert server.requests == []
        assert connections(exchange).opened == 0
    assert descriptors().keys() == before.keys()


async def test_uncertified_address_is_refused() -> None:
    async with (
        WireServer([ask], tls=serving("localhost")) as server,
        opened(ssl_context=trusting()) as exchange,
    ):
        with pytest.raises(ProviderConnectError, match="IP address mismatch"):
            await body_of(exchange, server)


async def test_private_authorities_are_untrusted_by_default() -> None:
    async with WireServer([ask], tls=serving()) as server, opened() as exchange:
        with pytest.raises(ProviderConnectError, match="the certificate was rejected"):
            await body_of(exchange, server)


# --- handshakes that fail -------------------------------------------------------------------------


async def test_incompatible_versions_are_connect_error() -> None:
    old = trusting()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    async with (
        WireServer([ask], tls=of_version(ssl.TLSVersion.TLSv1_3)) as server,
        opened(ssl_context=old) as exchange,
    ):
        with pytest.raises(ProviderConnectError, match="could not connect: TLS: "):
            await body_of(exchange, server)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ([HELLO], "WRONG_VERSION_NUMBER|wrong version"),
        ([close], "closed the connection during the handshake|reset"),
        ([beat, reset], "reset by peer during the handshake|closed"),
    ],
    ids=["plain HTTP", "closes", "resets"],
)
async def test_non_tls_peer_is_connect_error(script: list[Step], message: str) -> None:
    async with WireServer(script) as server, opened(ssl_context=trusting()) as exchange:
        request = HttpRequest(server.url.replace("http:", "https:"), {}, b"")
        with pytest.raises(ProviderConnectError, match=message):
            await exchange.exchange(request, ByteCollector())
        await server.wait_gone(1)


async def test_stalled_handshake_hits_connect_deadline() -> None:
    before = descriptors()
    async with (
        WireServer([]) as server,
        opened(connect_timeout=0.02, ssl_context=trusting()) as exchange,
    ):
        request = HttpRequest(server.url.replace("http:", "https:"), {}, b"")
        with pytest.raises(ProviderDeadlineError):
            await exchange.exchange(request, ByteCollector())
        await server.wait_gone(1)
    assert descriptors().keys() == before.keys()


# --- answers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
async def test_big_bodies_go_both_ways(version: ssl.TLSVersion) -> None:
    big = OK + b"content-length: %d\r\n\r\n" % len(CONTENT) + CONTENT
    async with (
        WireServer([ask, big, ask, AGAIN], tls=of_version(version)) as server,
        opened(ssl_context=trusting()) as exchange,
    ):
        assert await body_of(exchange, server, CONTENT) == CONTENT
        assert server.requests[0].endswith(b"\r\n\r\n" + CONTENT)
        assert await body_of(exchange, server) == b"again"
        assert server.connections == 1


@pytest.mark.parametrize("drip", [1, 7])
async def test_records_may_come_in_pieces(drip: int) -> None:
    async with (
        WireServer([ask, HELLO, ask, AGAIN], tls=serving(), drip=drip) as server,
        opened(ssl_context=trusting()) as exchange,
    ):
        assert await body_of(exchange, server) == b"hello"
        assert await body_of(exchange, server) == b"again"


async def test_tls_end_may_end_response() -> None:
    async with (
        WireServer([ask, OK + b"\r\nhello", goodbye], [ask, AGAIN], tls=serving()) as server,
        opened(ssl_context=trusting()) as exchange,
    ):
        assert await body_of(exchange, server) == b"hello"
        assert await body_of(exchange, server) == b"again"


@pytest.mark.parametrize("end", [close, reset])
@pytest.mark.parametrize("answer", [OK + b"\r\nhello", HELLO[:-1], HELLO[:9], b""])
async def test_truncated_tls_response_is_error(answer: bytes, end: Step) -> None:
    # TLS did not end properly, so an attacker may have truncated the response.
    async with (
        WireServer([ask, answer, beat, end], [ask, AGAIN], tls=serving()) as server,
        opened(ssl_context=trusting()) as exchange,
    ):
        with pytest.raises(ProviderConnectError, match="the connection broke"):
            await body_of(exchange, server)
        assert closed(connections(exchange)) == {"peer": 1}
        assert await body_of(exchange, server) == b"again"


async def test_invalid_record_breaks_the_connection() -> None:
    async def garble(peer: Peer) -> None:
        peer.send_now(b"\x17\x03\x03\x00\x20" + bytes(32))

    async with (
        WireServer([ask, HELLO[:-1], garble], [ask, AGAIN], tls=serving()) as server,
        opened(ssl_context=trusting()) as exchange,
    ):
        with pytest.raises(ProviderConnectError, match=r"the connection broke .*TLS"):
            await body_of(exchange, server)
        assert closed(connections(exchange)) == {"fault": 1}
        assert await body_of(exchange, server) == b"again"


@pytest.mark.parametrize("end", [goodbye, close, reset])
async def test_ended_idle_connection_is_discarded(end: Step) -> None:
    leave = trio.Event()
    async with (
        WireServer([ask, HELLO, until(leave), end], [ask, AGAIN], tls=serving()) as server,
        opened(ssl_context=trusting()) as exchange,
    ):
        await body_of(exchange, server)
        leave.set()
        await server.wait_gone(1)
        await quiet()
        assert closed(connections(exchange)) == {"peer": 1}
        assert await body_of(exchange, server) == b"again"


# --- TLS's own messages ---------------------------------------------------------------------------


def asked_later() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return contexts for a server that may request a certificate later, and for its client."""
    server, client = serving(), trusting()
    server.verify_mode = ssl.CERT_OPTIONAL
    server.load_verify_locations(cadata=authority().cert_pem.bytes().decode())
    client.post_handshake_auth = True
    return server, client


async def demand(peer: Peer) -> None:
    """Request a certificate in the middle of a response; the client replies that it has none."""
    tls = cast("ssl.SSLObject", getattr(peer.stream, "_ssl_object"))  # noqa: B009 - private by design
    tls.verify_client_post_handshake()


async def test_tls_request_is_answered_during_response() -> None:
    server_context, client_context = asked_later()
    heard: list[bool] = []

    async def listen(peer: Peer) -> None:
        heard.append(bool(select.select([peer.sock.socket.fileno()], [], [], 0)[0]))

    script: list[Step] = [ask, HELLO[:-2], beat, listen, demand, HELLO[-2:], beat, listen]
    script += [ask, AGAIN]
    async with (
        WireServer(script, tls=server_context) as server,
        opened(ssl_context=client_context) as exchange,
    ):
        assert await body_of(exchange, server) == b"hello"
        await quiet()
        assert heard == [False, True]
        assert await body_of(exchange, server) == b"again"
        assert server.connections == 1


async def test_tls_reply_waits_for_current_record() -> None:
    server_context, client_context = asked_later()
    wait = b"HTTP/1.1 100 Continue\r\n\r\n"
    script: list[Step] = [ask_head, beat, demand, wait, beat, ask_rest(len(CONTENT)), HELLO]
    async with (
        WireServer(script, tls=server_context) as server,
        opened(ssl_context=client_context) as exchange,
    ):
        assert await body_of(exchange, server, CONTENT) == b"hello"


def ask_rest(size: int) -> Step:
    async def read(peer: Peer) -> None:
        assert await peer.read_rest(size) == CONTENT

    return read


async def test_a_client_of_httpx_speaks_tls_too() -> None:
    async with WireServer([ask, HELLO, ask, AGAIN], tls=serving()) as server:
        transport = EngineTransport(ssl_context=trusting())
        async with httpx.AsyncClient(transport=transport) as client:
            assert (await client.get(server.url)).content == b"hello"
            assert (await client.get(server.url)).content == b"again"
        assert server.connections == 1
