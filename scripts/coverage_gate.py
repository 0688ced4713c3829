"""Hold branch coverage to its two bounds, and name every line and branch that is missing.

    python -m scripts.coverage_gate coverage.json

Pure rooms have no I/O to excuse a gap: 100 %. The whole library: at least 95 %.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypedDict

PURE_ROOMS: Final = (
    "domain",
    "errors",
    "protocol",
    "codec",
    "sessions",
    "project",
    "tools",
    "permissions",
    "hooks",
)
OVERALL: Final = 95.0  # per cent of lines and branches together
PACKAGE: Final = "agent_actors"


class Summary(TypedDict):
    """What coverage.py counts, of one file or of all."""

    covered_lines: int
    num_statements: int
    covered_branches: int
    num_branches: int


class FileReport(TypedDict):
    """One file of coverage.py's JSON report; a branch is (from line, to line)."""

    summary: Summary
    missing_lines: list[int]
    missing_branches: list[tuple[int, int]]


class Report(TypedDict):
    """The part of coverage.py's JSON report that is read here."""

    files: dict[str, FileReport]
    totals: Summary


def percent(summary: Summary) -> float:
    """Covered lines and branches in per cent of all; 100 where there are none."""
    total = summary["num_statements"] + summary["num_branches"]
    covered = summary["covered_lines"] + summary["covered_branches"]
    return 100.0 * covered / total if total else 100.0


def is_pure(path: str) -> bool:
    """Whether a file, named from the project's root, lies in a pure room."""
    parts = Path(path).parts
    return len(parts) > 1 and parts[0] == PACKAGE and Path(parts[1]).stem in PURE_ROOMS


def missing(report: FileReport) -> str:
    """The lines and branches missing in a file, as one line of text: `12-14, 20->exit`."""
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
    """What is missing, file by file, and which bounds that breaks."""
    gaps: list[str] = []
    broken: list[str] = []
    for path, file in sorted(report["files"].items()):
        gap = missing(file)
        if not gap:
            continue
        gaps.append(f"{percent(file['summary']):5.1f} %  {path}: {gap}")
        if is_pure(path):
            broken.append(f"{path} is in a pure room: 100 % expected")
    overall = percent(report["totals"])
    if overall < OVERALL:
        broken.append(f"overall {overall:.2f} %, at least {OVERALL:g} % expected")
    return gaps, broken


def render(report: Report, gaps: Sequence[str], broken: Sequence[str]) -> str:
    """The text that is printed."""
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
    """Judge the report named on the command line; 0 when both bounds hold."""
    (path,) = arguments
    report: Report = json.loads(Path(path).read_text(encoding="utf-8"))
    gaps, broken = verdict(report)
    print(render(report, gaps, broken))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
