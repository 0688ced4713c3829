"""An agent's loop: 8 tools called in one turn, run side by side, then an answer of 50 deltas.

The floors have no tools; who does the same is measured by `benchmarks.peers_bench`. Here a loop
stands beside a plain turn of as many deltas, so that the price of the tools is seen.
"""

from functools import partial
from typing import Final

from benchmarks.harness import Endpoint, endpoint, own, run
from benchmarks.record import QUICK, report, take_turns

DELTAS: Final = 50
SHAPES: Final = ((1, 100), (20, 300)) if QUICK else ((1, 500), (20, 2000))
OURS: Final = own("agent_actors", "runtime")
ANSWERS: Final = {
    "a turn without tools": f"burst/{DELTAS}/{DELTAS}",
    "agent_actors": f"tools/8/{DELTAS}",
}


def main() -> None:
    """Measure."""
    for at_once, loops in SHAPES:
        with endpoint() as served:
            contenders = {
                name: partial(_loop, served, answer, loops, at_once)
                for name, answer in ANSWERS.items()
            }
            rows = take_turns(contenders, scale=1e3)
        report(f"tools_{at_once}", f"CPU per loop of 8 tools, {at_once} at once", "ms", rows)


def _loop(served: Endpoint, answer: str, loops: int, at_once: int) -> float | None:
    """Seconds of CPU that one loop takes."""
    work = served.work(answer, turns=loops, at_once=at_once, deltas=DELTAS)
    cost = run(OURS, work, served)
    return None if cost is None else cost.cpu / loops


if __name__ == "__main__":
    main()
