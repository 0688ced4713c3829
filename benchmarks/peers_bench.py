"""The runtime compared with other agent SDKs: turns, tool loops, and CPU per delta.

Run `python -m benchmarks.peers_bench` after `python -m benchmarks.peers_setup`. A turn that hangs
is aborted and counted as hung. A peer that does not read everything has failed in that round.
"""

from collections.abc import Sequence
from typing import Final, Literal

import attrs

from benchmarks import record
from benchmarks.harness import compete, endpoint, own
from benchmarks.peers_setup import contender, requirements
from benchmarks.record import QUICK, report

OURS: Final = own("agent_actors", "runtime")
SDK: Final = contender("openai SDK (not an agent)", "openai")
AGENTS: Final = (
    contender("openai-agents", "openai_agents"),
    contender("pydantic-ai", "pydantic_ai"),
    contender("agno", "agno"),
    contender("langgraph", "langgraph"),
    contender("open-agent-sdk, as shipped", "open_agent_sdk"),
    contender("open-agent-sdk, sharing one client", "open_agent_sdk", "SHARED_CLIENT=1"),
)

ROUNDS: Final = min(record.ROUNDS, 3)
PART: Final = 5 if QUICK else 1
"""In a quick run, the amount of work is divided by this number."""


@attrs.frozen
class Race:
    """A comparison: its title, and the work that all contenders do."""

    claim: str
    title: str
    answer: str
    turns: int
    at_once: int
    deltas: int
    per: Literal["turn", "delta"]


TURN: Final = "CPU per turn of 50 deltas"
DELTA: Final = "CPU per delta"
LOOP: Final = "CPU per loop of 8 async tools"
TURNS: Final = 200 // PART
MANY: Final = 1000 // PART
RACES: Final = (
    Race("turns_1", f"{TURN}, concurrency 1", "burst/50/50", TURNS, 1, 50, "turn"),
    Race("turns_100", f"{TURN}, concurrency 100", "burst/50/50", 2 * TURNS, 100, 50, "turn"),
    Race("tools_1", f"{LOOP}, concurrency 1", "tools/8/50", TURNS // 4, 1, 50, "turn"),
    Race("tools_20", f"{LOOP}, concurrency 20", "tools/8/50", TURNS // 2, 20, 50, "turn"),
    Race(
        "delta_paced",
        f"{DELTA}, 20 streams of 50 deltas per second",
        "paced/50/200",
        20,
        20,
        200,
        "delta",
    ),
    Race(
        "delta_coalesced",
        f"{DELTA}, 50 events per write",
        f"burst/{MANY}/50",
        20,
        20,
        MANY,
        "delta",
    ),
)


def main() -> None:
    """Run the benchmark."""
    measure()


def measure(claims: Sequence[str] = ()) -> None:
    """Measure the races with these names; by default all of them."""
    versions = {peer: ", ".join(needed) for peer, needed in requirements().items()}
    for race in RACES:
        if claims and race.claim not in claims:
            continue
        # The plain SDK has no tool loop.
        contenders = (OURS, *AGENTS) if race.answer.startswith("tools/") else (OURS, SDK, *AGENTS)
        with endpoint() as served:
            work = served.work(
                race.answer, turns=race.turns, at_once=race.at_once, deltas=race.deltas
            )
            rows = compete(contenders, work, served, rounds=ROUNDS).rows(OURS.name, per=race.per)
        unit = "ms" if race.per == "turn" else "µs"
        report(f"peers_{race.claim}", race.title, unit, rows, peers=versions)


if __name__ == "__main__":
    main()
