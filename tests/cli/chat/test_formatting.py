"""The texts of a chat are safe to show, and their length is limited."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.cli.chat.formatting import (
    call_text,
    duration,
    json_text,
    on_one_line,
    result_lines,
    usage_text,
)
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.usage import Usage

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.text(), st.integers(4, 50))
def test_preview_is_one_bounded_line(text: str, size: int) -> None:
    line = on_one_line(text, size)
    assert len(line) <= size
    assert line.splitlines() in ([line], []) or "\u2028" in line or "\u2029" in line


def test_truncation_is_marked() -> None:
    assert on_one_line("one  two\nthree", 20) == "one two three"
    assert on_one_line("one two three", 10) == "one two..."
    assert on_one_line(" " * 1000 + "x", 10) == "..."


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_a_call_is_one_line(arguments: dict[str, JsonValue]) -> None:
    line = call_text("search", arguments)
    assert line.startswith("search(")
    assert len(line) <= 200
    assert "\n" not in line


def test_call_is_shown_like_code() -> None:
    assert call_text("f", {}) == "f()"
    assert call_text("f", {"q": "tea", "n": [1, None]}) == 'f(q="tea", n=[1, null])'
    huge = call_text("write", {"text": "x" * 10_000_000, "more": 1})
    assert (len(huge), huge[-6:]) == (200, "xxx...")


def test_deeply_nested_json_is_not_shown() -> None:
    deep: JsonValue = []
    for _ in range(100_000):
        deep = [deep]
    assert json_text(deep, 10**9) == "(nested too deeply to be shown)"
    many: list[JsonValue] = [1] * 10_000
    assert len(json_text(many, 50)) < 60


def test_long_result_is_shown_in_part() -> None:
    assert list(result_lines("", 3)) == []
    assert list(result_lines("a\nb", 3)) == ["a", "b"]
    assert list(result_lines("a\nb\nc\n", 3)) == ["a", "b", "c"]
    assert list(result_lines("a\nb\nc\nd", 3)) == ["a", "b", "c", "... (1 more line)"]
    assert list(result_lines("a\n" * 5003, 3))[3:] == ["... (5,000 more lines)"]
    (line,) = result_lines("x" * 1300, 3)
    assert line == "x" * 300 + "... (1,000 characters more)"
    assert list(result_lines({"a": [1, "b\x1b"]}, 3)) == ['{"a": [1, "b\\u001b"]}']
    (line,) = result_lines(["y" * 5000], 3)
    assert (len(line), line[-4:]) == (303, "y...")


@given(st.text(), st.integers(1, 5))
def test_result_has_bounded_lines(text: str, most: int) -> None:
    lines = list(result_lines(text, most))
    assert len(lines) <= most + 1
    assert all("\n" not in line for line in lines)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1.0, "0 ms"),
        (0.0401, "40 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 0 s"),
        (125.0, "2 min 5 s"),
    ],
)
def test_duration_has_a_fitting_unit(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_usage_is_formatted_in_words() -> None:
    assert usage_text(Usage(1234, 56)) == "1,234 tokens in, 56 out"
    full = Usage(1, 2, cache_read_tokens=3, reasoning_tokens=4, estimated=True)
    assert usage_text(full) == "1 tokens in, 2 out, 3 from the cache, 4 of reasoning, estimated"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"exit_code": 0, "stdout": "a\nb\n", "stderr": "c"}, ["a", "b", "c"]),
        ({"exit_code": 2, "stdout": "", "stderr": "\x1b[2J\n"}, ["exit code 2", "\ufffd[2J"]),
        ({"exit_code": None, "signal": "SIGKILL", "stdout": "", "stderr": ""}, ["signal SIGKILL"]),
        ({"exit_code": 0, "stdout": "", "stderr": ""}, ["(no output)"]),
        (
            {"matches": [{"file": "a.py", "line": 3, "text": "x = 1"}], "truncated": False},
            ["a.py:3: x = 1"],
        ),
        ({"files": ["a.py", "b.py"], "truncated": False}, ["a.py", "b.py"]),
        ({"files": [{"path": "a"}]}, ['{"files": [{"path": "a"}]}']),
        ({"matches": [1]}, ['{"matches": [1]}']),
        ({"matches": []}, ['{"matches": []}']),
    ],
)
def test_command_and_search_are_readable(content: JsonObject, expected: list[str]) -> None:
    assert list(result_lines(content, 8)) == expected
