from pathlib import Path

from benchmarks import bench_delta_many, bench_delta_paced, peers_bench, reach
from benchmarks.record import Row, report, row


def found(folder: Path, claim: str) -> str:
    return next(line for line in reach.lines(folder) if line.startswith(claim))


def test_each_claim_is_held_against_its_bound(tmp_path: Path) -> None:
    rows: dict[str, Row] = {
        "httpx": row([100.0]),
        "agent_actors": row([36.0]),
        "aiohttp + uvloop": row([30.0]),
    }
    report("delta_paced_100", "Paced", "µs", rows, folder=tmp_path)
    ours: dict[str, Row] = {"agent_actors": row([1.0], turns_per_second=799.0)}
    report("turns_100", "Turns", "ms", ours, folder=tmp_path)
    assert found(tmp_path, "a paced delta, relative to bare httpx").split()[-4:] == [
        *("0.36", "≤", "0.35", "MISSED")
    ]
    assert found(tmp_path, "a paced delta, relative to aiohttp").split()[-4:] == [
        "1.2",
        "≤",
        "1.4",
        "met",
    ]
    assert found(tmp_path, "turns of 50").split()[-4:] == ["799", "≥", "800", "MISSED"]


def test_missing_measurements_are_reported(tmp_path: Path) -> None:
    assert {line.split()[-2:] == ["not", "measured"] for line in reach.lines(tmp_path)} == {True}


def test_the_claims_name_contenders_that_there_are() -> None:
    peers = {one.name for one in peers_bench.AGENTS}
    assert set(reach.SHIPPED) <= peers
    assert peers_bench.SDK.name == reach.OPENAI
    floors = {one.name for one in bench_delta_paced.CONTENDERS}
    assert {"httpx", reach.OURS, reach.AIOHTTP, reach.ENGINE} <= floors
    assert len(bench_delta_many.SHAPES) == 2
