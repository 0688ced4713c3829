"""One connection to an MCP server, through the client of the official SDK.

`run` enters and leaves the SDK's client in one task, because its task groups belong to that task.
Any task may call the other methods while `run` runs.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Final, cast

import anyio
import httpx2
import mcp_types
import trio
from mcp import Client, MCPError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer, Server
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage

from agent_actors.abc import RemoteResult, RemoteTool
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.errors import ConfigError, ToolServerError
from agent_actors.mcp.results import as_result
from agent_actors.mcp.stdio import ServerProcess
from agent_actors.options.mcp_servers import (
    HttpServer,
    InProcessServer,
    McpServer,
    SseServer,
    StdioServer,
)
from agent_actors.version import __version__

_Streams = tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]

_ME: Final = mcp_types.Implementation(name="agent-actors", version=__version__)
_SHOWN_CHARACTERS: Final = 500  # of an error of the SDK
# Seconds without a byte of an HTTP response. The runtime has its own deadlines for calls.
_HTTP_TIMEOUT: Final = httpx2.Timeout(30.0, read=3600.0)


class _ProcessStreams:
    """The streams of a process, in the form in which the SDK's client takes a transport."""

    def __init__(self, process: ServerProcess) -> None:
        self._process = process

    async def __aenter__(self) -> _Streams:
        return self._process.incoming, self._process.outgoing

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Do nothing: `ServerProcess.stop` closes the streams."""


class McpConnection:
    """One connection to an MCP server; implements `abc.ToolServer`.

    Args:
        server: The server.
        name: The name of the server in errors.
    """

    def __init__(self, server: McpServer, *, name: str = "") -> None:
        if isinstance(server, InProcessServer) and not isinstance(
            server.server, Server | MCPServer
        ):
            raise ConfigError(
                "InProcessServer must have an MCPServer or a Server of the package mcp; got a "
                f"value of type {type(server.server).__name__}"
            )
        self._server = server
        self._name = name
        self._client: Client | None = None
        self._over = trio.Event()
        self._process: ServerProcess | None = None
        self._closing = False
        self.tools_changed: bool = False

    @property
    def is_live(self) -> bool:
        """See `ToolServer.is_live`."""
        return self._client is not None and not self._over.is_set()

    async def run(self, ready: Callable[[], Awaitable[None]]) -> None:
        """See `ToolServer.run`."""
        try:
            if isinstance(self._server, StdioServer):
                await self._run_process(self._server, ready)
            else:
                await self._run_client(self._target(), ready)
        except Exception as error:
            raise self._failure(error) from error

    def close(self) -> None:
        """See `ToolServer.close`."""
        self._closing = True
        self._over.set()

    async def list_tools(self, limit: int) -> Sequence[RemoteTool]:
        """See `ToolServer.list_tools`."""
        client = self._connected()
        self.tools_changed = False
        tools: list[RemoteTool] = []
        cursor: str | None = None
        try:
            while True:
                page = await client.list_tools(cursor=cursor)
                tools += [
                    RemoteTool(tool.name, tool.description or tool.title or "", tool.input_schema)
                    for tool in page.tools[: limit + 1 - len(tools)]
                ]
                cursor = page.next_cursor
                if not cursor or not page.tools or len(tools) > limit:
                    return tools
        except Exception as error:
            raise self._failure(error) from error

    async def call_tool(
        self, name: str, arguments: JsonObject, report: Callable[[JsonValue], None]
    ) -> RemoteResult:
        """See `ToolServer.call_tool`."""
        client = self._connected()

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            report({"progress": progress, "total": total, "message": message})
            await trio.lowlevel.checkpoint_if_cancelled()

        try:
            result = await client.call_tool(
                name, cast("dict[str, object]", arguments), progress_callback=on_progress
            )
            return as_result(result)
        except Exception as error:
            raise self._failure(error) from error

    def _connected(self) -> Client:
        if self._client is None:
            raise ToolServerError(f"{self._label} is not connected", server=self._name)
        return self._client

    async def _run_process(self, server: StdioServer, ready: Callable[[], Awaitable[None]]) -> None:
        process = self._process = await ServerProcess.start(server)
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(process.serve)
                nursery.start_soon(self._watch, process)
                await self._run_client(_ProcessStreams(process), ready)
                nursery.cancel_scope.cancel("the connection is closed")
        finally:
            with trio.CancelScope(shield=True):
                await process.stop()

    async def _watch(self, process: ServerProcess) -> None:
        await process.ended.wait()
        self._over.set()

    async def _run_client(
        self,
        target: "Server[object] | MCPServer | AbstractAsyncContextManager[_Streams]",
        ready: Callable[[], Awaitable[None]],
    ) -> None:
        async with Client(target, client_info=_ME, message_handler=self._on_message) as client:
            self._client = client
            try:
                await ready()
                await self._over.wait()
            finally:
                self._client = None
        if not self._closing:
            raise ToolServerError("the connection ended")

    def _target(self) -> "Server[object] | MCPServer | AbstractAsyncContextManager[_Streams]":
        match self._server:
            case InProcessServer(server=server):
                return cast("Server[object] | MCPServer", server)
            case HttpServer(url=url, headers=headers, auth=auth):
                return _http_streams(url, headers, auth)
            case SseServer(url=url, headers=headers, auth=auth):
                return cast(
                    "AbstractAsyncContextManager[_Streams]",
                    sse_client(url, dict(headers), auth=cast("httpx2.Auth | None", auth)),
                )
            case StdioServer():
                raise AssertionError("a process has its own transport")

    async def _on_message(self, message: object) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self.tools_changed = True
        await trio.lowlevel.checkpoint_if_cancelled()

    @property
    def _label(self) -> str:
        return f"the MCP server {self._name!r}" if self._name else "the MCP server"

    def _failure(self, error: Exception) -> ToolServerError:
        """Return the error for a caller, and end the connection if it is broken."""
        leaf = _leaf(error)
        if isinstance(leaf, ToolServerError) and str(leaf).startswith(self._label):
            return leaf
        if isinstance(leaf, MCPError) and not _is_broken(leaf):
            text = f"returned an error: {leaf.message} (code {leaf.code})"
        elif isinstance(leaf, ValueError):  # such as pydantic's ValidationError
            text = f"violated the protocol: {str(leaf)[:_SHOWN_CHARACTERS]!r}"
        elif self._process is not None and self._process.ended.is_set():
            text = f"has failed: {self._process.describe_end()}"
        else:
            self._over.set()
            text = f"has failed: {_described(leaf)}"
        return ToolServerError(f"{self._label} {text}", server=self._name)


def _is_broken(error: MCPError) -> bool:
    # The SDK reports an unknown session, for example after a restart of the server, as an invalid
    # request.
    lost = error.code == mcp_types.INVALID_REQUEST and error.message == "Session terminated"
    return lost or error.code == mcp_types.CONNECTION_CLOSED


def _leaf(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def _described(error: BaseException) -> str:
    if isinstance(error, ToolServerError | MCPError):
        return str(error)
    if isinstance(error, anyio.ClosedResourceError | anyio.BrokenResourceError):
        return "the connection is closed"
    return f"{type(error).__name__}: {error}"


@asynccontextmanager
async def _http_streams(
    url: str, headers: Mapping[str, str], auth: object | None
) -> AsyncGenerator[_Streams]:
    async with (
        httpx2.AsyncClient(
            headers=dict(headers), auth=cast("httpx2.Auth | None", auth), timeout=_HTTP_TIMEOUT
        ) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams
