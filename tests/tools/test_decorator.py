"""`@tool`: typed functions and dict handlers become tools."""

import enum
import functools
from typing import Annotated, Any, Literal

import attrs
import pytest

from agent_actors.domain.events import FileChanged
from agent_actors.domain.json import JsonObject
from agent_actors.errors import ConfigError, SchemaError, ToolArgumentsError
from agent_actors.tools import Tool, ToolContext, tool
from agent_actors.tools.context import DetachedContext


class Unit(enum.Enum):
    CELSIUS = "c"
    FAHRENHEIT = "f"


@attrs.frozen
class Place:
    """A place.

    Attributes:
        city: Its name.
    """

    city: str
    country: str = "FR"


@tool
async def forecast(
    place: Place,
    days: Annotated[int, "How many days"] = 3,
    unit: Unit = Unit.CELSIUS,
    detail: Literal["low", "high"] | None = None,
) -> dict[str, object]:
    """Weather forecast.

    For the next days.

    Args:
        place: The place.
        days: Not used, because the annotation has a description.
        unit: Of the temperatures.

    Returns:
        The arguments.
    """
    return {"place": place, "days": days, "unit": unit, "detail": detail}


@pytest.mark.feature("OAS-023")
def test_typed_function_gives_complete_tool() -> None:
    assert forecast.name == "forecast"
    assert forecast.description == "Weather forecast.\n\nFor the next days."
    assert forecast.is_async
    assert forecast.input_schema == {
        "type": "object",
        "properties": {
            "place": {
                "type": "object",
                "description": "A place.",
                "properties": {
                    "city": {"type": "string", "description": "Its name."},
                    "country": {"type": "string", "default": "FR"},
                },
                "required": ["city"],
                "additionalProperties": False,
            },
            "days": {"type": "integer", "description": "How many days", "default": 3},
            "unit": {
                "type": "string",
                "enum": ["c", "f"],
                "description": "Of the temperatures.",
                "default": "c",
            },
            "detail": {
                "anyOf": [{"type": "string", "enum": ["low", "high"]}, {"type": "null"}],
                "default": None,
            },
        },
        "required": ["place"],
        "additionalProperties": False,
    }


async def test_arguments_have_annotated_types() -> None:
    result = await forecast.execute({"place": {"city": "Paris"}, "unit": "f"})
    assert result == {
        "place": Place("Paris"),
        "days": 3,
        "unit": Unit.FAHRENHEIT,
        "detail": None,
    }


async def test_typed_tool_refuses_unknown_argument() -> None:
    with pytest.raises(ToolArgumentsError, match="field units: unknown; known are place, days"):
        await forecast.execute({"place": {"city": "Paris"}, "units": "f"})


def test_decorated_function_is_unchanged() -> None:
    def add(a: int, b: int = 1) -> int:
        return a + b

    made = tool(add)
    assert made.handler is add
    assert made.invoke_sync({"a": 2}, None).content == "3"


@pytest.mark.feature("OAS-023")
def test_typed_form_accepts_options() -> None:
    @tool(name="sum", description="Adds.", timeout=5, exclusive=True, max_concurrency=2)
    def add(a: int) -> int:
        """Not used."""
        return a

    @tool()
    def plain() -> str:
        return ""

    assert (add.name, add.description, add.timeout) == ("sum", "Adds.", 5)
    assert (add.exclusive, add.max_concurrency) == (True, 2)
    assert (plain.name, plain.description) == ("plain", "")
    assert plain.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.mark.feature("OAS-023", "OAS-024", "OAS-025")
async def test_dict_form_passes_one_dict() -> None:
    @tool("weather", "Current weather.", {"city": str})
    def sync_handler(args: JsonObject) -> JsonObject:
        return args

    @tool("weather", "Current weather.", {"city": str})
    async def async_handler(args: JsonObject) -> JsonObject:
        return args

    for made in (sync_handler, async_handler):
        assert (made.name, made.description) == ("weather", "Current weather.")
        assert await made.execute({"city": "Paris", "more": 1}) == {"city": "Paris", "more": 1}
    assert (sync_handler.is_async, async_handler.is_async) == (False, True)


@pytest.mark.feature("OAS-027")
def test_dict_form_accepts_full_schema() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"city": {"type": "string", "examples": ["Paris"]}},
        "required": ["city"],
        "x-own": [1],
    }

    @tool("weather", "Current weather.", schema, timeout=1.5)
    def handler(args: JsonObject) -> str:
        return ""

    assert handler.input_schema == schema
    assert handler.timeout == 1.5


@pytest.mark.feature("ASDK-029")
def test_the_dict_form_without_schema_checks_nothing() -> None:
    @tool("anything", "Takes anything.", None)
    def handler(args: JsonObject) -> int:
        return len(args)

    handler.check({"a": 1})
    assert handler.invoke_sync({"a": 1, "b": 2}, None).content == "2"


# --- the context ----------------------------------------------------------------------------------


def test_context_parameter_is_not_in_schema() -> None:
    @tool
    def probe(city: str, context: ToolContext) -> str:
        return f"{city} {context.tool_name}"

    @tool
    def maybe(city: str, context: ToolContext | None = None) -> str:
        return f"{city} {context and context.tool_name}"

    for made in (probe, maybe):
        assert made.takes_context
        assert made.spec.input_schema == {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        }
        given = DetachedContext("given")
        with pytest.raises(RuntimeError, match="no run made this call"):
            given.record(functools.partial(FileChanged, path="a", content="b"))
        assert made.invoke_sync({"city": "P"}, given).content == "P given"
        with pytest.raises(ToolArgumentsError, match="field context: unknown"):
            made.check({"city": "P", "context": "mine"})


def test_a_second_context_is_refused() -> None:
    def probe(one: ToolContext, two: ToolContext) -> None: ...

    with pytest.raises(
        ConfigError, match="tool 'probe': expected at most one ToolContext parameter; got one, two"
    ):
        tool(probe)


def test_dict_handler_may_take_context() -> None:
    @tool("probe", "Looks.", {"city": str})
    def probe(args: JsonObject, context: ToolContext) -> str:
        return f"{args['city']} {context.tool_name}"

    assert probe.takes_context
    assert probe.invoke_sync({"city": "P"}, None).content == "P probe"


# --- refused functions ----------------------------------------------------------------------------


def variadic(*cities: str) -> None: ...


def keywords(**cities: str) -> None: ...


def positional(city: str, /) -> None: ...


def unhinted(city) -> None: ...  # type: ignore[no-untyped-def] # pyright: ignore # noqa: PGH003


def binary(data: bytes) -> None: ...


def unknown(data: "Nowhere") -> None: ...  # type: ignore[name-defined] # pyright: ignore # noqa: F821, PGH003


def wrong(data: "3 + 4") -> None: ...  # type: ignore[valid-type] # pyright: ignore # noqa: PGH003


class Service:
    def method(self, city: str) -> str:
        """Says so."""
        return f"method {city}"

    async def __call__(self, city: str) -> str:
        """Calls."""
        return f"called {city}"


UNFIT: list[tuple[Any, str]] = [
    (variadic, r"tool 'variadic': parameter \*cities: str: a schema cannot describe"),
    (keywords, r"tool 'keywords': parameter \*\*cities: str: a schema cannot describe"),
    (positional, "tool 'positional': parameter 'city' is positional-only"),
    (unhinted, "tool 'unhinted': parameter 'city' has no type hint$"),
    (Service.method, "tool 'method': parameter 'self' has no type hint; decorate the bound"),
    (
        binary,
        "tool 'binary': parameter 'data': bytes has no JSON Schema; use str with base64 text",
    ),
    (unknown, "tool 'unknown': a type hint of unknown names 'Nowhere', which does not exist"),
    (wrong, "tool 'wrong': "),
]


@pytest.mark.parametrize(("function", "said"), UNFIT)
def test_unsupported_signature_names_the_parameter(function: Any, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        tool(function)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda: "", "tool name '<lambda>' is invalid"),
        (Service, "@tool needs a function; got <class"),
        (3, "@tool needs a function; got 3"),
        (Service(), r"has no name; use @tool\(name=...\)"),
    ],
)
def test_object_without_name_is_refused(function: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        tool(function)


def test_an_async_generator_is_refused() -> None:
    async def stream(city: str) -> Any:
        yield city

    with pytest.raises(ConfigError, match="tool 'stream': the handler is a generator"):
        tool(stream)


# --- other callables ------------------------------------------------------------------------------


async def test_methods_objects_and_partials_work() -> None:
    def join(prefix: str, city: str, suffix: str = "!") -> str:
        """Joins."""
        return f"{prefix} {city}{suffix}"

    method = tool(Service().method)
    called = tool(name="called")(Service())
    bound = tool(name="joined")(functools.partial(join, "in", suffix="?"))
    assert [made.description for made in (method, called, bound)] == [
        "Says so.",
        "Calls.",
        "Joins.",
    ]
    assert [made.is_async for made in (method, called, bound)] == [False, True, False]
    only_city = {"city": {"type": "string"}}
    for made, result in ((method, "method P"), (called, "called P"), (bound, "in P?")):
        assert made.input_schema is not None
        assert made.input_schema["properties"] == only_city
        assert await made.execute({"city": "P"}) == result


def test_lambda_needs_a_name() -> None:
    made: Tool = tool("nothing", "Does nothing.", {})(len)
    assert made.invoke_sync({}, None).content == "0"
