"""What the benchmarks share: the endpoint's process, and contenders that take turns at one work.

Machines are noisy and shared, so nothing is judged by absolute times. Contenders take turns within
each round, each in a process of its own on the first core, and what counts is the median over the
rounds of the ratio to one of them. Each does one turn before its clock starts, so that imports and
what is made once are not counted. A contender that has not read everything has failed.
"""

import json
import statistics
import subprocess
import sys
import urllib.request
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import attrs

from benchmarks.record import ROUNDS, Row, row

ROOT: Final = Path(__file__).parent.parent
_PATIENCE: Final = 300.0
"""Seconds that one contender may take for one round, if its own deadlines do not hold."""


@attrs.frozen
class Work:
    """What a contender is to do, given to it as JSON.

    Attributes:
        url: The endpoint's base URL; its path says what is answered.
        warm: Another, for the one turn that is not counted.
        turns: How many in all.
        at_once: How many of them side by side.
        deltas: How many pieces of text each turn brings.
    """

    url: str
    warm: str
    turns: int
    at_once: int
    deltas: int


@attrs.frozen
class Cost:
    """What one contender spent in one round.

    Attributes:
        cpu: Seconds of CPU, of user and system.
        wall: Seconds that passed.
        count: The pieces of text that it has read.
        hung: Turns that did not end in time, and were given up.
        load: How busy the endpoint was meanwhile, from 0 to 1.
    """

    cpu: float
    wall: float
    count: int
    hung: int = 0
    load: float = 0.0


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

    def stats(self) -> Mapping[str, float]:
        """What it tells of itself: `cpu` in seconds, `received` in bytes."""
        with urllib.request.urlopen(f"{self.url}/stats") as answer:
            found: Mapping[str, float] = json.load(answer)
            return found

    def base_url(self, answer: str) -> str:
        """Where it answers in one of the ways that `benchmarks.endpoint` lists."""
        return f"{self.url}/{answer}/v1"

    def work(self, answer: str, *, turns: int, at_once: int, deltas: int) -> Work:
        """Some work at this endpoint."""
        warm = "tools/1/1" if answer.startswith("tools/") else "burst/1/1"
        return Work(self.base_url(answer), self.base_url(warm), turns, at_once, deltas)


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


def run(
    contender: Contender, work: Work, served: Endpoint, *, patience: float = _PATIENCE
) -> Cost | None:
    """Let a contender do the work once; None if it failed, which is said."""
    before = served.stats()["cpu"]
    try:
        done = subprocess.run(
            [*contender.command, json.dumps(attrs.asdict(work))],
            stdout=subprocess.PIPE,
            text=True,
            timeout=patience,
            check=True,
            cwd=ROOT,
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        sys.stdout.write(f"  {contender.name}: {type(error).__name__}\n")
        return None
    cost = Cost(**json.loads(done.stdout.splitlines()[-1]))
    wanted = (work.turns - cost.hung) * work.deltas
    if cost.count != wanted:
        sys.stdout.write(f"  {contender.name}: read {cost.count} of {wanted}\n")
        return None
    return attrs.evolve(cost, load=(served.stats()["cpu"] - before) / cost.wall)


Measure = Literal["cpu", "wall"]


@attrs.define(eq=False)
class Table:
    """What contenders spent at one work, round by round."""

    work: Work
    costs: dict[str, list[Cost | None]]

    def rounds(self, name: str, measure: Measure = "cpu", *, per: float = 1) -> list[float | None]:
        """One contender's figure in each round; None where it failed."""
        return [None if cost is None else getattr(cost, measure) / per for cost in self.costs[name]]

    def rows(self, base: str, *, per: Literal["turn", "delta"]) -> dict[str, Row]:
        """All contenders beside one of them, in ms of CPU a turn or µs a delta."""
        work = self.work
        count = work.turns / 1e3 if per == "turn" else work.turns * work.deltas / 1e6
        bases = self.rounds(base, per=count)
        rows: dict[str, Row] = {}
        for name, costs in self.costs.items():
            found = [cost for cost in costs if cost is not None]
            seconds = [cost.wall / (work.turns - cost.hung) for cost in found]
            rows[name] = row(
                self.rounds(name, per=count),
                bases,
                wall=[None if cost is None else round(cost.wall, 4) for cost in costs],
                turns_per_second=round(1 / statistics.median(seconds), 1) if seconds else None,
                load=round(statistics.median(cost.load for cost in found), 3) if found else None,
                failed=len(costs) - len(found),
                hung=sum(cost.hung for cost in found),
            )
        return rows


def compete(
    contenders: Sequence[Contender], work: Work, served: Endpoint, *, rounds: int = ROUNDS
) -> Table:
    """Let the contenders take turns at one work."""
    table = Table(work, {contender.name: [] for contender in contenders})
    for _ in range(rounds):
        for contender in contenders:
            table.costs[contender.name].append(run(contender, work, served))
    return table
