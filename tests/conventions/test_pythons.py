"""The script that runs the suite on every interpreter finds each interpreter once."""

import stat
import sys
from pathlib import Path

import pytest

from scripts import pythons
from scripts.pythons import Interpreter, ask, candidates, main, newest_of_each, select


def interpreter(*release: int, program: str = "python") -> Interpreter:
    major, minor, micro = release
    return Interpreter((major, minor, micro), Path(program))


def program(path: Path, answer: str) -> Path:
    """Create a program that prints what an interpreter would."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{answer}'\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Simulate a machine with 3.11 and 3.12 in pyenv, 3.12 on PATH, and 3.13 named in PYTHONS."""
    pyenv = tmp_path / "pyenv/versions"
    program(pyenv / "3.11.7/bin/python", "3 11 7 cpython final /one")
    program(pyenv / "3.12.1/bin/python", "3 12 1 cpython final /two")
    program(tmp_path / "bin/python3.12", "3 12 9 cpython final /two in path")
    program(tmp_path / "bin/python3-config", "no interpreter")
    named = program(tmp_path / "named", "3 13 0 cpython final /three")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYTHONS", str(named))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    return tmp_path


def test_newest_release_of_each_version_counts() -> None:
    found = [
        interpreter(3, 12, 1),
        interpreter(3, 10, 13),
        interpreter(3, 9, 18),
        interpreter(3, 11, 7, program="first"),
        interpreter(3, 11, 7, program="second"),
        interpreter(3, 12, 4),
    ]
    assert newest_of_each(found, "3.10") == [
        interpreter(3, 10, 13),
        interpreter(3, 11, 7, program="first"),
        interpreter(3, 12, 4),
    ]


@pytest.mark.parametrize(
    ("only", "minors"),
    [
        (None, ["3.11", "3.12", "3.13"]),
        ("oldest", ["3.11"]),
        ("newest", ["3.13"]),
        ("3.12", ["3.12"]),
        ("3.1", []),
    ],
)
def test_option_selects_interpreters(only: str | None, minors: list[str]) -> None:
    found = [interpreter(3, minor, 0) for minor in (11, 12, 13)]
    assert [one.minor for one in select(found, only)] == minors
    assert select([], only) == []


@pytest.mark.parametrize(
    "answer",
    [
        "3 15 0 cpython alpha /a",
        "3 11 15 pypy final /a",
        "pyenv: python3.12: command not found",
        "",
    ],
)
def test_unusable_program_is_ignored(tmp_path: Path, answer: str) -> None:
    assert ask(program(tmp_path / "python", answer)) is None
    assert ask(tmp_path / "absent") is None


@pytest.mark.usefixtures("machine")
def test_path_pyenv_and_variable_are_searched(capsys: pytest.CaptureFixture[str]) -> None:
    assert [path.name for path in candidates()] == [
        "named",
        "python3.12",
        "python",
        "python",
        "none",
    ]
    assert main(["list"]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "3.11 3.11.7 /one",
        "3.12 3.12.9 /two in path",
        "3.13 3.13.0 /three",
    ]
    assert "Python 3.14 was not found on this machine and is skipped." in printed.err
    assert main(["test", "--only", "3.14"]) == 1


def test_failing_interpreter_fails_the_target(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tests run on every interpreter, even after they failed on one."""
    monkeypatch.setattr(pythons, "ROOT", machine)
    monkeypatch.setattr(pythons, "supported_versions", lambda: ["3.11", "3.12"])
    (machine / "pyproject.toml").touch()
    for minor, status in (("3.11", 0), ("3.12", 1), ("3.13", 0)):
        bin_ = machine / f".venv-{minor}/bin"
        made = program(bin_ / "python", "")
        made.write_text(f'#!/bin/sh\necho "$@" >> {machine}/calls\nexit {status}\n')
        (bin_.parent / ".installed-dev").touch()

    assert main(["prepare"]) == 0  # nothing to install
    assert not (machine / "calls").exists()
    assert main(["test", "--workers", "2", "--", "tests/stores"]) == 1

    calls = (machine / "calls").read_text().splitlines()
    assert calls == ["-m pytest -q -n 2 --dist worksteal tests/stores"] * 3
    printed = capsys.readouterr().out
    assert "3.12.9: FAILED" in printed
    assert "3.13.0: passed" in printed
    assert main(["test", "--only", "oldest"]) == 0
