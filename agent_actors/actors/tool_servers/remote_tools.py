"""Makes the tools of an agent from the tools that a server lists.

A server may list anything. A tool that cannot be offered is left out, with a reason.
"""

import hashlib
import re
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final, TypeAlias

import attrs
import trio

from agent_actors.abc import RemoteTool
from agent_actors.codec.json_text import write_json
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.errors import ConfigError
from agent_actors.options.mcp_servers import McpServer
from agent_actors.tools import Tool, ToolContext, ToolOutput

MAX_TOOLS: Final = 500
"""The maximum number of tools of one server that an agent is offered."""

_MAX_SCHEMA_BYTES: Final = 2**16
_MAX_DESCRIPTION_CHARACTERS: Final = 8192
_MAX_NAME_CHARACTERS: Final = 64
_MAX_REASONS: Final = 10  # reasons for tools that are left out, in one notice
_DIGEST_CHARACTERS: Final = 8
_NOT_ACCEPTED: Final = re.compile(r"[^A-Za-z0-9_-]")

CallRemote: TypeAlias = Callable[
    [str, JsonObject, Callable[[JsonValue], None]], Awaitable[ToolOutput]
]
"""Calls a tool with its name at the server, the arguments, and a function for progress reports."""


@attrs.frozen
class ServerTools:
    """The tools of one server.

    Attributes:
        tools: The tools that an agent may be offered.
        notices: Why other tools were left out.
    """

    tools: tuple[Tool, ...] = ()
    notices: tuple[str, ...] = ()


def offered_name(server: str, tool: str) -> str:
    """Return the name under which a model calls a tool: `server__tool`.

    A name with characters that endpoints do not accept, or with too many of them, is changed and
    ends with a digest of the original name, so that two tools never get the same name.
    """
    prefix = f"{server}__"
    name = prefix + tool
    if tool and len(name) <= _MAX_NAME_CHARACTERS and not _NOT_ACCEPTED.search(tool):
        return name
    digest = hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARACTERS]
    room = _MAX_NAME_CHARACTERS - len(prefix) - _DIGEST_CHARACTERS - 1
    return f"{prefix}{_NOT_ACCEPTED.sub('_', tool)[:room]}-{digest}"


async def make_tools(
    server: str, config: McpServer, listed: Iterable[RemoteTool], call: CallRemote
) -> ServerTools:
    """Return the tools of a server for an agent.

    Args:
        server: The name of the server.
        config: The server, with the patterns of its tools.
        listed: The tools that the server lists.
        call: Calls a tool.

    Cancellation: safe.
    """
    tools: dict[str, Tool] = {}
    left_out: list[str] = []
    for number, remote in enumerate(listed):
        if number % 25 == 0:
            await trio.lowlevel.checkpoint()  # compiling a schema may take a millisecond
        if not config.offers(remote.name):
            continue
        if len(tools) == MAX_TOOLS:
            left_out.append(
                f"the tools after the first {MAX_TOOLS}; choose with `allow` and `deny`"
            )
            break
        try:
            tool = _make_tool(server, remote, call)
        except (ConfigError, RecursionError, TypeError, ValueError) as error:
            left_out.append(f"{remote.name!r:.80}: {str(error)[:300]}")
            continue
        if tool.name in tools:
            left_out.append(f"{remote.name!r:.80}: another tool has this name")
        else:
            tools[tool.name] = tool
    return ServerTools(tuple(tools.values()), _notices(server, left_out))


def _make_tool(server: str, remote: RemoteTool, call: CallRemote) -> Tool:
    size = len(write_json(remote.input_schema))
    if size > _MAX_SCHEMA_BYTES:
        raise ConfigError(f"its schema has {size} bytes; at most {_MAX_SCHEMA_BYTES} are allowed")
    return Tool(
        offered_name(server, remote.name),
        remote.description[:_MAX_DESCRIPTION_CHARACTERS],
        remote.input_schema,
        partial(_call, call, remote.name),
        # The annotations of a server are claims of a stranger, so the defaults, which assume the
        # worst case, apply to permissions.
        open_world=True,
    )


async def _call(
    call: CallRemote, name: str, arguments: JsonObject, context: ToolContext
) -> ToolOutput:
    return await call(name, arguments, context.report)


def _notices(server: str, left_out: list[str]) -> tuple[str, ...]:
    if not left_out:
        return ()
    shown = "; ".join(left_out[:_MAX_REASONS])
    more = len(left_out) - _MAX_REASONS
    rest = f"; and {more} more" if more > 0 else ""
    return (f"tools of the MCP server {server!r} were left out: {shown}{rest}",)
