"""Numbered lines."""

from hypothesis import given
from hypothesis import strategies as st

from agent_actors.toolbox.files.numbering import numbered, split_lines

LINES = st.lists(st.text(st.sampled_from("ab \t\x0b\u2028")), max_size=8)


@given(LINES, st.text("ab", max_size=2), st.sampled_from(["\n", "\r\n"]))
def test_split_lines_returns_the_joined_lines(lines: list[str], last: str, end: str) -> None:
    text = "".join(line + end for line in lines) + last
    assert split_lines(text) == lines + [last] * bool(last)


def test_carriage_returns_end_lines_without_feeds() -> None:
    assert split_lines("a\rb\r") == ["a", "b"]
    assert split_lines("a\rb\nc") == ["a\rb", "c"]
    assert split_lines("") == []


@given(LINES, st.integers(0, 10), st.integers(1, 10))
def test_numbers_are_those_of_the_lines(lines: list[str], offset: int, limit: int) -> None:
    text = "".join(f"{line}\n" for line in lines)
    shown = numbered(text, offset, limit, max_characters=1_000)
    first = max(offset, 1)
    wanted = lines[first - 1 : first - 1 + limit]
    entries = shown.text.split("\n") if wanted else []
    pairs = [(int(number), line) for number, line in (entry.split("\t", 1) for entry in entries)]
    assert pairs == list(enumerate(wanted, first))
    assert (shown.first, shown.last, shown.total) == (first, first + len(wanted) - 1, len(lines))


def test_long_lines_and_texts_are_cut() -> None:
    shown = numbered("abcdef\nab\n", 1, 9, max_characters=99, max_line_characters=4)
    assert shown.text == "     1\tabcd… [2 more characters]\n     2\tab"
    assert shown.cut == 1
    short = numbered("abcdef\nab\n", 1, 9, max_characters=10)
    assert (short.text, short.last) == ("     1\tabcdef", 1)
