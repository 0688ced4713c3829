"""Any object with the right attributes is a tool."""

from typing import Any

import pytest

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.errors import ConfigError
from agent_actors.tools import AnyTool, Tool, ToolContext, ToolProtocol, as_tool, check_tools, tool

PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}


class Weather:
    """A tool class of another library, with its own state."""

    name = "weather"
    description = "Current weather."

    def __init__(self) -> None:
        self.parameters = PARAMETERS
        self.asked: list[JsonValue] = []

    async def execute(self, arguments: JsonObject) -> str:
        self.asked.append(arguments["city"])
        return "sunny"


class Clock:
    name = "clock"
    description = "The time."
    input_schema = None

    def execute(self, arguments: JsonObject, context: ToolContext) -> str:
        return f"noon for {context.tool_name}"


@pytest.mark.feature("WICK-021")
async def test_object_with_execute_is_a_tool() -> None:
    weather = Weather()
    made = as_tool(weather)
    assert (made.name, made.description) == ("weather", "Current weather.")
    assert made.input_schema == PARAMETERS
    assert made.is_async
    assert (await made.invoke({"city": "Paris"}, None)).content == "sunny"
    assert weather.asked == ["Paris"]


@pytest.mark.feature("WICK-021")
def test_input_schema_object_is_a_tool() -> None:
    made = as_tool(Clock())
    assert not made.is_async
    assert made.takes_context
    assert made.invoke_sync({}, None).content == "noon for clock"


def test_tool_is_used_unchanged() -> None:
    made = Tool("t", "", None, dict)
    assert as_tool(made) is made
    shaped: ToolProtocol = made
    several: list[AnyTool] = [made, Weather()]
    assert isinstance(shaped, ToolProtocol)
    assert [item.name for item in check_tools(several)] == ["t", "weather"]


def undecorated(city: str) -> str:
    return city


@pytest.mark.parametrize(
    ("obj", "said"),
    [
        (undecorated, "is not a tool: expected name, .* decorate the function with @tool"),
        ({"name": "x"}, r"{'name': 'x'} is not a tool: expected name, description, input_schema"),
        (None, "None is not a tool"),
    ],
)
def test_object_without_the_shape_is_refused(obj: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        as_tool(obj)


@pytest.mark.feature("ASDK-031")
def test_adapted_object_obeys_name_rules() -> None:
    class Nameless(Weather):
        name = ""

    with pytest.raises(ConfigError, match="name must not be empty"):
        as_tool(Nameless())


@pytest.mark.feature("OAS-034", "ASDK-031")
def test_duplicate_tool_names_are_refused() -> None:
    @tool
    def weather(city: str) -> str:
        return city

    with pytest.raises(ConfigError, match="two tools are named 'weather'"):
        check_tools([Clock(), weather, Weather()])


def test_no_tools_are_fine() -> None:
    assert check_tools([]) == ()
