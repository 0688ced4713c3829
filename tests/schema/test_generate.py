"""JSON Schema from type hints, and the conversion of JSON arguments to the hinted types."""

import dataclasses
import enum
import typing
from typing import Annotated, Any, Literal, NewType, NotRequired, Optional, Required, TypedDict

import attrs
import jsonschema_rs
import pytest

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.errors import SchemaError, ToolArgumentsError
from agent_actors.schema.convert import structure_arguments
from agent_actors.schema.generate import hint_schema, parameters_schema
from agent_actors.schema.type_hints import Parameter


class Color(enum.Enum):
    RED = "r"
    GREEN = "g"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Name(enum.StrEnum):
    ANNA = "anna"


class Mixed(enum.Enum):
    TEXT = "t"
    NUMBER = 1
    TRUE = True
    NONE = None


class Odd(enum.Enum):
    PAIR = (1, 2)


@attrs.frozen
class Tree:
    """A tree.

    Attributes:
        name: Of the node.
    """

    name: str
    children: "list[Tree]" = attrs.field(factory=list["Tree"])
    _weight: float = 1.0
    depth: int = attrs.field(init=False, default=0)


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0
    tags: set[str] = dataclasses.field(default_factory=set[str])
    norm: float = dataclasses.field(init=False, default=0.0)


@dataclasses.dataclass
class Documented:
    """A documented dataclass."""

    a: int


class Base(TypedDict):
    q: int


class Query(Base, total=False):
    """A query."""

    must: Required[str]
    may: "NotRequired[int]"
    perhaps: str


class Late(TypedDict, total=False):
    """A class with a hint as text, which `TypedDict` itself does not resolve."""

    must: "Required[str]"


@attrs.frozen
class Positive:
    number: int = attrs.field(validator=attrs.validators.gt(0))


@attrs.frozen
class Noted:
    number: int

    def __attrs_post_init__(self) -> None:
        error = ValueError("never right")
        error.add_note("and a note of its own")
        raise error


UserId = NewType("UserId", int)

POINT: JsonObject = {
    "type": "object",
    "properties": {
        "x": {"type": "number"},
        "y": {"type": "number", "default": 0.0},
        "tags": {"type": "array", "uniqueItems": True, "items": {"type": "string"}},
    },
    "required": ["x"],
    "additionalProperties": False,
}
INTEGERS: JsonObject = {"type": "array", "items": {"type": "integer"}}

# A hint, its schema, and pairs of JSON and the converted value.
SUPPORTED: list[tuple[Any, JsonObject, list[tuple[JsonValue, object]]]] = [
    (str, {"type": "string"}, [("a", "a"), ("", "")]),
    (int, {"type": "integer"}, [(3, 3), (3.0, 3), (10**30, 10**30)]),
    (float, {"type": "number"}, [(2.5, 2.5), (3, 3.0)]),
    (bool, {"type": "boolean"}, [(True, True)]),
    (None, {"type": "null"}, [(None, None)]),
    (type(None), {"type": "null"}, [(None, None)]),
    (Any, {}, [([1, {"a": None}], [1, {"a": None}])]),
    (object, {}, [("x", "x"), (None, None)]),
    (list, {"type": "array"}, [([1, "a"], [1, "a"])]),
    (typing.List, {"type": "array"}, [([1, "a"], [1, "a"])]),  # noqa: UP006 - still in use
    (list[int], INTEGERS, [([1, 2], [1, 2]), ([], [])]),
    (dict, {"type": "object"}, [({"a": 1}, {"a": 1})]),
    (
        dict[str, list[int]],
        {"type": "object", "additionalProperties": INTEGERS},
        [({"a": [1]}, {"a": [1]})],
    ),
    (tuple, {"type": "array"}, [([1, "a"], (1, "a"))]),
    (tuple[int, ...], INTEGERS, [([1, 2], (1, 2))]),
    (tuple[()], {"type": "array", "minItems": 0, "maxItems": 0}, [([], ())]),
    (
        tuple[int, str],
        {
            "type": "array",
            "minItems": 2,
            "maxItems": 2,
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
        },
        [([1, "a"], (1, "a"))],
    ),
    (set, {"type": "array", "uniqueItems": True}, [([1, 2], {1, 2})]),
    (set[int], {**INTEGERS, "uniqueItems": True}, [([1, 2], {1, 2})]),
    (frozenset[int], {**INTEGERS, "uniqueItems": True}, [([1], frozenset({1}))]),
    (frozenset, {"type": "array", "uniqueItems": True}, [([1], frozenset({1}))]),
    (Literal["c", "f"], {"type": "string", "enum": ["c", "f"]}, [("c", "c")]),
    (
        Literal[1, "a", None],  # noqa: PYI061 - both ways of writing it
        {"enum": [1, "a", None]},
        [(1, 1), ("a", "a"), (None, None)],
    ),
    (Literal[Color.RED], {"type": "string", "enum": ["r"]}, [("r", Color.RED)]),
    (Color, {"type": "string", "enum": ["r", "g"]}, [("g", Color.GREEN)]),
    (Size, {"type": "integer", "enum": [1, 2]}, [(2, Size.LARGE)]),
    (Name, {"type": "string", "enum": ["anna"]}, [("anna", Name.ANNA)]),
    (
        Mixed,
        {"enum": ["t", 1, None]},
        [("t", Mixed.TEXT), (1, Mixed.NUMBER), (None, Mixed.NONE)],
    ),
    (
        Optional[int],  # noqa: UP045 - both ways of writing it
        {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        [(3, 3), (None, None)],
    ),
    (
        int | str | None,
        {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]},
        [(3, 3), ("3", "3"), (None, None)],
    ),
    (float | int, {"anyOf": [{"type": "number"}, {"type": "integer"}]}, [(3, 3), (3.0, 3.0)]),
    (
        Annotated[str, 3.5, "A city", "more"],
        {"type": "string", "description": "A city"},
        [("Paris", "Paris")],
    ),
    (Annotated[int, 3], {"type": "integer"}, [(1, 1)]),
    (UserId, {"type": "integer"}, [(7, 7)]),
    (Point, POINT, [({"x": 1, "tags": ["a"]}, Point(1.0, 0.0, {"a"}))]),
    (
        Documented,
        {
            "type": "object",
            "properties": {"a": {"type": "integer"}},
            "required": ["a"],
            "additionalProperties": False,
            "description": "A documented dataclass.",
        },
        [({"a": 1}, Documented(1))],
    ),
    (
        Query,
        {
            "type": "object",
            "properties": {
                "q": {"type": "integer"},
                "must": {"type": "string"},
                "may": {"type": "integer"},
                "perhaps": {"type": "string"},
            },
            "required": ["q", "must"],
            "additionalProperties": False,
            "description": "A query.",
        },
        [({"q": 1, "must": "a"}, {"q": 1, "must": "a"})],
    ),
    (
        list[Point] | None,
        {"anyOf": [{"type": "array", "items": POINT}, {"type": "null"}]},
        [([{"x": 1}], [Point(1.0)]), (None, None)],
    ),
    (
        Positive | Documented,
        {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"number": {"type": "integer"}},
                    "required": ["number"],
                    "additionalProperties": False,
                },
                hint_schema(Documented, name="a"),
            ]
        },
        [({"number": 1}, Positive(1)), ({"a": 1}, Documented(1))],
    ),
]
IDS = [str(hint) for hint, _schema, _pairs in SUPPORTED]


def structure(value: JsonValue, hint: Any) -> Any:
    return structure_arguments([Parameter("a", hint)], {"a": value}, tool="t")["a"]


@pytest.mark.parametrize(("hint", "schema", "pairs"), SUPPORTED, ids=IDS)
def test_a_hint_has_its_schema(hint: Any, schema: JsonObject, pairs: Any) -> None:
    assert hint_schema(hint, name="a") == schema
    for value, _ in pairs:
        jsonschema_rs.validate(schema, value)


@pytest.mark.parametrize(("hint", "schema", "pairs"), SUPPORTED, ids=IDS)
def test_json_is_converted_to_the_hint(hint: Any, schema: JsonObject, pairs: Any) -> None:
    del schema
    for value, expected in pairs:
        became = structure(value, hint)
        assert became == expected
        assert type(became) is type(expected)


# --- schema ---------------------------------------------------------------------------------------


def test_recursive_class_uses_definitions() -> None:
    node: JsonObject = {
        "type": "object",
        "description": "A tree.",
        "properties": {
            "name": {"type": "string", "description": "Of the node."},
            "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
            "weight": {"type": "number", "default": 1.0},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    assert hint_schema(Tree, name="a") == {"$ref": "#/$defs/Tree", "$defs": {"Tree": node}}
    both = parameters_schema([Parameter("a", Tree), Parameter("b", list[Tree])])
    assert both["$defs"] == {"Tree": node}
    tree = structure({"name": "a", "children": [{"name": "b", "weight": 2}]}, Tree)
    assert tree == Tree("a", [Tree("b", [], 2.0)])


def test_same_named_classes_get_two_definitions() -> None:
    other: Any = attrs.make_class("Tree", {"twigs": attrs.field(default=())})
    other.__annotations__ = {"twigs": list[other]}
    schema = parameters_schema([Parameter("a", Tree), Parameter("b", other)])
    assert schema["properties"] == {"a": {"$ref": "#/$defs/Tree"}, "b": {"$ref": "#/$defs/Tree1"}}
    definitions = schema["$defs"]
    assert isinstance(definitions, dict)
    assert list(definitions) == ["Tree", "Tree1"]


def test_required_written_as_text_is_seen() -> None:
    assert hint_schema(Late, name="a")["required"] == ["must"]


def test_non_json_default_is_omitted() -> None:
    schema = parameters_schema([Parameter("a", int, object()), Parameter("b", int, 3)])
    assert schema["properties"] == {
        "a": {"type": "integer"},
        "b": {"type": "integer", "default": 3},
    }
    assert "required" not in schema


def test_annotation_description_wins_over_docstring() -> None:
    parameters = [
        Parameter("a", Annotated[int, "annotated"], description="documented"),
        Parameter("b", int, description="documented"),
    ]
    assert parameters_schema(parameters)["properties"] == {
        "a": {"type": "integer", "description": "annotated"},
        "b": {"type": "integer", "description": "documented"},
    }


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        (
            bytes,
            "parameter 'a': bytes has no JSON Schema; use str with base64 text; supp",
        ),
        (complex, "parameter 'a': complex has no"),
        (list[bytes], r"parameter 'a\[\]': bytes has no"),
        (tuple[int, bytes], r"parameter 'a\[1\]': bytes has no"),
        (dict[int, str], r"parameter 'a': the keys of a dict must be str; got dict\[int, str\]"),
        (typing.Iterator[int], r"parameter 'a': Iterator\[int\] has no"),
        (typing.TypeVar("T"), "parameter 'a': ~T has no"),
        (Odd, r"parameter 'a': \(1, 2\) is not a JSON scalar"),
        ("text", "parameter 'a': text has no"),
        (int | bytes, "parameter 'a': bytes has no"),
    ],
)
def test_unsupported_hint_is_refused_by_name(hint: Any, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        hint_schema(hint, name="a")


def test_refusal_names_field_of_class() -> None:
    holder: Any = attrs.make_class("Holder", {"data": attrs.field(type=bytes)})
    with pytest.raises(SchemaError, match=r"parameter 'a\.data': bytes"):
        hint_schema(holder, name="a")


# --- structure ------------------------------------------------------------------------------------

MISFITS: list[tuple[Any, Any, str]] = [
    (int, "3", "field a: expected int, got string '3'"),
    (int, True, "field a: expected int, got boolean True"),
    (int, 3.5, "field a: expected int, got number 3.5"),
    (str, 3, "field a: expected str, got integer 3"),
    (float, True, "field a: expected float, got boolean True"),
    (float, 10**400, "field a: int too large to convert to float"),
    (bool, 1, "field a: expected bool, got integer 1"),
    (None, 0, "field a: expected None, got integer 0"),
    (list[str], "abc", "field a: expected list[str], got string 'abc'"),
    (list[int], [1, "x"], "field a[1]: expected int, got string 'x'"),
    (set[int], [[1]], "field a[0]: expected int, got array"),
    (set, [[1]], "field a: the items of a set must be hashable, but one is not"),
    (tuple[int, str], [1], "field a: expected 2 items, got 1"),
    (tuple[int, ...], {}, "field a: expected tuple[int, ...], got object"),
    (dict[str, int], [1], "field a: expected dict[str, int], got array"),
    (Color, "b", "field a: expected one of 'r', 'g', got string 'b'"),
    (Size, True, "field a: expected one of 1, 2, got boolean True"),
    (Name, "otto", "field a: expected one of 'anna', got string 'otto'"),
    (Literal[1, Color.RED], True, "field a: expected one of 1, 'r', got boolean True"),
    (int | None, "x" * 200, "field a: expected int or None, got string"),
    (Point, {"y": 1}, "field a.x: required, but missing"),
    (Point, {"x": 1, "z": 1, "w": 1}, "field a: unknown fields: w, z"),
    (Point, {"x": 1, "tags": ["a", 1]}, "field a.tags[1]: expected str, got integer 1"),
    (Positive, {"number": 0}, "field a: 'number' must be > 0: 0"),
    (Query, {"q": 1}, "field a.must: required, but missing"),
    (Query, {"q": 1, "must": "a", "perhaps": 1}, "field a.perhaps: expected str, got integer 1"),
    (list[Noted], [{"number": 1}], "field a[0]: never right"),
    (list[Point], [{"x": "1"}], "field a[0].x: expected float, got string '1'"),
]


@pytest.mark.parametrize(("hint", "value", "said"), MISFITS, ids=[str(row[:2]) for row in MISFITS])
def test_mismatched_value_is_not_converted(hint: Any, value: Any, said: str) -> None:
    with pytest.raises(ToolArgumentsError) as caught:
        structure(value, hint)
    assert str(caught.value) == said
    assert caught.value.field == said.removeprefix("field ").partition(":")[0]
    assert caught.value.tool == "t"


def test_non_object_for_class_is_refused() -> None:
    for hint in (Point, Query, Tree):
        with pytest.raises(ToolArgumentsError):
            structure("text", hint)
        with pytest.raises(ToolArgumentsError):
            structure([1], hint)


def test_absent_arguments_are_left_to_the_defaults() -> None:
    parameters = [Parameter("a", int), Parameter("b", int, 3)]
    assert structure_arguments(parameters, {"a": 1}, tool="t") == {"a": 1}


def test_a_missing_or_unknown_argument_is_named() -> None:
    with pytest.raises(ToolArgumentsError, match="field a: required, but missing"):
        structure_arguments([Parameter("a", int)], {}, tool="t")
    with pytest.raises(ToolArgumentsError, match="field b: unknown"):
        structure_arguments([Parameter("a", int)], {"a": 1, "b": 2}, tool="t")
