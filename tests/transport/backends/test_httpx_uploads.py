"""Request bodies through the httpx API: framed as the headers say, sent as they are produced."""

# ruff: noqa: SIM117 - one `with` for the server, one for the request

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import httpx
import pytest
import trio

from tests.transport.asking import AGAIN, HELLO, MEGABYTE, closed, quiet
from tests.transport.backends.helpers import client_of, pieces_of
from tests.transport.wire_helpers import Step, WireServer, ask, ask_head, stall, tell

BIG = bytes(8 * MEGABYTE)


async def test_unsized_body_is_chunked() -> None:
    async with WireServer([ask, HELLO]) as server, client_of() as (client, _):
        await client.post(server.url, content=pieces_of(b"ab", b"", b"c" * 20))
        head, _, content = server.requests[0].partition(b"\r\n\r\n")
        assert b"Transfer-Encoding: chunked" in head
        assert content == b"2\r\nab\r\n14\r\n" + b"c" * 20 + b"\r\n0\r\n\r\n"


async def test_sized_body_is_not_chunked() -> None:
    async with WireServer([ask, HELLO]) as server, client_of() as (client, _):
        await client.post(
            server.url, content=pieces_of(b"ab", b"c"), headers={"content-length": "3"}
        )
        assert server.requests[0].endswith(b"\r\n\r\nabc")


async def test_an_empty_stream_is_an_empty_body() -> None:
    async with WireServer([ask, HELLO]) as server, client_of() as (client, _):
        await client.post(server.url, content=pieces_of())
        assert server.requests[0].endswith(b"\r\n\r\n0\r\n\r\n")


async def test_a_form_with_a_file_arrives_whole() -> None:
    async with WireServer([ask, HELLO]) as server, client_of() as (client, _):
        await client.post(server.url, data={"a": "b"}, files={"f": b"file's content"})
        assert b"file's content" in server.requests[0]


async def test_early_response_ends_endless_upload() -> None:
    taken = 0

    async def endless() -> AsyncGenerator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield bytes(MEGABYTE)

    script: list[Step] = [ask_head, b"HTTP/1.1 413 X\r\ncontent-length: 0\r\n\r\n", stall]
    async with WireServer(script) as server, client_of() as (client, _):
        async with aclosing(endless()) as upload:
            with trio.fail_after(5):
                response = await client.post(server.url, content=upload)
        assert response.status_code == 413
        assert taken < 100


async def test_upload_error_closes_connection() -> None:
    class Refused(Exception):
        pass

    async def broken() -> AsyncIterator[bytes]:
        yield b"a"
        raise Refused

    async with WireServer([ask]) as server, client_of() as (client, transport):
        with pytest.raises(Refused):
            await client.post(server.url, content=broken())
        await server.wait_gone(1)
        assert closed(transport.statistics()) == {"cancel": 1}


async def test_cancelled_upload_closes_connection_immediately() -> None:
    stuck = trio.Event()
    async with (
        WireServer([ask_head, tell(stuck), stall]) as server,
        client_of() as (
            client,
            transport,
        ),
    ):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: client.post(server.url, content=BIG))
            await stuck.wait()
            await quiet()
            nursery.cancel_scope.cancel()
        assert closed(transport.statistics()) == {"cancel": 1}


async def test_cancelled_upload_finishes_its_generator() -> None:
    stuck = trio.Event()
    finished = trio.Event()

    async def made() -> AsyncGenerator[bytes]:
        try:
            while True:
                yield BIG
        finally:
            finished.set()

    async with WireServer([ask_head, tell(stuck), stall]) as server, client_of() as (client, _):
        async with trio.open_nursery() as nursery, aclosing(made()) as content:
            nursery.start_soon(lambda: client.post(server.url, content=content))
            await stuck.wait()
            await quiet()
            nursery.cancel_scope.cancel()
    assert finished.is_set()


# --- headers that contradict the body -------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"content-length": "2"}, "longer than its content-length"),
        ({"content-length": "4"}, "1 bytes shorter than its content-length"),
        ({"content-length": "-3"}, "must be a non-negative integer"),
        ({"transfer-encoding": "gzip, chunked"}, "must be 'chunked'"),
        ({"transfer-encoding": "chunked", "content-length": "3"}, "cannot have both"),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
async def test_body_contradicting_head_is_refused(
    headers: dict[str, str], message: str, *, streamed: bool
) -> None:
    if not streamed and headers.get("content-length") in {"2", "4"}:
        message = "the body has 3 bytes"
    async with WireServer(forever=[ask_head]) as server, client_of() as (client, transport):
        async with aclosing(pieces_of(b"ab", b"c")) as pieces:
            content = pieces if streamed else b"abc"
            with pytest.raises(httpx.LocalProtocolError, match=message):
                await client.post(server.url, content=content, headers=headers)
        assert transport.statistics().open == 0


async def test_buffered_body_may_be_chunked() -> None:
    async with WireServer([ask, HELLO, ask, AGAIN]) as server, client_of() as (client, _):
        for content in (b"abc", b""):
            stream = httpx.ByteStream(content)
            headers = {"host": "x", "transfer-encoding": "chunked"}
            await client.send(httpx.Request("POST", server.url, headers=headers, stream=stream))
        assert server.requests[0].endswith(b"\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
        assert server.requests[1].endswith(b"\r\n\r\n0\r\n\r\n")


async def test_a_stream_without_any_framing_is_refused() -> None:
    class Bare(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"abc"

    async with WireServer() as server, client_of() as (client, _):
        request = httpx.Request("POST", server.url, stream=Bare())
        with pytest.raises(httpx.LocalProtocolError, match="needs a content-length"):
            await client.send(request)
