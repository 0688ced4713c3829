"""Make the tables of docs/benchmarks.md from the committed results.

`python -m scripts.bench_table` writes the tables. It reads only the committed results of one run on
one machine (`benchmarks/results/*.json`). A ratio is the median of the ratios of all rounds. With
`--check`, the script writes nothing and fails if the page is stale.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.reach_table import AIOHTTP, GOALS, HTTPX, OURS, SOCKET
from benchmarks.record import Result, load

ROOT: Final = Path(__file__).parent.parent
RESULTS: Final = ROOT / "benchmarks" / "results"
PAGE: Final = ROOT / "docs" / "benchmarks.md"
BEGIN: Final = "<!-- made by scripts/bench_table.py: begin -->"
END: Final = "<!-- made by scripts/bench_table.py: end -->"

ENGINE: Final = "httpx API on our engine"
FLOORS: Final = ("httpx", "aiohttp + uvloop")
TURNS: Final = ("turns_1", "turns_100", "turns_1000")
DELTAS: Final = ("delta_paced_20", "delta_paced_100", "delta_paced_200", "delta_coalesced")
COMPARED: Final = (*DELTAS, *TURNS)
PEERS: Final = (
    "peers_turns_1",
    "peers_turns_100",
    "peers_tools_1",
    "peers_tools_20",
    "peers_delta_paced",
    "peers_delta_coalesced",
)
# Claims about this package alone: the result, its row, and the text for the table.
ALONE: Final = (
    ("first_token", "added", "time to the first token, in addition to bare httpx"),
    ("memory", "an open stream, with its reader's task", "an open stream, with its reader's task"),
    (
        "memory",
        "an idle session, beyond its records",
        "an idle session, in addition to its records",
    ),
    ("making", "an options object", "creating an options object"),
    ("making", "a session", "creating a session"),
    ("cancel", OURS, "cancelling 1,000 streams, until all have ended"),
    ("history_byte", OURS, "additional CPU per byte sent, 2,000 messages compared with 20"),
    ("codecs", "SSE", "SSE"),
    ("codecs", "SSE, chunks and assembly", "SSE, chunks and assembly"),
    ("ask", "ask through a worker", "a request to an actor through a worker task"),
    ("ask", "gate, acquire and release", "the session gate, acquire and release"),
)
# Growth: the result, its row, the row to compare with, and the text for the table.
GROWTH: Final = (
    (
        "delta_many",
        "5,000 streams, 1 per second",
        "100 streams, 50 per second",
        "CPU per delta of 5,000 slow streams, compared with 100 fast streams",
    ),
    (
        "demo",
        "1000 sessions",
        "100 sessions",
        "CPU per session of the demo with 1,000 sessions, compared with 100",
    ),
)


def main(arguments: Sequence[str], page: Path = PAGE, results: Path = RESULTS) -> int:
    """Write the tables, or check them."""
    before = page.read_text(encoding="utf-8")
    start, end = before.index(BEGIN) + len(BEGIN), before.index(END)
    made = table(results)
    after = before[:start] + "\n\n" + (made and made + "\n") + before[end:]
    if "--check" not in arguments:
        page.write_text(after, encoding="utf-8")
    elif after != before:
        print(f"the tables of {page.name} are stale; run `python -m scripts.bench_table`")
        return 1
    return 0


def table(results: Path) -> str:
    """Return the tables as Markdown, without those that have no measurements."""
    made = (_goals(results), _against_floors(results), _against_peers(results), _alone(results))
    return "\n".join("\n".join(lines) + "\n" for lines in made if lines)


def _goals(results: Path) -> list[str]:
    rows: list[str] = []
    for goal in GOALS:
        for claim in (goal.claim, goal.started):
            for found in _found([claim] if claim else [], results):
                ratios = [_ratio(found, OURS, floor) for floor in (HTTPX, AIOHTTP, SOCKET)]
                per_second = found.value(OURS, "turns_per_second")
                speed = f"{per_second:,.0f}" if per_second and goal.per == "turn" else "-"
                rows.append(_line(found.title, _figure(found, OURS), *ratios, speed))
    floors = [f"ratio to {name}" for name in ("bare httpx", AIOHTTP, SOCKET)]
    return _headed(("goals", OURS, *floors, "turns/s"), rows)


def _against_floors(results: Path) -> list[str]:
    rows: list[str] = []
    for found in _found(COMPARED, results):
        cells = [_figure(found, OURS)]
        cells += [_ratio(found, OURS, floor) for floor in FLOORS]
        cells.append(_ratio(found, ENGINE, "httpx"))
        per_second = found.value(OURS, "turns_per_second")
        cells.append(f"{per_second:,.0f}" if per_second and found.claim in TURNS else "-")
        rows.append(_line(found.title, *cells))
    head = ("agent_actors", "ratio to bare httpx", "ratio to aiohttp + uvloop")
    return _headed(
        ("complete runtime", *head, "httpx API on our engine, ratio to bare httpx", "turns/s"), rows
    )


def _against_peers(results: Path) -> list[str]:
    found = _found(PEERS, results)
    names = list(dict.fromkeys(name for one in found for name in one.rows if name != OURS))
    rows = [
        _line(one.title, *(_ratio(one, name, OURS, "{:.1f}") for name in names)) for one in found
    ]
    shown = (name.replace(", which is no agent", " (not an agent)") for name in names)
    return _headed(("CPU as a multiple of agent_actors", *shown), rows)


def _alone(results: Path) -> list[str]:
    rows = [
        _line(words or found.title, _figure(found, name))
        for claim, name, words in ALONE
        for found in _found([claim], results)
    ]
    rows += [
        _line(words, f"{_ratio(found, name, base)} times")
        for claim, name, base, words in GROWTH
        for found in _found([claim], results)
    ]
    return _headed(("agent_actors alone", ""), rows)


def _found(claims: Sequence[str], results: Path) -> list[Result]:
    return [found for claim in claims if (found := load(claim, results)) is not None]


def _figure(result: Result, name: str) -> str:
    value = result.value(name)
    return "-" if value is None else f"{value:.3g} {result.unit}"


def _ratio(result: Result, name: str, base: str, form: str = "{:.2f}") -> str:
    ratio = result.ratio(name, base)
    return "-" if ratio is None else form.format(ratio)


def _headed(head: Sequence[str], rows: list[str]) -> list[str]:
    return [_line(*head), "|---|" + "---:|" * (len(head) - 1), *rows] if rows else []


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
