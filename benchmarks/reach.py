"""Holds the results against what this project sets out to reach: `python -m benchmarks.reach`.

Prints each claim with its figure and its bound. It is a look at the record, no test: machines are
noisy, and a bound that is missed is a task, not a defect.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import attrs

from benchmarks.record import RESULTS, load

OURS: Final = "agent_actors"
AIOHTTP: Final = "aiohttp + uvloop"
ENGINE: Final = "httpx API on our engine"
AGENTS: Final = ("openai-agents", "pydantic-ai", "agno", "langgraph")
SHIPPED: Final = (*AGENTS, "open-agent-sdk, as shipped")
OPENAI: Final = "openai SDK, which is no agent"


@attrs.frozen
class Reach:
    """A claim: a figure, and the bound that it is to keep.

    Attributes:
        claim: What is claimed.
        figure: Takes it from the results in a folder; None if it was not measured.
        bound: The most that it may be, or the least.
        most: Which of the two.
    """

    claim: str
    figure: Callable[[Path], float | None]
    bound: float
    most: bool = True

    def met(self, figure: float) -> bool:
        """Whether a figure keeps the bound."""
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
    paced, burst = "delta_paced_100", "delta_coalesced"
    yield Reach("a paced delta, of bare httpx", _ratio(paced, OURS, "httpx"), 0.35)
    yield Reach("a paced delta, of aiohttp + uvloop", _ratio(paced, OURS, AIOHTTP), 1.4)
    yield Reach("the same through the httpx API, of httpx", _ratio(paced, ENGINE, "httpx"), 0.5)
    yield Reach("a coalesced delta, of bare httpx", _ratio(burst, OURS, "httpx"), 0.28)
    peers = "peers_delta_coalesced"
    yield Reach("the openai SDK's coalesced delta, of ours", _ratio(peers, OPENAI, OURS), 40, False)
    turns = "turns of 50 deltas a second, 100 sessions"
    yield Reach(turns, _value("turns_100", OURS, "turns_per_second"), 800, False)
    for peer in SHIPPED:
        # The wall that a turn takes, when the core is busy all the time.
        figure = _ratio("peers_turns_100", peer, OURS, "wall")
        yield Reach(f"our turns a second, of {peer}", figure, 20, False)
    for peer in AGENTS:
        for at_once in (1, 20):
            figure = _ratio(f"peers_tools_{at_once}", peer, OURS)
            yield Reach(f"a loop of 8 tools, {at_once} at once: {peer}'s CPU", figure, 15, False)
    figure = _ratio("delta_many", "5,000 streams, 1 a second", "100 streams, 50 a second")
    yield Reach("a delta of 5,000 slow streams, of one of 100 fast", figure, 1.3)
    stream, session = (
        "an open stream, with its reader's task",
        "an idle session, beyond its records",
    )
    yield Reach("an open stream, kB", _value("memory", stream), 25)
    yield Reach("an idle session beyond its records, kB", _value("memory", session), 2)
    yield Reach("making a session, µs", _value("making", "a session"), 5)
    yield Reach("making an options object, µs", _value("making", "an options object"), 50)
    yield Reach("a long history, µs a byte sent", _value("history_byte", OURS), 0.005)
    appended = _value("stores_append", "SqliteStore")
    yield Reach("records a second into SqliteStore, 100 sessions", appended, 20_000, False)
    figure = _ratio("stores_turns_100", "SqliteStore", "MemoryStore")
    yield Reach("a turn on SqliteStore, of one in memory, 100 at once", figure, 1.15)
    yield Reach("resuming 10,000 records, ms", _value("stores_resume", "SqliteStore"), 50)
    yield Reach("opening 100,000 sessions, ms", _value("stores_many", "to open it"), 100)
    yield Reach("a page of their list, ms", _value("stores_many", "a page in the middle"), 10)
    figure = _ratio("demo", "1000 sessions", "100 sessions")
    yield Reach("a session of the demo with 1,000, of one with 100", figure, 1.3)


REACHES: Final = tuple(_rows())


def lines(folder: Path = RESULTS) -> Iterator[str]:
    """Each claim as a line."""
    for reach in REACHES:
        figure = reach.figure(folder)
        sign = "≤" if reach.most else "≥"
        told, verdict = "-", "not measured"
        if figure is not None:
            told, verdict = f"{figure:.3g}", "met" if reach.met(figure) else "MISSED"
        yield f"{reach.claim:56} {told:>8} {sign} {reach.bound:<6g} {verdict}"


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines()) + "\n")
