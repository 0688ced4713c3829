"""The MCP servers of an agent as they are configured, before anything is connected.

A server is a value, a table as in an `.mcp.json` file, or a text such as `stdio:python server.py`.
The classes validate themselves, so that mistakes are found before the first run. Credentials are
not part of their `repr`.
"""

import re
import shlex
from collections.abc import Callable, Hashable, Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import attrs

from agent_actors.errors import ConfigError
from agent_actors.options.validation import nearest

if TYPE_CHECKING:
    import os

CONNECT_TIMEOUT: Final = 30.0
"""Default time limit, in seconds, for connecting to a server and listing its tools."""

# A name must not contain `__`, which separates it from the name of a tool.
_NAME: Final = re.compile(r"[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*")
_MAX_NAME_CHARACTERS: Final = 32
_NO_TABLE: Final[Mapping[str, str]] = MappingProxyType({})


def _texts(value: Iterable[str]) -> tuple[str, ...]:
    if isinstance(value, str):
        raise _error(f"expected a list of strings; got the string {value!r:.80}")
    texts = tuple(value)
    for text in texts:
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - may come from a file
            raise _error(f"expected a list of strings; it contains {text!r:.80}")
    return texts


def _patterns(value: Iterable[str] | None) -> tuple[str, ...] | None:
    return None if value is None else _texts(value)


def _table(value: Mapping[str, str]) -> Mapping[str, str]:
    table = dict(value)
    for key, text in table.items():
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - may come from a file
            raise _error(f"the value of {key!r:.80} must be a string; got {type(text).__name__}")
    return MappingProxyType(table)


def _as_path(value: "str | os.PathLike[str] | None") -> Path | None:
    return None if value is None else Path(value)


def _check_url(_server: object, _field: object, url: str) -> None:
    if not url.startswith(("http://", "https://")):
        raise _error(f"url must begin with http:// or https://; got {url!r:.80}")


def _check_command(_server: object, _field: object, command: str) -> None:
    if not command.strip():
        raise _error("command must name a program; got a blank string")


def _check_seconds(_server: object, _field: object, value: float) -> None:
    if not value > 0:
        raise _error(f"connect_timeout must be a positive number of seconds; got {value!r}")


@attrs.frozen(kw_only=True)
class _Common:
    """The fields of every server.

    Attributes:
        allow: Patterns of the tools that the agent may use, such as `read_*`; None: all.
        deny: Patterns of tools that the agent may not use, also if `allow` matches them.
        connect_timeout: Time limit, in seconds, for connecting and listing the tools.
    """

    allow: tuple[str, ...] | None = attrs.field(default=None, converter=_patterns)
    deny: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    connect_timeout: float = attrs.field(default=CONNECT_TIMEOUT, validator=_check_seconds)

    def offers(self, tool: str) -> bool:
        """Return whether the patterns choose a tool with this name at the server."""
        allowed = self.allow is None or any(fnmatchcase(tool, one) for one in self.allow)
        return allowed and not any(fnmatchcase(tool, one) for one in self.deny)

    @property
    def _filters(self) -> Hashable:
        return self.allow, self.deny, self.connect_timeout


@attrs.frozen
class StdioServer(_Common):
    """A program that the runtime starts, and that speaks MCP on its stdin and stdout.

    Attributes:
        command: The program.
        args: Its arguments.
        env: Environment variables in addition to `HOME`, `LOGNAME`, `PATH`, `SHELL`, `TERM` and
            `USER`. The program sees no other variable of this process.
        cwd: The working directory, relative to `AgentOptions.cwd`.
        shared: True if the sessions of a runtime share one process. If False, each session has its
            own, because a program may keep what it learns from one user.
    """

    command: str = attrs.field(validator=_check_command)
    args: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    env: Mapping[str, str] = attrs.field(default=_NO_TABLE, converter=_table, repr=False)
    cwd: Path | None = attrs.field(default=None, converter=_as_path)
    shared: bool = False

    @property
    def key(self) -> Hashable:
        """Equal for servers that may share a connection."""
        env = tuple(sorted(self.env.items()))
        return "stdio", self.command, self.args, env, self.cwd, self.shared, self._filters


@attrs.frozen
class _RemoteServer(_Common):
    url: str = attrs.field(validator=_check_url)
    headers: Mapping[str, str] = attrs.field(default=_NO_TABLE, converter=_table, repr=False)
    auth: object | None = attrs.field(default=None, repr=False)
    shared: bool = True

    @property
    def key(self) -> Hashable:
        """Equal for servers that may share a connection."""
        headers = tuple(sorted(self.headers.items()))
        kind = type(self).__name__
        return kind, self.url, headers, id(self.auth), self.shared, self._filters


@attrs.frozen
class HttpServer(_RemoteServer):
    """A server that speaks MCP over streamable HTTP.

    Attributes:
        url: The URL of the endpoint.
        headers: HTTP headers, such as `Authorization`.
        auth: An `httpx2.Auth`, such as an OAuth provider of the MCP SDK; None: no authentication.
        shared: True if sessions with the same URL, headers and `auth` share one connection.
    """


@attrs.frozen
class SseServer(_RemoteServer):
    """A server that speaks MCP over HTTP with server-sent events, the transport before HTTP's.

    Attributes:
        url: The URL of the event stream.
        headers: HTTP headers, such as `Authorization`.
        auth: An `httpx2.Auth`; None: no authentication.
        shared: True if sessions with the same URL, headers and `auth` share one connection.
    """


@attrs.frozen
class InProcessServer(_Common):
    """A server object of the MCP SDK in this process.

    Attributes:
        server: An `MCPServer` or a `Server` of the package `mcp`.
        shared: True if the sessions of a runtime share one connection.
    """

    server: object = attrs.field(repr=False)
    shared: bool = True

    @property
    def key(self) -> Hashable:
        """Equal for servers that may share a connection."""
        return "in_process", id(self.server), self.shared, self._filters


McpServer: TypeAlias = StdioServer | HttpServer | SseServer | InProcessServer

_KINDS: Final[Mapping[str, type[StdioServer | HttpServer | SseServer]]] = MappingProxyType(
    {"stdio": StdioServer, "http": HttpServer, "streamable-http": HttpServer, "sse": SseServer}
)


def as_mcp_server(value: object) -> McpServer:
    """Return the server that a value, a table or a text describes.

    Args:
        value: A server; a table with the fields of a server and its `type`, which may be missing
            for `stdio` and `http`; or `stdio:COMMAND`, `http://…`, `https://…` or `sse:URL`.

    Raises:
        ConfigError: The value describes no server.
    """
    if isinstance(value, StdioServer | HttpServer | SseServer | InProcessServer):
        return value
    if isinstance(value, str):
        return _from_text(value)
    if isinstance(value, Mapping):
        return _from_table(cast("Mapping[str, object]", value))
    raise _error(
        "expected a StdioServer, an HttpServer, an SseServer, an InProcessServer, a table or a "
        f"text such as 'stdio:python server.py'; got a value of type {type(value).__name__}"
    )


def as_mcp_servers(value: "Mapping[str, object] | None") -> Mapping[str, McpServer]:
    """Return the servers of an agent by name.

    Raises:
        ConfigError: A name or a server is not valid. The message names the server.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - may come from a file
        raise ConfigError(
            "AgentOptions: mcp_servers must be a table of servers by name, such as "
            f"{{'files': StdioServer('my-server')}}; got {value!r:.80}"
        )
    servers: dict[str, McpServer] = {}
    for name, server in cast("Mapping[object, object]", value).items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError(
                f"AgentOptions: mcp_servers: the name {name!r:.80} is invalid; expected letters "
                "and digits, and a single '_' or '-' between them"
            )
        if len(name) > _MAX_NAME_CHARACTERS:
            raise ConfigError(
                f"AgentOptions: mcp_servers: the name {name!r:.80} has {len(name)} characters; at "
                f"most {_MAX_NAME_CHARACTERS} are allowed"
            )
        try:
            servers[name] = as_mcp_server(server)
        except ConfigError as error:
            raise ConfigError(f"AgentOptions: mcp_servers: {name}: {error}") from None
    return MappingProxyType(servers)


def _from_text(text: str) -> McpServer:
    scheme, _, rest = text.partition(":")
    if scheme == "stdio":
        try:
            words = shlex.split(rest)
        except ValueError as error:
            raise _error(f"the command in {text!r:.80} cannot be read: {error}") from None
        if words:
            return StdioServer(words[0], words[1:])
    elif scheme in ("http", "https"):
        return HttpServer(text)
    elif scheme == "sse":
        return SseServer(rest)
    raise _error(
        f"the text {text!r:.80} describes no server; expected 'stdio:COMMAND ARGUMENTS', "
        "'http://HOST/PATH', 'https://HOST/PATH' or 'sse:URL'"
    )


def _from_table(table: Mapping[str, object]) -> McpServer:
    fields = dict(table)
    kind = fields.pop("type", "stdio" if "command" in fields else "http")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise _error(f"the type {kind!r:.80} is unknown; {nearest(str(kind), _KINDS)}")
    known = [field.name for field in attrs.fields(_KINDS[kind])]
    for name in fields:
        if name not in known:
            raise _error(f"type {kind!r} has no field {name!r}; {nearest(str(name), known)}")
    for name in ("command", "url"):
        if name in known and not isinstance(fields.get(name), str):
            raise _error(f"type {kind!r} requires {name}, which must be a string")
    return cast("Callable[..., McpServer]", _KINDS[kind])(**fields)


def _error(message: str) -> ConfigError:
    return ConfigError(message)
