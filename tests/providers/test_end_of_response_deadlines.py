"""Deadlines at the end of a response and after a failure, in both protocols."""

import gzip
import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import attrs
import pytest
import trio
from trio.testing import MockClock

from agent_actors.abc import (
    ByteExchange,
    ByteSink,
    DeadlineSink,
    ExchangeStatistics,
    HttpRequest,
    ModelProvider,
)
from agent_actors.actors.model_stream import ModelStream
from agent_actors.domain.limits import Timeouts
from agent_actors.domain.model import ModelCompleted, ModelDelta
from agent_actors.domain.usage import Usage
from agent_actors.errors import (
    ProviderConnectError,
    ProviderDeadlineError,
    ProviderError,
    ProviderStatusError,
)
from agent_actors.protocol.retry import Verdict, judge
from agent_actors.providers.anthropic import AnthropicMessages
from agent_actors.providers.end_of_response import FAILURE_GRACE, GRACE
from agent_actors.providers.openai_chat import OpenAIChat
from agent_actors.transport.backends.native import HttpExchange
from tests.providers.anthropic import answers as anthropic
from tests.providers.openai_chat import answers as openai
from tests.providers.sinks import CollectingSink

Step: TypeAlias = bytes | float | Exception
Make: TypeAlias = Callable[[ByteExchange], ModelProvider]

BASE = "http://localhost:1234/v1"
LONG = Timeouts(first_token=120, idle=60)


def make_chat(exchange: ByteExchange) -> ModelProvider:
    return OpenAIChat(base_url=BASE, exchange=exchange)


def make_messages(exchange: ByteExchange) -> ModelProvider:
    return AnthropicMessages(base_url=BASE, exchange=exchange)


@attrs.frozen
class Wire:
    """A protocol: its provider, and parts of a stream.

    Attributes:
        make: Creates the provider.
        whole: A stream up to the finish reason.
        more: More text after the finish reason.
        end: The end of the stream.
    """

    make: Make
    whole: bytes
    more: bytes
    end: bytes


CHAT = Wire(
    make_chat,
    openai.sse(openai.text("Hello", "stop"), done=False),
    openai.sse(openai.text("!"), done=False),
    openai.DONE,
)
MESSAGES = Wire(
    make_messages,
    anthropic.sse(anthropic.begin(), *anthropic.text_block("Hello"), anthropic.end()[0]),
    anthropic.sse(*anthropic.text_block("!", index=1)),
    anthropic.sse(anthropic.end()[1]),
)
both = pytest.mark.parametrize("make", [make_chat, make_messages])
finished = pytest.mark.parametrize("wire", [CHAT, MESSAGES])


@attrs.define(eq=False)
class Lingering:
    """An exchange with pauses between its reads, whose connection then stays open."""

    script: Sequence[Step]
    status: int = 200
    headers: dict[str, str] = attrs.field(factory=dict[str, str])
    cancelled: int = 0

    async def exchange(self, request: HttpRequest, sink: ByteSink) -> None:
        try:
            sink.start(self.status, self.headers)
            for step in self.script:
                if isinstance(step, float):
                    await trio.sleep(step)
                elif isinstance(step, Exception):
                    raise step
                elif isinstance(step, bytes):
                    if sink.full:
                        await sink.wait_room()
                    sink.feed(step)
                if sink.done:
                    return
            await trio.sleep_forever()
        except trio.Cancelled:
            self.cancelled += 1
            raise

    def statistics(self) -> ExchangeStatistics:
        return ExchangeStatistics(live=0, begun=1)

    async def aclose(self) -> None:
        pass


async def ask(
    nursery: trio.Nursery,
    provider: ModelProvider,
    deadlines: Timeouts,
    sink: CollectingSink | None = None,
) -> tuple[ModelCompleted | ProviderError, float]:
    """Send a request as the runtime does; return the response or error, and the elapsed seconds."""
    stream = ModelStream(provider)
    await nursery.start(stream.owner.serve)
    began = trio.current_time()
    found: ModelCompleted | ProviderError
    try:
        found = await stream.stream(openai.REQUEST, sink or CollectingSink.roomy(), deadlines)
    except ProviderError as error:
        found = error
    return found, trio.current_time() - began


# --- failures -------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("status", [302, 401, 429, 503])
@pytest.mark.parametrize(
    "limit",
    [
        (LONG, FAILURE_GRACE),
        (Timeouts(first_token=3, idle=60), 3.0),
        (Timeouts(first_token=60, idle=60, total=2), 2.0),
        (Timeouts(math.inf, math.inf, math.inf), FAILURE_GRACE),
    ],
)
async def test_stalled_error_body_keeps_the_status(
    nursery: trio.Nursery,
    autojump_clock: MockClock,
    make: Make,
    status: int,
    limit: tuple[Timeouts, float],
) -> None:
    exchange = Lingering([b"too ", 1.0, b"much"], status, {"retry-after": "7"})
    error, after = await ask(nursery, make(exchange), limit[0])
    assert isinstance(error, ProviderStatusError)
    assert (error.status, error.body_message) == (status, "too much")
    assert error.headers == {"retry-after": "7"}
    assert (after, exchange.cancelled) == (limit[1], 1)
    assert judge(error, now=0.0) == Verdict(status in {429, 503}, status in {429, 503}, 7.0)


@both
async def test_error_bytes_do_not_extend_grace(
    nursery: trio.Nursery, autojump_clock: MockClock, make: Make
) -> None:
    exchange = Lingering([b".", FAILURE_GRACE * 0.4] * 20, 500)
    error, after = await ask(nursery, make(exchange), LONG)
    assert isinstance(error, ProviderStatusError)
    assert (error.body_message, after) == ("...", FAILURE_GRACE)


@both
async def test_full_reader_delays_no_error(
    nursery: trio.Nursery, autojump_clock: MockClock, make: Make
) -> None:
    error, after = await ask(nursery, make(Lingering([b"no"], 500)), LONG, CollectingSink())
    assert isinstance(error, ProviderStatusError)
    assert after == FAILURE_GRACE


@both
async def test_broken_error_body_keeps_the_status(
    nursery: trio.Nursery, autojump_clock: MockClock, make: Make
) -> None:
    broken = ProviderConnectError("the connection broke", endpoint=BASE)
    error, _ = await ask(nursery, make(Lingering([b"who are", broken], 401)), LONG)
    assert isinstance(error, ProviderStatusError)
    assert (error.status, error.body_message) == (401, "who are")
    error, _ = await ask(nursery, make(Lingering([b"data: {}\n\n", broken])), LONG)
    assert error is broken


async def test_count_errors_wait_as_long(autojump_clock: MockClock) -> None:
    exchange = Lingering([b"no"], 404)
    with pytest.raises(ProviderStatusError, match="no"):
        await AnthropicMessages(base_url=BASE, exchange=exchange).count_tokens(openai.REQUEST)
    assert trio.current_time() == FAILURE_GRACE


@both
async def test_cancelled_caller_gets_no_error(autojump_clock: MockClock, make: Make) -> None:
    with trio.move_on_after(1) as scope:
        await make(Lingering([b"no"], 500)).complete(openai.REQUEST)
    assert scope.cancelled_caught


@both
async def test_status_wins_over_broken_body_on_sockets(nursery: trio.Nursery, make: Make) -> None:
    cut = gzip.compress(b"nobody will read this")[:-9]
    heads = [
        b"content-length: 99\r\n\r\nslow",
        b"content-encoding: gzip\r\n\r\n" + b"x" + cut,
        b"content-encoding: gzip\r\n\r\n" + cut,
        b"content-encoding: br\r\n\r\nxxx",
        b"content-encoding: zstd\r\ncontent-length: 3\r\n\r\nxxx",
    ]
    reasons = ["slow", "incorrect header", "nobody", "with 'br', which", "with 'zstd', which"]

    async def serve(peer: trio.SocketStream) -> None:
        async with peer:
            await peer.receive_some()
            await peer.send_all(b"HTTP/1.1 429 Slow down\r\nretry-after: 3\r\n" + heads.pop(0))
            if len(heads) == 4:
                await trio.sleep_forever()

    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    nursery.start_soon(trio.serve_listeners, serve, [listener])
    exchange = HttpExchange()
    provider = (
        OpenAIChat(base_url=f"http://127.0.0.1:{port}", exchange=exchange)
        if make is make_chat
        else AnthropicMessages(base_url=f"http://127.0.0.1:{port}", exchange=exchange)
    )
    for reason in reasons:
        error, _ = await ask(nursery, provider, Timeouts(first_token=0.5))
        assert isinstance(error, ProviderStatusError)
        assert reason in error.body_message
        assert (error.status, error.headers["retry-after"]) == (429, "3")
    await exchange.aclose()


# --- responses ------------------------------------------------------------------------------------


@finished
@pytest.mark.parametrize(
    "limit",
    [
        (LONG, GRACE),
        (Timeouts(first_token=60, idle=1), 1.0),
        (Timeouts(first_token=60, idle=60, total=1.5), 1.5),
    ],
)
async def test_finished_response_survives_its_deadline(
    nursery: trio.Nursery,
    autojump_clock: MockClock,
    wire: Wire,
    limit: tuple[Timeouts, float],
) -> None:
    exchange = Lingering([wire.whole])
    answer, after = await ask(nursery, wire.make(exchange), limit[0])
    assert isinstance(answer, ModelCompleted)
    assert (answer.text, answer.finish_reason, after) == ("Hello", "stop", limit[1])
    assert exchange.cancelled == 1


@pytest.mark.parametrize(
    ("make", "body"),
    [
        (make_chat, openai.sse(openai.chunk({}, "length"), done=False)),
        (make_messages, anthropic.sse(anthropic.begin(), anthropic.end("max_tokens")[0])),
    ],
)
async def test_empty_finished_response_misses_no_deadline(
    nursery: trio.Nursery, autojump_clock: MockClock, make: Make, body: bytes
) -> None:
    answer, after = await ask(nursery, make(Lingering([body])), Timeouts(first_token=1, idle=1))
    assert isinstance(answer, ModelCompleted)
    assert (answer.blocks, answer.finish_reason, after) == ((), "length", 1.0)


@finished
async def test_continued_response_can_be_late_again(
    nursery: trio.Nursery,
    autojump_clock: MockClock,
    wire: Wire,
) -> None:
    exchange = Lingering([wire.whole, 0.5, wire.more])
    error, after = await ask(nursery, wire.make(exchange), Timeouts(first_token=60, idle=1))
    assert isinstance(error, ProviderDeadlineError)
    assert (error.kind, after) == ("idle", 1.5)


@finished
async def test_continued_response_is_awaited(
    nursery: trio.Nursery,
    autojump_clock: MockClock,
    wire: Wire,
) -> None:
    script: list[Step] = [wire.whole, 1.0, wire.more, 10 * GRACE, wire.more, wire.end]
    answer, after = await ask(nursery, wire.make(Lingering(script)), LONG)
    assert isinstance(answer, ModelCompleted)
    assert (answer.text, after) == ("Hello!!", 1.0 + 10 * GRACE)


@finished
async def test_finished_response_reaches_full_reader(
    nursery: trio.Nursery,
    autojump_clock: MockClock,
    wire: Wire,
) -> None:
    class OncePerRead(CollectingSink):
        def feed(self, deltas: Sequence[ModelDelta]) -> None:
            super().feed(deltas)
            self.room = trio.Event()

    script: list[Step] = [wire.whole, b": ping\n\n"]
    deadlines = Timeouts(first_token=9, idle=9, total=30)
    answer, after = await ask(nursery, wire.make(Lingering(script)), deadlines, OncePerRead.roomy())
    assert isinstance(answer, ModelCompleted)
    assert (answer.text, after) == ("Hello", 30.0)


async def test_pause_continues_after_grace(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    paused = anthropic.sse(
        anthropic.begin(), *anthropic.text_block("."), anthropic.end("pause_turn")[0]
    )
    provider = AnthropicMessages(base_url=BASE, exchange=Lingering([paused]), max_continuations=2)
    answer, after = await ask(nursery, provider, LONG)
    assert isinstance(answer, ModelCompleted)
    assert (answer.text, after) == ("...", 3 * GRACE)
    error, after = await ask(nursery, provider, Timeouts(first_token=60, idle=1))
    assert isinstance(error, ProviderDeadlineError)
    assert (error.kind, after) == ("idle", 1.0)


async def test_provider_that_ignores_stop_is_cancelled(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    class Deaf:
        name = BASE
        calls = 0

        async def stream(self, request: object, sink: object) -> ModelCompleted:
            assert isinstance(sink, DeadlineSink)
            sink.mark_complete(self.tell)
            await trio.sleep_forever()
            raise AssertionError

        def tell(self) -> None:
            self.calls += 1

        async def complete(self, request: object) -> ModelCompleted:
            raise NotImplementedError

        async def aclose(self) -> None:
            raise NotImplementedError

    deaf = Deaf()
    error, after = await ask(nursery, deaf, Timeouts(first_token=3))
    assert isinstance(error, ProviderDeadlineError)
    assert (error.kind, error.seconds, after, deaf.calls) == ("first_token", 3, 8.0, 1)


async def test_usage_within_grace_is_counted(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    counted = openai.sse(
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}, done=False
    )
    script: list[Step] = [CHAT.whole, 0.5, counted]
    answer, after = await ask(
        nursery, make_chat(Lingering(script)), Timeouts(first_token=9, idle=1)
    )
    assert isinstance(answer, ModelCompleted)
    assert (answer.usage, after) == (Usage(3, 4), 0.5)
