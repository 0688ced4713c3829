"""Measure the goals of the runtime's CPU, and print one table: `python -m benchmarks.reach_table`.

Each row is one kind of work. The runtime, bare httpx, aiohttp on uvloop and a plain socket do this
work in turn within each round. Where a run start matters, the row is repeated without the start:
the same streams with a few deltas are measured in the same rounds and subtracted. The command takes
about five minutes on an idle machine with two cores. With `--peers`, it then measures the peers of
`benchmarks.peers_bench`, which takes half an hour; turns that hang are counted. `--quick` does one
round with less work, to check that everything runs.

The endpoint must not be the limit: `load` is the CPU use of its process, from 0 to 1, and a row
whose load is close to 1 shows how fast the endpoint is.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

import attrs

from benchmarks import record
from benchmarks.harness import Contender, Table, Work, compete, endpoint, excluding_start, own
from benchmarks.record import RESULTS, Result, Row, load, report

OURS: Final = "agent_actors"
HTTPX: Final = "httpx"
AIOHTTP: Final = "aiohttp + uvloop"
SOCKET: Final = "trio socket"
CONTENDERS: Final = (
    own(HTTPX, "httpx"),
    own(OURS, "runtime"),
    own(AIOHTTP, "aiohttp"),
    own(SOCKET, "socket"),
)
# Other ways to use the runtime for the same work.
BATCHES: Final = own("agent_actors, batches()", "runtime_batches")
UNREAD: Final = own("agent_actors, run()", "runtime_run")

_FEW: Final = 2
"""The number of deltas per stream that are measured to subtract the start of the runs."""


@attrs.frozen
class Goal:
    """One row of the table: its work, and the bounds for its ratios.

    Attributes:
        claim: The name of its result.
        title: The description of the work.
        answer: The response of the endpoint; `{}` is replaced by the number of deltas.
        turns: The number of turns.
        at_once: The number of concurrent turns.
        deltas: The number of deltas of a turn.
        per: The unit that the CPU is divided by.
        of_httpx: The largest ratio to bare httpx.
        of_aiohttp: The largest ratio to aiohttp on uvloop.
        stretch: The ratio to bare httpx that would be excellent.
        more: Further contenders.
    """

    claim: str
    title: str
    answer: str
    turns: int
    at_once: int
    deltas: int
    per: Literal["turn", "delta"]
    of_httpx: float
    of_aiohttp: float
    stretch: float
    more: tuple[Contender, ...] = ()

    @property
    def started(self) -> str:
        """The name of the result without the start of the runs; empty if it is not measured."""
        return f"{self.claim}_started" if self.per == "delta" else ""


GOALS: Final = (
    Goal(
        "reach_paced",
        "a delta, 100 streams of 50 per second",
        "paced/50/{}",
        100,
        100,
        200,
        "delta",
        0.30,
        1.6,
        0.22,
    ),
    Goal(
        "reach_coalesced",
        "a delta, 50 events per write, stream()",
        "burst/{}/50",
        20,
        20,
        2000,
        "delta",
        0.15,
        0.8,
        0.11,
        (BATCHES, UNREAD),
    ),
    Goal(
        "reach_turns_1", "a turn of 50 deltas", "burst/{}/50", 400, 1, 50, "turn", 0.42, 1.7, 0.35
    ),
    Goal(
        "reach_turns_100",
        "a turn of 50 deltas, concurrency 100",
        "burst/{}/50",
        1500,
        100,
        50,
        "turn",
        0.25,
        1.5,
        0.20,
    ),
    Goal(
        "reach_tools",
        "8 tools and their second turn",
        "tools/8/{}",
        150,
        1,
        50,
        "turn",
        0.65,
        2.2,
        0.45,
    ),
)


@attrs.frozen
class PeerGoal:
    """The smallest multiple of our CPU that each peer should need for the same work."""

    claim: str
    title: str
    least: float
    stretch: float


PEERS: Final = ("openai-agents", "agno", "pydantic-ai", "langgraph")
PEER_GOALS: Final = (
    PeerGoal("peers_turns_100", "turns, concurrency 100", 25, 40),
    PeerGoal("peers_delta_coalesced", "a delta, 50 events per write", 60, 100),
    PeerGoal("peers_tools_1", "8 tools", 20, 30),
)


def main(arguments: Sequence[str]) -> None:
    """Measure, write the results, and print the table."""
    quick = "--quick" in arguments
    folder = RESULTS / "quick" if quick and RESULTS.name != "quick" else RESULTS
    for goal in GOALS:
        _measure(goal, folder, quick=quick)
    if "--peers" in arguments:
        from benchmarks import peers_bench  # noqa: PLC0415 - its environments are optional

        peers_bench.measure(tuple(goal.claim.removeprefix("peers_") for goal in PEER_GOALS))
    sys.stdout.write("\n" + "\n".join(lines(folder)) + "\n")


def _measure(goal: Goal, folder: Path, *, quick: bool) -> None:
    rounds = 1 if quick else record.ROUNDS
    part = 5 if quick else 1
    contenders = (*CONTENDERS, *goal.more)
    turns = goal.turns if goal.per == "delta" else goal.turns // part
    deltas = goal.deltas // part if goal.per == "delta" else goal.deltas
    with endpoint() as served:

        def work(count: int) -> Work:
            answer = goal.answer.format(count)
            return served.work(answer, turns=turns, at_once=goal.at_once, deltas=count)

        table = Table(work(deltas), {one.name: [] for one in contenders})
        short = Table(work(_FEW), {one.name: [] for one in contenders})
        for _ in range(rounds):
            _extend(table, compete(contenders, table.work, served, rounds=1))
            if goal.started:
                _extend(short, compete(contenders, short.work, served, rounds=1))
    unit = "ms" if goal.per == "turn" else "µs"
    rows: dict[str, Row] = table.rows(HTTPX, per=goal.per)
    report(goal.claim, f"CPU of {goal.title}", unit, rows, folder=folder)
    if goal.started:
        title = f"CPU of {goal.title}, without starting runs"
        rows = excluding_start(table, short, HTTPX)
        report(goal.started, title, unit, rows, folder=folder)


def _extend(table: Table, added: Table) -> None:
    for name, costs in added.costs.items():
        table.costs[name] += costs


def lines(folder: Path = RESULTS) -> Iterator[str]:
    """Yield the lines of the table, from the results in a folder."""
    yield (
        f"{'CPU of the complete runtime':52}{'':>12}{'of httpx':>10}{'goal':>7}{'stretch':>9}"
        f"{'of aiohttp':>12}{'goal':>6}{'of socket':>11}{'load':>6}"
    )
    for goal in GOALS:
        for claim, words in ((goal.claim, goal.title), (goal.started, "  without starting runs")):
            result = load(claim, folder) if claim else None
            if result is not None:
                yield _floor_line(goal, words, result)
                yield from _other_lines(goal, result)
    yield ""
    yield f"{'CPU of peers, as a multiple of ours':64}{'ratio':>10}{'goal':>7}{'stretch':>9}"
    for peer_goal in PEER_GOALS:
        result = load(peer_goal.claim, folder)
        if result is None:
            yield f"{peer_goal.title:52}{'not measured':>12}"
            continue
        for peer in PEERS:
            ratio = result.ratio(peer, OURS)
            hung = result.value(peer, "hung") or 0
            note = f"  {hung:.0f} hung" if hung else ""
            yield (
                f"{f'{peer_goal.title}: {peer}':64}{_shown(ratio):>10}{peer_goal.least:>7g}"
                f"{peer_goal.stretch:>9g}{note}{_missed(ratio, peer_goal.least, most=False)}"
            )


def _floor_line(goal: Goal, words: str, result: Result) -> str:
    value = result.value(OURS)
    figure = "-" if value is None else f"{value:.3g} {result.unit}"
    of_httpx, of_aiohttp = result.ratio(OURS, HTTPX), result.ratio(OURS, AIOHTTP)
    missed = _missed(of_httpx, goal.of_httpx) or _missed(of_aiohttp, goal.of_aiohttp)
    per_second = result.value(OURS, "turns_per_second")
    speed = f"  {per_second:,.0f} turns/s" if per_second and goal.per == "turn" else ""
    return (
        f"{words:52}{figure:>12}{_shown(of_httpx):>10}{goal.of_httpx:>7g}{goal.stretch:>9g}"
        f"{_shown(of_aiohttp):>12}{goal.of_aiohttp:>6g}{_shown(result.ratio(OURS, SOCKET)):>11}"
        f"{_shown(_highest_load(result)):>6}{missed}{speed}"
    )


def _other_lines(goal: Goal, result: Result) -> Iterator[str]:
    for other in goal.more:
        value, ratio = result.value(other.name), result.ratio(other.name, HTTPX)
        if value is not None:
            yield f"  {other.name:50}{f'{value:.3g} {result.unit}':>12}{_shown(ratio):>10}"


def _highest_load(result: Result) -> float | None:
    loads = [found for name in result.rows if (found := result.value(name, "load")) is not None]
    return max(loads, default=None)


def _missed(ratio: float | None, bound: float, *, most: bool = True) -> str:
    if ratio is None or (ratio <= bound if most else ratio >= bound):
        return ""
    return "  MISSED"


def _shown(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


if __name__ == "__main__":
    main(sys.argv[1:])
