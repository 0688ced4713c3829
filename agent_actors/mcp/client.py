"""`MCPClient`: one MCP server without an agent."""

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import trio

from agent_actors.abc import RemoteResult, RemoteTool
from agent_actors.domain.json import JsonValue, copy_object
from agent_actors.errors import ToolServerError
from agent_actors.mcp.connection import McpConnection
from agent_actors.options.mcp_servers import McpServer, as_mcp_server
from agent_actors.schema.validate import compile_schema

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

_MAX_TOOLS: Final = 10_000


def _ignore(progress: JsonValue) -> None:
    del progress


class MCPClient:
    """A client for one MCP server; enter it with `async with`.

    Args:
        server: The server.
    """

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._connection = McpConnection(server)
        self._manager: AbstractAsyncContextManager[trio.Nursery] | None = None
        self._tools: dict[str, RemoteTool] = {}
        self._failure: ToolServerError | None = None
        self._ready = trio.Event()
        self._ended = trio.Event()

    @classmethod
    def from_spec(cls, spec: McpServer | Mapping[str, object] | str) -> Self:
        """Return a client for a server, a table, or a text such as `stdio:python server.py`.

        Raises:
            ConfigError: The value describes no server.
        """
        return cls(as_mcp_server(spec))

    async def __aenter__(self) -> Self:
        """Connect to the server.

        Raises:
            ToolServerError: The server does not start, or does not answer in time.
            RuntimeError: The client has been entered before.

        Cancellation: safe; the connection is closed.
        """
        if self._manager is not None:
            raise RuntimeError("an MCPClient can be entered only once; create another one")
        manager = self._manager = trio.open_nursery()
        nursery = await manager.__aenter__()
        nursery.start_soon(self._serve)
        try:
            with trio.move_on_after(self._server.connect_timeout):
                await self._ready.wait()
            if not self._ready.is_set():
                raise ToolServerError(
                    f"the MCP server did not answer within {self._server.connect_timeout:g} s"
                )
            if self._failure is not None:
                raise self._failure
        except BaseException as error:
            nursery.cancel_scope.cancel("not connected")
            await manager.__aexit__(None, None, None)  # noqa: ASYNC102 - the task ends in a few seconds
            raise error from error.__cause__
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the connection, and wait until the process of the server has ended."""
        assert self._manager is not None
        self._connection.close()
        await self._manager.__aexit__(None, None, None)  # noqa: ASYNC102 - as above

    async def list_tools(self) -> Sequence[RemoteTool]:
        """Return the tools of the server that its patterns choose.

        Raises:
            ToolServerError: The server failed.
        """
        listed = await self._connection.list_tools(_MAX_TOOLS)
        tools = tuple(tool for tool in listed if self._server.offers(tool.name))
        self._tools = {tool.name: tool for tool in tools}
        return tools

    async def invoke_tool(
        self,
        name: str,
        arguments: Mapping[str, JsonValue],
        *,
        on_progress: Callable[[JsonValue], None] = _ignore,
    ) -> RemoteResult:
        """Call a tool.

        Args:
            name: The name of the tool.
            arguments: The arguments; they are validated before they are sent.
            on_progress: Called with each progress report of the server.

        Raises:
            ToolArgumentsError: The arguments do not match the schema of the tool.
            SchemaError: The schema of the tool is not valid, or refers to another document.
            ToolServerError: The server failed, or it has no tool with this name.

        Cancellation: the server is notified that the call is cancelled.
        """
        if name not in self._tools:
            await self.list_tools()
        tool = self._tools.get(name)
        if tool is None:
            known = ", ".join(map(repr, self._tools)) or "none"
            raise ToolServerError(f"the MCP server has no tool {name!r:.80}; its tools: {known}")
        own = copy_object(arguments)
        compile_schema(tool.input_schema, tool=name)(own)
        return await self._connection.call_tool(name, own, on_progress)

    async def aclose(self) -> None:
        """Close the connection, and wait until it is closed. Idempotent.

        Cancellation: the connection is still being closed; leaving the `async with` block waits.
        """
        self._connection.close()
        if self._manager is not None:
            await self._ended.wait()

    async def _serve(self) -> None:
        try:
            await self._connection.run(self._opened)
        except ToolServerError as error:
            self._failure = error
        finally:
            self._ready.set()
            self._ended.set()

    async def _opened(self) -> None:
        self._ready.set()
        await trio.lowlevel.checkpoint()
