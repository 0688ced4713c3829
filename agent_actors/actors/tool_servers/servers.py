"""ToolServers: owns the connections to servers of remote tools.

Runs lease them. Runs share a connection only if its name, its configuration, its credentials and
its scope are equal. The scope is the session, unless the configuration says that sessions share the
connection. A connection is closed when its session is deleted, when no run has used it for some
time, and when the runtime closes. The failure of a server is an error result of its tools.
"""

from collections.abc import Hashable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeAlias

import attrs
import trio

from agent_actors.actors.tool_servers.link import MakeServer, ServerLink
from agent_actors.kernel.actor_loop import ActorLoop
from agent_actors.options.mcp_servers import McpServer, StdioServer
from agent_actors.tools import Tool

# The session (None: shared), the name of the server, and its configuration with its credentials.
_Key: TypeAlias = tuple[str | None, str, Hashable]


@attrs.frozen
class ToolServerStatistics:
    """A snapshot of the connections to servers of remote tools.

    Attributes:
        servers: The servers in use or connected.
        connected: The servers with an open connection.
        leases: The number of uses of a server by a run.
    """

    servers: int
    connected: int
    leases: int


@attrs.define(eq=False)
class ToolServerLease:
    """The right of one run to use servers.

    Attributes:
        tools: The tools of the servers.
        notices: Why servers or tools are not available.
    """

    _links: dict[_Key, ServerLink]
    _owner: "ToolServers"
    tools: tuple[Tool, ...] = ()
    notices: tuple[str, ...] = ()

    def release(self) -> None:
        """Give the servers back. Idempotent."""
        links, self._links = self._links, {}
        for key, link in links.items():
            link.release()
            self._owner.tidy(key, link)


class ToolServers:
    """The connections of one runtime.

    Args:
        make: Returns a new connection to a server.
        ttl: Seconds that a connection is kept while no run uses it.
    """

    def __init__(self, make: MakeServer, *, ttl: float) -> None:
        self.owner: ActorLoop = ActorLoop("tool_servers")
        self._make = make
        self._ttl = ttl
        self._links: dict[_Key, ServerLink] = {}

    async def lease(
        self, servers: Mapping[str, McpServer], session_id: str, cwd: Path
    ) -> ToolServerLease:
        """Lease servers for a run; connect to those that are not connected.

        A server that is not available gives a notice, and the tools that it listed before.

        Args:
            servers: The servers by name.
            session_id: The session that owns the connections that are not shared.
            cwd: The directory to which the working directories of stdio servers are relative.

        Cancellation: safe; a cancelled call holds nothing.
        """
        leased: dict[_Key, ServerLink] = {}
        for name, server in servers.items():
            config = server
            if isinstance(server, StdioServer):
                config = attrs.evolve(server, cwd=cwd / (server.cwd or "."))
            key = (None if server.shared else session_id, name, config.key)
            link = self._links.get(key)
            if link is None:
                forget = partial(self.tidy, key)
                link = ServerLink(
                    name, config, self._make, self.owner, ttl=self._ttl, on_end=forget
                )
                self._links[key] = link
            link.acquire()
            leased[key] = link
        lease = ToolServerLease(leased, self)
        try:
            await _prepare(lease, tuple(leased.values()))
        except BaseException:
            lease.release()
            raise
        return lease

    def tidy(self, key: _Key, link: ServerLink) -> None:
        """Forget a link that is neither used nor connected; for leases and links."""
        if not link.leases and not link.is_active and self._links.get(key) is link:
            del self._links[key]

    def forget(self, session_id: str) -> None:
        """Close the connections of a deleted session."""
        for key, link in tuple(self._links.items()):
            if key[0] == session_id:
                del self._links[key]
                link.close()

    def statistics(self) -> ToolServerStatistics:
        """Return a snapshot."""
        links = self._links.values()
        return ToolServerStatistics(
            servers=len(links),
            connected=sum(link.is_connected for link in links),
            leases=sum(link.leases for link in links),
        )

    async def aclose(self) -> None:
        """Close all connections, after the last run has ended.

        Cancellation: the connections are closed when the actor ends.
        """
        links = tuple(self._links.values())
        self._links.clear()
        for link in links:
            link.close()
        for link in links:
            await link.wait_closed()


async def _prepare(lease: ToolServerLease, links: tuple[ServerLink, ...]) -> None:
    errors = [""] * len(links)

    async def prepare(number: int, link: ServerLink) -> None:
        errors[number] = await link.prepare()

    if len(links) == 1 and links[0].is_connected:
        await prepare(0, links[0])
    else:
        async with trio.open_nursery() as nursery:
            for number, link in enumerate(links):
                nursery.start_soon(prepare, number, link)
    lease.tools = tuple(tool for link in links for tool in link.offered.tools)
    lease.notices = tuple(
        notice
        for link, error in zip(links, errors, strict=True)
        for notice in ((error,) if error else link.offered.notices)
    )
