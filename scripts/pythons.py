"""Find the Python interpreters of this machine, and run the test suite on them.

    python scripts/pythons.py list
    python scripts/pythons.py prepare [--only oldest|newest|3.13]
    python scripts/pythons.py test [--only oldest|newest|3.13] [--workers 2] [-- pytest arguments]

The interpreters are the programs `python3.N` on PATH, the versions that pyenv installed, and the
paths in the environment variable PYTHONS (separated by colons). For each minor version, only the
newest release is used. The script uses only the standard library, because it runs before anything
is installed.
"""

import argparse
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
# The extras that the tests import. Only other targets need the extras `bench` and `docs`.
EXTRAS: Final = "cli,testing,tokens,tools,pydantic,otel,mcp,bench,dev"
_CLASSIFIER: Final = re.compile(r"Programming Language :: Python :: (3\.\d+)")
_PROGRAM: Final = re.compile(r"python3\.\d+")
# A working interpreter responds within this many seconds.
_ANSWER_SECONDS: Final = 30
_QUESTION: Final = (
    "import sys, venv, ensurepip; print(*sys.version_info[:3], sys.implementation.name, "
    "sys.version_info.releaselevel, sys.executable)"
)


@dataclass(frozen=True, order=True)
class Interpreter:
    """An interpreter: its release, as three numbers, and the path of its program."""

    release: tuple[int, int, int]
    program: Path

    @property
    def minor(self) -> str:
        """The minor version, for example `3.12`."""
        return ".".join(map(str, self.release[:2]))

    @property
    def environment(self) -> Path:
        """The path of the virtual environment for the tests."""
        return ROOT / f".venv-{self.minor}"


def supported_versions() -> list[str]:
    """Return the minor versions that the classifiers in pyproject.toml name, oldest first."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        classifiers = tomllib.load(file)["project"]["classifiers"]
    named = (_CLASSIFIER.fullmatch(classifier) for classifier in classifiers)
    return sorted((match[1] for match in named if match), key=_numbers)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def candidates() -> Iterator[Path]:
    """Yield the programs that may be interpreters: from PYTHONS, PATH and pyenv, in this order."""
    for named in os.environ.get("PYTHONS", "").split(os.pathsep):
        if named:
            yield Path(named)
    for folder in os.get_exec_path():
        found = Path(folder).glob("python3*") if folder else ()
        yield from sorted(path for path in found if _PROGRAM.fullmatch(path.name))
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    yield from sorted(versions.glob("3.*/bin/python"))
    yield Path(sys.executable)


def ask(program: Path) -> Interpreter | None:
    """Return the interpreter behind a program.

    Returns:
        None if the program does not run, is a pre-release, is not CPython or cannot make virtual
        environments. This includes the shims of pyenv if no version is selected.
    """
    try:
        done = subprocess.run(
            [program, "-I", "-c", _QUESTION],
            capture_output=True,
            text=True,
            timeout=_ANSWER_SECONDS,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        major, minor, micro, implementation, level, real = done.stdout.strip().split(" ", 5)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    if implementation != "cpython" or level != "final":
        return None
    return Interpreter((int(major), int(minor), int(micro)), Path(real))


def newest_of_each(found: Iterable[Interpreter], lowest: str) -> list[Interpreter]:
    """Return the newest release of each minor version from `lowest` on, oldest first.

    If two programs have the same release, the first one found is used.
    """
    kept: dict[str, Interpreter] = {}
    for one in found:
        known = kept.get(one.minor)
        if one.release[:2] >= _numbers(lowest) and (known is None or one.release > known.release):
            kept[one.minor] = one
    return sorted(kept.values())


def interpreters(lowest: str) -> list[Interpreter]:
    """Return the interpreters of this machine from the minor version `lowest` on, oldest first."""
    answers = (ask(program) for program in candidates())
    return newest_of_each((one for one in answers if one is not None), lowest)


def select(found: Sequence[Interpreter], only: str | None) -> list[Interpreter]:
    """Return the interpreters that `--only` names; without `--only`, all of them."""
    if only is None:
        return list(found)
    if only in {"oldest", "newest"}:
        return [found[0] if only == "oldest" else found[-1]] if found else []
    return [one for one in found if one.minor == only]


def prepare(one: Interpreter) -> Path:
    """Create the virtual environment, or bring it up to date; return its interpreter."""
    program = one.environment / "bin" / "python"
    stamp = one.environment / ".installed-dev"
    sources = ROOT / "pyproject.toml"
    if stamp.is_file() and stamp.stat().st_mtime >= sources.stat().st_mtime:
        return program
    print(f"Installing the runtime and the development tools into {one.environment.name} ...")
    if not program.exists():
        subprocess.run([one.program, "-m", "venv", one.environment], check=True)
    install = ["-m", "pip", "install", "--quiet", "--editable", f".[{EXTRAS}]"]
    subprocess.run([program, *install], cwd=ROOT, check=True)
    stamp.touch()
    return program


def run_tests(one: Interpreter, workers: str, arguments: Sequence[str]) -> bool:
    """Run the tests on one interpreter; every warning from the package is an error."""
    release = ".".join(map(str, one.release))
    print(f"== Python {release} ({one.program})", flush=True)
    parallel = ["-n", workers, "--dist", "worksteal"]
    program = prepare(one)
    command = [str(program), "-m", "pytest", "-q", *parallel, *arguments]
    done = subprocess.run(command, cwd=ROOT, check=False)
    print(f"== Python {release}: {'passed' if not done.returncode else 'FAILED'}", flush=True)
    return not done.returncode


def main(arguments: Sequence[str] | None = None) -> int:
    """Execute the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="scripts/pythons.py", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="print the interpreters: minor version, release, program")
    prepared = commands.add_parser("prepare", help="create the environments for the tests")
    test = commands.add_parser("test", help="run the tests on the interpreters, one after another")
    for command in (prepared, test):
        command.add_argument("--only", help="oldest, newest, or a minor version such as 3.13")
    test.add_argument("--workers", default="auto", help="processes, as for `pytest -n`")
    test.add_argument("pytest", nargs="*", help="arguments for pytest, after `--`")
    options = parser.parse_args(arguments)

    supported = supported_versions()
    found = interpreters(supported[0])
    for version in supported:
        if version not in {one.minor for one in found}:
            print(
                f"Python {version} was not found on this machine and is skipped.", file=sys.stderr
            )
    if options.command == "list":
        for one in found:
            print(one.minor, ".".join(map(str, one.release)), one.program)
        return 0
    selected = select(found, options.only)
    if not selected:
        print(f"No interpreter was found (--only {options.only}).", file=sys.stderr)
        return 1
    if options.command == "prepare":
        for one in selected:
            prepare(one)
        return 0
    results = [run_tests(one, options.workers, options.pytest) for one in selected]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
