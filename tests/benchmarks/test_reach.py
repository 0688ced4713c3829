from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks import bench_delta_many, bench_delta_paced, peers_bench, reach, reach_table
from benchmarks.harness import Contender, Cost, Endpoint, Table, Work
from benchmarks.reach_table import AIOHTTP, OURS, PEER_GOALS, PEERS, lines
from benchmarks.record import Row, load, report, row


def found(folder: Path, claim: str) -> str:
    return next(line for line in reach.lines(folder) if line.startswith(claim))


def test_each_claim_is_held_against_its_bound(tmp_path: Path) -> None:
    rows: dict[str, Row] = {
        "httpx": row([100.0]),
        "agent_actors": row([36.0]),
        "aiohttp + uvloop": row([30.0]),
    }
    report("reach_paced", "Paced", "µs", rows, folder=tmp_path)
    ours: dict[str, Row] = {"agent_actors": row([1.0], turns_per_second=1199.0)}
    report("reach_turns_100", "Turns", "ms", ours, folder=tmp_path)
    paced = "a delta, 100 streams of 50 per second, relative to"
    assert found(tmp_path, f"{paced} httpx").split()[-4:] == ["0.36", "≤", "0.3", "MISSED"]
    assert found(tmp_path, f"{paced} aiohttp").split()[-4:] == ["1.2", "≤", "1.6", "met"]
    words = found(tmp_path, "turns of 50").split()
    assert words[-4:] == ["1.2e+03", "≥", "1200", "MISSED"]


def test_missing_measurements_are_reported(tmp_path: Path) -> None:
    assert {line.split()[-2:] == ["not", "measured"] for line in reach.lines(tmp_path)} == {True}


def test_the_claims_name_contenders_that_there_are() -> None:
    peers = {one.name for one in peers_bench.AGENTS}
    assert set(reach.SHIPPED) <= peers
    assert peers_bench.SDK.name == reach.OPENAI
    floors = {one.name for one in bench_delta_paced.CONTENDERS}
    assert {"httpx", OURS, AIOHTTP, reach.ENGINE} <= floors
    assert set(PEERS) <= peers
    races = {f"peers_{race.claim}" for race in peers_bench.RACES}
    assert {goal.claim for goal in PEER_GOALS} <= races
    assert len(bench_delta_many.SHAPES) == 2


def test_table_shows_ratios_misses_and_hung_runs(tmp_path: Path) -> None:
    rows: dict[str, Row] = {
        "httpx": row([2.0], load=0.2),
        "agent_actors": row([1.0], turns_per_second=950.0, load=0.4),
        "aiohttp + uvloop": row([1.0]),
        "trio socket": row([0.5]),
    }
    report("reach_turns_1", "A turn", "ms", rows, folder=tmp_path)
    peers: dict[str, Row] = {
        "agent_actors": row([1.0]),
        "agno": row([30.0], hung=2),
        "langgraph": row([10.0]),
    }
    report("peers_turns_100", "Turns", "ms", peers, folder=tmp_path)
    shown = {line.split("  ")[0]: line.split() for line in lines(tmp_path)}
    assert shown["a turn of 50 deltas"][5:] == (
        [
            "1",
            "ms",
            "0.50",
            "0.42",
            "0.35",
            "1.00",
            "1.7",
            "2.00",
            "0.40",
            "MISSED",
            "950",
            "turns/s",
        ]
    )
    assert shown["turns, concurrency 100: agno"][-5:] == ["30.00", "25", "40", "2", "hung"]
    assert shown["turns, concurrency 100: langgraph"][-4:] == ["10.00", "25", "40", "MISSED"]
    assert shown["8 tools"][-2:] == ["not", "measured"]


def test_start_of_runs_is_subtracted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A contender spends a millisecond to start each turn and a microsecond for each delta."""

    @contextmanager
    def no_endpoint() -> Generator[Endpoint]:
        yield Endpoint("http://nowhere")

    def compete(contenders: Sequence[Contender], work: Work, *_: object, rounds: int) -> Table:
        assert rounds == 1
        seconds = work.turns * (1e-3 + work.deltas * 1e-6)
        cost = Cost(seconds, 2 * seconds, work.turns * work.deltas, load=0.1)
        return Table(work, {one.name: [cost] for one in contenders})

    monkeypatch.setattr(reach_table, "RESULTS", tmp_path)
    monkeypatch.setattr(reach_table, "endpoint", no_endpoint)
    monkeypatch.setattr(reach_table, "compete", compete)
    reach_table.main(["--quick"])
    folder = tmp_path / "quick"
    for goal in reach_table.GOALS:
        assert load(goal.claim, folder) is not None
        if goal.started:
            result = load(goal.started, folder)
            assert result is not None
            assert result.value(OURS) == pytest.approx(1.0)
    shown = capsys.readouterr().out
    assert "agent_actors, batches()" in shown
    assert shown.count("without starting runs (µs)") == 2
