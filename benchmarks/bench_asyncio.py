"""CPU of the asyncio API against the trio API, for 100 sessions at once.

The asyncio API adds a thread. With one delta per network read, each delta may cost a wake-up of the
other thread. With 50 events per network write, one wake-up serves many deltas.
"""

from typing import Final

from benchmarks.harness import compete, endpoint, own
from benchmarks.record import QUICK, report

SESSIONS: Final = 100
PER_SECOND: Final = 50
DELTAS: Final = 100 if QUICK else 250
COALESCED: Final = 1000 if QUICK else 2000
PER_WRITE: Final = 50

CONTENDERS: Final = (
    own("agent_actors on trio", "runtime"),
    own("agent_actors.asyncio", "runtime_asyncio"),
    own("agent_actors.asyncio on uvloop", "runtime_uvloop"),
)


def main() -> None:
    """Run the benchmark."""
    shapes = {
        "asyncio_paced": (f"paced/{PER_SECOND}/{DELTAS}", DELTAS, "one delta per read"),
        "asyncio_coalesced": (
            f"burst/{COALESCED}/{PER_WRITE}",
            COALESCED,
            f"{PER_WRITE} per write",
        ),
    }
    for name, (answer, deltas, what) in shapes.items():
        with endpoint() as served:
            work = served.work(answer, turns=SESSIONS, at_once=SESSIONS, deltas=deltas)
            table = compete(CONTENDERS, work, served)
        title = f"CPU per delta, {SESSIONS} sessions, {what}"
        report(name, title, "µs", table.rows(CONTENDERS[0].name, per="delta"))


if __name__ == "__main__":
    main()
