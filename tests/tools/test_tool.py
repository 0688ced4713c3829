"""Tools as values: the rules for their construction, their checks, and their execution."""

import functools
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import attrs
import pytest

from agent_actors.domain.events import EventBuilder
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.run import RunInfo, ToolCallResult
from agent_actors.domain.workspace.report import CallResources
from agent_actors.errors import ConfigError, ToolArgumentsError
from agent_actors.tools import Tool, ToolContext, ToolOutput

CITY: JsonObject = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}


def echo(arguments: JsonObject) -> JsonObject:
    return arguments


async def echo_async(arguments: JsonObject) -> JsonObject:
    return arguments


@attrs.frozen
class Context:
    """The context of a run, as the runtime would provide it."""

    cwd: Path
    session_id: str = "s1"
    run_id: str = "r1"
    request_id: str = "q1"
    call_id: str = "c1"
    tool_name: str = "probe"
    deps: object = None
    cancelled: bool = False
    reports: list[JsonValue] = attrs.field(factory=list[JsonValue])

    @property
    def run(self) -> RunInfo:
        return RunInfo(self.session_id, self.run_id, self.request_id, 2, 1.0)

    @property
    def workspace(self) -> None:
        return None

    @property
    def background(self) -> None:
        return None

    def used(self, resources: CallResources) -> None:
        raise RuntimeError(f"{resources!r}: not here")

    def report(self, progress: JsonValue) -> None:
        self.reports.append(progress)

    def record(self, event: EventBuilder) -> None:
        raise RuntimeError(f"{event!r}: not here")

    async def call_tool(self, name: str, arguments: Mapping[str, JsonValue]) -> ToolCallResult:
        raise RuntimeError(f"{name} {arguments}: not here")


def city_tool(handler: Any = echo, **options: Any) -> Tool:
    return Tool("weather", "Current weather.", CITY, handler, **options)


# --- attributes -----------------------------------------------------------------------------------


@pytest.mark.feature("OAS-020", "WICK-022")
def test_tool_has_name_schema_and_function() -> None:
    made = city_tool()
    assert (made.name, made.description, made.input_schema) == ("weather", "Current weather.", CITY)
    assert made.handler is echo
    assert made.spec.name == "weather"
    assert not made.is_async
    assert not made.takes_context
    assert "Tool(name='weather'" in repr(made)


@pytest.mark.feature("OAS-021")
def test_tool_has_an_openai_form() -> None:
    assert city_tool().to_openai_format() == {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Current weather.",
            "parameters": CITY,
        },
    }


def test_tool_copies_its_schema() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
    made = Tool("t", "", schema, echo)
    schema["properties"]["a"]["type"] = "integer"
    assert made.input_schema == {"type": "object", "properties": {"a": {"type": "string"}}}


def test_tool_is_frozen_with_identity() -> None:
    made = city_tool()
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        made.name = "other"  # type: ignore[misc] # pyright: ignore[reportAttributeAccessIssue]
    assert made != city_tool()


# --- refused constructions ------------------------------------------------------------------------


@pytest.mark.feature("ASDK-031")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "name must not be empty"),
        ("get weather", "'get weather' is invalid"),
        ("wetter.lesen", "'wetter.lesen' is invalid"),
        ("übung", "'übung' is invalid"),
        ("line\n", "is invalid"),
        ("x" * 65, "has 65 characters; at most 64"),
        (3, "must be text; got 3"),
    ],
)
def test_invalid_name_is_refused(name: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Tool(name, "", None, echo)


def test_valid_name_limits_are_accepted() -> None:
    assert Tool("aZ09_-" + "x" * 58, "", None, echo).name.startswith("aZ09_-")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"timeout": 0}, "timeout must be a positive number"),
        ({"timeout": math.nan}, "timeout must be a positive number"),
        ({"max_concurrency": 0}, "max_concurrency must be at least 1"),
        ({"on_cancel": "kill"}, "on_cancel must be 'join' or 'abandon'; got 'kill'"),
    ],
)
def test_invalid_option_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=f"tool 'weather': {said}"):
        city_tool(**options)


def test_valid_options_are_kept() -> None:
    made = city_tool(timeout=math.inf, max_concurrency=1, on_cancel="abandon", exclusive=True)
    assert (made.timeout, made.max_concurrency) == (math.inf, 1)
    assert (made.on_cancel, made.exclusive) == ("abandon", True)


def test_a_description_must_be_text() -> None:
    with pytest.raises(ConfigError, match="the description must be text; got None"):
        Tool("weather", None, None, echo)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def generator(arguments: JsonObject) -> Iterator[int]:
    yield len(arguments)


async def async_generator(arguments: JsonObject) -> Any:
    yield len(arguments)


@pytest.mark.parametrize("handler", [generator, async_generator])
def test_a_generator_is_refused_as_a_handler(handler: Any) -> None:
    with pytest.raises(ConfigError, match=r"a call has one result; return it.*report"):
        city_tool(handler)


def takes_nothing() -> None: ...


def takes_three(a: object, b: object, c: object) -> None: ...


def takes_names_only(*, a: object) -> None: ...


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        ("text", "the handler must be callable; got 'text'"),
        (takes_nothing, "must take one dict"),
        (takes_three, "must take one dict"),
        (takes_names_only, "must take one dict"),
    ],
)
def test_handler_must_take_one_dict(handler: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        city_tool(handler)


# --- checks of arguments --------------------------------------------------------------------------


def refused(made: Tool, arguments: JsonObject) -> ToolArgumentsError:
    with pytest.raises(ToolArgumentsError) as caught:
        made.check(arguments)
    assert caught.value.tool == made.name
    return caught.value


@pytest.mark.feature("ASDK-029")
def test_a_tool_without_schema_checks_nothing() -> None:
    made = Tool("t", "", None, echo)
    made.check({"whatever": [1]})
    assert made.input_schema is None


@pytest.mark.feature("ASDK-030")
def test_validator_runs_after_schema() -> None:
    def no_paris(arguments: JsonObject) -> str | None:
        arguments["seen"] = True
        return "not Paris again" if arguments["city"] == "Paris" else None

    made = city_tool(validator=no_paris)
    given: JsonObject = {"city": "Rome"}
    made.check(given)
    assert given == {"city": "Rome"}
    assert str(refused(made, {"city": "Paris"})) == "not Paris again"
    assert str(refused(made, {})) == "field city: required, but missing"


def test_a_validator_that_raises_refuses_the_call() -> None:
    def broken(arguments: JsonObject) -> str | None:
        raise KeyError("zone")

    said = str(refused(city_tool(validator=broken), {"city": "P"}))
    assert said == "the tool's own validator raised KeyError: 'zone'"


# --- execution ------------------------------------------------------------------------------------


@pytest.mark.feature("OAS-022", "OAS-025")
@pytest.mark.parametrize("handler", [echo, echo_async])
async def test_execute_returns_the_handler_value(handler: Any) -> None:
    assert await city_tool(handler).execute({"city": "Paris"}) == {"city": "Paris"}


@pytest.mark.feature("OAS-022")
async def test_execute_validates_then_raises() -> None:
    def fails(arguments: JsonObject) -> None:
        raise LookupError(str(arguments["city"]))

    with pytest.raises(ToolArgumentsError, match="field city"):
        await city_tool(fails).execute({})
    with pytest.raises(LookupError, match="Paris"):
        await city_tool(fails).execute({"city": "Paris"})


@pytest.mark.feature("ASDK-036")
async def test_handler_gets_own_argument_copy() -> None:
    def spoil(arguments: dict[str, Any]) -> str:
        arguments["list"].append(1)
        arguments["city"] = ""
        return "spoilt"

    async def spoil_async(arguments: dict[str, Any]) -> str:
        return spoil(arguments)

    given: dict[str, JsonValue] = {"city": "Paris", "list": []}
    await city_tool(spoil).execute(given)
    city_tool(spoil).invoke_sync(given, None)
    await city_tool(spoil_async).invoke(given, None)
    assert given == {"city": "Paris", "list": []}


@pytest.mark.feature("ASDK-039")
async def test_invoke_returns_text_and_data() -> None:
    async def handler(arguments: JsonObject) -> ToolOutput:
        return ToolOutput("sunny", data={"celsius": 21})

    output = await city_tool(handler).invoke({"city": "P"}, None)
    assert output == ToolOutput("sunny", data={"celsius": 21})
    assert city_tool().invoke_sync({"city": "P"}, None).content == {"city": "P"}


async def test_invoke_runs_a_sync_handler_too() -> None:
    assert (await city_tool().invoke({"city": "P"}, None)).content == {"city": "P"}


@pytest.mark.parametrize("kind", ["coroutine", "awaitable"])
def test_sync_wrapper_of_async_is_recognized(kind: str) -> None:
    class Awaitable:
        def __await__(self) -> Iterator[None]:
            yield

    @functools.wraps(echo)
    def wrapper(arguments: JsonObject) -> object:
        return echo_async(arguments) if kind == "coroutine" else Awaitable()

    with pytest.raises(TypeError, match="plain function that returned an awaitable"):
        city_tool(wrapper).invoke_sync({"city": "P"}, None)


async def test_non_json_result_names_tool() -> None:
    def handler(arguments: JsonObject) -> object:
        return {"at": [b"bytes"]} if arguments["city"] == "deep" else object()

    made = city_tool(handler)
    with pytest.raises(TypeError, match=r"tool 'weather' returned object: a value of type object"):
        made.invoke_sync({"city": ""}, None)
    with pytest.raises(
        TypeError, match=r"returned dict: .* type bytes cannot be converted to JSON \(at at\[0\]\)"
    ):
        made.invoke_sync({"city": "deep"}, None)


# --- the context ----------------------------------------------------------------------------------


@pytest.mark.feature("OAGS-047")
def test_a_second_parameter_gets_the_context(tmp_path: Path) -> None:
    def handler(arguments: JsonObject, context: ToolContext) -> list[object]:
        context.report({"done": 1})
        return [str(context.cwd), context.call_id, context.run.iteration, context.cancelled]

    made = city_tool(handler)
    context = Context(tmp_path)
    assert made.takes_context
    assert made.invoke_sync({}, context).content == [str(tmp_path), "c1", 2, False]
    assert context.reports == [{"done": 1}]


def test_defaulted_second_parameter_needs_hint(
    tmp_path: Path,
) -> None:
    def named(arguments: JsonObject, context: ToolContext | None = None) -> bool:
        return context is not None

    def other(arguments: JsonObject, retries: int = 3) -> int:
        return retries

    def unresolvable(arguments: JsonObject, retries: "Nowhere" = 3) -> object:  # type: ignore[name-defined] # pyright: ignore # noqa: F821, PGH003
        return retries  # pyright: ignore[reportUnknownVariableType]

    def many(*arguments: JsonObject) -> int:
        return len(arguments)

    context = Context(tmp_path)
    assert city_tool(named).invoke_sync({}, context).content == "true"
    assert city_tool(other).invoke_sync({}, context).content == "3"
    assert city_tool(unresolvable).invoke_sync({}, context).content == "3"
    assert city_tool(many).invoke_sync({}, context).content == "1"


async def test_context_is_detached_without_run() -> None:
    def handler(arguments: JsonObject, context: ToolContext) -> list[object]:
        context.report("unheard")
        ids = [context.session_id, context.run_id, context.request_id, context.call_id]
        return [*ids, context.tool_name, context.cancelled, context.cwd, context.run.iteration]

    result = await city_tool(handler).execute({"city": "P"})
    assert result == ["", "", "", "", "weather", False, Path.cwd(), 0]


# --- other callables ------------------------------------------------------------------------------


class Service:
    def method(self, arguments: JsonObject) -> str:
        return f"method {arguments['city']}"

    async def __call__(self, arguments: JsonObject) -> str:
        return f"called {arguments['city']}"


def with_prefix(prefix: str, arguments: Mapping[str, JsonValue]) -> str:
    return f"{prefix} {arguments['city']}"


@pytest.mark.parametrize(
    ("handler", "is_async", "result"),
    [
        (Service().method, False, "method P"),
        (Service(), True, "called P"),
        (functools.partial(with_prefix, "in"), False, "in P"),
        (functools.partial(functools.partial(with_prefix, "in")), False, "in P"),
        (dict, False, {"city": "P"}),
    ],
)
async def test_methods_objects_partials_and_builtins_are_handlers(
    handler: Any, is_async: bool, result: object
) -> None:
    made = city_tool(handler)
    assert made.is_async == is_async
    assert await made.execute({"city": "P"}) == result


def test_options_have_precise_types() -> None:
    choice: Literal["join", "abandon"] = city_tool().on_cancel
    assert choice == "join"
