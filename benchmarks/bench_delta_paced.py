"""CPU per delta when streams are paced as by a real model: one network read returns one delta."""

from typing import Final

from benchmarks.harness import compete, endpoint, own
from benchmarks.record import QUICK, report

PER_SECOND: Final = 50
STREAMS: Final = (20, 100, 200)
DELTAS: Final = 100 if QUICK else 250

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
            rows = compete(CONTENDERS, work, served).rows("httpx", per="delta")
        title = f"CPU per delta, {streams} streams of {PER_SECOND} deltas per second"
        report(f"delta_paced_{streams}", title, "µs", rows)


if __name__ == "__main__":
    main()
