"""An agent's loop: 8 tools called in one turn, run side by side, then an answer of 50 deltas."""

from typing import Final

from benchmarks.harness import QUICK, compete, endpoint, own, report

SHAPES: Final = ((1, 100), (20, 300)) if QUICK else ((1, 500), (20, 2000))
CONTENDERS: Final = (own("agent_actors", "runtime"),)


def main() -> None:
    """Measure."""
    for at_once, loops in SHAPES:
        with endpoint() as served:
            work = {
                "url": f"{served.url}/tools/8/50/v1",
                "turns": loops,
                "at_once": at_once,
                "expect": loops * 50,
            }
            table = compete(CONTENDERS, work, served)
        report(
            f"tools_{at_once}",
            f"CPU per loop of 8 tools, {at_once} at once",
            "ms",
            {
                one.name: table.row(one.name, "agent_actors", per=loops, scale=1e3)
                for one in CONTENDERS
            },
            endpoint_load=max(table.load),
        )


if __name__ == "__main__":
    main()
