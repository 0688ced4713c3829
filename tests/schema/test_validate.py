"""Arguments against a schema: the error for the model, and limits for any input."""

import http.server
import math
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.errors import ConfigError, SchemaError, ToolArgumentsError
from agent_actors.schema.validate import compile_schema
from agent_actors.tools import Tool

CITY: JsonObject = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}


def echo(arguments: JsonObject) -> JsonObject:
    return arguments


def city_tool() -> Tool:
    return Tool("weather", "Current weather.", CITY, echo)


# --- the schema -----------------------------------------------------------------------------------


@pytest.mark.feature("ASDK-028")
@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "objec"}, "must be 'object'"),
        ({"type": "object", "properties": {"a": {"type": "strin"}}}, r"properties\.a\.type"),
        ({"type": "object", "properties": {"a": {"pattern": "("}}}, "invalid schema"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}}, "invalid schema"),
        ({"type": "object", "$schema": "https://example.org/own"}, "invalid schema"),
        ({"type": "object", "default": math.nan}, "nan is not a JSON number"),
        ({"type": "object", "x": object()}, "not JSON"),
        ({"city": "string"}, "'city'"),
        ({"type": "object", "required": 10**400}, "invalid schema"),
    ],
)
def test_an_invalid_schema_is_refused_at_construction(schema: JsonObject, said: str) -> None:
    with pytest.raises(SchemaError, match=said) as caught:
        Tool("weather", "", schema, echo)
    assert "'weather'" in str(caught.value)


def test_too_deep_schema_is_refused() -> None:
    schema: JsonObject = {"type": "object"}
    for _ in range(55):
        schema = {"type": "object", "properties": {"a": schema}}
    with pytest.raises(SchemaError, match=r"tool 'weather': .* nested too deeply"):
        Tool("weather", "", schema, echo)


def test_a_reference_within_the_schema_is_followed() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"at": {"$ref": "#/$defs/place"}},
        "$defs": {"place": {"type": "string"}},
    }
    with pytest.raises(ToolArgumentsError, match="field at: expected string, got integer 3"):
        Tool("weather", "", schema, echo).check({"at": 3})


@pytest.fixture
def schema_server() -> Iterator[tuple[str, list[str]]]:
    """A real server that serves a schema and records its requests."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/schema.json", asked
        server.shutdown()
        thread.join()


@pytest.mark.feature("ASDK-028")
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef", "$schema"])
def test_remote_schemas_are_never_fetched(
    schema_server: tuple[str, list[str]], keyword: str
) -> None:
    url, asked = schema_server
    schema: JsonObject = {"type": "object", "properties": {"a": {}}}
    if keyword == "$schema":
        schema["$schema"] = url
    else:
        schema["properties"] = {"a": {keyword: url}}
    with pytest.raises(ConfigError):
        Tool("weather", "", schema, echo)
    assert asked == []


def test_remote_reference_is_refused_with_advice() -> None:
    schema: JsonObject = {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}
    with pytest.raises(SchemaError, match=r"has an external reference.*\$defs"):
        Tool("weather", "", schema, echo)


# --- the arguments --------------------------------------------------------------------------------


def refused(made: Tool, arguments: JsonObject) -> ToolArgumentsError:
    with pytest.raises(ToolArgumentsError) as caught:
        made.check(arguments)
    assert caught.value.tool == made.name
    return caught.value


def field_tool(schema: JsonValue) -> Tool:
    return Tool("t", "", {"type": "object", "properties": {"a": schema}}, echo)


def test_a_missing_field_is_named() -> None:
    error = refused(city_tool(), {})
    assert (str(error), error.field) == ("field city: required, but missing", "city")


def test_wrong_type_names_field_and_value() -> None:
    error = refused(city_tool(), {"city": 3})
    assert (str(error), error.field) == ("field city: expected string, got integer 3", "city")


def test_nested_path_reads_like_python() -> None:
    item: JsonObject = {
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
        "additionalProperties": False,
    }
    made = field_tool({"type": "array", "items": item})
    assert refused(made, {"a": [{"name": "x"}, {"name": None}]}).field == "a[1].name"
    assert refused(made, {"a": [{}]}).field == "a[0].name"
    assert str(refused(made, {"a": [{"name": "x", "y": 1}]})) == "field a[0].y: unknown"


def test_unknown_field_lists_known_ones() -> None:
    made = Tool("t", "", {**CITY, "additionalProperties": False}, echo)
    assert (
        str(refused(made, {"city": "P", "unit": 1})) == "field unit: unknown; known are city, days"
    )
    none = Tool("t", "", {"type": "object", "additionalProperties": False}, echo)
    assert str(refused(none, {"a": 1})) == "the tool has no parameters; expected an empty object"


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        ({"enum": ["c", "f"]}, "k", "field a: expected one of 'c', 'f', got string 'k'"),
        ({"const": 1}, 2, "field a: expected 1, got integer 2"),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            [1],
            "field a: expected string or null, got array",
        ),
        ({"oneOf": [{"type": "string"}]}, {}, "field a: expected string, got object"),
        ({"anyOf": [{"type": "string", "minLength": 2}]}, "x", 'field a: "x" is shorter than 2'),
        (
            {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
            [1],
            "field a[0]: expected string, got integer 1",
        ),
        (
            {"anyOf": [{"type": "string", "enum": ["c"]}, {"const": False}, {"type": "null"}]},
            "k",
            "field a: expected one of 'c', got string 'k'",
        ),
        (
            {"oneOf": [CITY, {"type": "object", "required": ["at"]}, {"type": "null"}]},
            {},
            "matches no alternative: field a.city: required, but missing; field a.at: required",
        ),
        (
            {"anyOf": [{"type": "string", "minLength": 2}, {"maxLength": 0}]},
            "x",
            'field a: the value matches no alternative: field a: "x" is shorter than 2 ',
        ),
        (
            {"anyOf": [{"enum": ["b"]}, {"const": "c"}]},
            "k",
            "field a: expected one of 'b' or 'c', got string 'k'",
        ),
        (
            {"anyOf": [{"items": {"type": "string"}}, {"items": {"type": "integer"}}]},
            [None],
            "no alternative: field a[0]: expected string, got null; field a[0]: expected integer",
        ),
        ({"minimum": 5}, 3, "field a: 3 is less than the minimum of 5"),
        ({"type": ["string", "null"]}, True, "field a: expected null or string, got boolean True"),
        ({"type": "integer"}, math.nan, "got null"),
        (False, 1, "field a: False schema does not allow 1"),
    ],
)
def test_message_names_expected_value(schema: JsonValue, value: Any, said: str) -> None:
    assert said in str(refused(field_tool(schema), {"a": value}))


def test_object_error_names_no_field() -> None:
    made = Tool("t", "", {"type": "object", "minProperties": 1}, echo)
    error = refused(made, {})
    assert error.field == ""
    assert str(error).startswith("{} ")


@pytest.mark.parametrize(
    "value",
    [
        "x" * 1_000_000,
        [["x"] * 1000] * 100,
        {"k" * 10_000: {"j": 1}},
    ],
    ids=["long text", "many items", "long key"],
)
def test_message_is_short_for_large_arguments(value: JsonValue) -> None:
    nested: JsonObject = {"additionalProperties": {"additionalProperties": {"type": "string"}}}
    schemas: list[JsonObject] = [{"type": "integer"}, {"maxLength": 1, "maxItems": 1, **nested}]
    for schema in schemas:
        error = refused(field_tool(schema), {"a": value})
        assert len(str(error)) <= 500
        assert len(error.field) <= 120


def test_first_error_ends_the_validation() -> None:
    made = field_tool({"type": "array", "items": {"type": "integer"}})
    many: list[JsonValue] = ["x"] * 1_000_000
    assert refused(made, {"a": many}).field == "a[0]"


def test_too_deeply_nested_arguments_are_refused() -> None:
    deep: JsonObject = {}
    innermost = deep
    for _ in range(100_000):
        child: JsonObject = {}
        innermost["a"] = child
        innermost = child
    assert str(refused(city_tool(), deep)).startswith("the arguments are not valid JSON")
    while deep:  # taken apart in a loop, because freeing it at once would recurse
        deep = deep.pop("a", {})  # type: ignore[assignment] # pyright: ignore[reportAssignmentType]


def test_catastrophic_pattern_ends() -> None:
    made = field_tool({"type": "string", "pattern": "^(a|a)*(?=b)$"})
    assert refused(made, {"a": "a" * 60}).field == "a"


def test_unencodable_key_is_refused() -> None:
    assert str(refused(city_tool(), {"city": "P", "\ud800": 1})).startswith(
        "the arguments are not valid JSON"
    )


def test_schema_outside_json_is_refused() -> None:
    schema: dict[str, Any] = {"type": "object", "default": object()}
    with pytest.raises(SchemaError, match="invalid schema: Unsupported type"):
        compile_schema(schema, tool="find")
