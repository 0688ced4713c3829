"""Plugs adapters into ports: the only file of this room that names concrete ones."""

import math
import random
import time
from collections.abc import Callable, Hashable
from typing import Final

from agent_actors.abc import ModelProvider, SessionStore
from agent_actors.domain.ids import Ids, Uuid7Ids
from agent_actors.providers.adapt import adapt_provider
from agent_actors.providers.openai.client import OpenAIChat
from agent_actors.providers.openai.dialect import ChatDialect
from agent_actors.runtime.options import AgentOptions
from agent_actors.stores.memory import MemoryStore
from agent_actors.transport.httpx_exchange import HttpxExchange

wall_clock: Final[Callable[[], float]] = time.time


def make_ids() -> Ids:
    """Ids from the system's clock, and from a generator that the system's entropy seeds.

    An id tells apart, it is no secret; entropy from the system for each would be a system call.
    """
    return Uuid7Ids(wall_clock, random.Random().getrandbits)


def make_store() -> SessionStore:
    """The default store: memory."""
    return MemoryStore()


def provider_key(options: AgentOptions) -> Hashable:
    """What two options must share to share an endpoint: its connections and its admission."""
    if options.provider is not None:
        return id(options.provider)
    return (
        options.base_url,
        options.api_key,
        options.api_key_header,
        tuple(sorted(options.headers.items())),
        options.include_usage,
        options.connect_timeout,
        id(options.http_client) if options.http_client is not None else None,
    )


def make_provider(options: AgentOptions) -> ModelProvider:
    """The provider that these options ask for.

    Raises:
        ConfigError: `provider` has none of the accepted shapes, or `base_url` is no URL.
    """
    if options.provider is not None:
        return adapt_provider(options.provider)
    client = options.http_client
    return OpenAIChat(
        base_url=options.base_url,
        api_key=options.api_key,
        api_key_header=options.api_key_header,
        headers=options.headers,
        dialect=ChatDialect(include_usage=options.include_usage),
        connect_timeout=options.connect_timeout,
        max_connections=math.inf,  # the endpoint's ModelStream admits
        # Without a client of the caller's, the provider makes an exchange, and closes it.
        exchange=None if client is None else HttpxExchange(client=client),
    )
