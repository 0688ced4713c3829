"""The tables of the how-to page match the code, and its examples work."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_actors.permissions import MODES, Rule
from agent_actors.permissions.modes import FLAGS
from agent_actors.permissions.patterns import FIELDS
from agent_actors.tools import Tool
from tests.permissions.support import BASH, CWD, EDIT, FETCH, NOTE, READ, call

PAGE = Path(__file__).parents[2] / "docs/how-to/permissions.md"


def table(head: str) -> list[list[str]]:
    """Return the cells of the table whose first line begins with `head`, including that line."""
    rows: list[list[str]] = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if rows or line.startswith(head):
            if not line.startswith("|"):
                break
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
    assert len(rows) > 2, f"{PAGE.name} has no table that begins with {head}"
    return [rows[0], *rows[2:]]


def test_the_modes_are_those_of_the_code() -> None:
    rows = table("| `read_only` | yes")
    words = {True: "yes", False: "no"}
    for cells, flags in zip(rows[:3], zip(*FLAGS.values(), strict=True), strict=True):
        assert cells[1:] == [words[flag] for flag in flags]
    said = {cells[0].strip("`"): cells[1:] for cells in rows[3:]}
    assert said == {mode.value: list(row.values()) for mode, row in MODES.items()}
    assert list(said) == [mode.value for mode in MODES]


def test_documented_fields_match_the_code() -> None:
    said = [(cells[0].strip("`"), cells[1]) for cells in table("| field |")[1:]]
    assert said == [(field, kind.value) for field, kind in FIELDS.items()]


def examples() -> Iterator[tuple[str, str, str]]:
    for _, pattern, permits, does_not, restricts in table("| interpreted as |")[1:]:
        rule = pattern.strip("`")
        for what, cell in (("permits", permits), ("not", does_not), ("restricts", restricts)):
            for value in re.findall(r"`([^`]+)`", cell):
                yield rule, what, value


@pytest.mark.parametrize(("text", "what", "value"), [*examples()])
def test_each_example_of_a_pattern_holds(text: str, what: str, value: str) -> None:
    rule = Rule.parse(text)
    (tool,) = (one for one in (BASH, EDIT, READ, FETCH, NOTE) if rule.names(one.name))
    arguments = call(tool, **{field(tool): value}).input
    assert rule.permits(tool, arguments, CWD) == (what == "permits")
    if what != "not":
        assert rule.restricts(tool, arguments, CWD)


def field(tool: Tool) -> str:
    assert tool.input_schema is not None
    properties = tool.input_schema["properties"]
    assert isinstance(properties, dict)
    return next(iter(properties))
