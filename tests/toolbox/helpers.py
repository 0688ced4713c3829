"""A call of a tool with a workspace in memory, without a runtime."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import attrs

from agent_actors.abc.workspace import BackgroundTasks, Workspace
from agent_actors.domain.events import Event, EventBuilder, EventScope
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.run import RunInfo, ToolCallResult
from agent_actors.domain.workspace.report import CallResources
from agent_actors.sessions.records import recordable
from agent_actors.tools import Tool, ToolOutput

EventT = TypeVar("EventT", bound=Event)


@attrs.define(eq=False)
class Context:
    """The context of calls, which keeps what they report."""

    workspace: Workspace | None = None
    background: BackgroundTasks | None = None
    session_id: str = "s1"
    tool_name: str = "tool"
    deps: object = None
    run_id: str = "r1"
    request_id: str = "q1"
    call_id: str = "c1"
    cancelled: bool = False
    events: list[Event] = attrs.field(factory=list[Event])
    resources: list[CallResources] = attrs.field(factory=list[CallResources])

    @property
    def cwd(self) -> Path:
        return Path("/workspace")

    @property
    def run(self) -> RunInfo:
        return RunInfo(self.session_id, self.run_id, self.request_id, 1, 0.0)

    def report(self, progress: JsonValue) -> None:
        raise AssertionError(progress)

    def record(self, event: EventBuilder) -> None:
        self.events.append(recordable(event)(EventScope("", "", ""), "e", 0.0, seq=None))

    def used(self, resources: CallResources) -> None:
        self.resources.append(resources)

    async def call_tool(self, name: str, arguments: Mapping[str, JsonValue]) -> ToolCallResult:
        raise AssertionError((name, arguments))

    def recorded(self, kind: type[EventT]) -> list[EventT]:
        """Return the recorded events of a class."""
        return [event for event in self.events if isinstance(event, kind)]


class Tools:
    """Tools by name, called as a runtime calls them."""

    def __init__(self, tools: Iterable[Tool], context: Context) -> None:
        self.by_name = {tool.name: tool for tool in tools}
        self.context = context

    async def output(self, name: str, /, **arguments: JsonValue) -> ToolOutput:
        tool = self.by_name[name]
        tool.check(arguments)
        return await tool.invoke(arguments, attrs.evolve(self.context, tool_name=name))

    async def text(self, name: str, /, **arguments: JsonValue) -> str:
        """Return a successful result that is text."""
        output = await self.output(name, **arguments)
        assert not output.is_error, output.content
        assert isinstance(output.content, str)
        return output.content

    async def object(self, name: str, /, **arguments: JsonValue) -> JsonObject:
        """Return a successful result that is an object."""
        output = await self.output(name, **arguments)
        assert not output.is_error, output.content
        assert isinstance(output.content, dict)
        return output.content

    async def error(self, name: str, /, **arguments: JsonValue) -> str:
        """Return the text of an error result."""
        output = await self.output(name, **arguments)
        assert output.is_error, output.content
        assert isinstance(output.content, str)
        return output.content
