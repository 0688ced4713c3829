"""Growth with sessions: what the demo costs a session with 1,000 sessions, and with 100.

The demo's endpoint runs in a process of its own here, so that only the runtime is measured.
"""

import json
import resource
import subprocess
import sys
from typing import Final

from benchmarks.harness import QUICK, ROOT, ROUNDS, Endpoint, endpoint, report

SHAPES: Final = (100, 300) if QUICK else (100, 1000)


def main() -> None:
    """Measure."""
    spent: dict[int, list[float]] = {sessions: [] for sessions in SHAPES}
    with endpoint() as served:
        for _ in range(ROUNDS):
            for sessions in SHAPES:
                spent[sessions].append(_demo(served, sessions) / sessions)
    base = SHAPES[0]
    ratios = {
        sessions: sorted(a / b for a, b in zip(costs, spent[base], strict=True))
        for sessions, costs in spent.items()
    }
    rows: dict[str, dict[str, object]] = {
        f"{sessions} sessions": {
            "value": sorted(costs)[len(costs) // 2] * 1e3,
            "ratio": ratios[sessions][len(costs) // 2],
            "ratios": ratios[sessions],
        }
        for sessions, costs in spent.items()
    }
    report("demo", "CPU a session of the demo", "ms", rows)


def _demo(served: Endpoint, sessions: int) -> float:
    command = [sys.executable, "-m", "agent_actors", "demo", "--json", "--sessions", str(sessions)]
    command += ["--base-url", f"{served.url}/tools/8/50/v1", "--model", "m"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert json.loads(done.stdout)["runs"] == sessions
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
