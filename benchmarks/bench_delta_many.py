"""Growth with streams: a delta of 5,000 slow streams against one of 100 fast ones.

Both bring 5,000 deltas a second; what a stream itself costs, to open and to close, is taken off by
a run of the same streams with two deltas each.
"""

import statistics
from typing import Final

from benchmarks.harness import QUICK, ROUNDS, Cost, endpoint, own, report, run

SHAPES: Final = {"100 streams, 50 a second": (100, 50), "5,000 streams, 1 a second": (5000, 1)}
SECONDS: Final = 8 if QUICK else 15


def main() -> None:
    """Measure."""
    contender = own("agent_actors", "runtime")
    spent: dict[str, list[float]] = {name: [] for name in SHAPES}
    with endpoint() as served:

        def cost(streams: int, per_second: int, deltas: int) -> Cost:
            work = {
                "url": f"{served.url}/paced/{per_second}/{deltas}/v1",
                "turns": streams,
                "at_once": streams,
                "expect": streams * deltas,
            }
            found = run(contender, work)
            assert found is not None
            return found

        for _ in range(min(ROUNDS, 3)):
            for name, (streams, per_second) in SHAPES.items():
                deltas = per_second * SECONDS
                whole, start = cost(streams, per_second, deltas), cost(streams, per_second, 2)
                spent[name].append((whole.cpu - start.cpu) / (streams * (deltas - 2)))
    base = next(iter(SHAPES))
    ratios = {
        name: [one / other for one, other in zip(costs, spent[base], strict=True)]
        for name, costs in spent.items()
    }
    rows: dict[str, dict[str, object]] = {
        name: {
            "value": statistics.median(costs) * 1e6,
            "ratio": statistics.median(ratios[name]),
            "ratios": ratios[name],
        }
        for name, costs in spent.items()
    }
    report("delta_many", "CPU per delta, by the number of streams", "µs", rows)


if __name__ == "__main__":
    main()
