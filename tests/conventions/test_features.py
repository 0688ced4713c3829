"""Every row of a finished group of features.tsv is covered by a test."""

import textwrap
from pathlib import PurePosixPath
from typing import Final

import pytest

from tests.conventions.features import Marks, Row, marks, parse_rows, shortfalls
from tests.conventions.tree import python_files, read

GROUPS: Final = frozenset(
    {
        "foundation",
        "streams",
        "faces",
        "hooks",
        "sessions",
        "later-knowledge",
        "later-mcp-telemetry",
        "later-server",
        "later-subagents-compaction",
        "later-toolbox",
    }
)
FINISHED_GROUPS: Final = frozenset({"foundation", "streams", "hooks", "faces", "sessions"})


def test_every_finished_row_has_a_test() -> None:
    tests = {
        path: marks(path, read(path))
        for path in python_files()
        if path.startswith("tests/") and PurePosixPath(path).match("test_*.py")
    }
    missing = shortfalls(parse_rows(read("tests/features.tsv")), tests, FINISHED_GROUPS)
    assert not missing, "\n".join(missing)


def test_table_has_only_known_groups() -> None:
    rows = parse_rows(read("tests/features.tsv"))
    assert {group for row in rows for group in row.groups} == GROUPS
    assert FINISHED_GROUPS <= GROUPS


HEADER: Final = "id\tdesign\tcapability\tgroup\tweight\n"


def test_row_may_belong_to_several_groups() -> None:
    assert parse_rows(HEADER + 'A-1\tone\ta "quoted" thing\ta,b\tmust\n') == [
        Row("A-1", 'a "quoted" thing', frozenset({"a", "b"}))
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id\tgroup\n", "columns"),
        (HEADER + "A-1\tone\n", "line 2: 5 fields expected, got 2"),
        (HEADER + "A-1\to\tc\tg\tw\n" * 2, "line 3: A-1 is listed twice"),
    ],
)
def test_malformed_table_is_rejected(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_rows(text)


def of(source: str) -> Marks:
    return marks("t.py", textwrap.dedent(source))


@pytest.mark.parametrize(
    "source",
    [
        "@pytest.mark.feature('A-1', 'A-2')\ndef test_x(): ...",
        "@mark.feature('A-1')\n@pytest.mark.feature('A-2')\nasync def test_x(): ...",
        "class TestX:\n    @pytest.mark.feature('A-1', 'A-2')\n    def test_x(self): ...",
        "@pytest.mark.feature('A-1', 'A-2')\nclass TestX: ...",
        "pytestmark = [pytest.mark.slow, pytest.mark.feature('A-1', 'A-2')]",
        """
        @pytest.mark.parametrize("x", [
            pytest.param(1, marks=pytest.mark.feature("A-1")),
            pytest.param(2, marks=[pytest.mark.feature("A-2")]),
        ])
        def test_x(x): ...
        """,
    ],
)
def test_marks_are_read_in_all_places(source: str) -> None:
    assert of(source) == Marks(frozenset({"A-1", "A-2"}), ())


@pytest.mark.parametrize("mark", ["skip", "skip(reason='later')", "xfail(strict=True)"])
def test_skipped_test_shows_nothing(mark: str) -> None:
    source = f"@pytest.mark.{mark}\n@pytest.mark.feature('A-1')\ndef test_x(): ..."
    assert of(source).ids == frozenset()


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("@pytest.mark.feature('A-1')\ndef helper(): ...", "not a test"),
        ("wanted = pytest.mark.feature('A-1')", "not a test"),
        ("@pytest.mark.feature()\ndef test_x(): ...", "takes at least one id"),
        ("@pytest.mark.feature('A', id='B')\ndef test_x(): ...", "no keywords"),
        ("@pytest.mark.feature(*IDS)\ndef test_x(): ...", "string literal"),
    ],
)
def test_untrustworthy_mark_is_a_problem(source: str, problem: str) -> None:
    (found,) = of(source).problems
    assert found.startswith("t.py:1:")
    assert problem in found


ROWS: Final = [
    Row("A-1", "one", frozenset({"a"})),
    Row("A-2", "two", frozenset({"a", "b"})),
    Row("A-3", "three", frozenset({"b"})),
]


def test_row_counts_for_each_finished_group() -> None:
    tests = {"t.py": Marks(frozenset({"A-1"}), ())}
    assert shortfalls(ROWS, tests, frozenset({"a"})) == ["A-2 has no test: two"]
    assert shortfalls(ROWS, tests, frozenset({"b"})) == [
        "A-2 has no test: two",
        "A-3 has no test: three",
    ]
    assert shortfalls(ROWS, tests, frozenset()) == []


def test_unknown_id_in_test_is_named() -> None:
    tests = {"t.py": Marks(frozenset({"A-9"}), ("t.py:1: a problem",))}
    assert shortfalls(ROWS, tests, frozenset()) == [
        "t.py:1: a problem",
        "t.py: A-9 is not a row of features.tsv",
    ]
