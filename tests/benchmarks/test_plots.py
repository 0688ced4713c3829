from pathlib import Path

import pytest

from benchmarks.record import Row, load, report, row


def test_any_result_rows_can_be_plotted(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from benchmarks.plots import draw

    rows: dict[str, Row] = {
        "httpx": row([2.0, 3.0], [2.0, 3.0]),
        "agent_actors": row([1.0, 1.5], [2.0, 3.0]),
        "failed": row([None, None]),
    }
    report("some", "Some thing", "µs", rows, folder=tmp_path)
    found = load("some", tmp_path)
    assert found is not None
    draw(found, tmp_path / "some.png")
    assert (tmp_path / "some.png").read_bytes().startswith(b"\x89PNG")
