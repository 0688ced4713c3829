"""Helpers for tests of the web tools: servers, HTTP clients that answer from a table, contexts."""

from collections.abc import Mapping
from typing import cast

import attrs
import httpx

from agent_actors.abc import Workspace
from agent_actors.domain.json import JsonObject
from agent_actors.domain.workspace.report import CallResources, Network, WorkspaceReport
from agent_actors.tools import Tool, ToolOutput
from agent_actors.tools.context import DetachedContext

Answer = tuple[int, Mapping[str, str], bytes]
HTML = {"content-type": "text/html"}
NONE: dict[str, str] = {}


@attrs.frozen
class FakeWorkspace:
    """A workspace that has only a network rule."""

    network: Network = True

    def describe(self) -> WorkspaceReport:
        return WorkspaceReport(kind="custom", root="/", network=self.network)


@attrs.frozen
class FakeContext(DetachedContext):
    """The context of a call with an id, a session and a workspace."""

    tool_name: str = "tool"
    network: Network = True
    resources: list[CallResources] = attrs.field(factory=list[CallResources])

    @property
    def call_id(self) -> str:
        return "call-7"

    @property
    def session_id(self) -> str:
        return "session-7"

    @property
    def workspace(self) -> Workspace:
        return cast(Workspace, FakeWorkspace(self.network))

    def used(self, resources: CallResources) -> None:
        self.resources.append(resources)


def raw(status: str = "200 OK", *lines: str, body: bytes = b"") -> bytes:
    """Return a response in wire format, with its length."""
    head = "\r\n".join([f"HTTP/1.1 {status}", *lines, f"content-length: {len(body)}", "", ""])
    return head.encode() + body


def page(text: str, *lines: str) -> bytes:
    """Return an HTML page in wire format."""
    return raw("200 OK", "content-type: text/html; charset=utf-8", *lines, body=text.encode())


def answering(answers: Mapping[str, Answer], seen: list[httpx.Request]) -> httpx.AsyncClient:
    """Return a client that answers from a table of URLs, and records the requests."""

    def respond(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        status, headers, body = answers[str(request.url)]
        return httpx.Response(status, headers=headers, content=body)

    return httpx.AsyncClient(transport=httpx.MockTransport(respond))


async def call(tool: Tool, arguments: JsonObject, context: FakeContext | None = None) -> ToolOutput:
    """Call the tool as a run does."""
    output = await tool.call(arguments, context or FakeContext())
    assert isinstance(output, ToolOutput)
    return output


def data_of(output: ToolOutput) -> JsonObject:
    assert not output.is_error, output.content
    assert isinstance(output.data, dict)
    return output.data
