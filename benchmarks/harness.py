"""Shared code of the benchmarks: the endpoint process, and contenders that alternate.

Machines are noisy and shared, so absolute times are not compared. Contenders alternate within each
round, each in a separate process on the first core. In each round, the ratio to one contender is
computed; the result is the median of these ratios. Each contender runs one turn before its clock
starts, so that imports and one-time costs are not counted. A contender that has not read everything
has failed.
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
"""Time limit, in seconds, for one contender in one round, in case its own deadlines do not work."""


@attrs.frozen
class Work:
    """The work of a contender, passed to it as JSON.

    Attributes:
        url: The base URL of the endpoint. Its path selects the response.
        warm: The base URL for the one turn that is not counted.
        turns: The number of turns.
        at_once: The number of concurrent turns.
        deltas: The number of deltas in each turn.
    """

    url: str
    warm: str
    turns: int
    at_once: int
    deltas: int


@attrs.frozen
class Cost:
    """The cost of one contender in one round.

    Attributes:
        cpu: CPU seconds, user and system.
        wall: Elapsed seconds.
        count: The number of deltas that the contender has read.
        hung: The number of turns that were aborted at their deadline.
        load: The CPU use of the endpoint during the round, from 0 to 1.
    """

    cpu: float
    wall: float
    count: int
    hung: int = 0
    load: float = 0.0


@attrs.frozen
class Contender:
    """A program that takes part in a comparison.

    Attributes:
        name: Its name in the table.
        command: The command to run; the work is appended as JSON.
    """

    name: str
    command: tuple[str, ...]


def own(name: str, function: str) -> Contender:
    """Return a contender that `benchmarks.contenders` implements."""
    return Contender(name, (sys.executable, "-m", "benchmarks.contenders", function))


class Endpoint:
    """The minimal endpoint in a separate process."""

    def __init__(self, url: str) -> None:
        self.url: str = url

    def stats(self) -> Mapping[str, float]:
        """Return the endpoint's statistics: `cpu` in seconds, `received` in bytes."""
        with urllib.request.urlopen(f"{self.url}/stats") as answer:
            found: Mapping[str, float] = json.load(answer)
            return found

    def base_url(self, answer: str) -> str:
        """Return the base URL for one of the kinds of response that `benchmarks.endpoint` lists."""
        return f"{self.url}/{answer}/v1"

    def work(self, answer: str, *, turns: int, at_once: int, deltas: int) -> Work:
        """Return work at this endpoint."""
        warm = "tools/1/1" if answer.startswith("tools/") else "burst/1/1"
        return Work(self.base_url(answer), self.base_url(warm), turns, at_once, deltas)


@contextmanager
def endpoint() -> Generator[Endpoint]:
    """Run the endpoint for the duration of the block."""
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
    """Run a contender once. Print a message and return None if it fails."""
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
    """The costs of all contenders for the same work, by round."""

    work: Work
    costs: dict[str, list[Cost | None]]

    def rounds(self, name: str, measure: Measure = "cpu", *, per: float = 1) -> list[float | None]:
        """Return one contender's figure in each round; None if it failed."""
        return [None if cost is None else getattr(cost, measure) / per for cost in self.costs[name]]

    def rows(self, base: str, *, per: Literal["turn", "delta"]) -> dict[str, Row]:
        """Return the rows of all contenders, in ms of CPU per turn or µs of CPU per delta."""
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


def excluding_start(table: Table, short: Table, base: str) -> dict[str, Row]:
    """Return the CPU per delta, in µs, without the cost of starting and ending the turns.

    Args:
        table: The costs of the work.
        short: The costs of the same turns with fewer deltas.
        base: The name of the contender to compare with.
    """
    work, few = table.work, short.work
    deltas = work.turns * (work.deltas - few.deltas) / 1e6
    figures = {
        name: [
            None if whole is None or start is None else (whole.cpu - start.cpu) / deltas
            for whole, start in zip(table.costs[name], short.costs[name], strict=True)
        ]
        for name in table.costs
    }
    return {name: row(rounds, figures[base]) for name, rounds in figures.items()}


def compete(
    contenders: Sequence[Contender], work: Work, served: Endpoint, *, rounds: int = ROUNDS
) -> Table:
    """Run the contenders alternately on the same work."""
    table = Table(work, {contender.name: [] for contender in contenders})
    for _ in range(rounds):
        for contender in contenders:
            table.costs[contender.name].append(run(contender, work, served))
    return table
