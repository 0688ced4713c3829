"""Enforce two minimums for branch coverage, and list every missing line and branch.

    python -m scripts.coverage_gate coverage.json

Pure packages must reach 100 %, because they have no I/O that is hard to test. The complete library
must reach at least 95 %.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypedDict

PURE_PACKAGES: Final = (
    "domain",
    "errors",
    "protocol",
    "codec",
    "schema",
    "sessions",
    "project",
    "tools",
    "permissions",
    "hooks",
)
OVERALL: Final = 95.0  # percent of lines and branches together
PACKAGE: Final = "agent_actors"


class Summary(TypedDict):
    """The counts of coverage.py for one file or for all files."""

    covered_lines: int
    num_statements: int
    covered_branches: int
    num_branches: int


class FileReport(TypedDict):
    """A file in the JSON report of coverage.py. A branch is a pair: from line, to line."""

    summary: Summary
    missing_lines: list[int]
    missing_branches: list[tuple[int, int]]


class Report(TypedDict):
    """The part of the JSON report of coverage.py that this script reads."""

    files: dict[str, FileReport]
    totals: Summary


def percent(summary: Summary) -> float:
    """Return the percentage of covered lines and branches; 100 if there are none."""
    total = summary["num_statements"] + summary["num_branches"]
    covered = summary["covered_lines"] + summary["covered_branches"]
    return 100.0 * covered / total if total else 100.0


def is_pure(path: str) -> bool:
    """Return whether a file is in a pure package; the path is relative to the project's root."""
    parts = Path(path).parts
    return len(parts) > 1 and parts[0] == PACKAGE and Path(parts[1]).stem in PURE_PACKAGES


def missing(report: FileReport) -> str:
    """Return the missing lines and branches of a file as text, for example `12-14, 20->exit`."""
    runs: list[tuple[int, int]] = []
    for line in sorted(report["missing_lines"]):
        if runs and line == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], line)
        else:
            runs.append((line, line))
    lines = [f"{first}-{last}" if last > first else f"{first}" for first, last in runs]
    branches = [
        f"{start}->{end if end > 0 else 'exit'}"
        for start, end in report["missing_branches"]
        if start not in report["missing_lines"] and end not in report["missing_lines"]
    ]
    return ", ".join([*lines, *branches])


def verdict(report: Report) -> tuple[list[str], list[str]]:
    """Return the missing lines and branches by file, and the minimums that are not reached."""
    gaps: list[str] = []
    broken: list[str] = []
    for path, file in sorted(report["files"].items()):
        gap = missing(file)
        if not gap:
            continue
        gaps.append(f"{percent(file['summary']):5.1f} %  {path}: {gap}")
        if is_pure(path):
            broken.append(f"{path} is in a pure package, whose coverage must be 100 %")
    overall = percent(report["totals"])
    if overall < OVERALL:
        broken.append(f"the overall coverage is {overall:.2f} %; expected at least {OVERALL:g} %")
    return gaps, broken


def render(report: Report, gaps: Sequence[str], broken: Sequence[str]) -> str:
    """Return the text to print."""
    pure: Mapping[str, FileReport] = {
        path: file for path, file in report["files"].items() if is_pure(path)
    }
    lines = [
        "",
        "Not covered:" if gaps else "Everything is covered.",
        *(f"  {gap}" for gap in gaps),
    ]
    lines.append(
        f"Coverage: {percent(report['totals']):.2f} % of lines and branches in "
        f"{len(report['files'])} files, {len(pure)} of them pure."
    )
    lines.extend(f"FAILED: {reason}" for reason in broken)
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Check the report named on the command line. Return 0 if both minimums are reached."""
    (path,) = arguments
    report: Report = json.loads(Path(path).read_text(encoding="utf-8"))
    gaps, broken = verdict(report)
    print(render(report, gaps, broken))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
