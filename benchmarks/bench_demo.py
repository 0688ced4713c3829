"""Growth with the number of sessions: the cost per session of demos with 100 and 1,000 sessions.

The endpoint of the demo runs in a separate process, so that only the runtime is measured. The cost
of a demo with one session, which is mainly starting Python and importing, is subtracted.
"""

import json
import resource
import subprocess
import sys
from functools import partial
from typing import Final

from benchmarks.harness import ROOT, Endpoint, endpoint
from benchmarks.record import QUICK, report, take_turns

SHAPES: Final = (100, 300) if QUICK else (100, 1000)


def main() -> None:
    """Run the benchmark."""
    with endpoint() as served:

        def per_session(sessions: int) -> float:
            return (_demo(served, sessions) - _demo(served, 1)) / (sessions - 1)

        contenders = {f"{sessions} sessions": partial(per_session, sessions) for sessions in SHAPES}
        rows = take_turns(contenders, scale=1e3)
    report("demo", "CPU per session of the demo", "ms", rows)


def _demo(served: Endpoint, sessions: int) -> float:
    command = [sys.executable, "-m", "agent_actors", "demo", "--json", "--sessions", str(sessions)]
    command += ["--base-url", served.base_url("tools/8/50"), "--model", "m"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert json.loads(done.stdout)["runs"] == sessions
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
