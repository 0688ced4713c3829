"""The short form of a tool's parameters, and full schemas as they are."""

import enum
from typing import Annotated, Any, Literal

import pytest

from agent_actors.errors import SchemaError
from agent_actors.schema.shorthand import object_schema


class Unit(enum.Enum):
    CELSIUS = "c"


def properties(schema: Any) -> tuple[Any, Any]:
    made = object_schema(schema)
    assert made["type"] == "object"
    assert set(made) <= {"type", "properties", "required"}
    return made["properties"], made.get("required", [])


@pytest.mark.feature("OAS-026")
def test_a_type_is_a_required_parameter() -> None:
    given = {"city": str, "days": int, "share": float, "now": bool, "tags": list, "more": dict}
    named = {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "share": {"type": "number"},
        "now": {"type": "boolean"},
        "tags": {"type": "array"},
        "more": {"type": "object"},
    }
    assert properties(given) == (named, list(given))


def test_any_supported_hint_is_a_type() -> None:
    given = {"unit": Unit, "at": Annotated[Literal["a"], "Where"], "tags": list[str]}
    assert properties(given)[0] == {
        "unit": {"type": "string", "enum": ["c"]},
        "at": {"type": "string", "enum": ["a"], "description": "Where"},
        "tags": {"type": "array", "items": {"type": "string"}},
    }


def test_type_of_schema_may_be_a_type() -> None:
    assert properties({"days": {"type": int, "minimum": 1}, "any": {"description": "x"}}) == (
        {"days": {"type": "integer", "minimum": 1}, "any": {"description": "x"}},
        ["days", "any"],
    )


@pytest.mark.feature("OAS-028")
def test_a_default_makes_it_optional_and_stays() -> None:
    default = {"type": "string", "default": "c"}
    assert properties({"units": default}) == ({"units": default}, [])
    assert properties({"unit": {"type": Unit, "default": Unit.CELSIUS}})[0] == {
        "unit": {"type": "string", "enum": ["c"], "default": "c"}
    }


@pytest.mark.feature("OAS-029")
def test_required_false_makes_field_optional() -> None:
    assert properties({"n": {"type": int, "required": False}}) == ({"n": {"type": "integer"}}, [])


@pytest.mark.feature("OAS-030")
def test_optional_true_makes_field_optional() -> None:
    assert properties({"n": {"type": int, "optional": True}}) == ({"n": {"type": "integer"}}, [])
    assert properties({"n": {"type": int, "optional": False}})[1] == ["n"]


@pytest.mark.feature("OAS-031")
def test_required_true_beats_a_default() -> None:
    given = {"n": {"type": "integer", "default": 1, "required": True}}
    assert properties(given) == ({"n": {"type": "integer", "default": 1}}, ["n"])
    assert properties({"n": {"type": int, "optional": True, "required": True}})[1] == ["n"]


def test_nested_object_lists_own_required_names() -> None:
    nested: dict[str, object] = {"type": "object", "properties": {"a": {}}, "required": ["a"]}
    assert properties({"o": nested}) == ({"o": nested}, ["o"])


@pytest.mark.feature("OAS-027")
def test_a_full_schema_passes_unchanged() -> None:
    full: dict[str, object] = {
        "type": "object",
        "properties": {"a": {"type": "string", "default": "x"}},
        "required": ["a"],
        "additionalProperties": False,
        "$defs": {"b": {"type": "null"}},
    }
    made = object_schema(full)
    assert made == full
    assert made is not full
    assert made["properties"] is not full["properties"]


def test_parameters_may_be_called_type_and_properties() -> None:
    assert properties({"type": str, "properties": dict}) == (
        {"type": {"type": "string"}, "properties": {"type": "object"}},
        ["type", "properties"],
    )


def test_no_parameters_are_an_empty_object() -> None:
    assert object_schema({}) == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"city": "string"}, "parameter 'city': string has no JSON Schema"),
        ({"city": {"type": bytes}}, "parameter 'city': bytes has no"),
        ({"city": {"type": "string", "default": object()}}, "the schema is not JSON: a value of"),
        ({"type": "object", "properties": {1: {}}}, "the schema is not JSON: a key of type int"),
        ({1: str}, "the schema is not JSON: a key of type int"),
    ],
)
def test_invalid_schema_is_refused_by_name(schema: Any, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        object_schema(schema)
