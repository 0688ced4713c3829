"""Prose follows the rules in `language.toml`, and test names are short."""

import pytest

from tests.conventions.language import long_names, of_page, of_python
from tests.conventions.tree import files, python_files, read

# This file quotes bad prose.
QUOTING = "tests/conventions/test_language.py"


def test_python_prose() -> None:
    paths = [path for path in python_files() if path != QUOTING]
    bad = [problem for path in paths for problem in of_python(path, read(path))]
    assert not bad, "\n".join(bad)


def test_documentation_prose() -> None:
    pages = [path for path in files() if path.endswith(".md")]
    bad = [problem for path in pages for problem in of_page(path, read(path))]
    assert not bad, "\n".join(bad)


def test_names_are_short() -> None:
    tests = [path for path in python_files() if path.startswith("tests/")]
    long = [name for path in tests for name in long_names(path, read(path))]
    assert not long, "\n".join(long)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ('"""What a run is."""', "begins with 'What'"),
        ('"""A run. Who asks is told."""', "'told'"),
        ('"""A run. Whatever ends it, it is joined."""', "begins with 'Whatever'"),
        ('x = "the call is no JSON object"', "'is no JSON'"),
        ('raise ValueError("a value that stands in a file")', "'stands'"),
        ('f(f"{x} was told of {y} and left")', "'told'"),
    ],
)
def test_finds_odd_python(source: str, reason: str) -> None:
    assert any(reason in problem for problem in of_python("x.py", source))


@pytest.mark.parametrize(
    "source",
    [
        '"""Return the run. `told` is code, and what follows a comma is fine."""',
        'NAMES = ["told", "stands"]',
        '"""A question. What is it?"""',
        '"""A stand-in for a server."""',
    ],
)
def test_leaves_plain_python(source: str) -> None:
    assert not list(of_python("x.py", source))


def test_finds_odd_pages() -> None:
    page = "# What it does\n\nFine.\n\n```\ntold\n```\n\nWho asks waits.\nIt stands there.\n"
    assert [problem.split(": ")[0] for problem in of_page("p.md", page)] == ["p.md:9", "p.md:9"]


def test_finds_long_names() -> None:
    source = "def test_a_b_c_d_e_f_g(): ...\ndef test_a_b_c_d_e_f_g_h(): ...\n"
    assert [name.split(":")[1] for name in long_names("t.py", source)] == ["2"]
