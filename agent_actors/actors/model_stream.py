"""ModelStream: the streams from one endpoint, with admission, pacing and deadlines.

The actor owns the admission to one endpoint (a request never queues inside an HTTP pool), the
request rate learned from the endpoint's refusals, the retry budget, and the deadlines of its
streams: first token, idle and total. The connect deadline is applied where connections are made.
Each `stream` call is one attempt; the run decides whether to retry. The actor knows nothing about
blocks, runs or sessions. The provider calls the sink in the task that reads from the network, so a
delta reaches the reader's mailbox without passing through another task. Waiting for admission is a
request to the actor. The stream itself runs in the task of its caller, as inline work of the actor.
"""

import logging
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

import attrs
import trio

from agent_actors.abc import (
    BudgetSink,
    ExchangeOwner,
    ExchangeStatistics,
    Instrumentation,
    ModelProvider,
    ModelSink,
    Observation,
)
from agent_actors.abc.operations import ModelOperation
from agent_actors.actors.admission_queue import AdmissionQueue, EndpointRefusing
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
from agent_actors.errors import (
    ProviderDeadlineError,
    ProviderError,
    ProviderInBandError,
    ProviderStatusError,
)
from agent_actors.kernel.actor_loop import ActorLoop
from agent_actors.kernel.exceptions import foreign_cancellation, is_cancellation
from agent_actors.kernel.fair_limiter import FairLimiter, LimiterStatistics
from agent_actors.kernel.observing import WAIT_FOR_ENDPOINT, observed
from agent_actors.protocol.rate_control import RateStatistics, Ticket
from agent_actors.protocol.retry import LONGEST_PAUSE, RetryBudget, judge

_LOG: Final = logging.getLogger(__name__)

T = TypeVar("T")

# The maximum number of characters of an endpoint's error code in a log message.
_CODE_SHOWN: Final = 100

# The maximum number of concurrent streams per endpoint; further requests wait in a queue.
MAX_LIVE_STREAMS: Final = 1000


@attrs.frozen
class StreamStatistics:
    """A snapshot of one endpoint.

    Attributes:
        endpoint: The name of the endpoint.
        streams: The slots for live streams.
        attempts: Requests started so far, including those that continue a paused response.
        retries: Attempts that retried a model call.
        fallbacks: Attempts that used a fallback model after another model had failed.
        failures: Attempts that ended with an error.
        pace: The request rate learned from refusals.
        held_back: Requests that are waiting until the endpoint may be called again.
        exchange: Statistics of the connections; None if the provider does not report them.
    """

    endpoint: str
    streams: LimiterStatistics
    attempts: int
    retries: int
    fallbacks: int
    failures: int
    pace: RateStatistics
    held_back: int
    exchange: ExchangeStatistics | None


@attrs.frozen
class AttemptInfo:
    """The kind of one attempt of a model call.

    Attributes:
        retry: True for a retry, which goes ahead of requests that have not been refused.
        fallback: True if the attempt uses a fallback model.
        patience: The attempt is given up unsent after this many seconds in which the endpoint has
            refused every request.
    """

    retry: bool = False
    fallback: bool = False
    patience: float = math.inf


_FIRST: Final = AttemptInfo()


class _WatchedSink:
    """A sink that reports content to the watch; deltas without content do not count."""

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
            # Check for text first, since its class is enough to decide, without another call.
            if delta.text if type(delta) is TextDelta else self._has_content(delta):
                self._watch.touch()
                if self._begun is not None:
                    self._begun()
                    self._begun = None
                break
        return self._sink.feed(deltas)

    @property
    def sees_text(self) -> bool:
        return bool(getattr(self._sink, "sees_text", True))

    @property
    def sees_arguments(self) -> bool:
        return bool(getattr(self._sink, "sees_arguments", True))

    async def wait_room(self) -> None:
        self._watch.pause()
        try:
            await self._sink.wait_room()
        finally:
            self._watch.resume()

    def mark_complete(self, stop: Callable[[], object] | None) -> None:
        self._watch.mark_complete(stop)

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
                # Growing counts are a sign of hidden thinking. Repeated counts are not.
                before, self._counts = self._counts, delta
                return delta != before
            case NoticeDelta():
                return False
            case _:
                return True


class ModelStream:
    """The actor of one endpoint.

    Args:
        provider: The provider that sends the requests.
        max_live: The maximum number of concurrent streams; `math.inf` for no limit.
        wall_clock: Returns seconds since the epoch; needed if an endpoint asks clients to wait
            until a date.
        instrumentation: Observes attempts and waits; None: nothing does.
        provider_name: The name of the provider for the instrumentation.
    """

    def __init__(
        self,
        provider: ModelProvider,
        *,
        max_live: float = MAX_LIVE_STREAMS,
        wall_clock: Callable[[], float] = time.time,
        instrumentation: Instrumentation | None = None,
        provider_name: str = "",
    ) -> None:
        self.owner: ActorLoop = ActorLoop(f"model_stream {provider.name}")
        self.provider: ModelProvider = provider
        self._slots = FairLimiter(max_live, math.inf)
        self._sweeper = Sweeper(self.owner.start_background)
        self._line = AdmissionQueue(self.owner.start_background)
        self._budget = RetryBudget()
        self._wall_clock = wall_clock
        self._instrumentation = instrumentation
        self._provider_name = provider_name
        self._attempts = self._retries = self._fallbacks = self._failures = 0
        # Callers whose request for admission has not been answered; later callers queue behind.
        self._asking = 0
        self._refusal = ""

    async def stream(
        self,
        request: ModelRequest,
        sink: ModelSink,
        deadlines: Timeouts,
        which: AttemptInfo = _FIRST,
    ) -> ModelCompleted:
        """Call the model once and return the complete response; deltas go to `sink` as they arrive.

        Raises:
            ProviderDeadlineError: A deadline expired.
            ProviderError: Any other failure of the provider.
            Exception: Any exception that the sink raises.

        Cancellation: the connection is closed before the call returns.
        """
        ticket = self._admit_nowait()
        if ticket is None:
            ticket = await self._ask_for_admission(which)
        try:
            began = self._begin(request, which)
            try:
                if self._instrumentation is None:
                    answer = await self._watched(request, sink, deadlines, ticket)
                else:
                    observation = self._instrumentation.observe(self._operation(request, which))
                    answer = await self._observed(observation, request, sink, deadlines, ticket)
            except Exception as error:
                self._note_failure(error, began, ticket)
                raise
            self._line.answered(ticket)  # in case the response had no content to show
            self._budget.earn()
            self._note_end(_describe_response, answer, began)
            return answer
        finally:
            self._line.leave(ticket)
            self._slots.release()

    @property
    def answers(self) -> int:
        """The number of responses so far; shows a refused caller whether others were accepted."""
        return self._line.answers

    def take_retry(self) -> bool:
        """Take a retry from the endpoint's budget, and return False if the budget is used up."""
        return self._budget.take(trio.current_time())

    @property
    def is_idle(self) -> bool:
        """True if no stream is live or waiting."""
        return not self.owner.statistics().live

    def statistics(self) -> StreamStatistics:
        """Return a snapshot."""
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

    def _admit_nowait(self) -> Ticket | None:
        """Return a ticket for a request that need not wait; None if it must ask for admission."""
        self.owner.check_open()
        if self._asking or not self.owner.started or not self._line.is_open:
            return None
        return self._line.enter_nowait() if self._slots.take_nowait() else None

    async def _ask_for_admission(self, which: AttemptInfo) -> Ticket:
        self._asking += 1
        try:
            with observed(self._instrumentation, WAIT_FOR_ENDPOINT):
                return await self.owner.ask(partial(self._admit, which))
        finally:
            self._asking -= 1

    async def _admit(self, which: AttemptInfo) -> Ticket:
        await self._slots.acquire(first=which.retry)
        try:
            return await self._turn(which)
        except BaseException:
            self._slots.release()
            raise

    async def _turn(self, which: AttemptInfo) -> Ticket:
        if not self._line.is_open and _LOG.isEnabledFor(logging.DEBUG):
            waiting = self._line.waiting
            _LOG.debug("%s: request number %d in the queue", self.provider.name, waiting + 1)
        try:
            return await self._line.enter(first=which.retry, patience=which.patience)
        except EndpointRefusing:
            late = ProviderDeadlineError(
                endpoint=self.provider.name, kind="turn", seconds=which.patience
            )
            late.add_note(f"the last refusal was: {self._refusal}")
            raise late from None

    def _begin(self, request: ModelRequest, which: AttemptInfo) -> float:
        """Count an attempt that begins, and return its start time."""
        self._count_attempt()
        self._retries += which.retry
        self._fallbacks += which.fallback
        if _LOG.isEnabledFor(logging.DEBUG):
            kind = "retry" if which.retry else "fallback" if which.fallback else "attempt"
            _LOG.debug("%s: %s with model %s", self.provider.name, kind, request.settings.model)
        return trio.current_time()

    def _note_failure(self, error: Exception, began: float, ticket: Ticket) -> None:
        self._failures += 1
        self._note_end(describe_failure, error, began)
        if not isinstance(error, ProviderError):
            return
        verdict = judge(error, now=self._wall_clock())
        if verdict.refused:
            self._refusal = str(error)
            self._line.refused(ticket, min(verdict.after or 0.0, LONGEST_PAUSE))
            self._note_pace()

    def _note_end(self, describe: Callable[[T], str], outcome: T, began: float) -> None:
        if _LOG.isEnabledFor(logging.DEBUG):
            seconds = trio.current_time() - began
            _LOG.debug("%s: %s after %.3f s", self.provider.name, describe(outcome), seconds)

    def _note_pace(self) -> None:
        if _LOG.isEnabledFor(logging.DEBUG):
            pace = self._line.statistics()
            _LOG.debug(
                "%s: refusal %d; at most %.1f unanswered requests and %.1f responses at once, "
                "and no request for %.3f s",
                self.provider.name,
                pace.refusals,
                pace.window,
                pace.ceiling,
                pace.paused_until - trio.current_time(),
            )

    def _count_attempt(self) -> None:
        self._attempts += 1

    def _operation(self, request: ModelRequest, which: AttemptInfo) -> ModelOperation:
        return ModelOperation(
            self.provider.name, self._provider_name, request, which.retry, which.fallback
        )

    async def _observed(
        self,
        observation: Observation,
        request: ModelRequest,
        sink: ModelSink,
        deadlines: Timeouts,
        ticket: Ticket,
    ) -> ModelCompleted:
        with observation:
            if observation.request_headers:
                request = attrs.evolve(request, headers=observation.request_headers)
            answer = await self._watched(request, sink, deadlines, ticket, observation)
            observation.note_outcome(answer)
        return answer

    async def _watched(
        self,
        request: ModelRequest,
        sink: ModelSink,
        deadlines: Timeouts,
        ticket: Ticket,
        observation: Observation | None = None,
    ) -> ModelCompleted:
        work = self.owner.inline()
        watch = self._sweeper.watch(deadlines, work.scope)
        begun = partial(self._line.answered, ticket)
        if observation is not None:
            begun = partial(self._note_first_token, ticket, observation)
        watched = _WatchedSink(sink, watch, begun, self._count_attempt)
        try:
            with work:
                # The request may have been admitted in the tick in which its caller was cancelled.
                await trio.lowlevel.checkpoint_if_cancelled()
                return await self.provider.stream(request, watched)
        except trio.Cancelled as error:  # noqa: ASYNC103
            if is_cancellation(error):
                raise
            raise foreign_cancellation() from None  # noqa: ASYNC104
        finally:
            self._sweeper.unwatch(watch)
        # The actor has not cancelled this scope, since that raises, so the sweeper has. It records
        # the reason.
        assert watch.expired is not None
        raise ProviderDeadlineError(
            endpoint=self.provider.name, kind=watch.expired, seconds=watch.seconds()
        )

    def _note_first_token(self, ticket: Ticket, observation: Observation) -> None:
        self._line.answered(ticket)
        observation.note_first_token()


def describe_failure(error: Exception) -> str:
    """Describe a failure for a log, without its message, which may repeat parts of a prompt."""
    kind = type(error).__name__
    match error:
        case ProviderStatusError(status=status):
            return f"{kind} {status}"
        case ProviderInBandError(code=code) if code:
            return f"{kind} {code[:_CODE_SHOWN]}"
        case ProviderDeadlineError(kind=deadline):
            return f"{kind} {deadline}"
        case _:
            return kind


def _describe_response(response: ModelCompleted) -> str:
    return f"response with {len(response.blocks)} blocks ({response.finish_reason})"
