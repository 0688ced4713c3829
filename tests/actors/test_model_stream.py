"""Streams of one endpoint: their admission and their deadlines."""

import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import pytest
import trio
from trio.testing import MockClock, assert_no_checkpoints, wait_all_tasks_blocked

from agent_actors.abc import ModelSink
from agent_actors.actors.model_stream import ModelStream
from agent_actors.domain.blocks import TextBlock
from agent_actors.domain.limits import Timeouts
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import (
    FinishDelta,
    ModelCompleted,
    ModelDelta,
    ModelRequest,
    ModelSettings,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageDelta,
)
from agent_actors.domain.usage import Usage
from agent_actors.errors import (
    AgentError,
    ProviderConnectError,
    ProviderDeadlineError,
    ProviderError,
)
from tests.actors.helpers import Attempt, Bug

DEADLINES = Timeouts(first_token=20, idle=5, total=100)
DONE = ModelCompleted((TextBlock("done"),))

Play = Callable[[ModelSink], Awaitable[None]]


def request_of(name: str = "model") -> ModelRequest:
    return ModelRequest(Messages(), ModelSettings(name))


class Played:
    """A provider that plays a scripted stream, and records the models of its requests."""

    def __init__(self, play: Play | None = None) -> None:
        self.play = play or at_once
        self.asked: list[str] = []
        self.live = 0

    @property
    def name(self) -> str:
        return "http://played/v1"

    async def stream(self, request: ModelRequest, sink: ModelSink) -> ModelCompleted:
        self.asked.append(request.settings.model)
        self.live += 1
        try:
            await self.play(sink)
        finally:
            self.live -= 1
        return DONE

    async def complete(self, request: ModelRequest) -> ModelCompleted:
        raise NotImplementedError

    async def aclose(self) -> None:
        raise NotImplementedError


class Reader:
    """A sink that takes all deltas, or is full or raises on request."""

    def __init__(self) -> None:
        self.got: list[ModelDelta] = []
        self.error: Exception | None = None
        self.room = trio.Event()
        self.room.set()

    @property
    def full(self) -> bool:
        return not self.room.is_set()

    def feed(self, deltas: Sequence[ModelDelta]) -> None:
        if self.error is not None:
            raise self.error
        self.got.extend(deltas)

    async def wait_room(self) -> None:
        await self.room.wait()


async def at_once(sink: ModelSink) -> None:
    sink.feed([TextDelta("done")])
    await trio.lowlevel.checkpoint()


async def hang(sink: ModelSink) -> None:
    await trio.sleep_forever()


def every(seconds: float, delta: ModelDelta, *, times: int = 1_000_000) -> Play:
    async def play(sink: ModelSink) -> None:
        sink.feed([TextDelta("begun")])
        for _ in range(times):
            await trio.sleep(seconds)
            sink.feed([delta])

    return play


async def serving(
    nursery: trio.Nursery, provider: Played, *, max_live: float = 1_000
) -> ModelStream:
    made = ModelStream(provider, max_live=max_live)
    await nursery.start(made.owner.serve)
    return made


async def late(nursery: trio.Nursery, play: Play) -> ProviderDeadlineError:
    """Let a stream miss a deadline, and return the error."""
    stream = await serving(nursery, Played(play))
    with pytest.raises(ProviderDeadlineError) as missed:
        await stream.stream(request_of(), Reader(), DEADLINES)
    assert missed.value.endpoint == "http://played/v1"
    return missed.value


async def test_deltas_reach_sink_and_response_is_returned(
    nursery: trio.Nursery,
) -> None:
    reader = Reader()
    stream = await serving(nursery, Played())
    assert await stream.stream(request_of(), reader, DEADLINES) is DONE
    assert reader.got == [TextDelta("done")]


# Admission.


async def test_streams_are_admitted_fifo_within_limit(
    nursery: trio.Nursery,
) -> None:
    """Waiting streams block neither the loop nor each other."""
    gates = {name: trio.Event() for name in "abcd"}
    provider = Played()

    async def play(sink: ModelSink) -> None:
        await gates[provider.asked[-1]].wait()

    provider.play = play
    stream = await serving(nursery, provider, max_live=2)
    attempts: dict[str, Attempt[ModelCompleted]] = {}
    for name in "abcd":
        ask = partial(stream.stream, request_of(name), Reader(), DEADLINES)
        attempts[name] = Attempt(nursery, ask)
        await wait_all_tasks_blocked()
    assert provider.asked == ["a", "b"]
    found = stream.statistics()
    assert (found.streams.used, found.streams.waiting, found.attempts) == (2, 2, 2)
    gates["b"].set()
    await wait_all_tasks_blocked()
    assert provider.asked == ["a", "b", "c"]
    attempts["d"].scope.cancel()
    await wait_all_tasks_blocked()
    assert attempts["d"].outcome == "cancelled"
    gates["a"].set()
    gates["c"].set()
    await wait_all_tasks_blocked()
    assert provider.asked == ["a", "b", "c"]
    assert stream.is_idle
    assert stream.statistics().streams.used == 0


async def test_cancelled_stream_closes_connection_before_return(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def close_slowly(sink: ModelSink) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(2)

    provider = Played(close_slowly)
    stream = await serving(nursery, provider)
    asker = Attempt(nursery, partial(stream.stream, request_of(), Reader(), DEADLINES))
    await wait_all_tasks_blocked()
    was_idle = stream.is_idle
    asker.scope.cancel()
    await asker.ended.wait()
    assert (asker.outcome, provider.live, trio.current_time()) == ("cancelled", 0, 2.0)
    assert (was_idle, stream.is_idle) == (False, True)
    assert stream.statistics().failures == 0


async def test_admission_wait_counts_toward_no_deadline(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    stream = await serving(nursery, Played(every(4, TextDelta("x"), times=20)), max_live=1)
    attempts = [
        Attempt(nursery, partial(stream.stream, request_of(), Reader(), DEADLINES))
        for _ in range(3)
    ]
    for attempt in attempts:
        await attempt.ended.wait()
    assert [attempt.outcome for attempt in attempts] == ["value"] * 3
    assert trio.current_time() == 240.0


# Deadlines.


async def test_missing_first_token_raises_typed_error(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    error = await late(nursery, hang)
    assert (error.kind, error.seconds, trio.current_time()) == ("first_token", 20, 20.0)
    assert "first_token_timeout" in str(error)


async def test_silent_stream_raises_typed_error(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    error = await late(nursery, every(math.inf, TextDelta("x")))
    assert (error.kind, error.seconds, trio.current_time()) == ("idle", 5, 5.0)


async def test_endless_response_raises_typed_error(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    error = await late(nursery, every(1, TextDelta("x")))
    assert (error.kind, error.seconds, trio.current_time()) == ("total", 100, 100.0)


@pytest.mark.parametrize(
    "empty",
    [TextDelta(""), ThinkingDelta(""), ToolCallDelta(index=0)],
    ids=lambda d: type(d).__name__,
)
async def test_empty_deltas_keep_idle_deadline(
    nursery: trio.Nursery, autojump_clock: MockClock, empty: ModelDelta
) -> None:
    error = await late(nursery, every(1, empty))
    assert (error.kind, trio.current_time()) == ("idle", 5.0)


async def test_empty_pieces_are_no_first_token(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def ping(sink: ModelSink) -> None:
        while True:
            await trio.sleep(1)
            sink.feed([])
            sink.feed([TextDelta("")])

    error = await late(nursery, ping)
    assert (error.kind, trio.current_time()) == ("first_token", 20.0)


@pytest.mark.parametrize(
    "piece",
    [
        TextDelta("x"),
        ThinkingDelta("x"),
        ThinkingDelta("", signature="sealed"),
        ToolCallDelta(id="call"),
        ToolCallDelta(name="tool"),
        ToolCallDelta(arguments="{"),
        FinishDelta("stop"),
    ],
    ids=str,
)
async def test_content_delta_resets_idle_deadline(
    nursery: trio.Nursery, autojump_clock: MockClock, piece: ModelDelta
) -> None:
    stream = await serving(nursery, Played(every(4, piece, times=10)))
    assert await stream.stream(request_of(), Reader(), DEADLINES) is DONE
    assert trio.current_time() == 40.0


async def test_only_changed_usage_resets_idle_deadline(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def counting(sink: ModelSink) -> None:
        for number in range(1000):
            await trio.sleep(4)
            sink.feed([UsageDelta(Usage(7, min(number, 3)))])

    error = await late(nursery, counting)
    assert (error.kind, trio.current_time()) == ("idle", 21.0)


async def test_full_reader_pauses_idle_deadline(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    reader = Reader()
    seen: list[bool] = []

    async def fill(sink: ModelSink) -> None:
        sink.feed([TextDelta("full")])
        reader.room = trio.Event()
        seen.append(sink.full)
        await sink.wait_room()
        seen.append(sink.full)
        await trio.sleep(4)
        sink.feed([TextDelta("more")])
        await trio.sleep_forever()

    stream = await serving(nursery, Played(fill))
    asker = Attempt(nursery, partial(stream.stream, request_of(), reader, DEADLINES))
    await trio.sleep(50)
    assert asker.outcome == "waiting"
    reader.room.set()
    await asker.ended.wait()
    assert isinstance(asker.error, ProviderDeadlineError)
    assert (asker.error.kind, trio.current_time()) == ("idle", 59.0)
    assert seen == [True, False]


async def test_failing_reader_ends_the_stream(
    nursery: trio.Nursery,
) -> None:
    class Stalled(Reader):
        async def wait_room(self) -> None:
            raise Bug("stalled")

    async def fill(sink: ModelSink) -> None:
        await sink.wait_room()

    stream = await serving(nursery, Played(fill))
    with pytest.raises(Bug, match="stalled"):
        await stream.stream(request_of(), Stalled(), DEADLINES)
    assert stream.is_idle


# Failures.


async def test_sink_error_ends_only_its_stream(
    nursery: trio.Nursery,
) -> None:
    raising, reader = Reader(), Reader()
    raising.error = Bug("in the sink")
    provider = Played()
    stream = await serving(nursery, provider)
    with pytest.raises(Bug, match="in the sink"):
        await stream.stream(request_of(), raising, DEADLINES)
    assert provider.live == 0
    assert await stream.stream(request_of(), reader, DEADLINES) is DONE


async def test_provider_error_reaches_caller_and_is_counted(
    nursery: trio.Nursery,
) -> None:
    async def refuse(sink: ModelSink) -> None:
        raise ProviderConnectError("refused", endpoint="http://played/v1")

    provider = Played(refuse)
    stream = await serving(nursery, provider, max_live=1)
    for _ in range(2):
        with pytest.raises(ProviderError, match="refused"):
            await stream.stream(request_of(), Reader(), DEADLINES)
    provider.play = at_once
    await stream.stream(request_of(), Reader(), DEADLINES)
    with assert_no_checkpoints():
        found = stream.statistics()
    assert (found.endpoint, found.attempts, found.failures) == ("http://played/v1", 3, 2)
    assert (found.streams.used, found.streams.peak, found.streams.total) == (0, 1, 1)


async def test_stream_runs_in_its_callers_task(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    stream = await serving(nursery, Played(every(1, TextDelta("x"), times=3)))
    await stream.stream(request_of(), Reader(), DEADLINES)  # starts the sweeper
    workers = stream.owner._workers
    assert workers is not None
    at_rest = len(workers.child_tasks)
    asker = Attempt(nursery, partial(stream.stream, request_of(), Reader(), DEADLINES))
    await wait_all_tasks_blocked()
    assert len(workers.child_tasks) == at_rest
    assert not stream.is_idle
    await asker.ended.wait()
    assert stream.is_idle


async def test_provider_raising_foreign_cancellation_fails(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    kept: list[BaseException] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as error:
            kept.append(error)
            raise

    async def raises(_: ModelSink) -> None:
        raise kept[0]

    stream = await serving(nursery, Played(raises))
    with pytest.raises(AgentError, match=r"raised trio\.Cancelled in a task"):
        await stream.stream(request_of(), Reader(), DEADLINES)
    assert stream.statistics().streams.used == 0
