"""Turns per second: complete sessions of one turn with 50 deltas, many concurrently."""

from typing import Final

from benchmarks.harness import compete, endpoint, own
from benchmarks.record import QUICK, report

DELTAS: Final = 50
SHAPES: Final = (
    ((1, 300), (100, 1000), (1000, 2000)) if QUICK else ((1, 1000), (100, 4000), (1000, 6000))
)

CONTENDERS: Final = (
    own("httpx", "httpx"),
    own("agent_actors", "runtime"),
    own("httpx API on our engine", "engine"),
    own("aiohttp + uvloop", "aiohttp"),
    own("trio socket", "socket"),
)


def main() -> None:
    """Run the benchmark."""
    for sessions, turns in SHAPES:
        # In stock httpx, the time spent in the connection pool grows quadratically with the
        # number of open connections.
        contenders = CONTENDERS if sessions < 1000 else CONTENDERS[1:]
        with endpoint() as served:
            answer = f"burst/{DELTAS}/{DELTAS}"
            work = served.work(answer, turns=turns, at_once=sessions, deltas=DELTAS)
            rows = compete(contenders, work, served).rows(contenders[0].name, per="turn")
        title = f"CPU per turn of {DELTAS} deltas, concurrency {sessions}"
        report(f"turns_{sessions}", title, "ms", rows)


if __name__ == "__main__":
    main()
