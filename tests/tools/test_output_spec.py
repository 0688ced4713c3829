"""Specifications of an output type: the schema on the wire, and the check of a response."""

import dataclasses
from enum import Enum
from typing import Final, Literal, NotRequired, TypedDict, cast

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.codec.json_values import to_json
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.errors import ConfigError, SchemaError
from agent_actors.protocol.response.arguments import dump_object
from agent_actors.tools.output_spec import FIELD, Invalid, OutputSpec, Valid, as_output_spec


@attrs.frozen
class City:
    """A city on the map.

    Attributes:
        name: As its people call it.
    """

    name: str
    people: int = 0


@dataclasses.dataclass
class Point:
    x: float
    y: float


class Row(TypedDict):
    key: str
    note: NotRequired[str]


class Colour(Enum):
    RED = "red"


@attrs.frozen
class Tree:
    children: "list[Tree]"


@attrs.frozen
class Positive:
    number: int = attrs.field(validator=attrs.validators.gt(0))


PARIS: Final = '{"name": "Paris", "people": 2}'


def fitting(spec: OutputSpec[object], text: str) -> object:
    verdict = spec.check(text)
    assert isinstance(verdict, Valid), verdict
    return verdict.value


def misfit(spec: OutputSpec[object], text: str) -> Invalid:
    verdict = spec.check(text)
    assert isinstance(verdict, Invalid), verdict
    return verdict


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        (City, PARIS, City("Paris", 2)),
        (City, '{"name": "Paris"}', City("Paris")),
        (Point, '{"x": 1, "y": 2.5}', Point(1.0, 2.5)),
        (Row, '{"key": "a"}', {"key": "a"}),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (list[City], '{"output": [{"name": "Paris"}]}', [City("Paris")]),
        (City | Point, '{"output": {"x": 1, "y": 2}}', Point(1.0, 2.0)),
        (City | None, '{"output": null}', None),
        (Literal["yes", "no"], '{"output": "no"}', "no"),
        (Colour, '{"output": "red"}', Colour.RED),
        (int, '{"output": 3}', 3),
        (tuple[int, str], '{"output": [1, "a"]}', (1, "a")),
        (Tree, '{"output": {"children": [{"children": []}]}}', Tree([Tree([])])),
        ({"type": "object", "required": ["a"]}, '{"a": [1]}', {"a": [1]}),
        ({"type": "array"}, '{"output": [1]}', [1]),
        ({}, '{"output": null}', None),
    ],
)
def test_output_has_requested_type(form: object, text: str, value: object) -> None:
    assert fitting(OutputSpec[object](form), text) == value


def test_class_supplies_name_and_description() -> None:
    schema = OutputSpec[City](City).schema
    assert (schema.name, schema.description) == ("City", "A city on the map.")
    assert schema.schema["required"] == ["name"]
    named = OutputSpec[City](City, name="the city!", description="Where to go.").schema
    assert (named.name, named.description) == ("the_city", "Where to go.")


@pytest.mark.parametrize(
    ("form", "name"),
    [
        (list[City], FIELD),
        ({"title": "A Row"}, "A_Row"),
        ({"title": "ü"}, FIELD),
        ({"title": "x" * 99}, "x" * 64),
    ],
)
def test_unnamed_type_gets_valid_name(form: object, name: str) -> None:
    assert OutputSpec[object](form).schema.name == name


def test_non_object_type_is_wrapped() -> None:
    schema: JsonObject = {"anyOf": [{"$ref": "#/$defs/D"}], "$defs": {"D": {"type": "integer"}}}
    spec = OutputSpec.json_schema(schema)
    assert spec.schema.schema == {
        "type": "object",
        "properties": {FIELD: {"anyOf": [{"$ref": "#/$defs/D"}]}},
        "required": [FIELD],
        "additionalProperties": False,
        "$defs": {"D": {"type": "integer"}},
    }
    assert fitting(spec, '{"output": 1}') == 1
    assert misfit(spec, '{"output": "a"}').fault.startswith("field output: ")


def test_strict_form_is_made_if_possible() -> None:
    strict = OutputSpec[City](City).schema.strict_schema
    assert strict is not None
    assert strict["required"] == ["name", "people"]
    assert OutputSpec[City](City, strict=False).schema.strict_schema is None
    assert OutputSpec[Row](Row).schema.strict_schema is None
    assert OutputSpec[City](City, strict=True).schema.strict_schema == strict
    with pytest.raises(ConfigError, match="output_type Row: strict=True"):
        OutputSpec[Row](Row, strict=True)


@pytest.mark.parametrize(
    "text",
    [
        f"\ufeff \n{PARIS}\r\n ",
        f"```json\n{PARIS}\n```",
        f"```\r\n{PARIS}```",
        f"``` JSON \n\n{PARIS}\n\n  ```\n",
        PARIS + PARIS,
        dump_object({"a": PARIS})[len('{"a": ') : -1],
    ],
    ids=["blanks", "fence", "fence without language", "fence with blanks", "repeated", "in a text"],
)
def test_decoration_around_output_is_removed(text: str) -> None:
    assert fitting(OutputSpec[object](City), text) == City("Paris", 2)


def test_lone_surrogates_are_replaced() -> None:
    assert fitting(OutputSpec[object](City), '{"name": "\\ud83d"}') == City("\ufffd")


@pytest.mark.parametrize(
    ("text", "value"), [("[1]", [1]), ("null", None), ('"a"', "a"), ('"{"', "{")]
)
def test_bare_value_fills_single_field(text: str, value: JsonValue) -> None:
    assert fitting(OutputSpec[object](list[int] | str | None), text) == value


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "the response is empty"),
        (" \n", "the response is empty"),
        ("```json\n```", "the response is empty"),
        ("Paris", "the response is not JSON"),
        (f"Here it is: {PARIS}", "the response is not JSON"),
        (f"```the answer\n{PARIS}\n```", "the response is not JSON"),
        (f"{PARIS}\n```", "the response is not JSON"),
        ('{"name": "Par', "the response is not JSON"),
        ('{"name": NaN}', "the response is not JSON"),
        (PARIS + '{"name": "Rome"}', "the response is not JSON"),
        ('{"name": ' + "[" * 1_000, "the response is nested more than 100 levels deep"),
        ("[]", "expected a JSON object, got array"),
        ("null", "expected a JSON object, got null"),
        ('"Paris"', "expected a JSON object, got string 'Paris'"),
    ],
)
def test_non_object_output_shows_schema(text: str, fault: str) -> None:
    wrong = misfit(OutputSpec[object](City), text)
    assert wrong.fault.startswith(fault)
    assert wrong.feedback.startswith(f"Invalid response: {fault}")
    assert '"required": ["name"]' in wrong.feedback


@pytest.mark.parametrize(
    ("form", "text", "fault"),
    [
        (City, "{}", "field name: required, but missing"),
        (City, '{"name": 3}', "field name: expected string, got integer 3"),
        (City, '{"name": "a", "x": 1}', "field x: unknown; known are name, people"),
        (list[City], '{"output": [{"name": 1}]}', "field output[0].name: expected string"),
        (list[City], '{"name": 1}', "field name: unknown; known are output"),
        (Literal["yes", "no"], '{"output": "perhaps"}', "field output: expected one of"),
        (Positive, '{"number": -1}', "'number' must be > 0: -1"),
        (list[Positive], '{"output": [{"number": -1}]}', "field output[0]: 'number' must be"),
        (dict[str, Positive], '{"a": {"number": -1}}', "field a"),
    ],
)
def test_validation_error_has_its_path(form: object, text: str, fault: str) -> None:
    wrong = misfit(OutputSpec[object](form), text)
    assert fault in wrong.fault
    assert wrong.feedback == (f"Invalid response: {wrong.fault}. Give the complete response again.")


def test_feedback_on_hostile_output_is_bounded() -> None:
    wrong = misfit(OutputSpec[object](City), dump_object({"x" * 10_000: "y" * 10_000}))
    assert len(wrong.feedback) < 1000


def test_the_output_and_its_json_share_nothing() -> None:
    verdict = OutputSpec.json_schema({"type": "object"}).check('{"a": [1]}')
    assert isinstance(verdict, Valid)
    cast(dict[str, list[int]], verdict.value)["a"].append(2)
    assert verdict.data == {"a": [1]}


@pytest.mark.parametrize(
    ("form", "fault"),
    [
        (object(), "output_type: parameter 'output'"),
        (bytes, "output_type: parameter 'output'"),
        ({"type": "object", "properties": 3}, "output_type: invalid schema"),
        (
            {"type": "object", "$ref": "http://example.org/x"},
            "output_type: the schema has an external reference",
        ),
        ({"type": object()}, "output_type: the schema is not JSON"),
    ],
)
def test_type_without_schema_is_refused(form: object, fault: str) -> None:
    with pytest.raises(SchemaError, match=fault):
        OutputSpec[object](form)


def test_text_is_not_an_output_type() -> None:
    assert as_output_spec(None) is None
    assert as_output_spec(str) is None
    spec = OutputSpec[City](City)
    assert as_output_spec(spec) is spec
    made = as_output_spec(City)
    assert made is not None
    assert made.schema == spec.schema


CITIES = st.builds(City, st.text(), st.integers(-(2**53), 2**53))


@given(cities=st.lists(CITIES, max_size=3), fence=st.booleans())
def test_json_text_is_decoded(cities: list[City], fence: bool) -> None:
    text = dump_object({FIELD: to_json(cities)})
    if fence:
        text = f"```json\n{text}\n```"
    assert fitting(OutputSpec[object](list[City]), text) == cities


@given(st.text() | st.text('{}[]",:`\\ \n0a', max_size=30))
def test_any_response_is_valid_or_invalid(text: str) -> None:
    for form in (City, list[int] | str):
        verdict = OutputSpec[object](form).check(text)
        assert isinstance(verdict, Valid | Invalid)


def test_partial_of_a_schema_is_plain_json() -> None:
    spec = as_output_spec({"type": "object", "properties": {"a": {"type": "integer"}}})
    assert spec is not None
    assert spec.partial({"a": 1}).value == {"a": 1}
