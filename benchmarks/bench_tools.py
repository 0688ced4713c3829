"""An agent loop: 8 tool calls in one turn, run concurrently, then a response of 50 deltas.

A loop is compared with a plain turn of the same number of deltas, which shows the cost of the
tools. It is also compared with baselines that send the same two requests and decode both responses,
but call no tools. `benchmarks.peers_bench` compares the runtime with agents that can call tools.
"""

from functools import partial
from typing import Final

from benchmarks.bench_turns import CONTENDERS
from benchmarks.harness import Endpoint, compete, endpoint, own, run
from benchmarks.record import QUICK, report, take_turns

DELTAS: Final = 50
SHAPES: Final = ((1, 100), (20, 300)) if QUICK else ((1, 500), (20, 2000))
OURS: Final = own("agent_actors", "runtime")
ANSWERS: Final = {
    "a turn without tools": f"burst/{DELTAS}/{DELTAS}",
    "agent_actors": f"tools/8/{DELTAS}",
}


def main() -> None:
    """Run the benchmark."""
    for at_once, loops in SHAPES:
        with endpoint() as served:
            contenders = {
                name: partial(_loop, served, answer, loops, at_once)
                for name, answer in ANSWERS.items()
            }
            rows = take_turns(contenders, scale=1e3)
            work = served.work(f"tools/8/{DELTAS}", turns=loops, at_once=at_once, deltas=DELTAS)
            floors = compete(CONTENDERS, work, served).rows("httpx", per="turn")
        title = f"CPU per loop of 8 tools and their second turn, concurrency {at_once}"
        report(f"tools_floors_{at_once}", title, "ms", floors)
        report(f"tools_{at_once}", f"CPU per loop of 8 tools, concurrency {at_once}", "ms", rows)


def _loop(served: Endpoint, answer: str, loops: int, at_once: int) -> float | None:
    """Return the CPU seconds of one loop; None if it failed."""
    work = served.work(answer, turns=loops, at_once=at_once, deltas=DELTAS)
    cost = run(OURS, work, served)
    return None if cost is None else cost.cpu / loops


if __name__ == "__main__":
    main()
