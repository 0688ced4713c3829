"""CPU per delta when many deltas arrive at once: each network write contains 50 events."""

from typing import Final

from benchmarks.bench_delta_paced import CONTENDERS
from benchmarks.harness import compete, endpoint, own
from benchmarks.record import QUICK, report

STREAMS: Final = 20
DELTAS: Final = 2000 if QUICK else 5000
PER_WRITE: Final = 50
# `run()` has no reader, so the runtime joins the deltas of one read.
UNREAD: Final = own("agent_actors, run()", "runtime_run")


def main() -> None:
    """Run the benchmark."""
    with endpoint() as served:
        answer = f"burst/{DELTAS}/{PER_WRITE}"
        work = served.work(answer, turns=STREAMS, at_once=STREAMS, deltas=DELTAS)
        rows = compete((*CONTENDERS, UNREAD), work, served).rows("httpx", per="delta")
    report("delta_coalesced", f"CPU per delta, {PER_WRITE} events per write", "µs", rows)


if __name__ == "__main__":
    main()
