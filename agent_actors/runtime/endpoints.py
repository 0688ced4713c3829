"""The endpoints of a runtime: one ModelStream each, started on first use and closed when idle.

Runs whose options have the same URL, API key, headers and HTTP client share an endpoint. Closing an
endpoint closes its provider, unless the caller constructed the provider.
"""

import logging
from collections.abc import Callable, Hashable
from typing import Final

import attrs
import trio

from agent_actors.abc import Instrumentation, ModelProvider
from agent_actors.actors.model_stream import ModelStream, StreamStatistics
from agent_actors.kernel.actor_loop import ActorLoop
from agent_actors.options.agent_options import AgentOptions

_LOG: Final = logging.getLogger(__name__)

# An endpoint without streams is closed after this many seconds.
IDLE_ENDPOINT_TTL: Final = 60.0


@attrs.define(eq=False)
class _Endpoint:
    stream: ModelStream
    owned: bool
    # The key contains the `id()` of this provider, so the provider must live as long as the key.
    pinned: object | None
    last_used: float = 0.0


class Endpoints:
    """The endpoints of one runtime.

    Args:
        make_provider: Returns a new provider for the given options.
        provider_key: Returns the key of an endpoint; options with equal keys share the endpoint.
        max_live: The maximum number of live streams per endpoint.
        wall_clock: Returns seconds since the epoch.
        instrumentation: Observes model calls; None: nothing does.
    """

    def __init__(
        self,
        make_provider: Callable[[AgentOptions], ModelProvider],
        provider_key: Callable[[AgentOptions], Hashable],
        *,
        max_live: float,
        wall_clock: Callable[[], float],
        instrumentation: Instrumentation | None = None,
    ) -> None:
        self.owner: ActorLoop = ActorLoop("endpoints")
        self._make_provider = make_provider
        self._provider_key = provider_key
        self._max_live = max_live
        self._wall_clock = wall_clock
        self._instrumentation = instrumentation
        self._endpoints: dict[Hashable, _Endpoint] = {}
        self._sweeping = False
        self._failure: Exception | None = None

    def get(self, options: AgentOptions) -> ModelStream:
        """Return the actor for the options' endpoint, and start it if the endpoint is new.

        Raises:
            ConfigError: The options do not name a valid provider.
            ActorCrashed: An actor has crashed.
        """
        if self._failure is not None:
            raise self._failure from self._failure.__cause__
        key = self._provider_key(options)
        endpoint = self._endpoints.get(key)
        if endpoint is None:
            endpoint = self._open(key, options)
        endpoint.last_used = trio.current_time()
        return endpoint.stream

    async def aclose(self) -> None:
        """End every actor, and close the providers that this class constructed. Idempotent."""
        for key in tuple(self._endpoints):
            await self._close(key)

    def fail_with(self, failure: Exception) -> None:
        """Fail all pending and future requests, after an actor has crashed."""
        self._failure = self._failure or failure
        self.owner.fail_with(failure)
        for endpoint in self._endpoints.values():
            endpoint.stream.owner.fail_with(failure)

    def statistics(self) -> tuple[StreamStatistics, ...]:
        """Return a snapshot of each endpoint."""
        return tuple(endpoint.stream.statistics() for endpoint in self._endpoints.values())

    def _open(self, key: Hashable, options: AgentOptions) -> _Endpoint:
        stream = ModelStream(
            self._make_provider(options),
            max_live=self._max_live,
            wall_clock=self._wall_clock,
            instrumentation=self._instrumentation,
            provider_name=options.provider_name,
        )
        stream.owner.on_crash = self.owner.on_crash
        endpoint = _Endpoint(stream, options.resolved is not None, options.provider)
        self._endpoints[key] = endpoint
        _LOG.debug("opened the endpoint %s", stream.provider.name)
        self.owner.start_background(stream.owner.serve)
        if not self._sweeping:
            self._sweeping = True
            self.owner.start_background(self._sweep)
        return endpoint

    async def _sweep(self) -> None:
        # This task ends when no endpoint is left; `_open` starts it again.
        try:
            while self._endpoints:
                await trio.sleep(IDLE_ENDPOINT_TTL)
                horizon = trio.current_time() - IDLE_ENDPOINT_TTL
                for key, endpoint in tuple(self._endpoints.items()):
                    if endpoint.stream.is_idle and endpoint.last_used <= horizon:
                        await self._close(key)
        finally:
            self._sweeping = False

    async def _close(self, key: Hashable) -> None:
        endpoint = self._endpoints.pop(key, None)
        if endpoint is None:
            return
        _LOG.debug("closing the endpoint %s", endpoint.stream.provider.name)
        endpoint.stream.owner.close()
        await endpoint.stream.owner.ended.wait()
        if endpoint.owned:
            await endpoint.stream.provider.aclose()
