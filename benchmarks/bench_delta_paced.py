"""CPU per delta when streams are paced as by a real model: one network read returns one delta.

The cost of starting the runs is included. For 100 streams, the cost is also reported without it:
the same streams with two deltas each are measured in the same rounds and subtracted.
"""

from typing import Final

from benchmarks.harness import Table, compete, endpoint, excluding_start, own
from benchmarks.record import QUICK, report

PER_SECOND: Final = 50
STREAMS: Final = (20, 100, 200)
DELTAS: Final = 100 if QUICK else 250
FEW: Final = 2
WITHOUT_START: Final = 100

CONTENDERS: Final = (
    own("httpx", "httpx"),
    own("agent_actors", "runtime"),
    own("httpx API on our engine", "engine"),
    own("aiohttp + uvloop", "aiohttp"),
    own("trio socket", "socket"),
)


def main() -> None:
    """Run the benchmark."""
    for streams in STREAMS:
        with endpoint() as served:
            answer = f"paced/{PER_SECOND}/{DELTAS}"
            work = served.work(answer, turns=streams, at_once=streams, deltas=DELTAS)
            table = compete(CONTENDERS, work, served)
            short: Table | None = None
            if streams == WITHOUT_START:
                answer = f"paced/{PER_SECOND}/{FEW}"
                work = served.work(answer, turns=streams, at_once=streams, deltas=FEW)
                short = compete(CONTENDERS, work, served)
        title = f"CPU per delta, {streams} streams of {PER_SECOND} deltas per second"
        report(f"delta_paced_{streams}", title, "µs", table.rows("httpx", per="delta"))
        if short is not None:
            rows = excluding_start(table, short, "httpx")
            report(f"delta_started_{streams}", f"{title}, without starting runs", "µs", rows)


if __name__ == "__main__":
    main()
