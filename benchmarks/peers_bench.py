"""The runtime beside its peers: turns, loops of tools, and CPU per delta.

`python -m benchmarks.peers_bench`, after `python -m benchmarks.peers_setup`. A peer that hangs or
does not read everything in a round is counted as failed in that round.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks import harness
from benchmarks.harness import QUICK, Contender, compete, endpoint, own, report
from benchmarks.peers_setup import contender

OURS: Final = own("agent_actors", "runtime")
SDK: Final = contender("openai SDK, which is no agent", "openai")
AGENTS: Final = (
    contender("openai-agents", "openai_agents"),
    contender("pydantic-ai", "pydantic_ai"),
    contender("agno", "agno"),
    contender("langgraph", "langgraph"),
)
OPEN_AGENT: Final = (
    contender("open-agent-sdk, as shipped", "open_agent_sdk"),
    contender("open-agent-sdk, sharing one client", "open_agent_sdk", "SHARED_CLIENT=1"),
)

ROUNDS: Final = min(harness.ROUNDS, 3)
PART: Final = 5 if QUICK else 1


def main() -> None:
    """Measure."""
    everyone = (OURS, SDK, *AGENTS, *OPEN_AGENT)
    loopers = (OURS, *AGENTS, *OPEN_AGENT)
    turns = 200 // PART
    _compare(
        "peers_turns_1",
        "CPU per turn of 50 deltas, 1 at a time",
        everyone,
        path="burst/50/50",
        turns=turns,
        at_once=1,
        deltas=50,
        per="turn",
    )
    _compare(
        "peers_turns_100",
        "CPU per turn of 50 deltas, 100 at once",
        everyone,
        path="burst/50/50",
        turns=2 * turns,
        at_once=100,
        deltas=50,
        per="turn",
    )
    _compare(
        "peers_tools_1",
        "CPU per loop of 8 async tools, 1 at a time",
        loopers,
        path="tools/8/50",
        turns=turns // 4,
        at_once=1,
        deltas=50,
        per="turn",
    )
    _compare(
        "peers_tools_20",
        "CPU per loop of 8 async tools, 20 at once",
        loopers,
        path="tools/8/50",
        turns=turns // 2,
        at_once=20,
        deltas=50,
        per="turn",
    )
    _compare(
        "peers_delta_paced",
        "CPU per delta, 20 streams of 50 a second",
        everyone,
        path="paced/50/200",
        turns=20,
        at_once=20,
        deltas=200,
        per="delta",
    )
    _compare(
        "peers_delta_coalesced",
        "CPU per delta, 50 events a write",
        everyone,
        path=f"burst/{1000 // PART}/50",
        turns=20,
        at_once=20,
        deltas=1000 // PART,
        per="delta",
    )


def _compare(
    claim: str,
    title: str,
    contenders: Sequence[Contender],
    *,
    path: str,
    turns: int,
    at_once: int,
    deltas: int,
    per: str,
) -> None:
    with endpoint() as served:
        work: Mapping[str, object] = {
            "url": f"{served.url}/{path}/v1",
            "turns": turns,
            "at_once": at_once,
            "expect": turns * deltas,
        }
        table = compete(contenders, work, served, rounds=ROUNDS)
    unit, count, scale = ("ms", turns, 1e3) if per == "turn" else ("µs", turns * deltas, 1e6)
    rows = {
        one.name: {
            **table.row(one.name, OURS.name, per=count, scale=scale),
            "per_second": count / table.value(one.name, "wall", 1),
        }
        for one in contenders
    }
    report(claim, title, unit, rows, endpoint_load=max(table.load))


if __name__ == "__main__":
    main()
