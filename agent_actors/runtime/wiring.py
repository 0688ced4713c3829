"""Chooses adapters for ports: the only module of the runtime that imports concrete adapters."""

import math
import random
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final, cast

import attrs

from agent_actors.abc import (
    ByteExchange,
    Checkpointer,
    ModelProvider,
    SessionStore,
    ToolServer,
    Workspace,
)
from agent_actors.abc.project import ProjectFiles
from agent_actors.domain.ids import Ids, Uuid7Ids
from agent_actors.errors import ConfigError
from agent_actors.options.agent_options import AgentOptions
from agent_actors.options.checkpoints import Checkpoints
from agent_actors.options.mcp_servers import McpServer
from agent_actors.options.workspace_config import CONTAINER_ENGINES, WorkspaceConfig
from agent_actors.profiles.resolve import NO_API_KEY
from agent_actors.providers.anthropic.client import AnthropicMessages
from agent_actors.providers.anthropic.encode import CachePoint
from agent_actors.providers.custom import adapt_provider
from agent_actors.providers.openai_chat.client import OpenAIChat
from agent_actors.stores.memory import MemoryStore
from agent_actors.tools import Tool

wall_clock: Final[Callable[[], float]] = time.time
chance: Final[Callable[[], float]] = random.random


# The parts of a request that are marked for Anthropic's prompt cache.
_CACHED: Final[tuple[CachePoint, ...]] = ("tools", "system", "messages")


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
        options.prompt_cache,
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
    exchange: ByteExchange | None = None
    if client is not None:
        # The caller has imported httpx, which is slow to import.
        from agent_actors.transport.backends.httpx_exchange import HttpxExchange  # noqa: PLC0415

        exchange = HttpxExchange(client=client)
    if resolved.profile.protocol == "anthropic":
        return AnthropicMessages(
            base_url=resolved.base_url,
            api_key=resolved.api_key or "",
            headers=options.headers,
            exchange=exchange,
            connect_timeout=options.connect_timeout,
            max_connections=math.inf,
            cache=() if options.prompt_cache == "off" else _CACHED,
            cache_ttl="1h" if options.prompt_cache == "1h" else "",
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


def make_workspace(config: WorkspaceConfig, cwd: Path) -> Workspace:
    """Return a new workspace; may block for a moment.

    Args:
        config: The type of the workspace and its settings.
        cwd: The working directory of the agent: the default root. Roots and the directories to
            mount in a container are relative to it.

    Raises:
        ConfigError: The workspace cannot be created as configured. The message names what to
            install, if something is missing.
    """
    # Imported here, since most programs use no workspace and no built-in tools.
    from agent_actors.toolbox.workspace import (  # noqa: PLC0415
        BubblewrapWorkspace,
        ContainerWorkspace,
        LocalWorkspace,
    )

    settings = dict(config.settings)
    if config.type in CONTAINER_ENGINES:
        kind: type[Workspace] = ContainerWorkspace
        mounts = cast("Mapping[str, str]", settings.get("mounts", {}))
        settings["mounts"] = {cwd / path: target for path, target in mounts.items()}
        settings["engine"] = config.type
    else:
        kind = BubblewrapWorkspace if config.type == "bubblewrap" else LocalWorkspace
        settings["root"] = cwd / cast(Path, settings.get("root", "."))
    return cast("Callable[..., Workspace]", kind)(**settings)


def make_checkpointer(options: Checkpoints) -> Checkpointer:
    """Return a new checkpointer for a directory and its limits."""
    from agent_actors.toolbox.checkpoints.checkpointer import (  # noqa: PLC0415
        DirectoryCheckpointer,
    )

    return DirectoryCheckpointer(options)


def make_project_files() -> ProjectFiles:
    """Return a reader of project files, which reads nothing by itself."""
    from agent_actors.toolbox.project_files import LocalProjectFiles  # noqa: PLC0415

    return LocalProjectFiles()


def select_builtin_tools(names: Iterable[str]) -> tuple[Tool, ...]:
    """Return the built-in tools with these names, which share what each session has read.

    Raises:
        ConfigError: A name is unknown, or a package is missing.
    """
    from agent_actors.toolbox.presets import select  # noqa: PLC0415

    return select(names)


def require_mcp() -> None:
    """Check that the package for MCP servers is installed.

    Raises:
        ConfigError: The package is missing.
    """
    if find_spec("mcp") is None:
        raise ConfigError("mcp_servers needs the package mcp: pip install 'agent-actors[mcp]'")


def make_tool_server(name: str, server: McpServer) -> ToolServer:
    """Return a new connection to an MCP server."""
    from agent_actors.mcp.connection import McpConnection  # noqa: PLC0415

    return McpConnection(server, name=name)
