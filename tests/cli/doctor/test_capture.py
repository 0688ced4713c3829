"""The exchange keeps a copy of each response, and the arrival times of its chunks."""

import trio
import trio.testing

from agent_actors.abc import ByteSink, ExchangeStatistics, HttpRequest
from agent_actors.cli.doctor.capture import MAX_KEPT, CapturingExchange, Stopwatch
from agent_actors.domain.model import FinishDelta, TextDelta, ThinkingDelta, ToolCallDelta
from tests.transport.sinks import ByteCollector


class Feeding:
    """An exchange that feeds these reads until the sink is done."""

    def __init__(self, *reads: bytes) -> None:
        self.reads = list(reads)
        self.closed = 0
        self.waits = 0

    async def exchange(self, request: HttpRequest, sink: ByteSink) -> None:
        sink.start(200, {"content-type": "text/plain"})
        while self.reads and not sink.done:
            if sink.full:
                await sink.wait_room()
            sink.feed(self.reads.pop(0))
            await trio.lowlevel.checkpoint()
        await sink.wait_room()

    def statistics(self) -> ExchangeStatistics:
        return ExchangeStatistics(live=3, begun=4)

    async def aclose(self) -> None:
        self.closed += 1


ASKED = HttpRequest("http://x", {}, b"")


async def test_capture_keeps_copy_while_reader_reads() -> None:
    exchange = CapturingExchange(Feeding(b"one ", b"two"))
    sink = ByteCollector()
    await exchange.exchange(ASKED, sink)

    assert exchange.last is not None
    assert (exchange.last.status, exchange.last.reads) == (200, 2)
    assert exchange.last.headers == {"content-type": "text/plain"}
    assert bytes(exchange.last.body) == sink.body == b"one two"


async def test_satisfied_reader_keeps_only_the_end() -> None:
    inner = Feeding(b"data: a\n\n", b"data: b\n\n", b"data: [DONE]\n\n", b"data: late\n\n")
    exchange = CapturingExchange(inner)
    sink = ByteCollector(done_when=lambda body: b"a" in body)
    await exchange.exchange(ASKED, sink)

    assert sink.body == b"data: a\n\n"
    assert exchange.last is not None
    assert exchange.last.body.endswith(b"data: [DONE]\n\n")
    assert len(inner.reads) == 1


async def test_captured_size_is_limited() -> None:
    exchange = CapturingExchange(Feeding(b"x" * (MAX_KEPT - 1), b"yz", b"more"))
    await exchange.exchange(ASKED, ByteCollector())

    assert exchange.last is not None
    assert len(exchange.last.body) == MAX_KEPT
    assert exchange.last.reads == 2


async def test_full_reader_is_awaited() -> None:
    exchange = CapturingExchange(Feeding(b"one"))
    sink = ByteCollector()
    sink.room = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(exchange.exchange, ASKED, sink)
        await trio.testing.wait_all_tasks_blocked()
        assert (sink.body, sink.waited) == (b"", 1)
        sink.room.set()
    assert sink.body == b"one"


async def test_document_is_captured_and_forwarded() -> None:
    inner = Feeding(b"{}")
    exchange = CapturingExchange(inner)

    assert bytes((await exchange.fetch("http://x/models", {})).body) == b"{}"
    assert exchange.last is None
    assert exchange.statistics().begun == 4
    await exchange.aclose()
    assert inner.closed == 1


async def test_timings_count_visible_deltas(
    autojump_clock: trio.testing.MockClock,
) -> None:
    watch = Stopwatch()
    await trio.sleep(1)
    watch.feed([FinishDelta("stop")])
    assert (watch.first, watch.pieces) == (None, 0)
    watch.feed([TextDelta("a"), ThinkingDelta("b")])
    await trio.sleep(2)
    watch.feed([ToolCallDelta(0)])
    assert watch.first is not None
    assert (watch.first - watch.started, watch.last - watch.started, watch.pieces) == (1, 3, 3)
    await watch.wait_room()
    assert not watch.full
