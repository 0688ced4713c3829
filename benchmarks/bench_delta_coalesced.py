"""CPU per delta where many come at once: 50 events in each write of the network."""

from typing import Final

from benchmarks.harness import QUICK, compete, endpoint, own, report

STREAMS: Final = 20
DELTAS: Final = 2000 if QUICK else 5000
PER_WRITE: Final = 50

CONTENDERS: Final = (
    own("httpx", "httpx"),
    own("agent_actors", "runtime"),
    own("httpx API on our engine", "engine"),
    own("aiohttp + uvloop", "aiohttp"),
    own("trio socket", "socket"),
)


def main() -> None:
    """Measure."""
    with endpoint() as served:
        count = STREAMS * DELTAS
        work = {
            "url": f"{served.url}/burst/{DELTAS}/{PER_WRITE}/v1",
            "turns": STREAMS,
            "at_once": STREAMS,
            "expect": count,
        }
        table = compete(CONTENDERS, work, served)
    report(
        "delta_coalesced",
        f"CPU per delta, {PER_WRITE} events a write",
        "µs",
        {one.name: table.row(one.name, "httpx", per=count, scale=1e6) for one in CONTENDERS},
        endpoint_load=max(table.load),
    )


if __name__ == "__main__":
    main()
