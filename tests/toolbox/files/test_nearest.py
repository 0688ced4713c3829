"""The nearest lines of a text that was not found."""

from hypothesis import given
from hypothesis import strategies as st

from agent_actors.toolbox.files.nearest import NearLines, nearest_lines

CODE = ["import os", "", "def total(items):", "    return sum(items)", "", "print(total([1]))"]


def test_nearest_lines_name_the_likely_place() -> None:
    near = nearest_lines(CODE, ["def totals(item):", "    return sum(item)"])
    assert near[0] == NearLines(3, ("def total(items):", "    return sum(items)"))


def test_white_space_around_lines_does_not_matter() -> None:
    assert nearest_lines(CODE, ["return sum(items)"])[0] == NearLines(4, (CODE[3],))


def test_texts_without_similar_lines_have_none() -> None:
    assert nearest_lines(CODE, ["zzzzzzzzzzzz"]) == ()
    assert nearest_lines(CODE, ["  "]) == ()
    assert nearest_lines(CODE, []) == ()
    assert nearest_lines([], ["a"]) == ()


def test_long_parts_are_cut() -> None:
    near = nearest_lines(["x" * 900] * 20, ["x" * 900] * 12)
    assert {len(part.lines) for part in near} == {10}
    assert {len(line) for part in near for line in part.lines} == {500}


@given(st.lists(st.text("ab c", max_size=6), max_size=8), st.data())
def test_existing_line_is_nearest_to_itself(lines: list[str], data: st.DataObject) -> None:
    wanted = data.draw(st.sampled_from(lines or [""]))
    near = nearest_lines(lines, [wanted])
    assert not wanted.strip() or near[0].lines[0].strip() == wanted.strip()
    assert all(lines[part.first - 1] == part.lines[0] for part in near)
