import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.protocol.response.markers import split_at_mark

LETTERS = st.text("<ab>", max_size=12)
MARKS = st.lists(st.text("<ab>", min_size=1, max_size=4), max_size=3, unique=True)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ("", "", "")),
        ("no mark", ("no mark", "", "")),
        ("a<b>c<b>", ("a", "<b>", "c<b>")),
        ("a<", ("a", "", "<")),
        ("a<b", ("a", "", "<b")),
        ("a<c", ("a<c", "", "")),
        ("<<b>", ("<", "<b>", "")),
    ],
)
def test_text_is_split_at_its_first_mark(text: str, found: tuple[str, str, str]) -> None:
    assert split_at_mark(text, ("<b>",)) == found


@pytest.mark.parametrize("marks", [("ab", "abc"), ("abc", "ab")])
def test_longer_marker_wins_at_one_place(marks: tuple[str, str]) -> None:
    assert split_at_mark("xabcd", marks) == ("x", "abc", "d")
    assert split_at_mark("xbabc", ("abc", "bab")) == ("x", "bab", "c")


@given(LETTERS, MARKS)
def test_only_possible_markers_are_withheld(text: str, marks: list[str]) -> None:
    before, mark, rest = split_at_mark(text, marks)
    assert before + mark + rest == text
    if mark:
        assert all(one not in (before + mark)[:-1] or one == mark for one in marks)
    else:
        assert all(one not in text for one in marks)
        assert not rest or any(one.startswith(rest) for one in marks)
        longer = [text[at:] for at in range(len(before))]
        assert not any(one.startswith(tail) for one in marks for tail in longer)
