"""Rare forms of pydantic types, of their schemas and of their errors."""

import collections
from typing import Annotated, Any, cast

import pytest
from pydantic import AliasChoices, BaseModel, Field, ValidationError, field_validator

from agent_actors.codec.json_values import to_json
from agent_actors.errors import SchemaError
from agent_actors.schema.generate import _Inliner, _split_docstring, hint_schema
from agent_actors.schema.pydantic_types import _path, _value_error
from agent_actors.schema.type_hints import type_name
from agent_actors.tools import tool
from agent_actors.tools.output import converts_fast


class Holder(BaseModel):
    value: Any


class Pair(BaseModel):
    left: "Pair | None" = None
    right: "Pair | None" = None


class Even(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def even(cls, number: int) -> int:
        if number % 2:
            raise ValueError("must be even")
        return number


def test_value_without_json_form_is_named() -> None:
    with pytest.raises(TypeError, match="pydantic cannot convert a value of type Holder"):
        to_json(Holder(value=object()))


def test_model_is_measured_by_its_fields() -> None:
    assert converts_fast(Holder(value="x"))
    assert not converts_fast(Holder(value=[0] * 1_000_000))


def test_model_refers_to_itself_twice() -> None:
    schema = hint_schema(Pair, name="pair")
    assert str(schema).count("'#/$defs/Pair'") >= 2


def test_boolean_schemas_are_inlined() -> None:
    inliner = _Inliner({}, {})
    assert (inliner.inlined(True), inliner.inlined(False)) == ({}, {"not": {}})


def test_docstring_may_name_other_fields() -> None:
    schema: dict[str, Any] = {
        "description": "A class.\n\nAttributes:\n    a: Known.\n    b: Unknown.",
        "properties": {"a": {"type": "string"}},
    }
    _split_docstring(schema)
    assert schema["properties"] == {"a": {"type": "string", "description": "Known."}}


def test_parameter_has_one_name() -> None:
    with pytest.raises(SchemaError, match="a parameter can have only one name"):

        @tool
        def find(text: str = Field(validation_alias=AliasChoices("a", "b"))) -> str:
            """Find a text."""
            return text


def test_field_without_default_is_required() -> None:
    @tool
    def find(text: str = Field(min_length=2)) -> str:
        """Find a text."""
        return text

    assert cast("dict[str, Any]", find.input_schema)["required"] == ["text"]


def test_equal_problems_are_listed_once() -> None:
    class Either(BaseModel):
        value: Even | Annotated[Even, Field()]

    with pytest.raises(ValidationError) as caught:
        Either.model_validate({"value": {"number": 1}})
    error = _value_error(caught.value, {"value": {"number": 1}})
    assert str(error).count("must be even") == 1


def test_path_follows_lists() -> None:
    assert _path(("a", 1, "b"), {"a": [0, {"b": 2}]}, is_missing=False) == ".a[1].b"


def test_annotated_type_is_named_by_its_type() -> None:
    assert type_name(Annotated[int, "note"]) == "int"


def test_untyped_named_tuple_is_refused() -> None:
    # A type checker refuses the form without hints.
    point: Any = vars(collections)["namedtuple"]("point", "x y")
    with pytest.raises(SchemaError, match="has no type hint"):
        hint_schema(point, name="point")
