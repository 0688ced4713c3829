"""RFC 9112 over sockets: the end of a response, invalid responses, and reuse of the connection."""

from contextlib import AbstractAsyncContextManager

import attrs
import pytest
import trio

from agent_actors.errors import ProviderConnectError, ProviderProtocolError
from agent_actors.transport.backends.native import HttpExchange
from tests.transport.asking import AGAIN, OK, body_of, opened, post
from tests.transport.sinks import ByteCollector
from tests.transport.wire_helpers import Step, WireServer, apart, ask, close, half_close, reset

CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
SIZED = OK + b"content-length: 2\r\n\r\n"


@attrs.frozen
class Row:
    """A response and its expected outcome.

    Attributes:
        what: A description of the response.
        answer: The bytes of the response.
        outcome: The body, or the class of the error.
        again: True if the connection is used for the next request.
        then: The peer's actions after the response.
        status: The status of the response.
    """

    what: str
    answer: bytes
    outcome: bytes | type[Exception]
    again: bool = False
    then: tuple[Step, ...] = ()
    status: int = 200


LENGTHS = [
    Row("a length", SIZED + b"ab", b"ab", again=True),
    Row("no content", OK + b"content-length: 0\r\n\r\n", b"", again=True),
    Row("a length with zeros", OK + b"content-length: 0002\r\n\r\nab", b"ab", again=True),
    Row("white space around", OK + b"content-length: \t2 \t\r\n\r\nab", b"ab", again=True),
    Row("a name in capitals", OK + b"CONTENT-LENGTH: 2\r\n\r\nab", b"ab", again=True),
    Row("no phrase", b"HTTP/1.1 200 \r\ncontent-length: 2\r\n\r\nab", b"ab", again=True),
    Row(
        "unknown status",
        b"HTTP/1.1 599 What\r\ncontent-length: 2\r\n\r\nab",
        b"ab",
        again=True,
        status=599,
    ),
    Row("bytes above ASCII", OK + b"x: \xff\xe9\r\ncontent-length: 2\r\n\r\nab", b"ab", again=True),
    Row("until the end", OK + b"\r\nab", b"ab", then=(close,)),
    Row("until the end, and not whole", OK + b"\r\nab", ProviderConnectError, then=(reset,)),
    Row("until a half-closed end", OK + b"\r\nab", b"ab", then=(half_close,)),
    Row("a length not reached", SIZED + b"a", ProviderConnectError, then=(close,)),
    Row("a length reached, then the end", SIZED + b"ab", b"ab", then=(close,)),
]

CHUNKS = [
    Row("chunks", CHUNKED + b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n", b"ab", again=True),
    Row("in capitals", CHUNKED + b"A\r\n0123456789\r\n0\r\n\r\n", b"0123456789", again=True),
    Row("an extension", CHUNKED + b'2;a="b;c";d\r\nab\r\n0;e\r\n\r\n', b"ab", again=True),
    Row("a trailer", CHUNKED + b"2\r\nab\r\n0\r\nx: y\r\nz: w\r\n\r\n", b"ab", again=True),
    Row("a size with zeros", CHUNKED + b"0002\r\nab\r\n000\r\n\r\n", b"ab", again=True),
    Row("a coding in capitals", OK + b"Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n", b"", True),
    Row("no last chunk", CHUNKED + b"2\r\nab\r\n", ProviderConnectError, then=(close,)),
    Row("half a chunk", CHUNKED + b"5\r\nab", ProviderConnectError, then=(close,)),
    Row("no end of the trailers", CHUNKED + b"0\r\n", ProviderConnectError, then=(close,)),
    Row("no size", CHUNKED + b"\r\nab\r\n", ProviderProtocolError),
    Row("a size that is none", CHUNKED + b"g\r\n", ProviderProtocolError),
    Row("a size below zero", CHUNKED + b"-2\r\nab\r\n", ProviderProtocolError),
    Row("a size in C", CHUNKED + b"0x2\r\nab\r\n", ProviderProtocolError),
    Row("a size beyond all", CHUNKED + b"f" * 17 + b"\r\n", ProviderProtocolError),
    Row("more than its size", CHUNKED + b"1\r\nab\r\n", ProviderProtocolError),
    Row("a bare line feed", CHUNKED + b"2\nab\r\n0\r\n\r\n", ProviderProtocolError),
]

WITHOUT_BODY = [
    Row("204", b"HTTP/1.1 204 No Content\r\n\r\n", b"", again=True, status=204),
    Row(
        "304 with a length",
        b"HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n",
        b"",
        again=True,
        status=304,
    ),
    Row("204 and a body", b"HTTP/1.1 204 X\r\n\r\nab", b"", status=204),
    Row("100 first", b"HTTP/1.1 100 Continue\r\n\r\n" + SIZED + b"ab", b"ab", again=True),
    Row(
        "several before",
        b"HTTP/1.1 100 X\r\n\r\nHTTP/1.1 103 Y\r\nlink: z\r\n\r\nHTTP/1.1 102 W\r\n\r\n"
        + SIZED
        + b"ab",
        b"ab",
        again=True,
    ),
    Row("100 and no more", b"HTTP/1.1 100 X\r\n\r\n", ProviderConnectError, then=(close,)),
    Row(
        "an unrequested 101",
        b"HTTP/1.1 101 X\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
        ProviderProtocolError,
    ),
    Row("101 without a word", b"HTTP/1.1 101 X\r\n\r\n", ProviderProtocolError),
]

CONFLICTS = [
    Row("two lengths", OK + b"content-length: 2\r\ncontent-length: 3\r\n\r\nab",
        ProviderProtocolError),
    Row("one length twice", OK + b"content-length: 2\r\ncontent-length: 2\r\n\r\nab",
        ProviderProtocolError),
    Row("lengths in a list", OK + b"content-length: 2, 2\r\n\r\nab", ProviderProtocolError),
    Row("a length with a sign", OK + b"content-length: +2\r\n\r\nab", ProviderProtocolError),
    Row("a length below zero", OK + b"content-length: -2\r\n\r\nab", ProviderProtocolError),
    Row("no length at all", OK + b"content-length: \r\n\r\nab", ProviderProtocolError),
    Row("a length beyond all", OK + b"content-length: " + b"9" * 25 + b"\r\n\r\n",
        ProviderProtocolError),
    Row("a length and chunks", SIZED[:-2] + b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        ProviderProtocolError),
    Row("chunks and a length", CHUNKED[:-2] + b"content-length: 2\r\n\r\n0\r\n\r\n",
        ProviderProtocolError),
    Row("an unknown coding", OK + b"transfer-encoding: snappy\r\n\r\nab",
        ProviderProtocolError),
    Row("chunks and a coding", OK + b"transfer-encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        ProviderProtocolError),
    Row("chunks twice", OK + b"transfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        ProviderProtocolError),
    Row("a coding with a space", OK + b"transfer-encoding : chunked\r\n\r\n0\r\n\r\n",
        ProviderProtocolError),
]  # fmt: skip

NO_HTTP = [
    Row("a folded header", OK + b"x: a\r\n\tb\r\n" + SIZED[17:] + b"ab", ProviderProtocolError),
    Row("a NUL in a value", OK + b"x: a\x00\r\n" + SIZED[17:] + b"ab", ProviderProtocolError),
    Row("a NUL in a name", OK + b"x\x00: a\r\n" + SIZED[17:] + b"ab", ProviderProtocolError),
    Row("a bare CR", OK + b"x: a\rb: c\r\n" + SIZED[17:] + b"ab", ProviderProtocolError),
    Row("a bare LF", OK + b"x: a\nb: c\r\n" + SIZED[17:] + b"ab", ProviderProtocolError),
    Row("a line of LF only", b"HTTP/1.1 200 OK\n" + SIZED[17:] + b"ab", ProviderProtocolError),
    Row("a name with a space", OK + b"x y: a\r\n" + SIZED[17:] + b"ab", ProviderProtocolError),
    Row("no colon", OK + b"nonsense\r\n" + SIZED[17:] + b"ab", ProviderProtocolError),
    Row("no name", OK + b": a\r\n" + SIZED[17:] + b"ab", ProviderProtocolError),
    Row("another protocol", b"SSH-2.0-x\r\n\r\n", ProviderProtocolError),
    Row("HTTP/2", b"HTTP/2.0 200 OK\r\n\r\n", ProviderProtocolError),
    Row("HTTP/1.2", b"HTTP/1.2 200 OK\r\n\r\n", ProviderProtocolError),
    Row("HTTP/0.9", b"<html>hello</html>", ProviderProtocolError),
    Row("a status of two figures", b"HTTP/1.1 20 OK\r\n\r\n", ProviderProtocolError),
    Row("a status of four", b"HTTP/1.1 2000 OK\r\n\r\n", ProviderProtocolError),
    Row("a status below 100", b"HTTP/1.1 042 OK\r\n\r\n", ProviderProtocolError),
    Row("a status in words", b"HTTP/1.1 two OK\r\n\r\n", ProviderProtocolError),
    Row("a request", b"GET / HTTP/1.1\r\n\r\n", ProviderProtocolError),
    Row("nothing", b"", ProviderConnectError, then=(close,)),
    Row("half a head", OK[:12], ProviderConnectError, then=(close,)),
]

PERSISTENCE = [
    Row("HTTP/1.0", b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nab", b"ab"),
    Row(
        "HTTP/1.0 that keeps",
        b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nab",
        b"ab",
        again=True,
    ),
    Row("HTTP/1.0 until the end", b"HTTP/1.0 200 OK\r\n\r\nab", b"ab", then=(close,)),
    Row("close", OK + b"Connection: Close\r\n" + SIZED[17:] + b"ab", b"ab"),
    Row("close in a list", OK + b"connection: a, close\r\n" + SIZED[17:] + b"ab", b"ab"),
    Row("close with chunks", OK + b"connection: close\r\n" + CHUNKED[17:] + b"0\r\n\r\n", b""),
    Row("keep", OK + b"connection: keep-alive\r\n" + SIZED[17:] + b"ab", b"ab", again=True),
    Row("surplus", SIZED + b"abc", b"ab"),
    Row("a second response", SIZED + b"ab" + AGAIN, b"ab"),
    # Tolerated: some servers send these blank lines, and they have no other meaning.
    Row("blank lines after it", SIZED + b"ab\r\n\r\n", b"ab", again=True),
    Row("surplus after chunks", CHUNKED + b"2\r\nab\r\n0\r\n\r\nx", b"ab"),
]


async def check(row: Row, *pieces: Step) -> None:
    """Request the row's response, then send a second request, which checks connection reuse."""
    first: list[Step] = [ask, *pieces, *row.then]
    if row.again:
        first += [ask, AGAIN]
    with trio.fail_after(10):
        await check_against(row, WireServer(first, [ask, AGAIN]))


async def check_against(row: Row, scripted: WireServer) -> None:
    async with scripted as server, opened() as exchange:
        sink = ByteCollector()
        if isinstance(row.outcome, bytes):
            await exchange.exchange(post(server), sink)
            assert (sink.status, sink.body) == (row.status, row.outcome)
        else:
            with pytest.raises(row.outcome):
                await exchange.exchange(post(server), sink)
        if not row.again:
            await server.wait_gone(1)
        assert await body_of(exchange, server) == b"again"
        assert server.connections == (1 if row.again else 2)


ROWS = [*LENGTHS, *CHUNKS, *WITHOUT_BODY, *CONFLICTS, *NO_HTTP, *PERSISTENCE]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what)
async def test_framing_follows_the_standard(row: Row) -> None:
    await check(row, row.answer)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what)
async def test_two_reads_change_nothing(row: Row) -> None:
    middle = len(row.answer) // 2
    await check(row, *apart(row.answer, middle))


SPLIT = [
    Row("chunks", CHUNKED + b'2;a="b"\r\nab\r\n1\r\nc\r\n0\r\nx: y\r\n\r\n', b"abc", again=True),
    Row("1xx", b"HTTP/1.1 100 X\r\n\r\nHTTP/1.1 103 Y\r\na: b\r\n\r\n" + SIZED + b"ab", b"ab"),
]


@pytest.mark.parametrize("row", SPLIT, ids=lambda row: row.what)
async def test_any_split_changes_nothing(row: Row) -> None:
    steps: list[Step] = []
    for at in range(1, len(row.answer)):
        steps += [ask, *apart(row.answer, at)]
    async with WireServer(steps) as server, opened() as exchange:
        for _ in range(1, len(row.answer)):
            assert await body_of(exchange, server) == row.outcome
        assert server.connections == 1


async def test_single_bytes_change_nothing() -> None:
    row = SPLIT[0]
    steps: list[Step] = [ask, *apart(row.answer, *range(1, len(row.answer)))]
    async with WireServer(steps) as server, opened() as exchange:
        assert await body_of(exchange, server) == row.outcome


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"x: " + b"a" * 600 + b"\r\ncontent-length: 0\r\n\r\n",
        OK + b"x: yyyy\r\n" * 100 + b"content-length: 0\r\n\r\n",
        b"HTTP/1.1 200 " + b"a" * 600 + b"\r\ncontent-length: 0\r\n\r\n",
        CHUNKED + b"0\r\n" + b"x: yyyy\r\n" * 100 + b"\r\n",
    ],
    ids=["a header", "headers", "a phrase", "trailers"],
)
async def test_oversized_head_or_trailer_is_refused(answer: bytes) -> None:
    row = Row("", answer, ProviderProtocolError)
    await check_limit(row, opened(max_head=500))


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 100 X\r\n\r\n" * 100,
        CHUNKED + b"1;" + b"a" * 600,
        OK + b"x: " + b"a" * 600,
        b"HTTP/1.1 200 " + b"a" * 600,
    ],
    ids=["interim answers", "an extension", "a header", "a phrase"],
)
async def test_framing_that_never_ends_is_refused(answer: bytes) -> None:
    row = Row("", answer, ProviderProtocolError)
    await check_limit(row, opened(max_head=500))


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"content-length: 11\r\n\r\n" + b"a" * 11,
        OK + b"\r\n" + b"a" * 11,
        CHUNKED + b"6\r\nabcdef\r\n5\r\nabcde\r\n",
    ],
    ids=["a length", "until the end", "chunks"],
)
async def test_a_body_over_the_limit_is_refused(answer: bytes) -> None:
    row = Row("", answer, ProviderProtocolError)
    await check_limit(row, opened(max_body=10))


async def check_limit(row: Row, limited: AbstractAsyncContextManager[HttpExchange]) -> None:
    async with (
        WireServer([ask, *apart(row.answer, 20, 40)], [ask, AGAIN]) as server,
        limited as exchange,
    ):
        with pytest.raises(ProviderProtocolError, match=r"longer than|larger than|more than"):
            await exchange.exchange(post(server), ByteCollector())
        await server.wait_gone(1)
        assert await body_of(exchange, server) == b"again"


async def test_body_at_the_limit_is_accepted() -> None:
    answer = CHUNKED + b"5\r\nabcde\r\n5\r\nabcde\r\n0\r\n\r\n"
    async with WireServer([ask, answer]) as server, opened(max_body=10) as exchange:
        assert await body_of(exchange, server) == b"abcdeabcde"
