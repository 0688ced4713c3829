"""Values that handlers return, as the model receives them."""

import dataclasses
import enum
import math

import attrs
import pytest
from hypothesis import given

from agent_actors.domain.blocks import FileBlock, ImageBlock, OpaqueBlock, TextBlock
from agent_actors.domain.json import JsonValue
from agent_actors.tools import ToolOutput, to_output
from tests.codec.values import json_values


class Level(enum.IntEnum):
    LOW = 1


@attrs.frozen
class Reading:
    celsius: float
    _station: str


@dataclasses.dataclass
class Report:
    readings: tuple[Reading, ...]
    level: Level


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("sunny", "sunny"),
        ("", ""),
        (None, ""),
        (21, "21"),
        (2.5, "2.5"),
        (True, "true"),
        (Level.LOW, "1"),
        ({"a": [1, None]}, {"a": [1, None]}),
        ([1, "x"], [1, "x"]),
        ((1, (2,)), [1, [2]]),
        ([], []),
        ({3, 1, 2}, [1, 2, 3]),
        (
            Report((Reading(21.5, "north"),), Level.LOW),
            {"readings": [{"celsius": 21.5, "station": "north"}], "level": 1},
        ),
        (TextBlock("sunny"), [{"type": "text", "text": "sunny"}]),
        (
            OpaqueBlock({"type": "document"}, "anthropic"),
            [{"type": "opaque", "data": {"type": "document"}, "provider": "anthropic"}],
        ),
        (FileBlock("data:,x"), [{"type": "file", "source": "data:,x"}]),
        (
            ["a", FileBlock("data:,x", name="x")],
            ["a", {"type": "file", "source": "data:,x", "name": "x"}],
        ),
        (
            [TextBlock("look"), ImageBlock("data:,x", media_type="image/png")],
            [
                {"type": "text", "text": "look"},
                {"type": "image", "source": "data:,x", "media_type": "image/png"},
            ],
        ),
    ],
)
def test_value_becomes_model_text(value: object, content: object) -> None:
    assert to_output(value) == ToolOutput(content)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


@pytest.mark.feature("ASDK-039")
def test_output_keeps_data_and_error() -> None:
    output = to_output(ToolOutput({"n": 1}, data=[Level.LOW], is_error=True))
    assert output == ToolOutput({"n": 1}, data=[1], is_error=True)


def test_output_copies_its_values() -> None:
    kept: dict[str, JsonValue] = {"rows": [1]}
    output = to_output(ToolOutput(kept, data=kept))
    kept["rows"] = [1, 2]
    assert (output.content, output.data) == ({"rows": [1]}, {"rows": [1]})


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("cut \ud83d", "cut �"),
        ("\udcff file", "� file"),
        ("\ud83d\ude00", "😀"),
        ("😀", "😀"),
    ],
)
def test_invalid_text_is_repaired(text: str, clean: str) -> None:
    assert to_output(text).content == clean
    assert to_output({text: [text]}).content == {clean: [clean]}


def looped() -> list[object]:
    loop: list[object] = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"bytes", "a value of type bytes cannot be converted to JSON; expected text"),
        (object(), "a value of type object cannot be converted to JSON"),
        (
            {"a": [1, {2j}]},
            r"a value of type complex cannot be converted to JSON \(at a\[1\]\[\]\)",
        ),
        ({1: "x"}, "a key of type int cannot be a JSON key; use str"),
        ({"a": {None: 1}}, r"a key of type NoneType cannot be a JSON key \(at a\)"),
        (math.nan, "nan is not a JSON number"),
        ([math.inf], r"inf is not a JSON number \(at \[0\]\)"),
        ({"a": 10**5_000}, r"an integer with thousands of digits cannot be a JSON number \(at a\)"),
        (Reading, "the class Reading cannot be a JSON value"),
        (looped(), "list is nested too deeply for JSON, or contains itself"),
        (ToolOutput("", data=object()), "a value of type object cannot be converted to JSON"),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    ],
)
def test_non_json_value_is_refused(value: object, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        to_output(value)


@given(json_values)
def test_json_stays_as_it_is(value: JsonValue) -> None:
    assert to_output([value]).content == [value]
