"""ModelStream: one endpoint's streams, admitted, paced and watched.

Owns the admission to one endpoint (a request never queues inside an HTTP pool), what the endpoint
has taught about how fast it may be asked, the budget of further tries, and the deadlines of its
streams: first token, payload idle and total; the deadline for connecting is kept where connections
are made. Each `stream` is one try; who tries again is the run. It does not know blocks, runs or
sessions. The provider calls the sink in
the task that reads the network, so that a piece of the answer crosses no task on its way to the
reader's mailbox.
"""

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import attrs
import trio

from agent_actors.abc import (
    BudgetSink,
    ExchangeOwner,
    ExchangeStatistics,
    ModelProvider,
    ModelSink,
)
from agent_actors.actors.admission_queue import Line, RefusesAll
from agent_actors.actors.stream_watchdog import Sweeper, Watch
from agent_actors.domain.limits import Timeouts
from agent_actors.domain.model import (
    ModelCompleted,
    ModelDelta,
    ModelRequest,
    NoticeDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageDelta,
)
from agent_actors.domain.usage import Usage
from agent_actors.errors import ProviderDeadlineError, ProviderError
from agent_actors.kernel.actor_loop import Owner
from agent_actors.kernel.fair_limiter import FairSlots, SlotStatistics
from agent_actors.protocol.rate_control import PaceStatistics, Ticket
from agent_actors.protocol.retry import LONGEST_PAUSE, RetryBudget, judge

# Streams of one endpoint that may be live at once; further requests wait in line.
MAX_LIVE_STREAMS: Final = 1000


@attrs.frozen
class StreamStatistics:
    """A snapshot of one endpoint.

    Attributes:
        endpoint: Its name.
        streams: Slots for live streams.
        attempts: Requests begun so far, those that go on with a paused answer included.
        retries: Those of them that were a further try of the same model call.
        fallbacks: Those of them that stood in for another model that had failed.
        failures: Those of them that ended with an error.
        pace: What the endpoint has taught by refusing.
        held_back: Requests that wait until the endpoint may be asked again.
        exchange: What its connections do; None if the provider cannot tell.
    """

    endpoint: str
    streams: SlotStatistics
    attempts: int
    retries: int
    fallbacks: int
    failures: int
    pace: PaceStatistics
    held_back: int
    exchange: ExchangeStatistics | None


@attrs.frozen
class Try:
    """Which try of a model call a request is.

    Attributes:
        retry: True for a further try: it goes before those that were not refused.
        fallback: True if it stands in for another model.
        patience: Seconds of nothing but refusals, to anybody, after which it is not sent.
    """

    retry: bool = False
    fallback: bool = False
    patience: float = math.inf


_FIRST: Final = Try()


class _WatchedSink:
    """A sink that tells the watch of what comes; pieces without content do not count."""

    __slots__ = ("_asked", "_begun", "_counts", "_sink", "_watch")

    def __init__(
        self,
        sink: ModelSink,
        watch: Watch,
        begun: Callable[[], None],
        asked: Callable[[], None],
    ) -> None:
        self._sink = sink
        self._watch = watch
        self._asked = asked
        self._begun: Callable[[], None] | None = begun
        self._counts: UsageDelta | None = None

    @property
    def full(self) -> bool:
        return self._sink.full

    def feed(self, deltas: Sequence[ModelDelta]) -> bool | None:
        for delta in deltas:
            # Text first: told by its class, it is told without a call.
            if delta.text if type(delta) is TextDelta else self._has_content(delta):
                self._watch.touch()
                if self._begun is not None:
                    self._begun()
                    self._begun = None
                break
        return self._sink.feed(deltas)

    async def wait_room(self) -> None:
        self._watch.pause()
        try:
            await self._sink.wait_room()
        finally:
            self._watch.resume()

    def enough(self, stop: Callable[[], object] | None) -> None:
        self._watch.enough(stop)

    def take_request(self, used: Usage) -> bool:
        if isinstance(self._sink, BudgetSink) and not self._sink.take_request(used):
            return False
        self._asked()
        return True

    def _has_content(self, delta: ModelDelta) -> bool:
        match delta:
            case TextDelta():
                return bool(delta.text)
            case ThinkingDelta():
                return bool(delta.text or delta.signature)
            case ToolCallDelta():
                return bool(delta.id or delta.name or delta.arguments)
            case UsageDelta():
                # Counts that grow tell of thoughts that are not shown; the same again, of nothing.
                before, self._counts = self._counts, delta
                return delta != before
            case NoticeDelta():
                return False
            case _:
                return True


class ModelStream:
    """The actor of one endpoint.

    Args:
        provider: What is asked.
        max_live: Streams that may be live at once; `math.inf` for no bound.
        wall_clock: Seconds since the epoch, for an endpoint that says until when it is busy.
    """

    def __init__(
        self,
        provider: ModelProvider,
        *,
        max_live: float = MAX_LIVE_STREAMS,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.owner: Owner = Owner(f"model_stream {provider.name}")
        self.provider: ModelProvider = provider
        self._slots = FairSlots(max_live, math.inf)
        self._sweeper = Sweeper(self.owner.start_background)
        self._line = Line(self.owner.start_background)
        self._budget = RetryBudget()
        self._wall_clock = wall_clock
        self._attempts = self._retries = self._fallbacks = self._failures = 0
        self._refusal = ""

    async def stream(
        self,
        request: ModelRequest,
        sink: ModelSink,
        deadlines: Timeouts,
        which: Try = _FIRST,
    ) -> ModelCompleted:
        """Ask the model once; pieces go to `sink` as they come, the whole answer is returned.

        Raises:
            ProviderDeadlineError: Nothing came in time.
            ProviderError: Whatever else failed on the model's side.
            Whatever the sink raised.

        Cancellation: the connection is closed before this returns.
        """
        return await self.owner.ask(partial(self._stream, request, sink, deadlines, which))

    @property
    def answers(self) -> int:
        """Answers that have begun so far: who was refused can tell whether others were not."""
        return self._line.answers

    def take_retry(self) -> bool:
        """Take a further try from the endpoint's budget; False if it is used up."""
        return self._budget.take(trio.current_time())

    @property
    def is_idle(self) -> bool:
        """True while no stream is live or waiting."""
        return not self.owner.statistics().live

    def statistics(self) -> StreamStatistics:
        """A snapshot."""
        provider = self.provider
        return StreamStatistics(
            endpoint=provider.name,
            streams=self._slots.statistics(),
            attempts=self._attempts,
            retries=self._retries,
            fallbacks=self._fallbacks,
            failures=self._failures,
            pace=self._line.statistics(),
            held_back=self._line.waiting,
            exchange=provider.statistics() if isinstance(provider, ExchangeOwner) else None,
        )

    async def _stream(
        self, request: ModelRequest, sink: ModelSink, deadlines: Timeouts, which: Try
    ) -> ModelCompleted:
        await self._slots.acquire(first=which.retry)
        try:
            ticket = await self._turn(which)
            try:
                return await self._attempt(request, sink, deadlines, which, ticket)
            finally:
                self._line.leave(ticket)
        finally:
            self._slots.release()

    async def _turn(self, which: Try) -> Ticket:
        try:
            return await self._line.enter(first=which.retry, patience=which.patience)
        except RefusesAll:
            late = ProviderDeadlineError(
                endpoint=self.provider.name, kind="turn", seconds=which.patience
            )
            late.add_note(f"the last refusal: {self._refusal}")
            raise late from None

    async def _attempt(
        self,
        request: ModelRequest,
        sink: ModelSink,
        deadlines: Timeouts,
        which: Try,
        ticket: Ticket,
    ) -> ModelCompleted:
        self._count_attempt()
        self._retries += which.retry
        self._fallbacks += which.fallback
        try:
            answer = await self._watched(request, sink, deadlines, ticket)
        except ProviderError as error:
            self._failures += 1
            verdict = judge(error, now=self._wall_clock())
            if verdict.refused:
                self._refusal = str(error)
                self._line.refused(ticket, min(verdict.after or 0.0, LONGEST_PAUSE))
            raise
        except Exception:
            self._failures += 1
            raise
        self._line.answered(ticket)  # if nothing of it was to be shown
        self._budget.earn()
        return answer

    def _count_attempt(self) -> None:
        self._attempts += 1

    async def _watched(
        self, request: ModelRequest, sink: ModelSink, deadlines: Timeouts, ticket: Ticket
    ) -> ModelCompleted:
        watch = self._sweeper.watch(deadlines)
        begun = partial(self._line.answered, ticket)
        watched = _WatchedSink(sink, watch, begun, self._count_attempt)
        try:
            with watch.scope:
                return await self.provider.stream(request, watched)
        finally:
            self._sweeper.unwatch(watch)
        # Only the sweeper cancels this scope, and it says for what.
        assert watch.expired is not None
        raise ProviderDeadlineError(
            endpoint=self.provider.name, kind=watch.expired, seconds=watch.seconds()
        )
