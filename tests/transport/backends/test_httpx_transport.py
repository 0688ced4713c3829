"""The engine under the httpx API: an `httpx.AsyncClient` over raw sockets."""

# ruff: noqa: SIM117 - one `with` for the server, one for the request

import httpx
import pytest
import trio

from agent_actors.transport.backends.httpx_transport import EngineTransport
from tests.transport.asking import AGAIN, HELLO, MEGABYTE, OK, closed, descriptors, quiet
from tests.transport.backends.helpers import client_of, pieces_of
from tests.transport.wire_helpers import (
    Step,
    WireServer,
    ask,
    ask_head,
    beat,
    close,
    reset,
    stall,
    tell,
    until,
)

BIG = bytes(8 * MEGABYTE)
SIZED_BIG = OK + b"content-length: %d\r\n\r\n" % len(BIG)


# --- methods and bodies ---------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY"])
async def test_methods_are_sent_unchanged(method: str) -> None:
    async with WireServer([ask, HELLO]) as server, client_of() as (client, _):
        response = await client.request(method, server.url + "?a=b#c", headers={"X-A": "1"})
        assert (response.status_code, response.text) == (200, "hello")
        assert (response.http_version, response.reason_phrase) == ("HTTP/1.1", "OK")
        request = server.requests[0]
        assert request.startswith(f"{method} /v1?a=b HTTP/1.1\r\n".encode())
        assert b"\r\nX-A: 1\r\n" in request
        assert f"\r\nHost: 127.0.0.1:{server.port}\r\n".encode() in request


async def test_head_response_keeps_connection_usable() -> None:
    head_only = OK + b"content-length: 99\r\n\r\n"
    async with WireServer([ask, head_only, ask, AGAIN]) as server, client_of() as (client, _):
        response = await client.head(server.url)
        assert (response.headers["content-length"], response.content) == ("99", b"")
        assert (await client.get(server.url)).content == b"again"
        assert server.connections == 1


async def test_duplicate_headers_stay_separate() -> None:
    answer = OK + b"Set-Cookie: a=1\r\nset-cookie: b=2\r\nX: y\r\ncontent-length: 0\r\n\r\n"
    async with WireServer([ask, answer]) as server, client_of() as (client, _):
        response = await client.get(server.url)
        assert response.headers.get_list("set-cookie") == ["a=1", "b=2"]
        assert dict(client.cookies) == {"a": "1", "b": "2"}


async def test_splittable_request_is_refused() -> None:
    async with WireServer() as server, client_of() as (client, _):
        with pytest.raises(httpx.LocalProtocolError, match="control characters"):
            await client.get(server.url, headers={"x": "a\r\nevil: b"})
        with pytest.raises(httpx.LocalProtocolError, match="or the path"):
            await client.request("GET /evil", server.url)


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "end", "error"),
    [
        (b"nonsense\r\n\r\n", beat, httpx.RemoteProtocolError),
        (b"", close, httpx.ReadError),
        (b"", reset, httpx.ReadError),
        (HELLO[:-1], close, httpx.ReadError),
        (HELLO[:-1], reset, httpx.ReadError),
        (OK + b"transfer-encoding: chunked\r\n\r\nzz\r\n", beat, httpx.RemoteProtocolError),
    ],
)
async def test_failures_are_httpx_errors(answer: bytes, end: Step, error: type[Exception]) -> None:
    async with (
        WireServer([ask, answer, end], [ask, AGAIN]) as server,
        client_of() as (client, transport),
    ):
        with pytest.raises(error) as caught:
            await client.post(server.url)
        assert isinstance(caught.value, httpx.TransportError)
        assert caught.value.request.url == server.url
        await server.wait_gone(1)
        assert (await client.get(server.url)).content == b"again"
        assert transport.statistics().opened == 2


async def test_data_before_failure_is_readable() -> None:
    async with (
        WireServer([ask, HELLO[:-1], beat, close]) as server,
        client_of() as (
            client,
            _,
        ),
    ):
        async with client.stream("GET", server.url) as response:
            pieces = response.aiter_raw()
            assert await anext(pieces) == b"hell"
            with pytest.raises(httpx.ReadError):
                await anext(pieces)


async def test_refused_port_is_connect_error() -> None:
    async with WireServer() as server, client_of() as (client, _):
        url = server.url
    async with client_of() as (client, _):
        with pytest.raises(httpx.ConnectError):
            await client.get(url)


async def test_body_over_limit_is_protocol_error() -> None:
    async with WireServer([ask, HELLO]) as server, client_of(max_body=4) as (client, _):
        with pytest.raises(httpx.RemoteProtocolError, match="larger than"):
            await client.get(server.url)


async def test_closed_client_sends_nothing() -> None:
    async with client_of() as (_, transport):
        await transport.aclose()
        await transport.aclose()
        with pytest.raises(httpx.ConnectError, match="closed"):
            await transport.handle_async_request(httpx.Request("GET", "http://127.0.0.1:1/"))


# --- timeouts -------------------------------------------------------------------------------------


async def test_stalled_handshake_is_connect_timeout() -> None:
    timeout = httpx.Timeout(None, connect=0.02)
    async with WireServer([stall]) as server, client_of(timeout=timeout) as (client, _):
        with pytest.raises(httpx.ConnectTimeout):
            await client.get(server.url.replace("http:", "https:"))
        await server.wait_gone(0)


@pytest.mark.parametrize("answer", [b"", HELLO[:9], HELLO[:-1]], ids=["none", "head", "body"])
async def test_silence_is_a_read_timeout(answer: bytes) -> None:
    timeout = httpx.Timeout(None, read=0.02)
    async with (
        WireServer([ask, answer]) as server,
        client_of(timeout=timeout) as (client, transport),
    ):
        with pytest.raises(httpx.ReadTimeout, match=r"no data was received for 0\.02 s"):
            await client.get(server.url)
        await server.wait_gone(1)
        assert closed(transport.statistics()) == {"cancel": 1}


async def test_slow_reader_causes_no_read_timeout() -> None:
    timeout = httpx.Timeout(None, read=0.05)
    async with WireServer([ask, HELLO]) as server, client_of(timeout=timeout) as (client, _):
        async with client.stream("GET", server.url) as response:
            await trio.sleep(0.1)
            assert await response.aread() == b"hello"


async def test_stuck_peer_is_write_timeout() -> None:
    timeout = httpx.Timeout(None, write=0.02)
    async with (
        WireServer([ask_head, stall]) as server,
        client_of(timeout=timeout) as (client, transport),
    ):
        with pytest.raises(httpx.WriteTimeout):
            await client.post(server.url, content=BIG)
        assert closed(transport.statistics()) == {"cancel": 1}


async def test_full_pool_is_pool_timeout() -> None:
    timeout = httpx.Timeout(None, pool=0.02)
    async with (
        WireServer([ask, HELLO[:-1]]) as server,
        client_of(timeout=timeout, max_connections=1) as (client, transport),
    ):
        async with client.stream("GET", server.url):
            with pytest.raises(httpx.PoolTimeout):
                await client.get(server.url)
            assert transport.statistics().waiting == 0


# --- connections that turn out to be closed -------------------------------------------------------


@pytest.mark.parametrize("end", [close, reset])
@pytest.mark.parametrize("method", ["GET", "PUT"])
async def test_idempotent_request_is_repeated_once(method: str, end: Step) -> None:
    async with (
        WireServer([ask, HELLO, ask, end], [ask, AGAIN, ask, AGAIN]) as server,
        client_of(max_connections=1) as (client, transport),
    ):
        await client.get(server.url)
        response = await client.request(method, server.url, content=b"x")
        assert response.content == b"again"
        assert (server.connections, len(server.requests)) == (2, 3)
        assert transport.statistics().waiting == 0
        assert (await client.get(server.url)).content == b"again"
        assert server.connections == 2


async def test_repeated_request_may_fail_too() -> None:
    script: list[Step] = [ask, close]
    async with WireServer([ask, HELLO, *script], script) as server, client_of() as (client, _):
        await client.get(server.url)
        with pytest.raises(httpx.ReadError):
            await client.get(server.url)
        assert (server.connections, len(server.requests)) == (2, 3)


async def test_a_post_is_not_sent_again() -> None:
    async with WireServer([ask, HELLO, ask, close]) as server, client_of() as (client, _):
        await client.get(server.url)
        with pytest.raises(httpx.ReadError):
            await client.post(server.url)
        assert (server.connections, len(server.requests)) == (1, 2)


async def test_fresh_connection_loss_is_not_repeated() -> None:
    async with WireServer([ask, close], [ask, AGAIN]) as server, client_of() as (client, _):
        with pytest.raises(httpx.ReadError):
            await client.get(server.url)
        assert (server.connections, len(server.requests)) == (1, 1)


async def test_partial_response_is_not_repeated() -> None:
    script: list[Step] = [ask, HELLO, ask, HELLO[:9], beat, close]
    async with WireServer(script) as server, client_of() as (client, _):
        await client.get(server.url)
        with pytest.raises(httpx.ReadError):
            await client.get(server.url)
        assert len(server.requests) == 2


async def test_started_stream_is_not_repeated() -> None:
    async with WireServer([ask, HELLO, ask, close]) as server, client_of() as (client, _):
        await client.get(server.url)
        with pytest.raises(httpx.ReadError):
            await client.put(server.url, content=pieces_of(b"a"))
        assert len(server.requests) == 2


async def test_unsent_post_uses_fresh_connection() -> None:
    async with WireServer([ask, HELLO], [ask, AGAIN]) as server, client_of() as (client, _):
        await client.get(server.url)
        await quiet()
        server.peers[0].close(reset=True)
        assert (await client.post(server.url)).content == b"again"


# --- reading --------------------------------------------------------------------------------------


async def test_body_is_read_incrementally() -> None:
    more = trio.Event()
    async with (
        WireServer([ask, HELLO[:-3], until(more), HELLO[-3:]]) as server,
        client_of() as (
            client,
            _,
        ),
    ):
        async with client.stream("GET", server.url) as response:
            pieces = response.aiter_raw()
            assert await anext(pieces) == b"he"
            more.set()
            assert await anext(pieces) == b"llo"
            with pytest.raises(StopAsyncIteration):
                await anext(pieces)


async def test_slow_reader_stops_reading() -> None:
    sent = trio.Event()
    script: list[Step] = [ask, SIZED_BIG, BIG, tell(sent)]
    async with WireServer(script) as server, client_of() as (client, transport):
        async with client.stream("GET", server.url) as response:
            await quiet()
            assert not sent.is_set()
            size = 0
            async for piece in response.aiter_raw():
                size += len(piece)
                assert len(piece) <= 128 * 1024  # the buffered data and one read
        assert size == len(BIG)
        assert transport.statistics().idle == 1


async def test_leaving_early_closes_the_connection() -> None:
    async with WireServer([ask, HELLO[:-1]]) as server, client_of() as (client, transport):
        async with client.stream("GET", server.url):
            await quiet()
        await server.wait_gone(1)
        assert closed(transport.statistics()) == {"cancel": 1}


async def test_leaving_at_the_end_leaves_the_connection() -> None:
    async with WireServer([ask, HELLO, ask, AGAIN]) as server, client_of() as (client, _):
        async with client.stream("GET", server.url):
            await quiet()
        assert (await client.get(server.url)).content == b"again"
        assert server.connections == 1


@pytest.mark.parametrize("answer", [b"", HELLO[:-1], SIZED_BIG + BIG[:MEGABYTE]])
async def test_cancelling_closes_the_connection_at_once(answer: bytes) -> None:
    before = descriptors()
    async with WireServer([ask, answer]) as server, client_of() as (client, transport):
        async with trio.open_nursery() as nursery:

            async def read() -> None:
                async with client.stream("GET", server.url) as response:
                    await response.aread()

            nursery.start_soon(read)
            await server.wait_requests(1)
            await quiet()
            nursery.cancel_scope.cancel()
        await server.wait_gone(1)
        assert closed(transport.statistics()) == {"cancel": 1}
    assert descriptors().keys() == before.keys()


async def test_close_during_body_is_an_error() -> None:
    async with WireServer([ask, HELLO[:-1]]) as server, client_of() as (client, transport):
        async with client.stream("GET", server.url) as response:
            pieces = response.aiter_raw()
            assert await anext(pieces) == b"hell"
            await transport.aclose()
            with pytest.raises(httpx.ReadError, match="closed"):
                await anext(pieces)


# --- other features of httpx ----------------------------------------------------------------------


async def test_redirects_cookies_and_event_hooks_work() -> None:
    moved = b"HTTP/1.1 302 Found\r\nlocation: /v2\r\nset-cookie: a=1\r\ncontent-length: 0\r\n\r\n"
    async with WireServer([ask, moved, ask, HELLO]) as server, client_of() as (client, _):
        seen: list[str] = []

        async def on_request(request: httpx.Request) -> None:
            seen.append(f"{request.method} {request.url.path}")

        async def on_response(response: httpx.Response) -> None:
            seen.append(str(response.status_code))

        client.event_hooks = {"request": [on_request], "response": [on_response]}
        response = await client.post(server.url, follow_redirects=True, auth=("u", "p"))
        assert response.content == b"hello"
        assert seen == ["POST /v1", "302", "GET /v2", "200"]
        assert server.connections == 1
        assert b"\r\nAuthorization: Basic " in server.requests[0]
        assert b"\r\nCookie: a=1\r\n" in server.requests[1]


async def test_redirect_resends_the_body() -> None:
    moved = b"HTTP/1.1 307 Moved\r\nlocation: /v2\r\ncontent-length: 0\r\n\r\n"
    async with WireServer([ask, moved, ask, HELLO]) as server, client_of() as (client, _):
        response = await client.post(server.url, content=b"abc", follow_redirects=True)
        assert response.content == b"hello"
        assert server.requests[1].startswith(b"POST /v2 ")
        assert server.requests[1].endswith(b"\r\n\r\nabc")


async def test_a_transport_can_be_entered_by_itself() -> None:
    async with WireServer([ask, HELLO]) as server, EngineTransport() as transport:
        request = httpx.Request("GET", server.url)
        response = await transport.handle_async_request(request)
        assert await response.aread() == b"hello"
