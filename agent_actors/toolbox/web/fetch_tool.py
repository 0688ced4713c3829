"""The tool with which a model reads a web page."""

from importlib.util import find_spec
from typing import Final, cast

import trio

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.workspace.report import CallResources
from agent_actors.errors import ConfigError
from agent_actors.toolbox.calls import network_of
from agent_actors.toolbox.web.client import (
    WebClient,
    WebLimits,
    WebResponse,
    WebTransport,
    redirect_of,
)
from agent_actors.toolbox.web.page_text import page_text
from agent_actors.toolbox.web.urls import WebError
from agent_actors.tools import Tool, ToolContext
from agent_actors.tools.output import ToolOutput

MAX_TEXT: Final = 100_000
"""The default maximum number of characters of a page that the model receives."""

_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "url": {
            "type": "string",
            "description": "The complete URL, beginning with https:// or http://.",
        }
    },
    "required": ["url"],
    "additionalProperties": False,
}


def web_fetch(
    *,
    name: str = "WebFetch",
    allow_private_networks: bool = False,
    limits: WebLimits | None = None,
    max_text: int = MAX_TEXT,
    client: "WebTransport | None" = None,
) -> Tool:
    """Create a tool that requests a web page and returns its text, HTML as Markdown.

    The result is `{url, status, text, truncated}`; `url` is the URL after redirects. Hosts that are
    not public are refused, on the address that is connected to and at every redirect. A redirect to
    another host is not followed: the text tells the model the URL, so that its next call passes the
    permission rules for that host.

    Args:
        name: The tool's name.
        allow_private_networks: True to allow hosts that are not public, such as `localhost`.
        limits: The limits on time, size and redirects.
        max_text: Maximum number of characters of the text.
        client: A custom HTTP client. It resolves host names itself, so only addresses and local
            names in URLs are refused then.

    Raises:
        ConfigError: The package `markdownify` is missing, or `max_text` is not positive.
    """
    if find_spec("markdownify") is None:
        raise ConfigError(
            f"{name} needs the package markdownify: pip install 'agent-actors[tools]'"
        )
    if max_text < 1:
        raise ConfigError(f"{name}: max_text must be positive; got {max_text!r}")
    web = WebClient(allow_private_networks=allow_private_networks, limits=limits, transport=client)

    async def handler(arguments: JsonObject, context: ToolContext) -> ToolOutput:
        try:
            response = await web.get(cast(str, arguments["url"]), network=network_of(context))
            text = await _text_of(response)
        except WebError as error:
            return ToolOutput(str(error), is_error=True, untrusted=False)
        context.used(CallResources(hosts=response.hosts, bytes_read=len(response.body)))
        truncated = response.truncated or len(text) > max_text
        data: dict[str, JsonValue] = {
            "url": response.url.text,
            "status": response.status,
            "text": text[:max_text],
            "truncated": truncated,
        }
        return ToolOutput(data, data=data)

    return Tool(
        name,
        "Request a web page and return its text; HTML is converted to Markdown. Only GET requests "
        "are possible. A redirect to another host is reported instead of followed.",
        _SCHEMA,
        handler,
        read_only=True,
        open_world=True,
    )


async def _text_of(response: WebResponse) -> str:
    target = redirect_of(response)
    if target is not None:
        return f"The page redirects to another host. To read it, request {target.text}"
    kind = response.headers.get("content-type", "")
    # HTML is converted in a thread, because a large page takes longer than other runs should wait.
    # A cancelled call does not wait for the thread, which ends by itself and holds nothing.
    return await trio.to_thread.run_sync(page_text, response.body, kind, abandon_on_cancel=True)
