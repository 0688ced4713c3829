"""Any bytes lead to a response or a typed error, never to a hang or another exception.

Valid responses are read as h11 reads them. The reader is tested without sockets, and the exchange
over sockets.
"""

import math
import random
import socket
import struct
from collections.abc import Sequence

import h11
import trio
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agent_actors.abc import HttpRequest
from agent_actors.errors import ProviderError
from agent_actors.transport.backends.native import HttpExchange
from agent_actors.transport.reactor import EpollReactor, WaitReactor, use_reactor
from agent_actors.transport.response import ResponseReader
from tests.transport.asking import adds_up
from tests.transport.sinks import ByteCollector

OK = b"HTTP/1.1 200 OK\r\n"
PROFILE = settings()  # the profile of this run
# --- generated responses --------------------------------------------------------------------------

_WORDS = [
    OK,
    b"HTTP/1.1 ", b"HTTP/1.0 200 X\r\n", b"HTTP/2.0 200 X\r\n", b"HTTP/1.1 101 X\r\n",
    b"HTTP/1.1 100 X\r\n\r\n", b"HTTP/1.1 204 X\r\n", b"HTTP/1.1 304 X\r\n", b"200", b"\r\n",
    b"\n", b"\r", b"\x00", b" ", b"\t", b":", b";", b"content-length: ", b"Content-Length:3\r\n",
    b"transfer-encoding: chunked\r\n", b"transfer-encoding: ", b"connection: close\r\n",
    b"connection: upgrade\r\nupgrade: x\r\n", b"content-encoding: gzip\r\n", b"0\r\n\r\n",
    b"3\r\nabc\r\n", b"3;a=b\r\nabc\r\n", b"fffffffffffffffff\r\n", b"-1", b"abc", b"x: y\r\n",
]  # fmt: skip

_bytes_of_any_kind = st.one_of(
    st.binary(max_size=120),
    st.lists(st.sampled_from(_WORDS), max_size=14).map(b"".join),
    st.lists(st.one_of(st.sampled_from(_WORDS), st.binary(max_size=6)), max_size=14).map(b"".join),
)

_token = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=10).map(
    lambda text: b"x-" + text.encode()
)
_value = st.binary(max_size=20).map(
    lambda raw: bytes(byte for byte in raw if byte >= 0x20 and byte != 0x7F).strip(b" \t")
)
_headers = st.lists(st.tuples(_token, _value), max_size=4)


@st.composite
def well_formed(draw: st.DrawFn) -> bytes:
    """Draw a valid response with any framing that the standard allows."""
    interim = draw(st.lists(st.sampled_from([100, 102, 103]), max_size=2))
    head = b"".join(b"HTTP/1.1 %d X\r\nx: y\r\n\r\n" % status for status in interim)
    status = draw(st.sampled_from([200, 201, 204, 304, 400, 429, 500, 599]))
    version = draw(st.sampled_from([b"1.1", b"1.0"]))
    body = draw(st.binary(max_size=60))
    framing = draw(st.sampled_from(["sized", "until the end", "chunked"]))
    head += b"HTTP/%b %d %b\r\n" % (version, status, draw(st.sampled_from([b"OK", b"", b"A b"])))
    for name, value in draw(_headers):
        head += b"%b:%b%b\r\n" % (name, draw(st.sampled_from([b"", b" ", b"\t "])), value)
    head += draw(st.sampled_from([b"", b"connection: close\r\n", b"Connection: keep-alive\r\n"]))
    if status in {204, 304}:
        return head + b"\r\n"
    if framing == "sized":
        return head + b"content-length: %d\r\n\r\n" % len(body) + body
    if framing == "until the end" or version == b"1.0":
        return head + b"\r\n" + body
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + _chunks(draw, body)


def _chunks(draw: st.DrawFn, body: bytes) -> bytes:
    framed = b""
    while body:
        size = draw(st.integers(1, len(body)))
        extension = draw(st.sampled_from([b"", b";a", b';a="b"', b";a=b;c"]))
        framed += b"%x%b\r\n%b\r\n" % (size, extension, body[:size])
        body = body[size:]
    return framed + b"0\r\n" + draw(st.sampled_from([b"", b"x: y\r\n"])) + b"\r\n"


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Draw a valid response with random damage."""
    data = bytearray(draw(well_formed()))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["cut", "add", "change", "twice", "end"])):
            case "cut":
                del data[at : at + draw(st.integers(1, 5))]
            case "add":
                data[at:at] = draw(st.one_of(st.sampled_from(_WORDS), st.binary(max_size=4)))
            case "change" if at < len(data):
                data[at] = draw(st.integers(0, 255))
            case "twice":
                data[at:at] = data[at : at + draw(st.integers(1, 40))]
            case _:
                del data[at:]
    return bytes(data)


_anything = st.one_of(_bytes_of_any_kind, mutated(), well_formed())


def pieces(data: bytes, seed: int) -> list[bytes]:
    """Split the bytes at random positions."""
    dice = random.Random(seed)
    found: list[bytes] = []
    while data:
        size = dice.choice([1, 2, 3, 7, 20, 1000])
        found.append(data[:size])
        data = data[size:]
    return found


# --- the reader -----------------------------------------------------------------------------------


def read(parts: Sequence[bytes], *, clean: bool) -> tuple[object, ...]:
    """Return the part of a reader's result that must not depend on the splits."""
    reader = ResponseReader(max_head=2_000, max_body=10_000)
    body = b""
    for part in parts:
        came = reader.feed(part)
        assert not (came and reader.head is None)
        body += came
    reader.end(clean=clean)
    assert reader.complete != (reader.failure is not None)
    assert not (reader.failure is not None and reader.keep_alive)
    if reader.failure is not None:
        return (reader.head, None, None)
    return (reader.head, body, reader.keep_alive and not reader.surplus)


@given(
    st.one_of(_bytes_of_any_kind, mutated(), well_formed()), st.integers(0, 2**32), st.booleans()
)
@settings(max_examples=5 * PROFILE.max_examples)
@example(OK + b"content-length: 0\r\n\r\n", 0, True)
def test_splits_change_nothing(data: bytes, seed: int, clean: bool) -> None:
    whole = read([data], clean=clean)
    split = read(pieces(data, seed), clean=clean)
    # The amount of body before invalid data depends on the splits; the exchange discards that body.
    assert split == whole


@given(well_formed(), st.integers(0, 2**32))
@settings(max_examples=3 * PROFILE.max_examples)
def test_valid_responses_match_h11(data: bytes, seed: int) -> None:
    ours = ResponseReader()
    body = b"".join(ours.feed(part) for part in pieces(data, seed))
    ours.end(clean=True)
    head, theirs, reusable = by_h11(data)
    assert ours.failure is None
    assert ours.head is not None
    assert ours.head.status == head.status_code
    assert [(name.lower(), value) for name, value in ours.head.headers] == [
        (bytes(name), bytes(value)) for name, value in head.headers
    ]
    assert body == theirs
    # h11 does not keep connections of HTTP/1.0 open.
    assert ours.keep_alive == reusable or ours.head.http_version == "1.0"


def by_h11(data: bytes) -> tuple[h11.Response, bytes, bool]:
    """Return the headers and the body that h11 reads, and whether it would reuse the connection."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(data)
    head: h11.Response | None = None
    body = b""
    ended = False
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Response):
            head = event
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            assert head is not None
            return head, body, connection.our_state is h11.DONE and not ended
        elif event is h11.NEED_DATA:
            assert not ended
            ended = True
            connection.receive_data(b"")


# --- over sockets ---------------------------------------------------------------------------------


async def converse(parts: Sequence[bytes], *, by_reset: bool, done: bytes) -> None:
    """Send these bytes and disconnect; the exchange must end normally or with a typed error."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    exchange = HttpExchange(connect_timeout=math.inf, max_head=2_000, max_body=10_000)
    request = HttpRequest(f"http://127.0.0.1:{listener.socket.getsockname()[1]}/", {}, b"{}")

    async def answer() -> None:
        stream = await listener.accept()
        async with stream:
            await stream.receive_some()
            try:
                for part in parts:
                    await stream.send_all(part)
                    await trio.lowlevel.checkpoint()
            except trio.BrokenResourceError:
                pass
            if by_reset:
                linger = struct.pack("ii", 1, 0)
                stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    sink = ByteCollector(done_when=lambda body: bool(done) and done in body)
    with trio.fail_after(10):
        async with listener, trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            try:
                await exchange.exchange(request, sink)
            except ProviderError:
                pass
            else:
                assert sink.status >= 200
            assert exchange.statistics().live == 0
            await exchange.aclose()
    adds_up(exchange)
    statistics = exchange.statistics().connections
    assert statistics is not None
    assert statistics.open == 0


@given(
    _anything,
    st.integers(0, 2**32),
    st.booleans(),
    st.booleans(),
    st.sampled_from([b"", b"a", b"\n"]),
)
@settings(max_examples=3 * PROFILE.max_examples, suppress_health_check=[HealthCheck.too_slow])
def test_any_bytes_give_typed_outcome(
    data: bytes, seed: int, by_reset: bool, epoll: bool, done: bytes
) -> None:
    async def main() -> None:
        use_reactor(EpollReactor() if epoll else WaitReactor())
        await converse(pieces(data, seed), by_reset=by_reset, done=done)

    trio.run(main)
