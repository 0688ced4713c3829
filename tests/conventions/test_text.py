"""No file contains a to-do comment or a path of a developer's machine."""

import re
from collections.abc import Iterator
from typing import Final

import pytest

from tests.conventions.tree import files, read

# The words are assembled here so that this file passes its own check.
PUT_OFF: Final = re.compile(r"\b(?:" + "|".join(["TO" + "DO", "FIX" + "ME", "X" * 3]) + r")\b")
MACHINE_PATH: Final = re.compile(
    r"(?<![\w.])/(?:"
    + "|".join(["home/" + r"\w+", "root" + "/", "Users/" + r"\w+", "work" + "/"])
    + ")"
)


def problems(name: str, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), start=1):
        for pattern, reason in ((PUT_OFF, "work put off"), (MACHINE_PATH, "a path of one machine")):
            if found := pattern.search(line):
                yield f"{name}:{number}: {reason}: {found[0]}"


def texts() -> Iterator[tuple[str, str]]:
    for name in files():
        try:
            yield name, read(name)
        except UnicodeDecodeError:  # a binary file, for example an image
            continue


def test_no_file_contains_todos_or_machine_paths() -> None:
    bad = [problem for name, text in texts() for problem in problems(name, text)]
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize(
    "line",
    [
        "# TO" + "DO: later",
        "x = 1  # FIX" + "ME",
        "X" * 3,
        'open("/ho' + 'me/someone/notes")',
        "cd /ro" + "ot/project",
        "(/Us" + "ers/someone/x)",
        "in /wo" + "rk/main",
    ],
)
def test_a_bad_line_is_found(line: str) -> None:
    (found,) = problems("x.py", f"fine\n{line}\n")
    assert found.startswith("x.py:2: ")


@pytest.mark.parametrize(
    "line", ["todos", "GET /v1/users/7", "docs/work/plan.md", "/tmp/agent", "XXXL", "~/notes"]
)
def test_a_good_line_is_left_alone(line: str) -> None:
    assert list(problems("x.py", line)) == []
