"""Conversion of values to annotated types: the reason and the path of an error."""

from enum import Enum
from typing import Annotated, Any, Literal, TypedDict

import attrs
import pytest

from agent_actors.errors import ToolArgumentsError
from agent_actors.schema.convert import structure_value


def _positive(_: object, attribute: "attrs.Attribute[int]", value: int) -> None:
    if value <= 0:
        raise ValueError(f"{attribute.name} must be positive, not {value}")


def _known(_: object, __: object, value: str) -> None:
    if value != "known":
        raise KeyError(value)


@attrs.frozen
class Size:
    width: int = attrs.field(validator=_positive)


@attrs.frozen
class Named:
    name: str = attrs.field(validator=_known)


class Place(TypedDict):
    city: str


class Color(Enum):
    RED = "red"


def fault(value: Any, hint: Any) -> str:
    with pytest.raises(ToolArgumentsError) as caught:
        structure_value(value, hint, tool="t", path="a")
    return str(caught.value)


NO_WIDTH: dict[str, Any] = {"width": 0}
REASON = "width must be positive, not 0"


@pytest.mark.parametrize(
    ("value", "hint", "message"),
    [
        (NO_WIDTH, Size | None, f"field a: {REASON}"),
        (NO_WIDTH, Size | int | list[Size], f"field a: {REASON}"),
        ([NO_WIDTH], list[Size | None], f"field a[0]: {REASON}"),
        ([NO_WIDTH], list[Size] | None, f"field a[0]: {REASON}"),
        ([[NO_WIDTH]], list[list[Size] | None] | Size, f"field a[0][0]: {REASON}"),
        ([NO_WIDTH], tuple[Size, ...] | None, f"field a[0]: {REASON}"),
        ([1, NO_WIDTH], tuple[int, Size], f"field a[1]: {REASON}"),
        ([1, NO_WIDTH], tuple[int, Size | None] | None, f"field a[1]: {REASON}"),
        ({"b": NO_WIDTH}, dict[str, Size] | None, f"field a.b: {REASON}"),
        (NO_WIDTH, Annotated[Size, "A size."] | None, f"field a: {REASON}"),
        ({"name": "x"}, Named | None, "field a: KeyError: 'x'"),
        ({}, Named | None, "field a.name: required, but missing"),
        ({"city": 1}, Place | None, "field a.city: expected str, got integer 1"),
        ("blue", Color | None, "field a: expected one of 'red', got string 'blue'"),
        ("c", Literal["x"] | int, "field a: expected one of 'x', got string 'c'"),
    ],
)
def test_reason_survives_in_union_or_container(value: Any, hint: Any, message: str) -> None:
    assert fault(value, hint) == message


def test_error_has_reason_of_each_alternative() -> None:
    assert fault(NO_WIDTH, Size | Named | None) == (
        "field a: expected Size or Named or None, got object "
        f"(not Size: {REASON}; not Named: name: required, but missing)"
    )


@pytest.mark.parametrize(
    ("value", "hint", "message"),
    [
        ("x", Size, "field a: expected Size, got string 'x'"),
        ([1], list[Place], "field a[0]: expected Place, got integer 1"),
        (1, Size | Color | Literal["x"], "expected Size or Color or Literal['x'], got integer 1"),
        (1.5, int | None, "expected int or None, got number 1.5"),
    ],
)
def test_value_of_other_type_names_types(value: Any, hint: Any, message: str) -> None:
    assert fault(value, hint).endswith(message)


def test_later_alternative_accepts_refused_value() -> None:
    assert structure_value(NO_WIDTH, Size | dict[str, int], tool="t") == NO_WIDTH
