import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.record import load, median_ratio, report, row, take_turns

figures = st.floats(min_value=1e-6, max_value=1e6)
rounds = st.lists(st.none() | figures, min_size=1, max_size=8)


def test_ratio_is_median_of_round_ratios() -> None:
    assert median_ratio([1, 2, 30], [1, 1, 10]) == 2
    assert median_ratio([1, 2, 30], [10, 1, 1]) == 2


def test_failed_round_joins_no_ratio() -> None:
    assert median_ratio([1, None, 3], [1, 1, 1]) == 2
    assert median_ratio([1, 2, 3], [None, None, 1]) == 3
    assert median_ratio([None], [1]) is None


def test_unpaired_rounds_are_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        median_ratio([1, 2], [1])


@given(rounds)
def test_row_lists_rounds_within_their_spread(costs: list[float | None]) -> None:
    made = row(costs, costs)
    known = [cost for cost in costs if cost is not None]
    assert made["rounds"] == [cost and float(f"{cost:.5g}") for cost in costs]
    if known:
        match made:
            case {
                "value": float(value),
                "spread": [float(low), float(high)],
                "ratio": float(ratio),
            }:
                assert low <= value <= high
                assert ratio == 1
            case _:
                pytest.fail(str(made))
    else:
        assert made["value"] is None
        assert made["spread"] is None
        assert made["ratio"] is None


def test_contenders_alternate_against_the_first() -> None:
    order: list[str] = []

    def one(name: str, figure: float | None) -> float | None:
        order.append(name)
        return figure

    contenders = {
        "a": lambda: one("a", 2.0),
        "b": lambda: one("b", 1.0),
        "c": lambda: one("c", None),
    }
    rows = take_turns(contenders, rounds=2, scale=10)
    assert order == ["a", "b", "c"] * 2
    assert [rows[name]["value"] for name in "abc"] == [20, 10, None]
    assert [rows[name]["ratio"] for name in "abc"] == [1, 0.5, None]


def test_written_record_can_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = {"a": row([2.0, 4.0], load=0.1), "b": row([1.0, None], failed=1), "c": row([None, None])}
    report("some", "Some thing", "µs", rows, folder=tmp_path, more=7)
    found = load("some", tmp_path)
    assert found is not None
    assert (found.claim, found.title, found.unit) == ("some", "Some thing", "µs")
    assert found.rows == rows
    assert found.more["more"] == 7
    assert found.value("a") == 3
    assert found.value("a", "load") == 0.1
    assert found.value("nobody") is None
    assert found.ratio("a", "b") == 2
    assert found.ratio("a", "c") is None
    assert found.ratio("a", "nobody") is None
    printed = capsys.readouterr().out
    assert "load 0.1" in printed
    assert "failed" in printed


def test_result_names_its_environment(tmp_path: Path) -> None:
    report("some", "Some thing", "µs", {"a": row([1.0])}, folder=tmp_path)
    written = json.loads((tmp_path / "some.json").read_text(encoding="utf-8"))
    assert written["machine"].keys() == {"processor", "cores", "system", "python", "load_average"}
    assert written["versions"]["trio"]


def test_result_contains_only_json_numbers(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        report("some", "Some thing", "µs", {"a": {"value": math.nan}}, folder=tmp_path)
    assert load("some", tmp_path) is None


def test_unmeasured_claim_has_no_result(tmp_path: Path) -> None:
    assert load("some", tmp_path) is None
