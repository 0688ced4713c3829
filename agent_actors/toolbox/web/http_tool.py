"""Tools whose calls are sent to an HTTP server, which executes them."""

from collections.abc import Mapping
from typing import Final

from agent_actors.codec.json_text import write_json
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.workspace.report import CallResources
from agent_actors.errors import ConfigError
from agent_actors.toolbox.calls import network_of
from agent_actors.toolbox.web.client import WebClient, WebLimits, WebResponse, WebTransport
from agent_actors.toolbox.web.urls import WebError, read_url, refuse_private_host
from agent_actors.tools import Tool, ToolContext
from agent_actors.tools.output import ToolOutput

_NO_HEADERS: Final[Mapping[str, str]] = {}


class HTTPTool(Tool):
    """A tool whose calls are sent to an HTTP server.

    Each call is a POST request with the JSON object `{name, arguments, tool_call_id, session_id}`.
    The server responds with `{"result": …}` or `{"error": "…"}`. A result that is not text is
    passed to the model as JSON. Redirects are not followed. A response that takes too long, is too
    large or has another status than 200 is an error result.
    """

    def __init__(
        self,
        name: str,
        description: str,
        parameters: Mapping[str, object] | None,
        callback_url: str,
        *,
        headers: Mapping[str, str] = _NO_HEADERS,
        timeout: float = 30.0,
        max_bytes: int = 1_000_000,
        allow_private_networks: bool = False,
        client: "WebTransport | None" = None,
        read_only: bool = False,
        destructive: bool | None = None,
        idempotent: bool | None = None,
    ) -> None:
        """Create the tool.

        Args:
            name: The tool's name.
            description: Description for the model.
            parameters: A JSON Schema of an object, the short form (see `tool`), or None.
            callback_url: The URL that receives the calls.
            headers: Additional headers, for example for authentication.
            timeout: Maximum duration of a request, in seconds.
            max_bytes: Maximum size of a response.
            allow_private_networks: True if the server may be in a private network or on this
                machine.
            client: A custom HTTP client.
            read_only: True if the tool changes nothing.
            destructive: True if the tool may overwrite, delete or revert something; None means the
                opposite of `read_only`.
            idempotent: True if a repeated call has no further effect.

        Raises:
            ConfigError: The tool or a header is invalid, or the URL leads to a private network.
        """
        limits = WebLimits(timeout=timeout, max_bytes=max_bytes, max_redirects=0)
        try:
            url = read_url(callback_url)
            if not allow_private_networks:
                refuse_private_host(url)
        except WebError as error:
            raise ConfigError(f"tool {name!r}: callback_url: {error}") from None
        for header, value in headers.items():
            if not (header.isascii() and value.isascii() and f"{header}{value}".isprintable()):
                raise ConfigError(
                    f"tool {name!r}: the header {header!r} must be printable ASCII text"
                )
        callback = _Callback(
            name,
            url.text,
            {"content-type": "application/json", "accept": "application/json", **headers},
            WebClient(
                allow_private_networks=allow_private_networks, limits=limits, transport=client
            ),
        )
        super().__init__(
            name,
            description,
            parameters,
            callback.call,
            read_only=read_only,
            destructive=destructive,
            idempotent=idempotent,
            open_world=True,
        )


class _Callback:
    """Sends the calls of one tool."""

    def __init__(self, name: str, url: str, headers: Mapping[str, str], web: WebClient) -> None:
        self._name = name
        self._url = url
        self._headers = headers
        self._web = web

    async def call(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Send a call, and return its result."""
        body = write_json(
            {
                "name": self._name,
                "arguments": arguments,
                "tool_call_id": context.call_id,
                "session_id": context.session_id,
            }
        )
        try:
            response = await self._web.post(
                self._url, body, self._headers, network=network_of(context)
            )
            reply = _reply_of(response)
        except WebError as error:
            return ToolOutput(str(error), is_error=True, untrusted=False)
        context.used(CallResources(hosts=response.hosts, bytes_read=len(response.body)))
        return _output(reply)


def _reply_of(response: WebResponse) -> JsonObject:
    host, status = response.url.host, response.status
    if response.truncated:
        raise WebError(f"the response of {host} is too large")
    value = response.json()
    error = value.get("error") if isinstance(value, dict) else None
    if status != 200 and not error:
        raise WebError(f"{host} responded with HTTP status {status}")
    if not isinstance(value, dict) or not ({"result", "error"} & value.keys()):
        raise WebError(f"the response of {host} is not a JSON object with `result` or `error`")
    return value


def _output(reply: JsonObject) -> ToolOutput:
    error = reply.get("error")
    if error:
        text = error if isinstance(error, str) else _json_text(error)
        return ToolOutput(text, data=error, is_error=True)
    result = reply.get("result")
    text = result if isinstance(result, str) else _json_text(result)
    return ToolOutput(text, data=result)


def _json_text(value: JsonValue) -> str:
    return write_json(value).decode()
