"""CPU per delta where streams are paced, as models pace them: one network read brings one delta."""

from typing import Final

from benchmarks.harness import QUICK, compete, endpoint, own, report

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
    """Measure."""
    for streams in STREAMS:
        with endpoint() as served:
            count = streams * DELTAS
            work = {
                "url": f"{served.url}/paced/{PER_SECOND}/{DELTAS}/v1",
                "turns": streams,
                "at_once": streams,
                "expect": count,
            }
            table = compete(CONTENDERS, work, served)
        rows = {one.name: table.row(one.name, "httpx", per=count, scale=1e6) for one in CONTENDERS}
        aiohttp = table.row("agent_actors", "aiohttp + uvloop")["ratio"]
        report(
            f"delta_paced_{streams}",
            f"CPU per delta, {streams} streams of {PER_SECOND} deltas a second",
            "µs",
            rows,
            of_aiohttp=aiohttp,
            endpoint_load=max(table.load),
        )


if __name__ == "__main__":
    main()
