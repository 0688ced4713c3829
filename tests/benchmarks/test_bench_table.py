from pathlib import Path

import pytest

from benchmarks.record import Row, report, row
from scripts.bench_table import BEGIN, END, main, table

PAGE = f"# Title\n\nBefore.\n\n{BEGIN}\n\n{END}\n\nAfter.\n"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    paced: dict[str, Row] = {
        "httpx": row([10.0, 40.0, 20.0]),
        "agent_actors": row([5.0, 4.0, 8.0]),
        "aiohttp + uvloop": row([None, None, None]),
    }
    report("delta_paced_100", "Paced", "µs", paced, folder=tmp_path)
    turns: dict[str, Row] = {"agent_actors": row([0.5], turns_per_second=1234.5)}
    report("turns_100", "Turns", "ms", turns, folder=tmp_path)
    peers: dict[str, Row] = {"agent_actors": row([1.0, 1.0]), "one": row([20.0, 30.0])}
    report("peers_turns_1", "Turns of peers", "ms", peers, folder=tmp_path)
    report("making", "Making", "µs", {"a session": row([3.21])}, folder=tmp_path)
    demo: dict[str, Row] = {"100 sessions": row([2.0]), "1000 sessions": row([2.5])}
    report("demo", "Demo", "ms", demo, folder=tmp_path)
    return tmp_path


def test_table_uses_results_only(results: Path) -> None:
    lines = table(results).splitlines()
    assert "| Paced | 5 µs | 0.40 | - | - | - |" in lines  # the median of 0.5, 0.1 and 0.4
    assert "| Turns | 0.5 ms | - | - | - | 1,234 |" in lines
    assert "| Turns of peers | 25.0 |" in lines
    assert "| creating a session | 3.21 µs |" in lines
    assert any(line.endswith("| 1.25 times |") for line in lines)


def test_unmeasured_table_is_left_out(tmp_path: Path) -> None:
    assert table(tmp_path) == ""
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    assert main(["--check"], page, tmp_path) == 0


def test_only_marked_part_is_rewritten(tmp_path: Path, results: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    assert main([], page, results) == 0
    written = page.read_text(encoding="utf-8")
    assert written.startswith(f"# Title\n\nBefore.\n\n{BEGIN}\n\n| complete runtime")
    assert written.endswith(f"|\n\n{END}\n\nAfter.\n")
    assert main([], page, results) == 0
    assert page.read_text(encoding="utf-8") == written


def test_check_reports_stale_table_without_writing(tmp_path: Path, results: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    assert main(["--check"], page, results) == 1
    assert page.read_text(encoding="utf-8") == PAGE
    assert main([], page, results) == 0
    assert main(["--check"], page, results) == 0
    report("making", "Making", "µs", {"a session": row([4.56])}, folder=results)
    assert main(["--check"], page, results) == 1
