"""Makes the README's performance table from the committed results: `python -m scripts.bench_table`.

The results of one machine's run are committed (`benchmarks/results/*.json`), and the table is made
of nothing else. With `--check` it only says whether the README is current.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

ROOT: Final = Path(__file__).parent.parent
RESULTS: Final = ROOT / "benchmarks" / "results"
README: Final = ROOT / "README.md"
BEGIN: Final = "<!-- made by scripts/bench_table.py: begin -->"
END: Final = "<!-- made by scripts/bench_table.py: end -->"

OURS: Final = "agent_actors"

# Claims that have contenders: the result's name, and with whom the table compares us.
COMPARED: Final = (
    ("delta_paced_20", ("httpx", "aiohttp + uvloop")),
    ("delta_paced_100", ("httpx", "aiohttp + uvloop")),
    ("delta_paced_200", ("httpx", "aiohttp + uvloop")),
    ("delta_coalesced", ("httpx", "aiohttp + uvloop")),
    ("turns_100", ("httpx", "aiohttp + uvloop")),
    ("first_token", ("httpx",)),
)
PEERS: Final = (
    "peers_turns_1",
    "peers_turns_100",
    "peers_tools_1",
    "peers_tools_20",
    "peers_delta_paced",
    "peers_delta_coalesced",
)
# Claims of our own: the result's name, its rows, and how they are worded.
ALONE: Final = (
    ("memory", "an open stream, with its reader's task", "an open stream, with its reader's task"),
    ("memory", "an idle session, beyond its records", "an idle session, beyond its records"),
    ("making", "an options object", "making an options object"),
    ("making", "a session", "making a session"),
    ("cancel", "1000 streams", "cancelling 1,000 live streams until all is quiet"),
    ("codecs", "SSE", "SSE"),
    ("codecs", "SSE, chunks and assembly", "SSE, chunks and assembly"),
    ("ask", "ask through a worker", "an ask through a worker task"),
    ("ask", "gate, acquire and release", "the session gate, acquire and release"),
)

Row = Mapping[str, float]


def main() -> int:
    """Write the table, or check it."""
    before = README.read_text(encoding="utf-8")
    start, end = before.index(BEGIN) + len(BEGIN), before.index(END)
    after = before[:start] + "\n\n" + table() + "\n" + before[end:]
    if "--check" in sys.argv[1:]:
        if after != before:
            print("README's performance table is stale; run `python -m scripts.bench_table`")
            return 1
        return 0
    README.write_text(after, encoding="utf-8")
    return 0


def table() -> str:
    """The tables, as Markdown."""
    parts = [_against_floors(), _against_peers(), _alone()]
    return "\n".join(parts)


def _against_floors() -> str:
    lines = [
        "| CPU, the whole runtime | agent_actors | of bare httpx | of aiohttp + uvloop |",
        "|---|---:|---:|---:|",
    ]
    for claim, others in COMPARED:
        result = _result(claim)
        if result is None:
            continue
        rows, unit = _rows(result), str(result["unit"])
        cells = [_ratio(rows, other) for other in ("httpx", "aiohttp + uvloop") if other in others]
        cells += ["-"] * (2 - len(cells))
        lines.append(f"| {result['title']} | {_value(rows[OURS], unit)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _against_peers() -> str:
    found = [(claim, result) for claim in PEERS if (result := _result(claim)) is not None]
    if not found:
        return ""
    names = [name for name in _rows(found[0][1]) if name != OURS]
    lines = [
        "Times the CPU of agent_actors, for the same work:\n",
        f"| | {' | '.join(names)} |",
        "|---|" + "---:|" * len(names),
    ]
    for _, result in found:
        rows = _rows(result)
        cells = [f"{rows[name]['ratio']:.1f}" if name in rows else "-" for name in names]
        lines.append(f"| {result['title']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _alone() -> str:
    lines = ["| by itself | |", "|---|---:|"]
    for claim, name, worded in ALONE:
        result = _result(claim)
        if result is not None and name in _rows(result):
            lines.append(f"| {worded} | {_value(_rows(result)[name], str(result['unit']))} |")
    history = _result("history")
    if history is not None:
        per_byte = cast(float, history["per_byte"])
        lines.append(f"| a turn on a long history, CPU per byte sent | {per_byte:.4f} µs |")
    many = _result("delta_many")
    if many is not None:
        worst = max(row["ratio"] for row in _rows(many).values())
        worded = "a delta of 5,000 slow streams, against one of 100 fast ones"
        lines.append(f"| {worded} | {worst:.1f} times |")
    return "\n".join(lines) + "\n"


def _result(claim: str) -> Mapping[str, object] | None:
    path = RESULTS / f"{claim}.json"
    if not path.exists():
        return None
    return cast("Mapping[str, object]", json.loads(path.read_text(encoding="utf-8")))


def _rows(result: Mapping[str, object]) -> Mapping[str, Row]:
    return cast("Mapping[str, Row]", result["rows"])


def _value(row: Row, unit: str) -> str:
    return f"{row['value']:.3g} {unit}"


def _ratio(rows: Mapping[str, Row], other: str) -> str:
    if other not in rows:
        return "-"
    return f"{rows[OURS]['value'] / rows[other]['value']:.2f}"


if __name__ == "__main__":
    sys.exit(main())
