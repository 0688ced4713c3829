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


EVERYONE: Final = (OURS, SDK, *AGENTS, *OPEN_AGENT)
LOOPERS: Final = (OURS, *AGENTS, *OPEN_AGENT)
TURNS: Final = 200 // PART
BURST: Final = 1000 // PART


def main() -> None:
    """Measure."""
    for at_once, turns in ((1, TURNS), (100, 2 * TURNS)):
        title = f"CPU per turn of 50 deltas, {at_once} at once"
        _compare(f"peers_turns_{at_once}", title, EVERYONE, "burst/50/50", turns, at_once)
    for at_once, turns in ((1, TURNS // 4), (20, TURNS // 2)):
        title = f"CPU per loop of 8 async tools, {at_once} at once"
        _compare(f"peers_tools_{at_once}", title, LOOPERS, "tools/8/50", turns, at_once)
    title = "CPU per delta, 20 streams of 50 a second"
    _compare("peers_delta_paced", title, EVERYONE, "paced/50/200", 20, 20, deltas=200)
    title = "CPU per delta, 50 events a write"
    _compare("peers_delta_coalesced", title, EVERYONE, f"burst/{BURST}/50", 20, 20, deltas=BURST)


def _compare(  # noqa: PLR0917 - the parts of a row, in their order
    claim: str,
    title: str,
    contenders: Sequence[Contender],
    path: str,
    turns: int,
    at_once: int,
    *,
    deltas: int | None = None,
) -> None:
    """Compare at one work; by the delta where their number is given, else by the turn."""
    each = 50 if deltas is None else deltas
    with endpoint() as served:
        work: Mapping[str, object] = {
            "url": f"{served.url}/{path}/v1",
            "turns": turns,
            "at_once": at_once,
            "expect": turns * each,
        }
        table = compete(contenders, work, served, rounds=ROUNDS)
    unit, count, scale = ("ms", turns, 1e3) if deltas is None else ("µs", turns * deltas, 1e6)
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
