"""The contract of `ByteExchange`, over every implementation."""

import gzip
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import httpx
import pytest
import trio
import trio.testing

from agent_actors.abc import ByteExchange, HttpRequest
from agent_actors.errors import (
    ProviderConnectError,
    ProviderDeadlineError,
    ProviderError,
    ProviderProtocolError,
)
from agent_actors.testing import (
    ReplyTurn,
    ScriptedEndpoint,
    body,
    disconnect,
    disconnect_after,
    hang,
    hang_up,
    html,
    not_http,
    reply,
    say,
    silent,
    status,
)
from agent_actors.transport.backends.httpx_exchange import HttpxExchange
from agent_actors.transport.backends.httpx_transport import EngineTransport
from agent_actors.transport.backends.native import HttpExchange
from agent_actors.transport.reactor import WaitReactor, use_reactor
from tests.transport.sinks import ByteCollector


class Open(Protocol):
    """A function that opens an exchange and closes it at the end of the block."""

    def __call__(
        self, connect_timeout: float = 60.0
    ) -> AbstractAsyncContextManager[ByteExchange]: ...


@asynccontextmanager
async def own_clients(connect_timeout: float = 60.0) -> AsyncGenerator[ByteExchange]:
    exchange = HttpxExchange(connect_timeout=connect_timeout)
    try:
        yield exchange
    finally:
        await exchange.aclose()


@asynccontextmanager
async def engine(connect_timeout: float = 60.0) -> AsyncGenerator[ByteExchange]:
    exchange = HttpExchange(connect_timeout=connect_timeout)
    try:
        yield exchange
    finally:
        await exchange.aclose()


@asynccontextmanager
async def engine_without_epoll(connect_timeout: float = 60.0) -> AsyncGenerator[ByteExchange]:
    use_reactor(WaitReactor())
    async with engine(connect_timeout) as exchange:
        yield exchange


@asynccontextmanager
async def engine_through_httpx(connect_timeout: float = 60.0) -> AsyncGenerator[ByteExchange]:
    async with httpx.AsyncClient(transport=EngineTransport()) as client:
        yield HttpxExchange(client=client, connect_timeout=connect_timeout)


@asynccontextmanager
async def callers_client(connect_timeout: float = 60.0) -> AsyncGenerator[ByteExchange]:
    async with httpx.AsyncClient() as client:
        yield HttpxExchange(client=client, connect_timeout=connect_timeout)


@pytest.fixture(
    params=[engine, engine_without_epoll, engine_through_httpx, own_clients, callers_client]
)
def open_exchange(request: pytest.FixtureRequest) -> Open:
    opener: Open = request.param
    return opener


def counts(exchange: ByteExchange) -> tuple[int, int]:
    """Return the number of exchanges in progress, and of those begun so far."""
    statistics = exchange.statistics()
    return statistics.live, statistics.begun


def to(
    endpoint: ScriptedEndpoint, content: bytes = b'{"stream": true}', **headers: str
) -> HttpRequest:
    return HttpRequest(f"{endpoint.base_url}/chat/completions", headers, content)


async def test_request_without_body_is_answered(open_exchange: Open) -> None:
    async with ScriptedEndpoint([], models=["one"]) as endpoint, open_exchange() as exchange:
        sink = ByteCollector()
        await exchange.exchange(HttpRequest(f"{endpoint.base_url}/models", {}, b"", "GET"), sink)

    assert (sink.status, endpoint.requests[0].method) == (200, "GET")
    assert b'"one"' in sink.body


def is_whole(sent: bytes) -> bool:
    return b"[DONE]" in sent


async def failure(
    open_exchange: Open, turn: ReplyTurn, *, broken: bool | None = True
) -> ProviderError:
    """Return the error of an exchange; then check that the exchange works and dropped the
    connection.

    With `broken=False` the connection must be kept; with `broken=None` either is allowed.
    """
    sink = ByteCollector()
    async with ScriptedEndpoint([turn, "Hello"]) as endpoint, open_exchange() as exchange:
        with pytest.raises(ProviderError) as caught:
            await exchange.exchange(to(endpoint), sink)
        assert exchange.statistics().live == 0
        assert caught.value.endpoint == f"{endpoint.base_url}/chat/completions"
        after = ByteCollector()
        await exchange.exchange(to(endpoint), after)
        assert is_whole(after.body)
        if broken is not None:
            assert endpoint.connections == (2 if broken else 1)
    return caught.value


async def test_response_has_status_headers_and_body(open_exchange: Open) -> None:
    async with (
        ScriptedEndpoint([status(418, b"teapot", headers={"X-Kind": "Tea"})]) as endpoint,
        open_exchange() as exchange,
    ):
        sink = ByteCollector()
        await exchange.exchange(to(endpoint), sink)
    assert (sink.status, sink.body, sink.headers["x-kind"]) == (418, b"teapot", "Tea")


async def test_request_is_sent_unchanged(open_exchange: Open) -> None:
    async with ScriptedEndpoint(["Hello"]) as endpoint, open_exchange() as exchange:
        request = to(endpoint, b'{"a": 1}', authorization="Bearer k")
        await exchange.exchange(request, ByteCollector())
        (seen,) = endpoint.requests
    assert (seen.method, seen.content) == ("POST", b'{"a": 1}')
    assert seen.headers["authorization"] == "Bearer k"
    assert seen.headers["accept-encoding"] == "identity"


async def test_compressed_response_is_decoded(open_exchange: Open) -> None:
    packed = body(gzip.compress(b"data: x\n\n"), headers={"content-encoding": "gzip"}, split=[3])
    async with ScriptedEndpoint([packed]) as endpoint, open_exchange() as exchange:
        sink = ByteCollector()
        await exchange.exchange(to(endpoint), sink)
    assert sink.body == b"data: x\n\n"


async def test_falsely_compressed_response_is_protocol_error(open_exchange: Open) -> None:
    error = await failure(
        open_exchange, body(b"plain", headers={"content-encoding": "gzip"}), broken=None
    )
    assert isinstance(error, ProviderProtocolError)
    assert "could not be decoded" in str(error)


async def test_unknown_compression_is_protocol_error(open_exchange: Open) -> None:
    error = await failure(
        open_exchange, body(b"xx", headers={"content-encoding": "br"}), broken=None
    )
    assert isinstance(error, ProviderProtocolError)
    assert "the body is compressed with 'br', which was not requested" in str(error)


async def test_unknown_compression_keeps_the_status(open_exchange: Open) -> None:
    busy = status(429, b"xx", headers={"content-encoding": "br", "retry-after": "3"})
    sink = ByteCollector()
    async with ScriptedEndpoint([busy]) as endpoint, open_exchange() as exchange:
        with pytest.raises(ProviderProtocolError):
            await exchange.exchange(to(endpoint), sink)
    assert (sink.status, sink.headers["retry-after"]) == (429, "3")


async def test_cut_compressed_response_is_broken_connection(open_exchange: Open) -> None:
    packed = gzip.compress(b"data: x\n\n")
    cut = body(packed[:-4], headers={"content-encoding": "gzip"})
    error = await failure(open_exchange, cut, broken=None)
    assert isinstance(error, ProviderConnectError)
    assert "before the response was complete: the gzip data is truncated" in str(error)


async def test_finished_sink_ignores_a_cut(open_exchange: Open) -> None:
    packed = gzip.compress(b"data: x\n\n")
    cut = body(packed[:-4], headers={"content-encoding": "gzip"})
    sink = ByteCollector(lambda text: text == b"data: x\n\n")
    async with ScriptedEndpoint([cut]) as endpoint, open_exchange() as exchange:
        await exchange.exchange(to(endpoint), sink)
    assert sink.done


async def test_redirects_are_not_followed(open_exchange: Open) -> None:
    async with (
        ScriptedEndpoint([status(307, b"", headers={"location": "/v1/models"})]) as endpoint,
        open_exchange() as exchange,
    ):
        sink = ByteCollector()
        await exchange.exchange(to(endpoint), sink)
        assert len(endpoint.requests) == 1
    assert sink.status == 307


async def test_connections_are_used_again(open_exchange: Open) -> None:
    async with (
        ScriptedEndpoint(["a", status(500), html(), "b"]) as endpoint,
        open_exchange() as exchange,
    ):
        for done_when in (is_whole, bool, bool, is_whole):
            await exchange.exchange(to(endpoint), ByteCollector(done_when))
            await endpoint.wait_quiet()
        assert endpoint.connections == 1
        assert counts(exchange) == (0, 4)


async def test_exchanges_run_in_parallel(
    open_exchange: Open,
) -> None:
    async with (
        ScriptedEndpoint(lambda _: [say("a"), hang()]) as endpoint,
        open_exchange() as exchange,
        trio.open_nursery() as nursery,
    ):
        for _ in range(20):
            nursery.start_soon(exchange.exchange, to(endpoint), ByteCollector())
        await endpoint.wait_live(20)
        assert counts(exchange) == (20, 20)
        nursery.cancel_scope.cancel()
    assert counts(exchange) == (0, 20)


async def test_a_full_sink_stops_the_reading(open_exchange: Open) -> None:
    async with ScriptedEndpoint(["Hello"]) as endpoint, open_exchange() as exchange:
        sink = ByteCollector()
        sink.room = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(exchange.exchange, to(endpoint), sink)
            await endpoint.wait_requests(1)
            await endpoint.wait_quiet()
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert sink.body == b""
            sink.room.set()
        assert sink.waited == 1
        assert is_whole(sink.body)


async def test_large_trailing_data_is_cut_off(open_exchange: Open) -> None:
    much = body(b"x" * 1_000_000, split=[1000])
    async with ScriptedEndpoint([much, "Hello"]) as endpoint, open_exchange() as exchange:
        sink = ByteCollector(bool)
        await exchange.exchange(to(endpoint), sink)
        await endpoint.wait_closed()
        assert len(sink.body) < 500_000
        await exchange.exchange(to(endpoint), ByteCollector())
        assert endpoint.connections == 2


async def test_endless_trailing_data_is_cut_off(open_exchange: Open) -> None:
    turn = reply("Hello", hang())
    async with ScriptedEndpoint([turn]) as endpoint, open_exchange() as exchange:
        await exchange.exchange(to(endpoint), ByteCollector(bool))
        await endpoint.wait_closed()


async def test_disconnect_after_end_is_ignored(open_exchange: Open) -> None:
    turn = reply("Hello", disconnect(reset=True))
    async with ScriptedEndpoint([turn]) as endpoint, open_exchange() as exchange:
        sink = ByteCollector(bool)
        await exchange.exchange(to(endpoint), sink)
        assert sink.body


# --- failures -------------------------------------------------------------------------------------


@pytest.mark.feature("OAS-073")
async def test_refused_connection_is_a_connect_error(open_exchange: Open) -> None:
    async with ScriptedEndpoint([], listening=False) as endpoint, open_exchange() as exchange:
        with pytest.raises(ProviderConnectError, match=r"could not connect: .*refused"):
            await exchange.exchange(to(endpoint), ByteCollector())
        assert exchange.statistics().live == 0


async def test_an_unknown_host_is_a_connect_error(open_exchange: Open) -> None:
    async with open_exchange() as exchange:
        with pytest.raises(ProviderConnectError):
            await exchange.exchange(
                HttpRequest("http://no-such-host.invalid/v1", {}, b""), ByteCollector()
            )


@pytest.mark.parametrize("url", ["ftp://x/", "http://[x/", "x", "http://x:y/"])
async def test_unusable_url_is_a_connect_error(open_exchange: Open, url: str) -> None:
    async with open_exchange() as exchange:
        with pytest.raises(ProviderConnectError, match=r"cannot be sent|could not connect"):
            await exchange.exchange(HttpRequest(url, {}, b""), ByteCollector())


async def test_unusable_header_is_a_connect_error(open_exchange: Open) -> None:
    async with ScriptedEndpoint([]) as endpoint, open_exchange() as exchange:
        with pytest.raises(ProviderConnectError, match="cannot be sent"):
            await exchange.exchange(to(endpoint, b"", bad="a\nb"), ByteCollector())


@pytest.mark.feature("OAS-073")
@pytest.mark.parametrize("reset", [False, True])
async def test_hang_up_without_response_is_error(open_exchange: Open, *, reset: bool) -> None:
    error = await failure(open_exchange, hang_up(reset=reset))
    assert isinstance(error, ProviderConnectError)
    assert "the connection broke before the response was complete" in str(error)


@pytest.mark.parametrize("size", [5, 120, 250])
@pytest.mark.parametrize("reset", [False, True])
async def test_broken_response_is_a_connect_error(
    open_exchange: Open, size: int, *, reset: bool
) -> None:
    error = await failure(open_exchange, disconnect_after(size, reply("Hello " * 9), reset=reset))
    assert isinstance(error, ProviderConnectError)


async def test_non_http_response_is_protocol_error(open_exchange: Open) -> None:
    error = await failure(open_exchange, not_http(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"))
    assert isinstance(error, ProviderProtocolError)
    assert "the response is not valid HTTP" in str(error)


async def test_slow_connection_is_a_deadline_error(open_exchange: Open) -> None:
    # The server does not respond to the TLS handshake, which the connect deadline covers.
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    async with listener, open_exchange(0.02) as exchange:
        with pytest.raises(ProviderDeadlineError) as caught:
            await exchange.exchange(
                HttpRequest(f"https://127.0.0.1:{port}/v1?key=s", {}, b""), ByteCollector()
            )
    assert (caught.value.kind, caught.value.seconds) == ("connect", 0.02)
    assert caught.value.endpoint == f"https://127.0.0.1:{port}/v1"


async def test_sink_error_is_raised_and_connection_closed(
    open_exchange: Open,
) -> None:
    class Refused(Exception):
        pass

    class Refusing(ByteCollector):
        def feed(self, data: bytes) -> None:
            raise Refused

    turn = reply(say("Hello"), hang())
    async with ScriptedEndpoint([turn]) as endpoint, open_exchange() as exchange:
        with pytest.raises(Refused):
            await exchange.exchange(to(endpoint), Refusing())
        await endpoint.wait_closed()


# --- cancellation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("turn", [silent(), reply(hang()), reply(say("a"), hang())])
async def test_cancelling_closes_the_connection(open_exchange: Open, turn: ReplyTurn) -> None:
    async with ScriptedEndpoint([turn]) as endpoint, open_exchange() as exchange:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(exchange.exchange, to(endpoint), ByteCollector())
            await endpoint.wait_requests(1)
            nursery.cancel_scope.cancel()
        await endpoint.wait_closed()
        assert exchange.statistics().live == 0


async def test_cancel_with_full_sink_closes_connection(open_exchange: Open) -> None:
    turn = reply(say("a"), hang())
    async with ScriptedEndpoint([turn]) as endpoint, open_exchange() as exchange:
        sink = ByteCollector()
        sink.room = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(exchange.exchange, to(endpoint), sink)
            await sink.started.wait()
            await trio.testing.wait_all_tasks_blocked()
            assert sink.waited == 1
            nursery.cancel_scope.cancel()
        await endpoint.wait_closed()


async def test_cancel_during_tls_handshake_closes_connection(open_exchange: Open) -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    request = HttpRequest(f"https://127.0.0.1:{port}/", {}, b"")
    async with listener, open_exchange() as exchange:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(exchange.exchange, request, ByteCollector())
            peer = await listener.accept()
            await peer.receive_some(1)
            nursery.cancel_scope.cancel()
        async with peer:
            while await peer.receive_some():
                pass


async def test_closing_twice_is_closing_once(open_exchange: Open) -> None:
    async with open_exchange() as exchange:
        await exchange.aclose()
        await exchange.aclose()
        with pytest.raises(ProviderConnectError, match="the exchange is closed"):
            await exchange.exchange(HttpRequest("http://x/", {}, b""), ByteCollector())


async def test_close_during_exchange_ends_it() -> None:
    turn = reply(say("a"), hang())
    async with ScriptedEndpoint([turn]) as endpoint, own_clients() as exchange:
        sink = ByteCollector()

        async def expect_error() -> None:
            with pytest.raises(ProviderConnectError):
                await exchange.exchange(to(endpoint), sink)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(expect_error)
            await sink.fed.wait()
            await exchange.aclose()
        await endpoint.wait_closed()
