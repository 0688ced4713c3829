"""ModelStream: one endpoint's streams, admitted and watched.

Owns the admission to one endpoint (a request never queues inside an HTTP pool) and the deadlines
of its streams: first token, payload idle and total; the deadline for connecting is kept where
connections are made. It does not know blocks, runs or sessions. The provider calls the sink in
the task that reads the network, so that a piece of the answer crosses no task on its way to the
reader's mailbox.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Final

import attrs

from agent_actors.abc import ExchangeOwner, ExchangeStatistics, ModelProvider, ModelSink
from agent_actors.actors._deadlines import Deadlines, Sweeper, Watch
from agent_actors.actors._owner import Owner
from agent_actors.actors._slots import FairSlots, SlotStatistics
from agent_actors.domain.model import (
    ModelDelta,
    ModelFinished,
    ModelRequest,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from agent_actors.errors import ProviderDeadlineError

# Streams of one endpoint that may be live at once; further requests wait in line.
MAX_LIVE_STREAMS: Final = 1000


@attrs.frozen
class StreamStatistics:
    """A snapshot of one endpoint.

    Attributes:
        endpoint: Its name.
        streams: Slots for live streams.
        requests: Requests begun so far.
        failures: Requests that ended with an error so far.
        exchange: What its connections do; None if the provider cannot tell.
    """

    endpoint: str
    streams: SlotStatistics
    requests: int
    failures: int
    exchange: ExchangeStatistics | None


class _WatchedSink:
    """A sink that tells the watch of what comes; pieces without content do not count."""

    __slots__ = ("_sink", "_watch")

    def __init__(self, sink: ModelSink, watch: Watch) -> None:
        self._sink = sink
        self._watch = watch

    @property
    def full(self) -> bool:
        return self._sink.full

    def feed(self, deltas: Sequence[ModelDelta]) -> bool | None:
        for delta in deltas:
            # Text first: told by its class, it is told without a call.
            if delta.text if type(delta) is TextDelta else _has_content(delta):
                self._watch.touch()
                break
        return self._sink.feed(deltas)

    async def wait_room(self) -> None:
        self._watch.pause()
        try:
            await self._sink.wait_room()
        finally:
            self._watch.resume()


def _has_content(delta: ModelDelta) -> bool:
    match delta:
        case TextDelta():
            return bool(delta.text)
        case ThinkingDelta():
            return bool(delta.text or delta.signature)
        case ToolCallDelta():
            return bool(delta.id or delta.name or delta.arguments)
        case _:
            return True


class ModelStream:
    """The actor of one endpoint.

    Args:
        provider: What is asked.
        max_live: Streams that may be live at once; `math.inf` for no bound.
    """

    def __init__(self, provider: ModelProvider, *, max_live: float = MAX_LIVE_STREAMS) -> None:
        self.owner: Owner = Owner(f"model_stream {provider.name}")
        self.provider: ModelProvider = provider
        self._slots = FairSlots(max_live, math.inf)
        self._sweeper = Sweeper(self.owner.start_background)
        self._requests = self._failures = 0

    async def stream(
        self, request: ModelRequest, sink: ModelSink, deadlines: Deadlines
    ) -> ModelFinished:
        """Ask the model; pieces go to `sink` as they come, the whole answer is returned.

        Raises:
            ProviderDeadlineError: Nothing came in time.
            ProviderError: Whatever else failed on the model's side.
            Whatever the sink raised.

        Cancellation: the connection is closed before this returns.
        """
        return await self.owner.ask(partial(self._stream, request, sink, deadlines))

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
            requests=self._requests,
            failures=self._failures,
            exchange=provider.statistics() if isinstance(provider, ExchangeOwner) else None,
        )

    async def _stream(
        self, request: ModelRequest, sink: ModelSink, deadlines: Deadlines
    ) -> ModelFinished:
        await self._slots.acquire()
        try:
            self._requests += 1
            return await self._watched(request, sink, deadlines)
        except Exception:
            self._failures += 1
            raise
        finally:
            self._slots.release()

    async def _watched(
        self, request: ModelRequest, sink: ModelSink, deadlines: Deadlines
    ) -> ModelFinished:
        watch = self._sweeper.watch(deadlines)
        try:
            with watch.scope:
                return await self.provider.stream(request, _WatchedSink(sink, watch))
        finally:
            self._sweeper.unwatch(watch)
        # Only the sweeper cancels this scope, and it says for what.
        assert watch.expired is not None
        raise ProviderDeadlineError(
            endpoint=self.provider.name, kind=watch.expired, seconds=watch.seconds()
        )
