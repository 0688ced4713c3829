"""Sinks that are full, that are done early, or that fail, over sockets."""

from collections.abc import Callable, Mapping

import pytest
import trio

from agent_actors.errors import ProviderConnectError
from agent_actors.transport import connection
from agent_actors.transport.connection import DRAIN_BYTES
from agent_actors.transport.reactor import EpollReactor, WaitReactor, use_reactor
from tests.transport.asking import (
    AGAIN,
    HELLO,
    MEGABYTE,
    OK,
    body_of,
    closed,
    connections,
    opened,
    post,
    quiet,
)
from tests.transport.sinks import ByteCollector
from tests.transport.wire_helpers import (
    Step,
    WireServer,
    apart,
    ask,
    beat,
    close,
    reset,
    tell,
    until,
)

BIG = bytes(8 * MEGABYTE)
SIZED_BIG = OK + b"content-length: %d\r\n\r\n" % len(BIG)


class CountingReactor(EpollReactor):
    """A reactor that counts its wake-ups."""

    batches = 0

    def _handle(self, events: list[tuple[int, int]]) -> int:
        self.batches += 1
        return super()._handle(events)


class Narrow(ByteCollector):
    """A sink that is full from `width` bytes on, until there is room again."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    @property
    def full(self) -> bool:
        return len(self.body) >= self.width and not self.room.is_set()

    def narrow(self) -> "Narrow":
        self.room = trio.Event()
        return self


# --- full -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [EpollReactor, WaitReactor])
async def test_full_sink_pauses_reading(
    make: Callable[[], EpollReactor | WaitReactor],
) -> None:
    use_reactor(make())
    sent = trio.Event()
    script: list[Step] = [ask, SIZED_BIG, BIG, tell(sent)]
    async with WireServer(script) as server, opened() as exchange:
        sink = Narrow(1).narrow()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(exchange.exchange, post(server), sink)
            await sink.fed.wait()
            await quiet()
            taken = len(sink.body)
            assert 0 < taken < MEGABYTE  # at most one read more than the sink takes
            assert not sent.is_set()  # so the peer has to wait as well
            assert sink.waited == 1
            sink.room.set()
        assert sink.body == BIG
        assert connections(exchange).idle == 1


async def test_sink_may_fill_repeatedly() -> None:
    async with WireServer([ask, SIZED_BIG, BIG]) as server, opened() as exchange:

        class Breathing(ByteCollector):
            waited: int

            @property
            def full(self) -> bool:
                return self.waited < 3 and len(self.body) > self.waited * MEGABYTE

            async def wait_room(self) -> None:
                self.waited += 1
                await trio.lowlevel.checkpoint()

        sink = Breathing()
        await exchange.exchange(post(server), sink)
        assert (len(sink.body), sink.waited) == (len(BIG), 3)


async def test_early_body_waits_for_full_sink() -> None:
    async with WireServer([ask, HELLO]) as server, opened() as exchange:
        sink = Narrow(0).narrow()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(exchange.exchange, post(server), sink)
            await sink.started.wait()
            await quiet()
            assert sink.body == b""
            sink.room.set()
        assert sink.body == b"hello"


async def test_late_finished_sink_ends_exchange() -> None:
    # The peer sends nothing more and does not end its response.
    script: list[Step] = [ask, OK + b"content-length: 9\r\n\r\nhello"]
    async with WireServer(script) as server, opened() as exchange:

        class Late(Narrow):
            @property
            def done(self) -> bool:
                return bool(self.body)

        sink = Late(0).narrow()
        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(exchange.exchange, post(server), sink)
                await sink.started.wait()
                await quiet()
                sink.room.set()
        assert sink.body == b"hello"


async def test_full_again_sink_is_not_fed() -> None:
    script: list[Step] = [ask, *apart(OK + b"content-length: 4\r\n\r\nabcd", 41)]
    async with WireServer(script) as server, opened() as exchange:

        class Single(ByteCollector):
            fed_while_full = False

            def feed(self, data: bytes) -> None:
                self.fed_while_full = self.fed_while_full or self.full
                super().feed(data)
                self.room = trio.Event()

        sink = Single()
        sink.room = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(exchange.exchange, post(server), sink)
            while len(sink.body) < 4:
                await quiet()
                sink.room.set()
            await quiet()
            sink.room.set()
        assert sink.body == b"abcd"
        assert not sink.fed_while_full


async def test_reset_while_paused_is_reported_later() -> None:
    reactor = CountingReactor()
    use_reactor(reactor)
    cut = trio.Event()
    script: list[Step] = [ask, OK + b"content-length: 9\r\n\r\nhello", until(cut), reset]
    async with WireServer(script) as server, opened() as exchange:
        sink = Narrow(1).narrow()

        async def asked() -> None:
            with pytest.raises(ProviderConnectError, match=r"broke .*reset"):
                await exchange.exchange(post(server), sink)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(asked)
            await sink.fed.wait()
            await quiet()
            cut.set()
            await server.wait_gone(1)
            await quiet()
            batches = reactor.batches
            for _ in range(20):
                await trio.lowlevel.checkpoint()
            await quiet()
            assert reactor.batches == batches
            assert connections(exchange).open == 1
            sink.room.set()
        assert sink.body == b"hello"
        assert closed(connections(exchange)) == {"peer": 1}


async def test_kernel_buffer_is_read_after_pause() -> None:
    script: list[Step] = [ask, *apart(HELLO, len(HELLO) - 2), close]
    async with WireServer(script) as server, opened() as exchange:
        sink = Narrow(1).narrow()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(exchange.exchange, post(server), sink)
            await server.wait_gone(1)
            await quiet()
            assert sink.body == b"hel"
            sink.room.set()
        assert sink.body == b"hello"


async def test_cancelling_a_paused_exchange_closes_its_connection() -> None:
    async with WireServer([ask, SIZED_BIG, BIG]) as server, opened() as exchange:
        sink = Narrow(1).narrow()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(exchange.exchange, post(server), sink)
            await sink.fed.wait()
            await quiet()
            nursery.cancel_scope.cancel()
        await server.wait_gone(1)
        assert closed(connections(exchange)) == {"cancel": 1}


async def test_close_while_paused_is_reported_later() -> None:
    async with WireServer([ask, SIZED_BIG, BIG]) as server, opened() as exchange:
        sink = Narrow(1).narrow()

        async def asked() -> None:
            with pytest.raises(ProviderConnectError, match="the exchange is closed"):
                await exchange.exchange(post(server), sink)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(asked)
            await sink.fed.wait()
            await quiet()
            await exchange.aclose()
            await server.wait_gone(1)
            sink.room.set()


# --- done -----------------------------------------------------------------------------------------


def has_end(body: bytes) -> bool:
    return b"[DONE]" in body


async def test_remainder_is_drained_and_connection_reused() -> None:
    rest = trio.Event()
    chunked = OK + b"transfer-encoding: chunked\r\n\r\n6\r\n[DONE]\r\n"
    script: list[Step] = [ask, chunked, until(rest), b"1\r\n\n\r\n0\r\n\r\n", ask, AGAIN]
    async with WireServer(script) as server, opened() as exchange:
        sink = ByteCollector(done_when=has_end)
        await exchange.exchange(post(server), sink)
        assert (sink.body, exchange.statistics().live) == (b"[DONE]", 0)
        assert connections(exchange).idle == 0
        rest.set()
        await quiet()
        assert connections(exchange).idle == 1
        assert await body_of(exchange, server) == b"again"
        assert server.connections == 1


async def test_drained_connection_serves_next_request() -> None:
    chunked = OK + b"transfer-encoding: chunked\r\n\r\n6\r\n[DONE]\r\n"
    async with WireServer([ask, chunked, ask, AGAIN]) as server, opened() as exchange:
        await exchange.exchange(post(server), ByteCollector(done_when=has_end))
        server.peers[0].send_now(b"0\r\n\r\n")
        assert await body_of(exchange, server) == b"again"
        assert server.connections == 1


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        (bytes(DRAIN_BYTES + 1), "expiry"),
        (b"", "expiry"),
    ],
    ids=["too much", "too late"],
)
async def test_long_or_late_remainder_is_cut(
    rest: bytes, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not rest:
        monkeypatch.setattr(connection, "DRAIN_SECONDS", 0.01)
    answer = OK + b"content-length: 1000000\r\n\r\n[DONE]"
    async with (
        WireServer([ask, answer, beat, rest], [ask, AGAIN]) as server,
        opened() as exchange,
    ):
        await exchange.exchange(post(server), ByteCollector(done_when=has_end))
        await server.wait_gone(1)
        assert closed(connections(exchange)) == {reason: 1}
        assert await body_of(exchange, server) == b"again"


@pytest.mark.parametrize(
    ("rest", "end", "reason"),
    [(b"zz\r\n", beat, "fault"), (b"", close, "peer"), (b"", reset, "peer")],
    ids=["no chunk", "the end", "a reset"],
)
async def test_broken_remainder_is_ignored(rest: bytes, end: Step, reason: str) -> None:
    chunked = OK + b"transfer-encoding: chunked\r\n\r\n6\r\n[DONE]\r\n"
    async with (
        WireServer([ask, chunked, beat, rest, end], [ask, AGAIN]) as server,
        opened() as exchange,
    ):
        await exchange.exchange(post(server), ByteCollector(done_when=has_end))
        await server.wait_gone(1)
        await quiet()
        assert closed(connections(exchange)) == {reason: 1}
        assert await body_of(exchange, server) == b"again"


async def test_unsized_drain_ends_with_connection() -> None:
    script: list[Step] = [ask, OK + b"\r\n[DONE]", beat, b"\n", close]
    async with WireServer(script) as server, opened() as exchange:
        await exchange.exchange(post(server), ByteCollector(done_when=has_end))
        await server.wait_gone(1)
        await quiet()
        assert closed(connections(exchange)) == {"peer": 1}


async def test_sink_done_at_head_gets_nothing() -> None:
    class HeadOnly(ByteCollector):
        @property
        def done(self) -> bool:
            return self.status != 0

    async with WireServer([ask, HELLO, ask, AGAIN]) as server, opened() as exchange:
        sink = HeadOnly()
        await exchange.exchange(post(server), sink)
        assert (sink.status, sink.body) == (200, b"")
        assert await body_of(exchange, server) == b"again"
        assert server.connections == 1


async def test_close_ends_draining_connections() -> None:
    answer = OK + b"content-length: 9\r\n\r\n[DONE]"
    async with WireServer([ask, answer]) as server:
        async with opened() as exchange:
            await exchange.exchange(post(server), ByteCollector(done_when=has_end))
        await server.wait_gone(1)
        assert closed(connections(exchange)) == {"shutdown": 1}


# --- failing --------------------------------------------------------------------------------------


class Refused(Exception):
    """An error that a sink raises."""


class AtHead(ByteCollector):
    def start(self, status: int, headers: Mapping[str, str]) -> None:
        raise Refused


class AtBody(ByteCollector):
    def feed(self, data: bytes) -> None:
        raise Refused


class AtRoom(ByteCollector):
    @property
    def full(self) -> bool:
        return True

    async def wait_room(self) -> None:
        await trio.lowlevel.checkpoint()
        raise Refused


@pytest.mark.parametrize("make", [AtHead, AtBody, AtRoom])
async def test_sink_error_closes_connection(
    make: type[ByteCollector],
) -> None:
    unfinished: list[Step] = [ask, OK + b"content-length: 9\r\n\r\nhello"]
    async with WireServer(unfinished, [ask, AGAIN]) as server, opened() as exchange:
        with pytest.raises(Refused):
            await exchange.exchange(post(server), make())
        await server.wait_gone(1)
        assert sum(closed(connections(exchange)).values()) == 1
        assert await body_of(exchange, server) == b"again"


@pytest.mark.parametrize("make", [AtHead, AtBody, AtRoom])
async def test_sink_error_after_response_keeps_connection(
    make: type[ByteCollector],
) -> None:
    async with WireServer([ask, HELLO, ask, AGAIN]) as server, opened() as exchange:
        with pytest.raises(Refused):
            await exchange.exchange(post(server), make())
        assert await body_of(exchange, server) == b"again"
        assert server.connections == 1


async def test_late_sink_error_closes_connection() -> None:
    class LateFailure(Narrow):
        def feed(self, data: bytes) -> None:
            raise Refused

    unfinished: list[Step] = [ask, OK + b"content-length: 9\r\n\r\nhello"]
    async with WireServer(unfinished) as server, opened() as exchange:
        sink = LateFailure(0).narrow()

        async def asked() -> None:
            with pytest.raises(Refused):
                await exchange.exchange(post(server), sink)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(asked)
            await sink.started.wait()
            await quiet()
            sink.room.set()
        await server.wait_gone(1)
