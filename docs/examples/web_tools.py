"""Give an agent the web tools: read pages, search, and call a tool that an HTTP server executes."""

import httpx
import trio

from agent_actors import AgentOptions, open_runtime
from agent_actors.permissions import PermissionPolicy
from agent_actors.testing import ScriptedModel, call, say
from agent_actors.toolbox.web import HTTPTool, SearchResult, web_fetch, web_search


class Shelf:
    """A search service of your own; `TavilySearch` is the default."""

    url = "https://search.example/"

    async def search(self, query: str, max_results: int) -> list[SearchResult]:
        found = SearchResult("Trio", "https://trio.example/", f"about {query}", "shelf")
        return [found][:max_results]


def respond(request: httpx.Request) -> httpx.Response:
    """Replace the internet in this example."""
    if request.method == "POST":
        return httpx.Response(200, json={"result": {"ticket": 7}})
    return httpx.Response(200, html="<title>Trio</title><p>A <b>friendly</b> library.</p>")


async def main() -> None:
    client = httpx.AsyncClient(transport=httpx.MockTransport(respond))
    fetch = web_fetch(client=client)
    search = web_search(Shelf())
    ticket = HTTPTool(
        "open_ticket",
        "Open a ticket at the help desk.",
        {"subject": str},
        "https://desk.example/agent-tools",
        headers={"authorization": "Bearer desk-key"},
        client=client,
    )

    policy = PermissionPolicy(
        mode="default",
        allow=["WebFetch", "WebSearch", "open_ticket"],
        deny=["WebFetch(domain:evil.example)"],
    )

    # This script replaces a model.
    calls = [
        call("WebSearch", {"query": "structured concurrency"}),
        call("WebFetch", {"url": "https://trio.example/"}),
        call("WebFetch", {"url": "https://www.evil.example/"}),
        call("WebFetch", {"url": "http://2130706433/admin"}),
        call("open_ticket", {"subject": "Printer is on fire"}),
    ]
    options = AgentOptions(
        model="scripted",
        provider=ScriptedModel([calls, [say("Done.")]]),
        tools=[fetch, search, ticket],
        permissions=policy,
    )
    async with open_runtime() as runtime:
        result = await runtime.run("Look it up.", options)
    for done in result.tool_calls:
        print(done.name, "refused:" if done.is_error else "returned:", done.data or done.content)
    await client.aclose()


trio.run(main)
