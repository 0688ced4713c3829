"""The link to one server of remote tools, which reconnects when it is needed.

A link starts a connection for the first run that needs it. If the connection breaks, the next run
or call starts another one, after a pause that grows with every failure. A link keeps the tools that
the server listed, so that calls of a server that has failed get an error result.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

import attrs
import trio

from agent_actors.abc import RemoteResult, ToolServer
from agent_actors.actors.tool_servers.remote_tools import MAX_TOOLS, ServerTools, make_tools
from agent_actors.domain.blocks import TextBlock
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.errors import ConfigError, ToolServerError
from agent_actors.kernel.actor_loop import ActorLoop
from agent_actors.options.mcp_servers import McpServer
from agent_actors.tools import ToolOutput, to_output

_LOG: Final = logging.getLogger(__name__)

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 60.0
"""Seconds between two attempts to connect: the second restart waits for the first pause, and each
further one twice as long. The first restart of a server that worked does not wait.
"""
CLOSE_TIMEOUT: Final = 5.0
"""Seconds that a server has to close a connection, before the connection is cancelled."""

MakeServer: TypeAlias = Callable[[str, McpServer], ToolServer]
"""Returns a new connection to a server, from its name and its configuration."""


@attrs.define(eq=False)
class _Attempt:
    """One connection, from its first attempt to its end.

    `settled` is set when the connection is open, and when it has failed to open.
    """

    scope: trio.CancelScope
    server: ToolServer | None = None
    settled: trio.Event = attrs.field(factory=trio.Event)
    ended: trio.Event = attrs.field(factory=trio.Event)
    is_open: bool = False
    error: str = ""


class ServerLink:
    """The link to one server.

    Args:
        name: The name of the server.
        config: The server.
        make: Returns a new connection.
        owner: The actor whose tasks serve the connections.
        ttl: Seconds that a connection is kept while no run uses it.
        on_end: Called with the link when a connection has ended.

    Attributes:
        offered: The tools of the server, and why others were left out.
        leases: The number of runs that use the link.
    """

    def __init__(
        self,
        name: str,
        config: McpServer,
        make: MakeServer,
        owner: ActorLoop,
        *,
        ttl: float,
        on_end: Callable[["ServerLink"], None] | None = None,
    ) -> None:
        self._name = name
        self._config = config
        self._make = make
        self._owner = owner
        self._ttl = ttl
        self._on_end = on_end
        self._attempt: _Attempt | None = None
        self._failures = 0
        self._retry_at = 0.0
        self._last_error = ""
        self._closed = False
        self.offered: ServerTools = ServerTools()
        self.leases: int = 0

    @property
    def is_connected(self) -> bool:
        """True while a connection is open."""
        attempt = self._attempt
        return attempt is not None and _live_server(attempt) is not None

    @property
    def is_active(self) -> bool:
        """True while a connection is being opened, open, or being closed."""
        return self._attempt is not None

    def acquire(self) -> None:
        """Note that a run uses the link."""
        self.leases += 1
        if self._attempt is not None and self._attempt.is_open:
            self._attempt.scope.deadline = float("inf")

    def release(self) -> None:
        """Note that a run no longer uses the link."""
        self.leases -= 1
        if not self.leases and self._attempt is not None and self._attempt.is_open:
            self._attempt.scope.deadline = trio.current_time() + self._ttl

    async def prepare(self) -> str:
        """Connect, and list the tools if they are not known or have changed.

        Returns:
            Why the server is not available; empty if it is.

        Cancellation: safe; the attempt to connect continues for other runs.
        """
        try:
            server = await self._connect()
            if server.tools_changed:
                await self._list(server)
        except ToolServerError as error:
            return str(error)
        return ""

    async def call(
        self, name: str, arguments: JsonObject, report: Callable[[JsonValue], None]
    ) -> ToolOutput:
        """Call a tool; a failure of the server is an error result.

        Cancellation: the server is notified that the call is cancelled.
        """
        try:
            server = await self._connect()
            result = await server.call_tool(name, arguments, report)
        except ToolServerError as error:
            return ToolOutput(str(error), is_error=True)
        self._failures = 0
        return _output(result)

    def close(self) -> None:
        """Close the connection, and refuse to open another one. Idempotent."""
        self._closed = True
        attempt = self._attempt
        if attempt is not None:
            if attempt.server is not None:
                attempt.server.close()
            limit = trio.current_time() + CLOSE_TIMEOUT if attempt.is_open else trio.current_time()
            attempt.scope.deadline = min(attempt.scope.deadline, limit)

    async def wait_closed(self) -> None:
        """Wait until no connection is left.

        Cancellation: safe.
        """
        if self._attempt is not None:
            await self._attempt.ended.wait()

    async def _connect(self) -> ToolServer:
        while (
            (attempt := self._attempt) is not None
            and attempt.is_open
            and _live_server(attempt) is None
        ):
            await attempt.ended.wait()  # the connection is broken, and is being closed
        if attempt is None:
            attempt = self._begin()
        if not attempt.settled.is_set():
            await attempt.settled.wait()
        server = _live_server(attempt)
        if server is None:
            error = attempt.error or f"the connection to the MCP server {self._name!r} is closed"
            raise ToolServerError(error, server=self._name)
        return server

    def _begin(self) -> _Attempt:
        if self._closed:
            raise ToolServerError(
                f"the MCP server {self._name!r} is not available: its session has ended",
                server=self._name,
            )
        pause = self._retry_at - trio.current_time()
        if pause > 0:
            raise ToolServerError(
                f"the MCP server {self._name!r} is not available; the next attempt to connect is "
                f"possible in {pause:.1f} s: {self._last_error}",
                server=self._name,
            )
        deadline = trio.current_time() + self._config.connect_timeout
        attempt = _Attempt(trio.CancelScope(deadline=deadline))
        self._owner.start_background(partial(self._serve, attempt))
        self._attempt = attempt
        return attempt

    async def _serve(self, attempt: _Attempt) -> None:
        error = ""
        try:
            with attempt.scope:
                # In a thread, since the first connection imports the SDK, which takes long.
                server = await trio.to_thread.run_sync(self._make, self._name, self._config)
                attempt.server = server
                await server.run(partial(self._opened, attempt, server))
            if not attempt.is_open and attempt.scope.cancelled_caught:
                error = (
                    f"the MCP server {self._name!r} did not answer within "
                    f"{self._config.connect_timeout:g} s"
                )
        except (ToolServerError, ConfigError) as failure:
            error = str(failure)
        finally:
            self._note_end(attempt, error)

    async def _opened(self, attempt: _Attempt, server: ToolServer) -> None:
        await self._list(server)
        attempt.is_open = True
        attempt.scope.deadline = float("inf") if self.leases else trio.current_time() + self._ttl
        attempt.settled.set()

    async def _list(self, server: ToolServer) -> None:
        listed = await server.list_tools(MAX_TOOLS)
        self.offered = await make_tools(self._name, self._config, listed, self.call)

    def _note_end(self, attempt: _Attempt, error: str) -> None:
        self._attempt = None
        if error:
            _LOG.warning("%s", error)
            restarts = self._failures if attempt.is_open else self._failures + 1
            pause = min(FIRST_PAUSE * 2 ** (restarts - 1), LONGEST_PAUSE) if restarts else 0.0
            self._retry_at = trio.current_time() + pause
            self._failures = min(self._failures + 1, 10)
        self._last_error = error
        attempt.is_open = False
        attempt.error = error
        attempt.settled.set()
        attempt.ended.set()
        if self._on_end is not None:
            self._on_end(self)


def _live_server(attempt: _Attempt) -> ToolServer | None:
    server = attempt.server
    return server if attempt.is_open and server is not None and server.is_live else None


def _output(result: RemoteResult) -> ToolOutput:
    blocks = result.content
    content: object = list(blocks) or ""
    if len(blocks) == 1 and isinstance(blocks[0], TextBlock):
        content = blocks[0].text
    return ToolOutput(to_output(content).content, data=result.data, is_error=result.is_error)
