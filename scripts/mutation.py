"""Mutation testing: change the code in small ways, and list the changes that no test notices.

    python -m scripts.mutation --sample 25 protocol codec

mutmut creates the mutants of a package and runs the package's own tests, `tests/<package>`, against
a seeded sample of them, on a copy in `build/mutation/<package>`. A mutant is detected if a test
fails or runs out of time. The score is the number of detected mutants divided by the number of
sampled mutants. The sample depends only on the seed, the package and its code. The scores before
and after a change of the tests are therefore about the same mutants.

mutmut collects the tests once, and forks a process for each mutant. It runs the tests that call the
mutated function, with few random examples. This is fast, but misses mutants that have an effect
only while modules are imported and tests are collected. Its time limits are also too short on a
busy machine. Therefore only a failed test counts. For every other mutant, all tests of the package
run in a new process, with the usual number of examples. `mutmut apply` is not used, because it may
change the method of another class that has the same name.

mutmut creates no mutants of decorated functions or of code outside functions.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Final

from scripts.coverage_gate import PACKAGE, PURE_PACKAGES

ROOT: Final = Path(__file__).parents[1]
COPIES: Final = ROOT / "build" / "mutation"
DETECTED: Final = frozenset({"killed", "timeout"})
# The time limit for a mutant: PATIENCE times the duration of the original, plus STARTUP seconds.
PATIENCE: Final = 10.0
STARTUP: Final = 60.0

# Worker processes are forked from a server that has collected the tests but has not run any,
# because trio's threads do not survive a fork.
_CONFIG: Final = """
[tool.mutmut]
source_paths = ["{package}"]
only_mutate = ["{source}"]
also_copy = ["scripts", "docs", "README.md", "CHANGELOG.md", "Makefile"]
pytest_add_cli_args = ["-p", "no:cacheprovider"]
pytest_add_cli_args_test_selection = ["{tests}"]
process_isolation = "forkserver"
timeout_multiplier = 3.0
timeout_constant = 5.0
"""
# Each call of a mutated function takes three frames.
_CONFTEST: Final = """
sys.setrecursionlimit(4 * sys.getrecursionlimit())
"""
# mutmut has no command that creates mutants without running tests.
_GENERATE: Final = """
from pathlib import Path
from mutmut.__main__ import copy_also_copy_files, copy_src_dir, create_mutants
Path("mutants").mkdir()
copy_src_dir()
copy_also_copy_files()
create_mutants(1)
"""


def sample(names: Sequence[str], size: int, seed: str) -> list[str]:
    """Return a random sample of the names; the same names and seed always give the same sample.

    Args:
        names: The names of all mutants.
        size: The number of names to return; 0: all.
        seed: The seed.
    """
    ordered = sorted(names)
    if not 0 < size < len(ordered):
        return ordered
    return sorted(random.Random(seed).sample(ordered, size))


def read_results(text: str) -> dict[str, str]:
    """Return the status of each mutant in the output of `mutmut results`."""
    lines = (line.strip().rpartition(": ") for line in text.splitlines())
    return {name: status for name, _, status in lines if name.startswith(f"{PACKAGE}.")}


def row(package: str, total: int, statuses: Mapping[str, str]) -> str:
    """Return the line of the table for one package."""
    found = list(statuses.values())
    detected = sum(status in DETECTED for status in found)
    score = 100 * detected / len(found) if found else 100.0
    return (
        f"{package:12} {total:7} {len(found):8} {detected:9} {found.count('timeout'):9} "
        f"{len(found) - detected:9} {score:8.1f}"
    )


HEADER: Final = "package      mutants  sampled  detected  timeouts  survived  score %"


def locate(package: str) -> tuple[str, str]:
    """Return the pattern of a package's source files and the path of its tests."""
    if (ROOT / PACKAGE / f"{package}.py").exists():
        return f"{PACKAGE}/{package}.py", f"tests/test_{package}.py"
    if not (ROOT / PACKAGE / package).is_dir():
        raise SystemExit(f"mutation: there is no package {package!r} in {PACKAGE}/")
    return f"{PACKAGE}/{package}/*", f"tests/{package}"


def copy_project(package: str) -> Path:
    """Copy the project's files, except ignored ones, and configure mutmut for one package."""
    source, tests = locate(package)
    target = COPIES / package
    shutil.rmtree(target, ignore_errors=True)
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    with (target / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write(_CONFIG.format(package=PACKAGE, source=source, tests=tests))
    with (target / "tests" / "conftest.py").open("a", encoding="utf-8") as file:
        file.write(_CONFTEST)
    return target


def run_python(
    folder: Path, *arguments: str, timeout: float | None = None, **variables: str
) -> CompletedProcess[str]:
    """Run Python in a copy of the project, with additional environment variables."""
    environment = {**os.environ, **variables}
    environment.pop("PYTHONPATH", None)  # so that the modules of the copy are imported
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )


def run_mutmut(target: Path, *arguments: str) -> str:
    """Run Python with mutmut in a copy of the project; return the printed text."""
    done = run_python(target, *arguments, HYPOTHESIS_PROFILE="mutation")
    if done.returncode:
        raise SystemExit(f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}\nmutation: mutmut failed")
    return done.stdout


def run_tests(target: Path, package: str, mutant: str, timeout: float | None = None) -> str:
    """Run a package's own tests against a mutant in a new process; return the mutant's status."""
    # The generated functions call the mutant that this variable names.
    variables = {"MUTANT_UNDER_TEST": mutant, "HYPOTHESIS_PROFILE": "default"}
    command = ("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", locate(package)[1])
    try:
        done = run_python(target / "mutants", *command, timeout=timeout, **variables)
    except subprocess.TimeoutExpired:
        return "timeout"
    return "killed" if done.returncode else "survived"


def test_package(package: str, size: int, seed: int, jobs: int) -> str:
    """Test a sample of a package's mutants, print the undetected ones, and return the table row."""
    target = copy_project(package)
    results = ("-m", "mutmut", "results", "--all", "true")
    run_mutmut(target, "-c", _GENERATE)
    names = list(read_results(run_mutmut(target, *results)))
    chosen = sample(names, size, f"{seed}:{package}")
    run_mutmut(target, "-m", "mutmut", "run", "--max-children", str(jobs), *chosen)
    found = read_results(run_mutmut(target, *results))
    statuses = {name: found[name] for name in chosen}
    started = time.monotonic()
    if run_tests(target, package, "") != "survived":
        raise SystemExit(f"mutation: the tests of {package} fail even without a mutant")
    timeout = STARTUP + PATIENCE * (time.monotonic() - started)
    for name in [name for name, status in statuses.items() if status != "killed"]:
        statuses[name] = run_tests(target, package, name, timeout)
        if statuses[name] not in DETECTED:
            shown = run_mutmut(target, "-m", "mutmut", "show", name).splitlines()
            changed = [line for line in shown if line.startswith(("-", "+"))]
            print(f"\n{name}", *changed[2:], sep="\n", flush=True)
    return row(package, len(names), statuses)


def main(arguments: Sequence[str] | None = None) -> int:
    """Test the mutants of the packages, print the undetected ones and a table of scores."""
    parser = argparse.ArgumentParser(prog="python -m scripts.mutation", description=__doc__)
    pure = [name for name in PURE_PACKAGES if list((ROOT / PACKAGE).glob(f"{name}*"))]
    parser.add_argument("packages", nargs="*", default=pure, help="default: the pure packages")
    parser.add_argument("--sample", type=int, default=25, help="mutants per package; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    rows = [HEADER]
    for package in options.packages:
        rows.append(test_package(package, options.sample, options.seed, options.jobs))
        print(f"\n{HEADER}\n{rows[-1]}", flush=True)
    print("", *rows, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
