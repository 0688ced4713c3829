"""Exact replacements, which keep line breaks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.toolbox.files.edits import (
    Edit,
    Edited,
    EditMiss,
    apply_edit,
    usual_line_break,
)

PARTS = st.text("ab\n", max_size=4)


def edited(text: str, edit: Edit) -> Edited:
    outcome = apply_edit(text, edit)
    assert isinstance(outcome, Edited)
    return outcome


@given(st.text("ab\n", max_size=12), PARTS.filter(bool), PARTS, st.integers(0, 3))
def test_edit_replaces_as_python_does(text: str, old: str, new: str, count: int) -> None:
    outcome = apply_edit(text, Edit(old=old, new=new, count=count))
    if old not in text:
        assert outcome == "old"
        return
    assert isinstance(outcome, Edited)
    assert outcome.text == text.replace(old, new, count or -1)
    assert len(outcome.lines) == min(text.count(old), count or text.count(old))
    assert len(outcome.lines) + len(outcome.further) == text.count(old)


@given(st.text("ab\n", max_size=12), PARTS.filter(bool), PARTS, st.sampled_from(["\r\n", "\r"]))
def test_line_breaks_of_the_file_stay(text: str, old: str, new: str, end: str) -> None:
    plain = apply_edit(text, Edit(old=old, new=new))
    other = apply_edit(text.replace("\n", end), Edit(old=old, new=new))
    if isinstance(plain, Edited) and "\n" in text:
        assert other == Edited(plain.text.replace("\n", end), plain.lines, plain.further)
    elif "\n" in text:
        assert other == plain


def test_mixed_line_breaks_stay_outside_the_edit() -> None:
    outcome = edited("a\r\nb\nc\r\nd\r\n", Edit(old="b\nc", new="B\nC"))
    assert outcome.text == "a\r\nB\r\nC\r\nd\r\n"
    assert edited("a\r\nb\n", Edit(old="a\nb", new="c")).text == "c\n"


def test_explicit_carriage_returns_match_exactly() -> None:
    assert edited("a\r\nb\n", Edit(old="a\r\n", new="a\n")).text == "a\nb\n"
    # Otherwise, they match any line break.
    assert edited("a\nb\n", Edit(old="a\r\nb", new="c\r\nd")).text == "c\nd\n"


@pytest.mark.feature("OAGS-027")
@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        ("one", "two", "x one X two x"),
        ("one", "", "x one X two x"),
        ("", "one", "X one x two x"),
        ("two", "", "x one x two X"),
        ("two", "one", "order"),
        ("no", "one", "before"),
        ("one", "no", "after"),
    ],
)
def test_anchors_surround_the_replaced_text(
    before: str, after: str, outcome: str | EditMiss
) -> None:
    found = apply_edit("x one x two x", Edit(old="x", new="X", before=before, after=after))
    assert (found.text if isinstance(found, Edited) else found) == outcome


def test_lines_of_occurrences_are_numbered() -> None:
    outcome = edited("a\na b a\na\n", Edit(old="a", new="c", count=2))
    assert (outcome.lines, outcome.further) == ((1, 2), (2, 3))
    assert outcome.summary == {"replacements": 2, "further_matches": 2, "further_lines": [2, 3]}
    assert edited("a", Edit(old="a", new="b")).summary == {"replacements": 1}


def test_usual_line_break_is_the_most_frequent() -> None:
    assert usual_line_break("a\r\nb\r\nc\n") == "\r\n"
    assert usual_line_break("a\r\nb\n") == "\n"
    assert usual_line_break("a\rb") == "\r"
    assert usual_line_break("") == "\n"
