"""Turns per second: whole sessions of one turn with 50 deltas, many side by side."""

from typing import Final

from benchmarks.harness import QUICK, compete, endpoint, own, report

DELTAS: Final = 50
SHAPES: Final = (
    ((1, 300), (100, 1000), (1000, 2000)) if QUICK else ((1, 1000), (100, 4000), (1000, 6000))
)

CONTENDERS: Final = (
    own("httpx", "httpx"),
    own("agent_actors", "runtime"),
    own("aiohttp + uvloop", "aiohttp"),
)


def main() -> None:
    """Measure."""
    for sessions, turns in SHAPES:
        with endpoint() as served:
            work = {
                "url": f"{served.url}/burst/{DELTAS}/{DELTAS}/v1",
                "turns": turns,
                "at_once": sessions,
                "expect": turns * DELTAS,
            }
            # Stock httpx hands one idle connection to many waiters, in time that grows with them.
            contenders = CONTENDERS if sessions < 1000 else CONTENDERS[1:]
            table = compete(contenders, work, served)
        base = contenders[0].name
        rows = {
            one.name: {
                **table.row(one.name, base, per=turns, scale=1e3),
                "turns_per_second": 1 / table.value(one.name, "wall", turns),
            }
            for one in contenders
        }
        report(
            f"turns_{sessions}",
            f"CPU per turn of {DELTAS} deltas, {sessions} sessions at once",
            "ms",
            rows,
            endpoint_load=max(table.load),
        )
        for name, row in rows.items():
            print(f"  {name:48} {row['turns_per_second']:12.0f} turns a second")


if __name__ == "__main__":
    main()
