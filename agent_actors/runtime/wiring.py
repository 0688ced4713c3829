"""Chooses adapters for ports: the only module of the runtime that imports concrete adapters."""

import math
import random
import time
from collections.abc import Callable, Hashable
from typing import Final

import attrs

from agent_actors.abc import ModelProvider, SessionStore
from agent_actors.domain.ids import Ids, Uuid7Ids
from agent_actors.options.agent_options import AgentOptions
from agent_actors.profiles.resolve import NO_API_KEY
from agent_actors.providers.anthropic.client import AnthropicMessages
from agent_actors.providers.custom import adapt_provider
from agent_actors.providers.openai_chat.client import OpenAIChat
from agent_actors.stores.memory import MemoryStore
from agent_actors.transport.backends.httpx_exchange import HttpxExchange

wall_clock: Final[Callable[[], float]] = time.time
chance: Final[Callable[[], float]] = random.random


def make_ids() -> Ids:
    """Return an id generator that uses the system clock and a randomly seeded random generator.

    Ids are not secret, so a seeded generator is enough. Using the system's entropy would cost a
    system call per id.
    """
    return Uuid7Ids(wall_clock, random.Random().getrandbits)


def make_store() -> SessionStore:
    """Return the default store, which is in memory."""
    return MemoryStore()


def provider_key(options: AgentOptions) -> Hashable:
    """Return the key of the options' endpoint; options with equal keys share an endpoint."""
    resolved = options.resolved
    if resolved is None:
        return id(options.provider)
    return (
        resolved.profile.protocol,
        resolved.base_url,
        resolved.api_key,
        resolved.api_key_header,
        resolved.dialect,
        tuple(sorted(options.headers.items())),
        options.include_usage,
        options.connect_timeout,
        id(options.http_client) if options.http_client is not None else None,
    )


def make_provider(options: AgentOptions) -> ModelProvider:
    """Return the provider for these options.

    Raises:
        ConfigError: `provider` does not have a supported type, or `base_url` is not a URL.
    """
    resolved = options.resolved
    if resolved is None:
        return adapt_provider(options.provider)
    client = options.http_client
    # If the caller passes no HTTP client, the provider constructs and closes its own exchange.
    exchange = None if client is None else HttpxExchange(client=client)
    if resolved.profile.protocol == "anthropic":
        return AnthropicMessages(
            base_url=resolved.base_url,
            api_key=resolved.api_key or "",
            headers=options.headers,
            exchange=exchange,
            connect_timeout=options.connect_timeout,
            max_connections=math.inf,
        )
    include_usage = resolved.dialect.include_usage and options.include_usage
    return OpenAIChat(
        base_url=resolved.base_url,
        api_key=NO_API_KEY if resolved.api_key is None else resolved.api_key,
        api_key_header=resolved.api_key_header,
        headers=options.headers,
        dialect=attrs.evolve(resolved.dialect, include_usage=include_usage),
        connect_timeout=options.connect_timeout,
        max_connections=math.inf,  # the endpoint's ModelStream limits requests
        exchange=exchange,
    )
