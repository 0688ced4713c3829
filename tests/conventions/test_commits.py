"""Commit subjects follow the rules in `commits.toml`."""

import pytest

from tests.conventions.commits import problems, subjects


def test_subjects_since_base() -> None:
    found = subjects()
    if found is None:
        pytest.skip("the history since the base commit is not available")
    bad = [problem for subject in found for problem in problems(subject)]
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize(
    ("subject", "reason"),
    [
        ("Add " + "x" * 70, "74 characters"),
        ("add a test", "capital"),
        ("Add a test.", "period"),
        ("Added a test", "imperative"),
        ("Fixes a test", "imperative"),
    ],
)
def test_finds_bad_subjects(subject: str, reason: str) -> None:
    assert any(reason in problem for problem in problems(subject))


@pytest.mark.parametrize("subject", ["Report calls without an id", "Feed the parser in slices"])
def test_accepts_imperatives(subject: str) -> None:
    assert not problems(subject)
