"""Growth with the number of streams: a delta of 5,000 slow streams compared with 100 fast streams.

In both cases, 5,000 deltas arrive per second. The cost of opening and closing a stream is measured
with the same streams and two deltas each, and then subtracted. The result is the cost of the deltas
alone.
"""

from functools import partial
from typing import Final

from benchmarks.harness import endpoint, own, run
from benchmarks.record import QUICK, ROUNDS, report, take_turns

SHAPES: Final = {"100 streams, 50 per second": (100, 50), "5,000 streams, 1 per second": (5000, 1)}
SECONDS: Final = 5 if QUICK else 15
FEW: Final = 2
OURS: Final = own("agent_actors", "runtime")


def main() -> None:
    """Run the benchmark."""
    with endpoint() as served:

        def spent(streams: int, per_second: int, deltas: int) -> float | None:
            answer = f"paced/{per_second}/{deltas}"
            work = served.work(answer, turns=streams, at_once=streams, deltas=deltas)
            cost = run(OURS, work, served)
            return None if cost is None else cost.cpu

        def per_delta(streams: int, per_second: int) -> float | None:
            deltas = per_second * SECONDS
            whole, start = spent(streams, per_second, deltas), spent(streams, per_second, FEW)
            if whole is None or start is None:
                return None
            return (whole - start) / (streams * (deltas - FEW))

        contenders = {name: partial(per_delta, *shape) for name, shape in SHAPES.items()}
        rows = take_turns(contenders, rounds=min(ROUNDS, 3), scale=1e6)
    report("delta_many", "CPU per delta, by the number of streams", "µs", rows)


if __name__ == "__main__":
    main()
