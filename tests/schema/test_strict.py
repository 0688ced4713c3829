"""Schemas in the form that strict endpoints accept: narrower than the original, or none."""

from typing import Final, cast

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.domain.json import JsonObject, JsonValue, copy_object
from agent_actors.schema.generate import hint_schema
from agent_actors.schema.strict import strict_form

TEXT: Final[JsonObject] = {"type": "string"}


def of(properties: JsonObject, *required: str, **more: JsonValue) -> JsonObject:
    return {"type": "object", "properties": properties, "required": list(required), **more}


def defining(schema: JsonObject, definition: JsonValue) -> JsonObject:
    definitions: JsonObject = {"D": definition}
    return {**schema, "$defs": definitions}


def closed(properties: JsonObject, **more: JsonValue) -> JsonObject:
    return {**of(properties, *properties, additionalProperties=False), **more}


def test_objects_are_closed() -> None:
    assert strict_form(of({"a": TEXT}, "a")) == closed({"a": TEXT})
    assert strict_form(closed({"a": TEXT})) == closed({"a": TEXT})


def test_defaulted_property_becomes_required() -> None:
    schema = of({"a": {"type": "string", "default": "ü"}, "b": {"description": "B.", "default": 1}})
    cast(JsonObject, cast(JsonObject, schema["properties"])["b"])["type"] = "integer"
    assert strict_form(schema) == closed(
        {
            "a": {"type": "string", "description": 'Default: "ü"'},
            "b": {"type": "integer", "description": "B. Default: 1"},
        }
    )


def test_objects_are_closed_at_any_depth() -> None:
    def around(inner: JsonObject) -> JsonObject:
        return {
            "list": {"type": "array", "items": inner},
            "one": {"anyOf": [inner, {"type": "null"}]},
        }

    inner, good = of({"a": TEXT}, "a"), closed({"a": TEXT})
    schema = of(around(inner), "list", "one")
    assert strict_form(defining(schema, inner)) == defining(closed(around(good)), good)


def test_reference_has_no_sibling_keywords() -> None:
    held: JsonObject = {"$ref": "#/$defs/D", "description": "D.", "default": None}
    assert strict_form(defining(of({"d": held}), closed({}))) == defining(
        closed({"d": {"$ref": "#/$defs/D"}}), closed({})
    )


def test_annotations_without_constraint_are_dropped() -> None:
    noise: JsonObject = {"$schema": "x", "$comment": "x", "examples": [{}]}
    assert strict_form({**closed({}), **noise}) == closed({})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "additionalProperties": TEXT},
        {"type": ["object", "null"]},
        of({"a": TEXT}),
        of({"a": TEXT}, "a", additionalProperties=True),
        of({"a": {}}, "a"),
        of({"a": True}),
        of({"a": True}, "a"),
        of({"a": {"type": "array"}}, "a"),
        of({"a": {"type": "array", "items": TEXT, "uniqueItems": True}}, "a"),
        of({"a": {"type": "string", "minLength": 3}}, "a"),
        of({"a": {"anyOf": TEXT}}, "a"),
        of({"a": {"$ref": "#/$defs/D"}}, "a", definitions={}),
        {"type": "object", "properties": {}, "required": "a"},
        {"type": "object", "properties": []},
        {"properties": {"a": TEXT}, "required": ["a"]},
    ],
)
def test_unrestrictable_schema_has_no_strict_form(schema: JsonObject) -> None:
    assert strict_form(schema) is None


@pytest.mark.parametrize("definitions", [{"D": {}}, {"D": True}, [], "D"])
def test_unstrict_definitions_leave_no_strict_form(
    definitions: JsonValue,
) -> None:
    assert strict_form(of({}) | {"$defs": definitions}) is None


def test_endless_schema_has_no_strict_form() -> None:
    schema: JsonObject = {"type": "array"}
    schema["items"] = schema
    assert strict_form(schema) is None


def test_untyped_object_in_union_is_closed() -> None:
    assert strict_form({"enum": [1], "properties": {}}) == {
        "enum": [1],
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }


HINTS = st.sampled_from(
    [str, int, float, bool, None, set[str], dict[str, int], list[int], list[set[str]], int | str]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    hints=st.dictionaries(st.sampled_from("abc"), HINTS, max_size=3),
    defaults=st.sets(st.sampled_from("abc")),
    value=st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3),
)
def test_strict_values_fit_the_schema(
    hints: dict[str, object], defaults: set[str], value: JsonObject
) -> None:
    properties: JsonObject = {name: hint_schema(hint, name=name) for name, hint in hints.items()}
    for name in defaults & properties.keys():
        cast(JsonObject, properties[name])["default"] = None
    schema = of(properties, *(properties.keys() - defaults))
    before = copy_object(schema)
    strict = strict_form(schema)
    assert schema == before
    if strict is None:
        return
    assert strict["additionalProperties"] is False
    if jsonschema_rs.is_valid(strict, value):
        assert jsonschema_rs.is_valid(schema, value)
