"""What the benchmarks share: the endpoint's process, contenders that take turns, ratios, results.

Machines are noisy and shared, so nothing is judged by absolute times. Contenders take turns within
each round, each in a process of its own on the first core, and what counts is the median over the
rounds of the ratio to one of them. A contender that has not read everything is an error.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Final, Literal

import attrs

ROOT: Final = Path(__file__).parent.parent
RESULTS: Final = Path(__file__).parent / "results"
QUICK: Final = bool(os.environ.get("QUICK"))
ROUNDS: Final = 1 if QUICK else int(os.environ.get("ROUNDS", "5"))

_LIBRARIES: Final = ("trio", "httpx", "httptools", "msgspec", "attrs", "aiohttp", "uvloop")
_PATIENCE: Final = 300.0
"""Seconds that one contender may take for one round: some peers hang now and then."""

Measure = Literal["cpu", "wall"]


@attrs.frozen
class Cost:
    """What one contender spent in one round.

    Attributes:
        cpu: Seconds of CPU, of user and system.
        wall: Seconds that passed.
        count: What it has read, to be checked.
        extra: Whatever else it measured.
    """

    cpu: float
    wall: float
    count: int
    extra: Mapping[str, float] = attrs.field(factory=dict[str, float])


@attrs.frozen
class Contender:
    """Who takes part.

    Attributes:
        name: What the table calls it.
        command: What runs it; the work is appended, as JSON.
    """

    name: str
    command: tuple[str, ...]


def own(name: str, function: str) -> Contender:
    """A contender of `benchmarks.contenders`."""
    return Contender(name, (sys.executable, "-m", "benchmarks.contenders", function))


class Endpoint:
    """The lean endpoint, in a process of its own."""

    def __init__(self, url: str) -> None:
        self.url: str = url

    def cpu(self) -> float:
        """Seconds of CPU that it has used."""
        with urllib.request.urlopen(f"{self.url}/stats") as answer:
            return float(json.load(answer)["cpu"])


@contextmanager
def endpoint() -> Generator[Endpoint]:
    """Start the endpoint, and end it."""
    command = [sys.executable, "-m", "benchmarks.endpoint"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Endpoint(process.stdout.readline().strip())
        finally:
            process.stdin.close()


def run(contender: Contender, work: Mapping[str, object]) -> Cost | None:
    """Let a contender do the work once; None if it hung or failed, which is said."""
    try:
        done = subprocess.run(
            [*contender.command, json.dumps(work)],
            stdout=subprocess.PIPE,
            text=True,
            timeout=_PATIENCE,
            check=True,
            cwd=ROOT,
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        sys.stdout.write(f"  {contender.name}: {error}\n")
        return None
    told = json.loads(done.stdout.splitlines()[-1])
    cost = Cost(**told)
    wanted = work.get("expect")
    if wanted is not None and cost.count != wanted:
        sys.stdout.write(f"  {contender.name}: read {cost.count} of {wanted}\n")
        return None
    return cost


@attrs.define(eq=False)
class Table:
    """The costs of contenders at one work, round by round."""

    costs: dict[str, list[Cost | None]] = attrs.field(factory=dict[str, list[Cost | None]])
    load: list[float] = attrs.field(factory=list[float])

    def value(self, name: str, measure: Measure, per: float) -> float:
        """The median of a contender's costs."""
        spent = [getattr(cost, measure) for cost in self.costs[name] if cost is not None]
        return statistics.median(spent) / per if spent else float("nan")

    def ratios(self, name: str, base: str, measure: Measure = "cpu") -> list[float]:
        """A contender's cost as a part of another's, round by round."""
        pairs = zip(self.costs[name], self.costs[base], strict=True)
        return [
            getattr(one, measure) / getattr(other, measure)
            for one, other in pairs
            if one is not None and other is not None and getattr(other, measure)
        ]

    def row(
        self, name: str, base: str, *, measure: Measure = "cpu", per: float = 1, scale: float = 1
    ) -> dict[str, float | list[float] | int]:
        """What is written of a contender: its value, its ratio, and how far the rounds differ."""
        ratios = self.ratios(name, base, measure)
        return {
            "value": self.value(name, measure, per) * scale,
            "ratio": statistics.median(ratios) if ratios else float("nan"),
            "ratios": [round(ratio, 3) for ratio in ratios],
            "failed": sum(cost is None for cost in self.costs[name]),
        }


def compete(
    contenders: Sequence[Contender],
    work: Mapping[str, object],
    served: Endpoint,
    *,
    rounds: int = ROUNDS,
) -> Table:
    """Let the contenders take turns at one work, after a round that does not count."""
    table = Table({contender.name: [] for contender in contenders})
    for number in range(rounds if QUICK else rounds + 1):
        for contender in contenders:
            before, began = served.cpu(), time.perf_counter()
            cost = run(contender, work)
            load = (served.cpu() - before) / (time.perf_counter() - began)
            if QUICK or number:
                table.costs[contender.name].append(cost)
                table.load.append(load)
    return table


def report(
    claim: str, title: str, unit: str, rows: Mapping[str, Mapping[str, object]], **more: object
) -> None:
    """Print the rows of a claim, and write them with what they were measured on."""
    sys.stdout.write(f"\n{title} ({unit})\n")
    for name, row in rows.items():
        sys.stdout.write(f"  {name:48} {_worded(row)}\n")
    result = {
        "claim": claim,
        "title": title,
        "unit": unit,
        "quick": QUICK,
        "rounds": ROUNDS,
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "versions": {name: version(name) for name in _LIBRARIES if _is_there(name)},
        **more,
        "rows": rows,
    }
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(result, indent=1, default=float)
    (RESULTS / f"{claim}.json").write_text(text + "\n", encoding="utf-8")


def _worded(row: Mapping[str, object]) -> str:
    words = [f"{row['value']:12.3f}"]
    if isinstance(row.get("ratio"), float):
        words.append(f"ratio {row['ratio']:.3f}")
    if row.get("failed"):
        words.append(f"failed {row['failed']}")
    return "   ".join(words)


def _is_there(name: str) -> bool:
    try:
        version(name)
    except ImportError:
        return False
    return True
