"""The coverage gate fails for uncovered code and reports which lines and branches are missing."""

import json
from pathlib import Path

import pytest

from scripts.coverage_gate import FileReport, Report, Summary, main, missing, percent, verdict


def summary(covered: int, total: int) -> Summary:
    return Summary(covered_lines=covered, num_statements=total, covered_branches=0, num_branches=0)


def file(*lines: int, covered: int = 0, branches: tuple[tuple[int, int], ...] = ()) -> FileReport:
    return FileReport(
        summary=summary(covered, covered + len(lines)),
        missing_lines=list(lines),
        missing_branches=list(branches),
    )


def report(covered: int, total: int, **files: FileReport) -> Report:
    named = {f"agent_actors/{name.replace('__', '/')}.py": file for name, file in files.items()}
    return Report(files=named, totals=summary(covered, total))


def test_lines_and_branches_count_alike() -> None:
    both = Summary(covered_lines=3, num_statements=4, covered_branches=0, num_branches=2)
    assert percent(both) == 50
    assert percent(summary(0, 0)) == 100


def test_missing_lines_are_joined_and_branches_named() -> None:
    gap = file(3, 4, 5, 9, branches=((1, 7), (2, -1), (1, 3), (9, 11)))
    assert missing(gap) == "3-5, 9, 1->7, 2->exit"


def test_gap_in_pure_package_fails() -> None:
    gaps, broken = verdict(report(999, 1000, protocol__sse=file(7, covered=999)))
    assert gaps == [" 99.9 %  agent_actors/protocol/sse.py: 7"]
    assert broken == [
        "agent_actors/protocol/sse.py is in a pure package, whose coverage must be 100 %"
    ]


def test_missing_branch_fails_pure_file() -> None:
    gaps, broken = verdict(report(1000, 1000, errors=file(branches=((3, 5),))))
    assert gaps == ["100.0 %  agent_actors/errors.py: 3->5"]
    assert broken == ["agent_actors/errors.py is in a pure package, whose coverage must be 100 %"]


def test_other_gap_counts_toward_overall_bound() -> None:
    gap = file(1, covered=9)
    gaps, broken = verdict(report(95, 100, actors__x=gap))
    assert gaps
    assert broken == []
    _, broken = verdict(report(949, 1000, actors__x=gap))
    assert broken == ["the overall coverage is 94.90 %; expected at least 95 %"]


@pytest.mark.parametrize(("covered", "status", "word"), [(100, 0, "Coverage"), (10, 1, "FAILED")])
def test_exit_status_and_text_agree(
    covered: int, status: int, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "coverage.json"
    path.write_text(json.dumps(report(covered, 100)), encoding="utf-8")
    assert main([str(path)]) == status
    assert word in capsys.readouterr().out
