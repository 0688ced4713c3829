"""A user's code, for the type checkers only: nothing here needs a cast or an ignore."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Literal, assert_type

from agent_actors import (
    AgentOptions,
    Messages,
    RunResult,
    RunStream,
    Runtime,
    Tool,
    ToolContext,
    ToolOutput,
    Usage,
    open_runtime,
    tool,
)
from agent_actors.events import AssistantDelta, Event, FileChanged, RunEvent, ToolResult
from agent_actors.model import ModelCompleted, ModelDelta, ModelRequest, TextDelta
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing.strategies import DistortedTurn


@tool
async def get_weather(city: str, units: Literal["c", "f"] = "c") -> dict[str, object]:
    """Current weather."""
    return {"city": city, "units": units}


@tool(timeout=5, exclusive=True)
def compute(numbers: list[int], context: ToolContext) -> ToolOutput:
    """Compute with access to the run, in a sync tool."""
    context.report(len(numbers))
    context.record(partial(FileChanged, path="sum.txt", content="1"))
    return ToolOutput("done", data={"sum": sum(numbers)})


@tool("lookup", "Look something up.", {"key": str, "deep": {"type": bool, "default": False}})
async def lookup(arguments: dict[str, object]) -> str:
    return str(arguments["key"])


def body_of(turn: DistortedTurn) -> bytes:
    return turn.body


assert_type(get_weather, Tool)
assert_type(compute, Tool)
assert_type(lookup, Tool)


class OnlyCompletes:
    async def complete(self, request: ModelRequest) -> ModelCompleted | str:
        return request.messages.last_content()


class OnlyStreams:
    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta]:
        yield TextDelta(request.system_prompt)


class OwnTool:
    name = "own"
    description = "A tool of a class of its own."
    input_schema = None

    async def execute(self, arguments: dict[str, object]) -> str:
        return "done"


options = AgentOptions(
    model="qwen3-32b",
    base_url="http://localhost:1234/v1",
    tools=[get_weather, compute, lookup, OwnTool()],
    stop="END",
    cwd="/tmp",
)
own = AgentOptions(model="m", provider=OnlyCompletes())
other = AgentOptions(model="m", provider=OnlyStreams())


async def use() -> None:
    async with open_runtime(store=MemoryStore(), on_busy="queue") as runtime:
        assert_type(runtime, Runtime)
        result = await runtime.run("Hello", options, session_id="s")
        async with runtime.stream("And?", options, session_id="s") as events:
            assert_type(events, RunStream)
            async for event in events:
                assert_type(event, RunEvent)
                match event:
                    case AssistantDelta(text=text):
                        assert_type(text, str)
                    case ToolResult(is_error=is_error):
                        assert_type(is_error, bool)
                    case _:
                        pass
        with runtime.subscribe(watch, ToolResult, session_id="s"):
            pass
    # The names are also bound here, because closing the runtime does not suppress exceptions.
    assert_type(result, RunResult)
    assert_type(result.usage, Usage)
    assert_type(result.messages, Messages)


async def watch(event: Event) -> None:
    """Observe events."""
