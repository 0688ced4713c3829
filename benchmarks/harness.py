"""What the benchmarks share: an endpoint in its own process, alternating rounds, ratios, JSON.

Machines are noisy and shared, so nothing is judged by absolute times: contenders take turns within
each round, and what counts is the median over the rounds of the ratio to the first contender.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs
import trio

RESULTS: Final = Path(__file__).parent / "results"
ROUNDS: Final = 5


@attrs.frozen
class Cost:
    """What one contender spent in one round, in seconds."""

    cpu: float
    wall: float


@contextmanager
def endpoint(*, deltas: int, every: float, tools: int = 0) -> Generator[str]:
    """A scripted endpoint in a process of its own; gives its base URL."""
    command = [sys.executable, "-m", "agent_actors.testing"]
    command += ["--deltas", str(deltas), "--every", str(every), "--tools", str(tools)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


def measure(contender: Callable[[], Awaitable[None]]) -> Cost:
    """Run it once, in a `trio.run` of its own."""
    wall, cpu = time.perf_counter(), time.process_time()
    trio.run(contender)
    return Cost(time.process_time() - cpu, time.perf_counter() - wall)


def compare(
    claim: str,
    contenders: Mapping[str, Callable[[], Awaitable[None]]],
    *,
    per: int,
    unit: str,
    rounds: int = ROUNDS,
) -> None:
    """Let the contenders take turns; print and write what they cost, and their ratios.

    Args:
        claim: The name of the result's file.
        contenders: By name; the first is what the others are compared with.
        per: By how many units of work a round's cost is divided.
        unit: What such a unit is called.
        rounds: How often each takes its turn, after one that does not count.
    """
    costs: dict[str, list[Cost]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, contender in contenders.items():
            cost = measure(contender)
            if number:
                costs[name].append(cost)
    base = next(iter(contenders))
    rows: dict[str, dict[str, float]] = {}
    for name, spent in costs.items():
        ratios = [one.cpu / first.cpu for one, first in zip(spent, costs[base], strict=True)]
        rows[name] = {
            f"cpu_us_per_{unit}": statistics.median(one.cpu for one in spent) / per * 1e6,
            "wall_s": statistics.median(one.wall for one in spent),
            "cpu_ratio": statistics.median(ratios),
        }
    _report(claim, base, unit, rows)


def _report(claim: str, base: str, unit: str, rows: Mapping[str, Mapping[str, float]]) -> None:
    for name, row in rows.items():
        sys.stdout.write(
            f"{name:40} {row[f'cpu_us_per_{unit}']:9.1f} us CPU per {unit}"
            f"   {row['cpu_ratio']:.2f} of {base}\n"
        )
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps({"claim": claim, "base": base, "rows": rows}, indent=2)
    (RESULTS / f"{claim}.json").write_text(text + "\n", encoding="utf-8")
