"""Compare the results with the goals of this project: `python -m benchmarks.reach`.

The program prints each goal with its figure and its bound. The comparison is not a test, because
machines are noisy: a missed bound is a task, not a defect.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import attrs

from benchmarks.reach_table import AIOHTTP, GOALS, HTTPX, OURS, PEER_GOALS, PEERS
from benchmarks.record import RESULTS, load

ENGINE: Final = "httpx API on our engine"
SHIPPED: Final = (*PEERS, "open-agent-sdk, as shipped")
OPENAI: Final = "openai SDK (not an agent)"


@attrs.frozen
class Reach:
    """A goal: a figure and the bound that it should meet.

    Attributes:
        claim: The text of the goal.
        figure: Reads the figure from the results in a folder; None if the figure was not measured.
        bound: The maximum or minimum.
        most: True if the bound is a maximum.
    """

    claim: str
    figure: Callable[[Path], float | None]
    bound: float
    most: bool = True

    def met(self, figure: float) -> bool:
        """Return whether a figure meets the bound."""
        return figure <= self.bound if self.most else figure >= self.bound


def _ratio(
    claim: str, name: str, base: str, measure: str = "rounds"
) -> Callable[[Path], float | None]:
    def figure(folder: Path) -> float | None:
        result = load(claim, folder)
        return None if result is None else result.ratio(name, base, measure)

    return figure


def _value(claim: str, name: str, figure: str = "value") -> Callable[[Path], float | None]:
    def found(folder: Path) -> float | None:
        result = load(claim, folder)
        return None if result is None else result.value(name, figure)

    return found


def _rows() -> Iterator[Reach]:
    for goal in GOALS:
        ratio = partial(_ratio, goal.claim, OURS)
        yield Reach(f"{goal.title}, relative to httpx", ratio(HTTPX), goal.of_httpx)
        yield Reach(f"{goal.title}, relative to aiohttp", ratio(AIOHTTP), goal.of_aiohttp)
    for peer_goal in PEER_GOALS:
        for peer in PEERS:
            figure = _ratio(peer_goal.claim, peer, OURS)
            yield Reach(f"CPU of {peer}: {peer_goal.title}", figure, peer_goal.least, False)
    engine = _ratio("delta_paced_100", ENGINE, HTTPX)
    yield Reach("a paced delta through the httpx API, relative to httpx", engine, 0.5)
    yield Reach("p99 of latency, relative to httpx", _ratio("latency_p99", OURS, "httpx"), 1)
    opened = _ratio("open_gc", "after tune_gc()", "default collector")
    yield Reach("opening a stream after tune_gc(), relative to before", opened, 0.7)
    twenty = _value("memory", "a live session of 20 messages")
    yield Reach("a live session of 20 messages, kB", twenty, 12)
    peers = "peers_delta_coalesced"
    yield Reach(
        "a coalesced delta of the openai SDK, relative to ours",
        _ratio(peers, OPENAI, OURS),
        40,
        False,
    )
    turns = "turns of 50 deltas per second, 100 sessions"
    yield Reach(turns, _value("reach_turns_100", OURS, "turns_per_second"), 1200, False)
    for peer in SHIPPED:
        # Wall time per turn while the core is always busy.
        figure = _ratio("peers_turns_100", peer, OURS, "wall")
        yield Reach(f"our turns per second, relative to {peer}", figure, 20, False)
    figure = _ratio("delta_many", "5,000 streams, 1 per second", "100 streams, 50 per second")
    yield Reach("a delta of 5,000 slow streams, relative to 100 fast", figure, 1.3)
    stream, session = (
        "an open stream, with its reader's task",
        "an idle session, beyond its records",
    )
    yield Reach("an open stream, kB", _value("memory", stream), 25)
    yield Reach("an idle session without its records, kB", _value("memory", session), 2)
    yield Reach("creating a session, µs", _value("making", "a session"), 5)
    yield Reach("creating an options object, µs", _value("making", "an options object"), 50)
    yield Reach("a long history, µs per byte sent", _value("history_byte", OURS), 0.005)
    appended = _value("stores_append", "SqliteStore")
    yield Reach("records per second into SqliteStore, 100 sessions", appended, 20_000, False)
    figure = _ratio("stores_turns_100", "SqliteStore", "MemoryStore")
    yield Reach("a turn on SqliteStore, relative to memory", figure, 1.15)
    yield Reach("resuming 10,000 records, ms", _value("stores_resume", "SqliteStore"), 50)
    yield Reach("opening 100,000 sessions, ms", _value("stores_many", "opening"), 100)
    yield Reach("a page of the listing, ms", _value("stores_many", "a page in the middle"), 10)
    figure = _ratio("demo", "1000 sessions", "100 sessions")
    yield Reach("a demo session of 1,000, relative to 100", figure, 1.3)


REACHES: Final = tuple(_rows())


def lines(folder: Path = RESULTS) -> Iterator[str]:
    """Yield each goal as a line."""
    for reach in REACHES:
        figure = reach.figure(folder)
        sign = "≤" if reach.most else "≥"
        shown, verdict = "-", "not measured"
        if figure is not None:
            shown, verdict = f"{figure:.3g}", "met" if reach.met(figure) else "MISSED"
        yield f"{reach.claim:64} {shown:>8} {sign} {reach.bound:<6g} {verdict}"


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines()) + "\n")
