import json
import sys
from collections.abc import Iterator, Mapping

import attrs
import pytest

from benchmarks.harness import (
    Contender,
    Cost,
    Endpoint,
    Table,
    Work,
    compete,
    excluding_start,
    run,
)

WORK = Work("http://x/burst/5/5/v1", "http://x/burst/1/1/v1", turns=4, at_once=2, deltas=5)


class Busy(Endpoint):
    """An endpoint that has used another half second of CPU time at each query."""

    def __init__(self) -> None:
        super().__init__("http://x")
        self._used: Iterator[float] = (number / 2 for number in range(1000))

    def stats(self) -> Mapping[str, float]:
        return {"cpu": next(self._used)}


def saying(*lines: str) -> Contender:
    return Contender("one", (sys.executable, "-c", "\n".join(f"print({line!r})" for line in lines)))


def telling(**cost: float) -> Contender:
    return saying(json.dumps(cost))


def test_work_is_passed_as_last_argument() -> None:
    code = (
        "import json, sys; w = json.loads(sys.argv[1]);"
        "print(json.dumps({'cpu': 1, 'wall': 2, 'count': w['turns'] * w['deltas']}))"
    )
    assert run(Contender("one", (sys.executable, "-c", code)), WORK, Busy()) is not None


def test_cost_comes_from_the_last_line() -> None:
    cost = run(saying("a note", json.dumps({"cpu": 1, "wall": 2, "count": 20})), WORK, Busy())
    assert cost == Cost(1, 2, 20, load=0.25)


@pytest.mark.parametrize("count", [0, 19, 21])
def test_wrong_delta_count_fails_the_contender(count: int) -> None:
    assert run(telling(cpu=1, wall=2, count=count), WORK, Busy()) is None


def test_abandoned_turn_is_counted_without_result() -> None:
    assert run(telling(cpu=1, wall=2, count=15, hung=1), WORK, Busy()) is not None
    assert run(telling(cpu=1, wall=2, count=20, hung=1), WORK, Busy()) is None


def test_crashed_contender_counts_as_failed() -> None:
    broken = Contender("one", (sys.executable, "-c", "raise SystemExit(3)"))
    assert run(broken, WORK, Busy()) is None


def test_hanging_contender_is_killed_and_fails() -> None:
    endless = Contender("one", (sys.executable, "-c", "import time; time.sleep(60)"))
    assert run(endless, WORK, Busy(), patience=0.2) is None


def test_contenders_alternate_and_rounds_are_kept() -> None:
    fast, slow = telling(cpu=1, wall=2, count=20), telling(cpu=3, wall=2, count=20)
    contenders = [attrs.evolve(fast, name="fast"), attrs.evolve(slow, name="slow")]
    table = compete(contenders, WORK, Busy(), rounds=2)
    assert table.rounds("slow") == [3, 3]
    rows = table.rows("fast", per="turn")
    assert rows["slow"]["ratio"] == 3
    assert rows["slow"]["value"] == 750  # ms
    assert rows["slow"]["load"] == 0.25
    assert rows["slow"]["turns_per_second"] == 2
    assert table.rows("fast", per="delta")["fast"]["value"] == 50_000  # µs


def test_table_names_failures_and_hangs() -> None:
    costs: dict[str, list[Cost | None]] = {
        "a": [Cost(1, 1, 20), Cost(1, 1, 20)],
        "b": [None, Cost(2, 1, 15, hung=1)],
        "c": [None, None],
    }
    rows = Table(WORK, costs).rows("a", per="turn")
    assert [rows[name]["failed"] for name in "abc"] == [0, 1, 2]
    assert [rows[name]["hung"] for name in "abc"] == [0, 1, 0]
    assert rows["b"]["ratio"] == 2
    assert rows["b"]["wall"] == [None, 1]
    assert rows["b"]["turns_per_second"] == 3
    assert rows["c"]["turns_per_second"] is None


def test_start_is_subtracted_from_each_round() -> None:
    table = Table(WORK, {"a": [Cost(10, 1, 20), None], "b": [Cost(6, 1, 20), Cost(6, 1, 20)]})
    few = Table(
        attrs.evolve(WORK, deltas=1),
        {"a": [Cost(2, 1, 4), Cost(2, 1, 4)], "b": [Cost(2, 1, 4), Cost(2, 1, 4)]},
    )
    rows = excluding_start(table, few, "a")
    assert rows["a"]["rounds"] == [500_000, None]
    assert rows["b"]["rounds"] == [250_000, 250_000]
    assert rows["b"]["ratio"] == 0.5
