"""Types of pydantic: their JSON Schema, the conversion of values, and the errors for models."""

import datetime as dt
import enum
import json
import subprocess
import sys
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import pytest
from annotated_types import Ge, Len, MinLen, Predicate
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveInt,
    RootModel,
    TypeAdapter,
    field_validator,
    model_validator,
)
from pydantic.dataclasses import dataclass

from agent_actors import OutputSpec, tool
from agent_actors.codec.json_values import to_json
from agent_actors.errors import SchemaError, ToolArgumentsError
from agent_actors.schema.convert import structure_value
from agent_actors.schema.generate import hint_schema
from agent_actors.schema.strict import strict_form
from agent_actors.tools.output_spec import Invalid, Valid


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = Field(default=9, ge=1)


class Dog(BaseModel):
    """A dog.

    Attributes:
        friends: The dogs that it plays with.
    """

    kind: Literal["dog"] = "dog"
    friends: list["Dog"] = []


class Owner(BaseModel):
    pet: Cat | Dog = Field(discriminator="kind", description="The pet.")
    born: dt.date
    full_name: str = Field(default="", alias="fullName")

    @field_validator("full_name")
    @classmethod
    def has_two_parts(cls, value: str) -> str:
        if value and " " not in value:
            raise ValueError("give a first and a last name")
        return value

    @model_validator(mode="after")
    def is_not_today(self) -> "Owner":
        assert self.born.year < 2100, "the date of birth is in the future"
        return self


@dataclass
class Order:
    amount: PositiveInt


class Point(NamedTuple):
    x: int
    y: int = 0


def _even(value: int) -> int:
    if value % 2:
        raise ValueError("give an even number")
    return value


def _split(value: object) -> object:
    return value.split(",") if isinstance(value, str) else value


# Not aliases for type checkers, which do not accept `Annotated[...] | None` as a value.
Even: Any = Annotated[int, AfterValidator(_even)]
Words: Any = Annotated[list[str], BeforeValidator(_split)]
Pet: Any = Annotated[Cat | Dog, Field(discriminator="kind")]


def fault(value: Any, hint: Any) -> str:
    with pytest.raises(ToolArgumentsError) as caught:
        structure_value(value, hint, tool="t", path="a")
    return str(caught.value)


def test_model_schema_is_inlined_without_titles() -> None:
    cat = {
        "type": "object",
        "properties": {
            "kind": {"type": "string", "const": "cat", "default": "cat"},
            "lives": {"type": "integer", "minimum": 1, "default": 9},
        },
    }
    schema: Any = hint_schema(Owner, name="a")
    assert schema["properties"]["pet"] == {
        "anyOf": [cat, {"$ref": "#/$defs/Dog"}],
        "description": "The pet.",
    }
    assert schema["required"] == ["pet", "born"]
    assert "fullName" in schema["properties"]
    text = json.dumps(schema)
    assert "title" not in text
    assert __name__ not in text
    assert strict_form(schema) is not None


def test_field_takes_description_from_docstring() -> None:
    dog: Any = hint_schema(Dog, name="a")["$defs"]
    assert dog["Dog"]["description"] == "A dog."
    assert dog["Dog"]["properties"]["friends"]["description"] == "The dogs that it plays with."


def test_models_with_one_name_stay_apart() -> None:
    def made() -> Any:
        class Node(BaseModel):
            children: list["Node"] = []

        Node.model_rebuild(_types_namespace={"Node": Node})
        return Node

    both: Any = tuple.__class_getitem__((made(), made()))
    definitions: Any = hint_schema(both, name="a")["$defs"]
    assert set(definitions) == {"Node", "Node1"}


VALUES: list[tuple[Any, Any, Any]] = [
    ({"pet": {"kind": "dog"}, "born": "2001-02-03", "fullName": "A B"}, Owner, None),
    ([{"amount": "2"}], list[Order], [Order(2)]),
    ("a,b", Words, ["a", "b"]),
    ({"kind": "cat"}, Pet | None, Cat()),
    (4, Even | None, 4),
    ([{"lives": 1}], TypeAdapter(list[Cat]), [Cat(lives=1)]),
    ([1], RootModel[list[int]], RootModel[list[int]]([1])),
    ({"x": 1}, Point, Point(1)),
]


@pytest.mark.parametrize(("value", "hint", "expected"), VALUES)
def test_value_is_converted(value: Any, hint: Any, expected: Any) -> None:
    converted = structure_value(value, hint, tool="t")
    if expected is None:
        assert converted.born == dt.date(2001, 2, 3)
        assert converted.full_name == "A B"
    else:
        assert converted == expected


AT_LEAST_ONE = "input should be greater than or equal to 1"
FAULTS: list[tuple[Any, Any, str]] = [
    (
        {"pet": {"kind": "cat", "lives": 0}, "born": "2001-02-03", "fullName": "A"},
        Owner,
        f"field a.pet.lives: {AT_LEAST_ONE}; field a.fullName: give a first and a last name",
    ),
    ({"pet": {}, "born": "2200-01-01"}, Owner, "field a.pet: unable to extract tag using"),
    (
        {"pet": {"kind": "cat"}, "born": "2200-01-01"},
        Owner | None,
        "field a: the date of birth is in the future",
    ),
    ({"pet": {"kind": "cat"}}, list[Owner] | Owner, "field a.born: required, but missing"),
    ([{"pet": {"kind": "x"}, "born": "2001-01-01"}], list[Owner | None], "field a[0].pet: input"),
    ([3], list[Even | None], "field a[0]: give an even number"),
    ({"b": {"amount": 0}}, dict[str, Order], "field a.b.amount: input should be greater than 0"),
    (3, Owner | str, "field a: expected Owner or str, got integer 3"),
    ({"x": 1, "z": 2}, Point, "field a: unknown fields: z"),
    ([1], Point, "field a: expected Point, got array"),
]


@pytest.mark.parametrize(("value", "hint", "message"), FAULTS)
def test_message_of_validator_reaches_the_model(value: Any, hint: Any, message: str) -> None:
    text = fault(value, hint)
    assert text.startswith(message)
    assert __name__ not in text


CONSTRAINTS: list[tuple[Any, dict[str, Any]]] = [
    (Annotated[int, Ge(3), "A count."], {"type": "integer", "minimum": 3}),
    (Annotated[list[int], Len(1, 3)], {"minItems": 1, "maxItems": 3}),
    (Annotated[str, msgspec.Meta(pattern="^a", max_length=4)], {"pattern": "^a", "maxLength": 4}),
    (Annotated[dict[str, int], MinLen(1)], {"minProperties": 1}),
    (PositiveInt, {"type": "integer", "exclusiveMinimum": 0}),
    (Annotated[Point, Field(description="A place.")], {"description": "A place."}),
]


@pytest.mark.parametrize(("hint", "part"), CONSTRAINTS)
def test_schema_contains_constraint(hint: Any, part: dict[str, Any]) -> None:
    schema = hint_schema(hint, name="a")
    assert schema | part == schema


def test_tool_accepts_fields_as_defaults() -> None:
    received: list[object] = []

    @tool
    def order(
        amount: int = Field(3, ge=1, description="How many."),
        tags: list[str] = Field(default_factory=list),  # noqa: B008 - the usual form
        user: Annotated[str, Field(alias="userId")] = "anna",
        words: Annotated[list[str], BeforeValidator(_split)] | None = None,
    ) -> None:
        received.append((amount, tags, user, words))

    assert order.input_schema is not None
    properties: Any = order.input_schema["properties"]
    assert properties["amount"] == {
        "type": "integer",
        "default": 3,
        "minimum": 1,
        "description": "How many.",
    }
    assert set(properties) == {"amount", "tags", "userId", "words"}
    order.invoke_sync({}, None)
    order.invoke_sync({"amount": 5, "userId": "ben", "words": "a,b"}, None)
    assert received == [(3, [], "anna", None), (5, [], "ben", ["a", "b"])]
    with pytest.raises(ToolArgumentsError, match="field amount: input should be greater"):
        order.invoke_sync({"amount": 0}, None)


def test_result_of_tool_uses_aliases() -> None:
    owner = Owner(pet=Dog(), born=dt.date(2001, 2, 3), fullName="A B")
    assert to_json([owner, Order(2), Point(1), RootModel[int](3)]) == [
        {"pet": {"kind": "dog", "friends": []}, "born": "2001-02-03", "fullName": "A B"},
        {"amount": 2},
        {"x": 1, "y": 0},
        3,
    ]


def test_output_type_may_be_a_model() -> None:
    spec = OutputSpec[Owner](Owner)
    valid = spec.check('{"pet": {"kind": "cat"}, "born": "2001-02-03"}')
    assert isinstance(valid, Valid)
    assert valid.value.pet == Cat()
    invalid = spec.check('{"pet": {"kind": "cat", "lives": 0}, "born": "2001-02-03"}')
    assert isinstance(invalid, Invalid)
    assert invalid.fault.startswith("field pet.lives: input should be greater")


def test_output_type_may_be_an_adapter() -> None:
    spec = OutputSpec[list[Cat]](TypeAdapter(list[Cat]))
    verdict = spec.check('[{"lives": 2}]')
    assert isinstance(verdict, Valid)
    assert verdict.value == [Cat(lives=2)]


class _Opaque(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    field: enum.EnumMeta


UNSUPPORTED: list[tuple[Any, str]] = [
    (dt.datetime, "datetime has no JSON Schema; use str, or a model of pydantic"),
    (Annotated[int, Predicate(bool)], "validate the value in the handler"),
    (Annotated[int, MinLen(1)], "only text and containers have a length"),
    (_Opaque, "pydantic has no JSON Schema for the type"),
]


@pytest.mark.parametrize(("hint", "message"), UNSUPPORTED)
def test_unsupported_type_names_a_remedy(hint: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        hint_schema(hint, name="a")


def test_pydantic_is_not_imported_unless_used() -> None:
    program = """\
import sys
from agent_actors import OutputSpec, tool
@tool
def add(a: int, b: list[int] | None = None) -> int:
    return a
add.invoke_sync({"a": 1}, None)
OutputSpec(list[int]).check("[1]")
assert "pydantic" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
