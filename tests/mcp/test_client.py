"""`MCPClient` without an agent, over each transport."""

from functools import partial
from typing import TYPE_CHECKING, Literal, cast

import pytest
import trio
from hypercorn.config import Config
from hypercorn.trio import serve  # pyright: ignore[reportUnknownVariableType]
from hypercorn.typing import ASGIFramework
from mcp.server import MCPServer
from starlette.types import ASGIApp, Receive, Scope, Send

from agent_actors.domain.blocks import TextBlock
from agent_actors.errors import ConfigError, SchemaError, ToolArgumentsError, ToolServerError
from agent_actors.mcp import HttpServer, InProcessServer, MCPClient, SseServer
from tests.mcp.helpers import RAW_SERVER, raw

if TYPE_CHECKING:
    from agent_actors.domain.json import JsonValue
    from agent_actors.options.mcp_servers import McpServer


@pytest.mark.feature("ASDK-042")
async def test_client_from_text_calls_tools() -> None:
    reports: list[JsonValue] = []
    async with MCPClient.from_spec(f"stdio:python3 -S -E '{RAW_SERVER}'") as client:
        assert "echo" in [one.name for one in await client.list_tools()]
        result = await client.invoke_tool("echo", {"word": "hi"})
        assert result.content == (TextBlock("hi"),)
        await client.invoke_tool("progress", {}, on_progress=reports.append)
    assert reports == [{"progress": 1, "total": 2, "message": "half"}]


@pytest.mark.feature("ASDK-118")
async def test_closing_twice_is_safe() -> None:
    client = MCPClient.from_spec(raw())
    async with client:
        await client.aclose()
        await client.aclose()
        with pytest.raises(ToolServerError, match="is not connected"):
            await client.list_tools()
    await client.aclose()
    with pytest.raises(RuntimeError, match="only once"):
        await client.__aenter__()


async def test_arguments_are_validated_before_they_are_sent() -> None:
    async with MCPClient.from_spec(raw("hostile")) as client:
        with pytest.raises(ToolServerError, match="has no tool 'missing'"):
            await client.invoke_tool("missing", {})
        with pytest.raises(SchemaError, match="nothing is fetched"):
            await client.invoke_tool("remote", {})
    async with MCPClient.from_spec(raw()) as client:
        with pytest.raises(ToolArgumentsError, match="word"):
            await client.invoke_tool("echo", {})


async def test_failure_to_connect_is_raised() -> None:
    with pytest.raises(ToolServerError, match="cannot start"):
        async with MCPClient.from_spec("stdio:no-such-command"):
            pass
    with pytest.raises(ToolServerError, match=r"did not answer within 0\.1 s"):
        async with MCPClient.from_spec(raw("silent", connect_timeout=0.1)):
            pass
    with pytest.raises(ConfigError, match="value of type str"):
        MCPClient(InProcessServer("no server"))


class Guarded:
    """An application that refuses requests without the right token."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (b"authorization", b"token") not in scope["headers"]:
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await self._app(scope, receive, send)


def application(kind: Literal["http", "sse"]) -> ASGIApp:
    server = MCPServer("calculator")

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    return Guarded(server.streamable_http_app() if kind == "http" else server.sse_app())


@pytest.mark.feature("ASDK-033")
@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_http_servers_get_the_headers(kind: Literal["http", "sse"]) -> None:
    stop = trio.Event()
    headers = {"Authorization": "token"}
    async with trio.open_nursery() as nursery:
        config = Config()
        config.bind, config.graceful_timeout = ["127.0.0.1:0"], 0.1
        app = cast(ASGIFramework, application(kind))
        binds: list[str] = await nursery.start(
            partial(serve, app, config, shutdown_trigger=stop.wait)
        )
        url = binds[0]
        spec: McpServer = HttpServer(f"{url}/mcp", headers)
        refused: McpServer = HttpServer(f"{url}/mcp", {"Authorization": "wrong"})
        if kind == "sse":
            spec, refused = SseServer(f"{url}/sse", headers), SseServer(f"{url}/sse")
        async with MCPClient(spec) as client:
            result = await client.invoke_tool("add", {"a": 1, "b": 2})
        with pytest.raises(ToolServerError, match=r"returned an error|has failed"):
            async with MCPClient(refused):
                pass
        stop.set()
    assert result.data == {"result": 3}
