"""The tool with which a model searches the web, and the search service Tavily."""

import os
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, cast

import attrs

from agent_actors.codec.json_text import write_json
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.workspace.report import CallResources
from agent_actors.errors import ConfigError
from agent_actors.toolbox.calls import network_of
from agent_actors.toolbox.web.client import WebClient, WebLimits, WebResponse, WebTransport
from agent_actors.toolbox.web.urls import WebError, read_url, refuse_host
from agent_actors.tools import Tool, ToolContext
from agent_actors.tools.output import ToolOutput

TAVILY_URL: Final = "https://api.tavily.com/search"
MAX_RESULTS: Final = 20

_KEY_VARIABLE: Final = "TAVILY_API_KEY"
_MISSING_KEY: Final = (
    f"web search needs an API key of Tavily: set the environment variable {_KEY_VARIABLE}, or pass "
    "api_key="
)


@attrs.frozen
class SearchResult:
    """A page that a search found.

    Attributes:
        title: The page's title; empty if unknown.
        url: The page's URL; empty if unknown.
        content: The part of the page that matches; empty if unknown.
        source: The search service.
    """

    title: str = ""
    url: str = ""
    content: str = ""
    source: str = ""


class SearchProvider(Protocol):
    """A search service."""

    @property
    def url(self) -> str:
        """The URL that the service is requested at; the workspace must allow its host."""
        ...

    async def search(self, query: str, max_results: int) -> Sequence[SearchResult]:
        """Return the pages that match a query, best first.

        Raises:
            WebError: The search failed; the message is for the model.

        Cancellation: safe.
        """
        ...


class TavilySearch:
    """The search service Tavily (https://docs.tavily.com).

    Args:
        api_key: The key; by default, the environment variable `TAVILY_API_KEY`.
        base_url: The URL of the service.
        client: A custom HTTP client.
        limits: The limits on time and size.

    Raises:
        ConfigError: There is no key.
    """

    def __init__(
        self,
        api_key: str = "",
        *,
        base_url: str = TAVILY_URL,
        client: "WebTransport | None" = None,
        limits: WebLimits | None = None,
    ) -> None:
        self._key = api_key or os.environ.get(_KEY_VARIABLE, "")
        if not self._key.strip():
            raise ConfigError(_MISSING_KEY)
        self._url = base_url
        # The caller chose this URL, not the model, so it may lead to a private network.
        self._web = WebClient(allow_private_networks=True, limits=limits, transport=client)

    def __repr__(self) -> str:
        """Return a text without the key."""
        return f"TavilySearch(base_url={self._url!r})"

    @property
    def url(self) -> str:
        """The URL of the service."""
        return self._url

    async def search(self, query: str, max_results: int) -> Sequence[SearchResult]:
        """Return the pages that match a query, best first.

        Raises:
            WebError: The service refused the request, or its response cannot be read.

        Cancellation: closes the connection.
        """
        body = write_json({"query": query, "max_results": max_results})
        headers = {"content-type": "application/json", "authorization": f"Bearer {self._key}"}
        response = await self._web.post(self._url, body, headers)
        return [_result_of(item) for item in self._results(response)][:max_results]

    def _results(self, response: WebResponse) -> list[JsonValue]:
        if response.status in (401, 403):
            raise WebError(f"Tavily refused the API key (HTTP status {response.status})")
        if response.status != 200:
            raise WebError(f"Tavily responded with HTTP status {response.status}")
        value = response.json()
        found = value.get("results") if isinstance(value, dict) else None
        if not isinstance(found, list):
            raise WebError("Tavily's response has no list of results")
        return found


def web_search(
    provider: SearchProvider | None = None, *, name: str = "WebSearch", max_results: int = 5
) -> Tool:
    """Create a tool that searches the web.

    The result is `{results: [{title, url, content, source}]}`; absent fields are empty.

    Args:
        provider: The search service; by default `TavilySearch`, with the key from the environment.
        name: The tool's name.
        max_results: The number of results if the model does not ask for fewer.

    Raises:
        ConfigError: No provider was passed, and `TAVILY_API_KEY` is not set; or `max_results` is
            not from 1 to 20.
    """
    if not 1 <= max_results <= MAX_RESULTS:
        raise ConfigError(
            f"{name}: max_results must be from 1 to {MAX_RESULTS}; got {max_results!r}"
        )
    service: SearchProvider = TavilySearch() if provider is None else provider

    async def handler(arguments: JsonObject, context: ToolContext) -> ToolOutput:
        wanted = min(cast(int, arguments.get("max_results", max_results)), max_results)
        try:
            address = read_url(service.url)
            refuse_host(address, network_of(context))
            found = await service.search(cast(str, arguments["query"]), wanted)
        except WebError as error:
            return ToolOutput(str(error), is_error=True, untrusted=False)
        context.used(CallResources(hosts=(address.host,)))
        results: dict[str, JsonValue] = {"results": [_as_json(item) for item in found]}
        return ToolOutput(results, data=results)

    return Tool(
        name,
        "Search the web. Returns titles, URLs and matching parts of pages.",
        {
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "minLength": 1,
                    "description": "The words to search for.",
                },
                "max_results": {
                    "type": "integer",
                    "minimum": 1,
                    "description": f"How many results to return; at most {max_results}.",
                },
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        handler,
        read_only=True,
        open_world=True,
    )


def _result_of(item: JsonValue) -> SearchResult:
    fields: Mapping[str, JsonValue] = item if isinstance(item, dict) else {}
    texts = [fields.get(key) for key in ("title", "url", "content")]
    title, url, content = (text if isinstance(text, str) else "" for text in texts)
    return SearchResult(title, url, content, "tavily")


def _as_json(result: SearchResult) -> JsonObject:
    return {
        "title": result.title,
        "url": result.url,
        "content": result.content,
        "source": result.source,
    }
