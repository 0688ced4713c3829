"""Write tools: typed functions, tools with a context, a JSON Schema, and an object."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import attrs
import trio

from agent_actors import AgentOptions, Tool, ToolContext, ToolOutput, open_runtime, tool
from agent_actors.testing import ScriptedModel, call, say


@attrs.frozen
class Place:
    """A place on Earth.

    Attributes:
        latitude: Degrees north.
        longitude: Degrees east.
    """

    latitude: float
    longitude: float


@tool(read_only=True, timeout=10)
async def forecast(
    place: Place, days: int = 1, units: Literal["celsius", "kelvin"] = "celsius"
) -> list[dict[str, object]]:
    """Forecast the weather of a place.

    Args:
        place: The place to look up.
        days: The number of days, starting today.
        units: The unit of the temperatures.
    """
    high = 18 if units == "celsius" else 291
    return [{"day": day, "high": high} for day in range(days)]


@tool(read_only=True, open_world=False)
def checksum(path: str) -> str:
    """Compute the SHA-256 checksum of a file."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@tool(destructive=False, open_world=False)
async def import_rows(rows: list[str], context: ToolContext) -> ToolOutput:
    """Import rows into the database, unless they were imported before."""
    for number, _row in enumerate(rows, 1):
        await trio.sleep(0.01)
        context.report({"imported": number})
    return ToolOutput(f"{len(rows)} rows imported", data={"key": context.call_id})


async def look_up(arguments: dict[str, str]) -> ToolOutput:
    order = arguments["order"]
    if order != "A1":
        return ToolOutput(f"there is no order {order}", is_error=True)
    return ToolOutput({"order": order, "state": "on its way"})


find_order = Tool(
    "find_order",
    "Look up the state of an order.",
    {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]},
    look_up,
    read_only=True,
)


class Adder:
    name = "add"
    description = "Add two numbers."
    input_schema: Mapping[str, object] = {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    }

    async def execute(self, arguments: dict[str, float]) -> float:
        return arguments["a"] + arguments["b"]


# This script replaces a model, and calls each tool once.
model = ScriptedModel(
    [
        [
            call("forecast", {"place": {"latitude": 48.9, "longitude": 2.4}, "days": 2}),
            call("checksum", {"path": "no-such-file"}),
            call("import_rows", {"rows": ["a", "b"]}),
            call("find_order", {"order": "B2"}),
            call("add", {"a": 1, "b": "two"}),
        ],
        [say("That is all.")],
    ]
)
options = AgentOptions(
    model="scripted",
    provider=model,
    tools=[forecast, checksum, import_rows, find_order, Adder()],
)


async def main() -> None:
    async with open_runtime() as runtime:
        result = await runtime.run("Try every tool.", options)
    for done in result.tool_calls:
        print(f"{done.name}: {'error: ' if done.is_error else ''}{done.content}")


trio.run(main)
