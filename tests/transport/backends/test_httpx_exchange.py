import asyncio
import ssl
from collections.abc import AsyncIterator

import httpx
import pytest
import trio

from agent_actors.abc import ExchangeStatistics, HttpRequest
from agent_actors.errors import (
    ConfigError,
    ProviderConnectError,
    ProviderProtocolError,
)
from agent_actors.testing import ScriptedEndpoint, hang, say
from agent_actors.transport.backends.httpx_exchange import STREAMS_PER_CLIENT, HttpxExchange
from agent_actors.transport.tls import verifying_context
from tests.transport.sinks import ByteCollector

REQUEST = HttpRequest("http://host/v1?key=secret", {"x-team": "a"}, b"{}")


def clients_of(exchange: HttpxExchange) -> int:
    return len(exchange._shards)


def request_to(endpoint: ScriptedEndpoint) -> HttpRequest:
    return HttpRequest(f"{endpoint.base_url}/chat/completions", {}, b'{"stream": true}')


@pytest.mark.feature("OAGS-040")
async def test_injected_transport_is_closed() -> None:
    class Transport(httpx.MockTransport):
        closed = 0

        async def aclose(self) -> None:
            self.closed += 1

    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, content=b"data: x\n\n")

    transport = Transport(answer)
    exchange = HttpxExchange(transport=transport)
    sink = ByteCollector()
    await exchange.exchange(REQUEST, sink)
    await exchange.aclose()
    assert (sink.status, sink.body) == (200, b"data: x\n\n")
    assert (seen[0].headers["x-team"], transport.closed) == ("a", 1)


@pytest.mark.feature("ASDK-022")
async def test_caller_client_is_used_never_closed() -> None:
    async with (
        ScriptedEndpoint(lambda _: "Hello") as endpoint,
        httpx.AsyncClient(headers={"x-mine": "yes"}) as client,
    ):
        exchange = HttpxExchange(client=client)
        await exchange.exchange(request_to(endpoint), ByteCollector())
        await exchange.aclose()
        assert not client.is_closed
        assert endpoint.requests[0].headers["x-mine"] == "yes"


def test_client_and_transport_conflict() -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200))
    with pytest.raises(ConfigError, match="not both"):
        HttpxExchange(client=httpx.AsyncClient(transport=transport), transport=transport)


@pytest.mark.parametrize(
    ("raised", "error", "message"),
    [
        (httpx.ReadTimeout("slow"), ProviderConnectError, "connection broke .*: slow"),
        (httpx.PoolTimeout(""), ProviderConnectError, "connection broke .*: PoolTimeout"),
        (httpx.ProxyError("407"), ProviderConnectError, "could not connect: 407"),
        (httpx.WriteError("gone"), ProviderConnectError, "connection broke .*: gone"),
        (httpx.StreamClosed(), ProviderConnectError, "connection broke"),
        (httpx.TooManyRedirects("x"), ProviderConnectError, "connection broke .*: x"),
        (httpx.RemoteProtocolError("bad line"), ProviderProtocolError, "not valid HTTP: bad line"),
    ],
)
async def test_httpx_failures_become_our_errors(
    raised: Exception, error: type[Exception], message: str
) -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise raised

    exchange = HttpxExchange(transport=httpx.MockTransport(fail))
    with pytest.raises(error, match=f"^http://host/v1: .*{message}") as caught:
        await exchange.exchange(REQUEST, ByteCollector())
    assert caught.value.__cause__ is raised
    await exchange.aclose()


async def test_failure_cause_excludes_outer_exceptions() -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        try:
            raise OSError("reset by peer")
        except OSError as error:
            raise httpx.ReadError("read") from error

    exchange = HttpxExchange(transport=httpx.MockTransport(fail))
    try:
        raise RuntimeError("an earlier trouble of the caller")
    except RuntimeError:
        with pytest.raises(ProviderConnectError, match="reset by peer"):
            await exchange.exchange(REQUEST, ByteCollector())
    await exchange.aclose()


async def test_an_error_shows_neither_password_nor_query() -> None:
    exchange = HttpxExchange()
    await exchange.aclose()
    with pytest.raises(ProviderConnectError, match=r"^https://host:1/v1/x: "):
        await exchange.exchange(
            HttpRequest("https://me:pw@host:1/v1/x?key=k", {}, b""), ByteCollector()
        )


async def test_clients_share_load_and_spares_close() -> None:
    count = 2 * STREAMS_PER_CLIENT + 1
    async with ScriptedEndpoint(lambda _: [say("a"), hang()]) as endpoint:
        exchange = HttpxExchange()
        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(exchange.exchange, request_to(endpoint), ByteCollector())
            await endpoint.wait_live(count)
            assert clients_of(exchange) == 3
            assert exchange.statistics() == ExchangeStatistics(live=count, begun=count)
            nursery.cancel_scope.cancel()
        assert clients_of(exchange) == 1
        await exchange.aclose()
        assert clients_of(exchange) == 0
        await endpoint.wait_closed()


async def test_plain_and_secure_clients_differ() -> None:
    exchange = HttpxExchange()
    secure, plain = exchange._shard_for(secure=True), exchange._shard_for(secure=False)
    assert secure is not plain
    assert exchange._shard_for(secure=True) is secure
    await exchange.aclose()


def test_secure_clients_share_one_context() -> None:
    context = verifying_context()
    assert context is verifying_context()
    assert context.verify_mode is ssl.CERT_REQUIRED


async def test_closed_client_is_not_closed_twice() -> None:
    async with ScriptedEndpoint(lambda _: [say("a"), hang()]) as endpoint:
        exchange = HttpxExchange()
        count = STREAMS_PER_CLIENT + 1
        async with trio.open_nursery() as nursery:

            async def run_until_closed() -> None:
                with pytest.raises(ProviderConnectError):
                    await exchange.exchange(request_to(endpoint), ByteCollector())

            for _ in range(count):
                nursery.start_soon(run_until_closed)
            await endpoint.wait_live(count)
            await exchange.aclose()
        assert exchange.statistics().live == 0
        await endpoint.wait_closed()


async def test_read_response_is_fed_completely() -> None:
    async def read_it(response: httpx.Response) -> None:
        await response.aread()

    async with (
        ScriptedEndpoint(["Hello"]) as endpoint,
        httpx.AsyncClient(event_hooks={"response": [read_it]}) as client,
    ):
        sink = ByteCollector()
        await HttpxExchange(client=client).exchange(request_to(endpoint), sink)
    assert b"[DONE]" in sink.body


async def test_break_during_drain_is_ignored() -> None:
    class Breaking(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"data: x"
            raise httpx.ReadError("gone")

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, stream=Breaking())

    exchange = HttpxExchange(transport=httpx.MockTransport(answer))
    sink = ByteCollector(bool)
    await exchange.exchange(REQUEST, sink)
    assert sink.body == b"data: x"
    await exchange.aclose()


async def test_infinite_connect_deadline_waits() -> None:
    seen: list[object] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.extensions["timeout"])
        return httpx.Response(200)

    for timeout in (float("inf"), 3.0):
        exchange = HttpxExchange(transport=httpx.MockTransport(answer), connect_timeout=timeout)
        await exchange.exchange(REQUEST, ByteCollector())
        await exchange.aclose()
    assert seen == [
        {"connect": None, "read": None, "write": None, "pool": None},
        {"connect": 3.0, "read": None, "write": None, "pool": None},
    ]


def test_client_used_on_asyncio_is_refused() -> None:
    client = httpx.AsyncClient(trust_env=False)

    async def main() -> None:
        HttpxExchange(client=client)  # a client that was not used yet works everywhere
        with pytest.raises(httpx.ConnectError):
            await client.get("http://127.0.0.1:1")

    asyncio.run(main())
    with pytest.raises(ConfigError, match="belongs to asyncio"):
        HttpxExchange(client=client)


def test_client_with_an_asyncio_transport_is_refused() -> None:
    class AiohttpTransport(httpx.MockTransport):
        __module__ = "httpx_aiohttp.transport"

    client = httpx.AsyncClient(transport=AiohttpTransport(lambda _: httpx.Response(200)))
    with pytest.raises(ConfigError, match="belongs to asyncio"):
        HttpxExchange(client=client)
